"""The backend of a gateway changes: calls wait, go elsewhere, or are told to come again."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc
import pytest

from fanlog.cluster import gateway as gateways
from fanlog.cluster.waiting import WaitingRoom
from fanlog.errors import Unavailable
from fanlog.transport.methods import RpcMethod
from links.conftest import Owned, status_of
from links.nodes import Node, TestCard, backend, channel_to, running_nodes, until
from transport.conftest import REQUEST_BYTES_MAX

NOWHERE = TestCard("gone", "127.0.0.1:1")


async def held(node: Node, count: int = 1) -> None:
    await until(lambda: node.gateway.waiting == count)


async def test_a_call_waits_until_this_node_owns(pair, channel):
    pair.other.gateway.hold()
    call = asyncio.ensure_future(_echo(channel, b"x"))
    await held(pair.other)
    pair.other.gateway.serve_locally(backend(pair.owned.methods))
    assert await call == b"x"
    assert pair.other.gateway.counts.held == 1


async def test_a_call_waits_until_another_node_owns(pair, channel):
    pair.other.gateway.hold()
    call = asyncio.ensure_future(_echo(channel, b"x"))
    await held(pair.other)
    pair.other.gateway.forward_to(pair.owner.card)
    assert await call == b"x"


async def test_it_does_not_wait_for_ever():
    owned = Owned()
    node = Node("alone", owned.forms, status_of=status_of, hold_s=0.1)
    async with running_nodes(node), channel_to(node) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _echo(channel, b"x")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "no node of the cluster is known to own the log" in refused.value.details()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.stream_stream("/t.T/Both")().read()
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert node.gateway.counts.given_up == 2
        node.gateway.forward_to(NOWHERE)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await _echo(channel, b"x")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert "node 'gone' cannot be reached" in refused.value.details()


async def test_it_waits_no_longer_than_its_caller(pair, channel):
    pair.other.gateway.hold()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t.T/Echo")(b"x", timeout=0.1)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await held(pair.other, 0)


async def test_only_some_calls_wait(pair, channel, monkeypatch):
    pair.other.gateway._room = WaitingRoom(calls_max=2, bytes_max=1_000)
    pair.other.gateway.hold()
    first = [asyncio.ensure_future(_echo(channel, b"x")) for _ in range(2)]
    await held(pair.other, 2)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _echo(channel, b"x")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "too many calls wait" in refused.value.details()
    pair.other.gateway.forward_to(pair.owner.card)
    assert await asyncio.gather(*first) == [b"x", b"x"]


async def test_a_room_holds_so_many_bytes():
    room = WaitingRoom(calls_max=10, bytes_max=1_000)
    first = asyncio.ensure_future(room.wait(600, 5.0, "why"))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await room.wait(401, 5.0, "why")
    room.call_all()
    assert await first is True
    assert (len(room), room.size_bytes) == (0, 0)
    assert await room.wait(1_000, 0.001, "why") is False
    assert (len(room), room.size_bytes) == (0, 0)


async def test_a_node_that_owns_no_longer_says_so_and_the_call_goes_on(pair, channel):
    """Between the new owner's take-over and the news of it, calls still come to the old one."""
    pair.owner.gateway.hold()
    call = asyncio.ensure_future(_echo(channel, b"x"))
    await held(pair.other)
    pair.other.gateway.serve_locally(backend(pair.owned.methods))
    assert await call == b"x"


async def test_it_is_asked_again(pair, channel):
    pair.owner.gateway.hold()
    call = asyncio.ensure_future(_echo(channel, b"x"))
    await held(pair.other)
    pair.owner.gateway.serve_locally(backend(pair.owned.methods))
    assert await call == b"x"


async def test_the_mark_of_a_node_that_owns_nothing_is_not_shown(pair, channel):
    pair.other.gateway._hold_s = 0.1
    pair.owner.gateway.hold()
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _echo(channel, b"x")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "does not own" in refused.value.details()
    assert not any(name.startswith("fanlog-") for name, _ in refused.value.trailing_metadata())


@pytest.mark.parametrize("is_local", [True, False])
async def test_streams_end_with_their_backend(pair, channel, is_local):
    if is_local:
        pair.other.gateway.serve_locally(backend(pair.owned.methods))
    stream = await _stream(channel)
    if is_local:
        pair.other.gateway.forward_to(pair.owner.card)
    else:
        pair.other.gateway.serve_locally(backend(pair.owned.methods))
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "another node owns the log now" in ended.value.details()
    assert pair.other.gateway.counts.streams_ended == 1
    await _stream(channel)


@pytest.mark.parametrize("is_local", [True, False])
async def test_streams_outlast_a_time_of_doubt(pair, channel, is_local):
    own = backend(pair.owned.methods)
    if is_local:
        pair.other.gateway.serve_locally(own)
    stream = await _stream(channel)
    pair.other.gateway.hold()
    if is_local:
        pair.other.gateway.serve_locally(own)
    else:
        pair.other.gateway.forward_to(pair.owner.card)
    await stream.write(b"again")
    assert await stream.read() == b"again"
    pair.other.gateway.hold(ends_streams=True)
    with pytest.raises(grpc.aio.AioRpcError):
        await stream.read()


