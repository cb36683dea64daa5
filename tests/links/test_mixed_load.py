"""Everything at once through one link: calls, streams, large ones, and callers that leave."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from typing import Any

import grpc
import pytest

from fanlog.cluster.link.credentials import NodeCredentials
from fanlog.transport.tls import TlsFiles
from links.conftest import Owned, status_of
from links.nodes import CREDENTIALS, Node, backend, channel_to, running_nodes, until
from transport.certificates import Authority

CALLERS = 8
TURNS = 25


async def echo(channel: Any, chance: random.Random) -> None:
    raw = bytes(chance.randrange(300))
    assert await channel.unary_unary("/t.T/Echo")(raw) == raw


async def large(channel: Any, chance: random.Random) -> None:
    raw = bytes(chance.randrange(3_000_000))
    assert await channel.unary_unary("/t.T/Echo")(raw) == raw


async def both(channel: Any, chance: random.Random) -> None:
    stream = channel.stream_stream("/t.T/Both")()
    for _ in range(chance.randrange(8)):
        raw = bytes(chance.randrange(200_000))
        await stream.write(raw)
        assert await stream.read() == raw
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF


async def flood(channel: Any, chance: random.Random) -> None:
    count = chance.randrange(20)
    found = [one async for one in channel.unary_stream("/t.T/Flood")(b"%d" % count)]
    assert len(found) == count


async def count(channel: Any, chance: random.Random) -> None:
    sizes = [chance.randrange(300_000) for _ in range(chance.randrange(6))]
    answer = await channel.stream_unary("/t.T/Count")(iter([bytes(size) for size in sizes]))
    assert int(answer) == sum(sizes)


async def leave(channel: Any, chance: random.Random) -> None:
    stream = channel.unary_stream("/t.T/Flood")(b"100")
    await stream.read()
    stream.cancel()
    assert await stream.code() is grpc.StatusCode.CANCELLED


async def give_up(channel: Any, chance: random.Random) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as late:
        await channel.unary_unary("/t.T/Wait")(b"", timeout=0.02)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


@pytest.mark.parametrize("is_tls", [False, True])
async def test_nothing_is_mixed_up_and_nothing_is_left(is_tls, tmp_path):
    credentials = CREDENTIALS
    if is_tls:
        authority = Authority.make("nodes")
        certificate, key = authority.issue("node", tmp_path)
        files = TlsFiles(certificate, key, authority.write(tmp_path / "ca.pem"))
        credentials = NodeCredentials(tls=files)
    owned = Owned()
    settings = {"status_of": status_of, "credentials": credentials}
    owner, other = (Node(name, owned.forms, **settings) for name in ("owner", "other"))
    done: Counter[str] = Counter()

    async def calls(number: int) -> None:
        chance = random.Random(number)
        async with channel_to(other) as channel:
            for _ in range(TURNS):
                one = chance.choice([echo, large, both, flood, count, leave, give_up])
                await one(channel, chance)
                done[one.__name__] += 1

    async with running_nodes(owner, other):
        owner.gateway.serve_locally(backend(owned.methods))
        other.gateway.forward_to(owner.card)
        await asyncio.gather(*(calls(number) for number in range(CALLERS)))
        assert done.total() == CALLERS * TURNS
        link = other.link_to(owner)
        # The official client hangs up when its calls are no more.
        gc.collect()
        await until(lambda: link.call_count == 0 and owner.link_server.caller_count == 0)
        [end] = owner.link_server._ends.values()
        await until(lambda: end.call_count == 0)
        assert link.opened == 1
        assert (link._request_bytes, len(link._queue)) == (0, 0)
        credit = link._connection._credit
        assert (credit._given_bytes, len(credit._waiting)) == (0, 0)
        assert (link._connection._http2.open_streams, end._http2.open_streams) == (0, 0)
        assert owner.link_server._server._unfinished.size_bytes == 0
        assert not owner.link_server.counts.faults
        assert not other.gateway._streams