async def test_a_stream_that_waits_goes_to_the_owner_then(pair, channel):
    pair.other.gateway.hold()
    stream = channel.stream_stream("/t.T/Both")()
    await stream.write(b"x")
    await held(pair.other)
    pair.other.gateway.forward_to(pair.owner.card)
    assert await stream.read() == b"x"


async def test_calls_of_an_owner_before_have_a_moment_to_end(pair, channel, monkeypatch):
    monkeypatch.setattr(gateways, "FAREWELL_S", 0.2)
    slow = channel.unary_unary("/t.T/Wait")(b"")
    sending = asyncio.ensure_future(_ended(slow))
    await pair.owned.waiting.wait()
    pair.other.gateway.serve_locally(backend(pair.owned.methods))
    error = await sending
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    await pair.owned.cancelled.wait()


async def test_an_owner_that_goes_takes_its_calls_with_it(pair, channel):
    sending = asyncio.ensure_future(_ended(channel.unary_unary("/t.T/Wait")(b"")))
    stream = await _stream(channel)
    await pair.owned.waiting.wait()
    await pair.owner.stop()
    error = await sending
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert "the link to node 'owner' was lost" in error.details()
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    assert ended.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_link_is_made_again(pair, channel):
    assert await _echo(channel, b"1") == b"1"
    await pair.owner.link_server.stop(0.0)
    await until(lambda: not pair.other.link_to(pair.owner).is_open)
    call = asyncio.ensure_future(_echo(channel, b"2"))
    await held(pair.other)
    again = Node("owner", pair.owned.forms, status_of=status_of)
    again.link_port = pair.owner.link_port
    again.gateway.serve_locally(backend(pair.owned.methods))
    async with running_nodes(again):
        assert await call == b"2"
        assert pair.other.link_to(pair.owner).opened == 2


async def test_an_owner_that_drains_finishes_its_calls(pair, channel):
    """A first GOAWAY: calls on their way are still served, and new ones wait for a new link."""
    stream = await _stream(channel)
    stopping = asyncio.ensure_future(pair.owner.link_server.stop(5.0))
    await until(lambda: not pair.other.link_to(pair.owner).is_open)
    await stream.write(b"still there")
    assert await stream.read() == b"still there"
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK
    await stopping


async def test_no_call_is_lost_or_done_twice_while_the_owner_changes():
    """Three nodes, of which the owner changes all the time, and callers at each of them."""
    done: Counter[bytes] = Counter()

    async def note(raw: bytes, call: object) -> bytes:
        done[raw] += 1
        if len(done) % 7 == 0:
            await asyncio.sleep(0)
        return raw

    methods = [RpcMethod("/t.T/Note", REQUEST_BYTES_MAX, unary=note)]
    forms = [one for one in Owned().forms if one.path == "/t.T/Echo"]
    forms = [type(forms[0])("/t.T/Note", REQUEST_BYTES_MAX, is_unary=True)]
    nodes = [Node(name, forms, status_of=status_of) for name in ("a", "b", "c")]
    backends = [backend(methods) for _ in nodes]
    failures: list[grpc.StatusCode] = []
    answered: set[bytes] = set()
    is_over = False

    async def calls(node: Node, name: str) -> None:
        number = 0
        async with channel_to(node) as channel:
            while not is_over:
                number += 1
                raw = f"{name} {number}".encode()
                try:
                    assert await channel.unary_unary("/t.T/Note")(raw, timeout=20) == raw
                except grpc.aio.AioRpcError as error:
                    failures.append(error.code())
                else:
                    answered.add(raw)

    async with running_nodes(*nodes):
        nodes[0].gateway.serve_locally(backends[0])
        for other in nodes[1:]:
            other.gateway.forward_to(nodes[0].card)
        callers = [
            asyncio.ensure_future(calls(node, f"{node.name}{one}"))
            for node in nodes
            for one in range(2)
        ]
        for turn in range(18):
            old, new = nodes[turn % 3], nodes[(turn + 1) % 3]
            await asyncio.sleep(0.03)
            # As a hand-over: the old one stops, the new one begins, the others hear of it.
            old.gateway.hold()
            await asyncio.sleep(0.01)
            new.gateway.serve_locally(backends[(turn + 1) % 3])
            for other in nodes:
                if other is not new:
                    await asyncio.sleep(0.005)
                    other.gateway.forward_to(new.card)
        is_over = True
        await asyncio.gather(*callers)
    assert failures == []
    assert len(answered) > 100
    assert set(done) == answered
    assert set(done.values()) == {1}


async def _echo(channel, raw: bytes) -> bytes:
    return await channel.unary_unary("/t.T/Echo")(raw, timeout=20)


async def _stream(channel):
    stream = channel.stream_stream("/t.T/Both")()
    await stream.write(b"first")
    assert await stream.read() == b"first"
    return stream


async def _ended(call) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await call
    return ended.value
