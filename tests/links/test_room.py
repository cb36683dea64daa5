"""What a link holds, and for whom: slow readers, many calls, large requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest

from fanlog.cluster import bounds
from fanlog.cluster.link import connection as connections
from fanlog.cluster.link.incoming import LinkEnd
from fanlog.cluster.link.link import Link
from fanlog.errors import Unavailable
from fanlog.transport.calls import EVERYBODY
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.messages import frame_message
from fanlog.transport.methods import MethodForm, RpcMethod
from fanlog.transport.server_call import ServerCall
from links.conftest import status_of
from links.nodes import Node, backend, channel_to, running_nodes, until
from transport.peer import Peer, call, data, headers

BYTES_MAX = 24 * 1024 * 1024
PIECE = bytes(100_000)


@dataclass
class World:
    owner: Node
    other: Node
    #: Answers that `Endless` has written.
    written: int = 0
    #: Calls of `Gate` at the owner, and the most at a time.
    inside: int = 0
    most: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def link(self) -> Link:
        return self.other.link_to(self.owner)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async def endless(call: ServerCall) -> None:
        await call.read()
        while True:
            await call.write(PIECE)
            one.written += 1

    async def gated(raw: bytes, call: ServerCall) -> bytes:
        one.inside += 1
        one.most = max(one.most, one.inside)
        try:
            await one.gate.wait()
        finally:
            one.inside -= 1
        return raw

    async def held_open(call: ServerCall) -> None:
        await call.write(b"open")
        await one.gate.wait()

    async def echo(raw: bytes, call: ServerCall) -> bytes:
        return raw

    methods = [
        RpcMethod("/t.T/Endless", BYTES_MAX, streaming=endless),
        RpcMethod("/t.T/Gate", BYTES_MAX, unary=gated),
        RpcMethod("/t.T/Open", BYTES_MAX, streaming=held_open, has_many_requests=True),
        RpcMethod("/t.T/Echo", BYTES_MAX, unary=echo),
    ]
    forms = [MethodForm.of(method) for method in methods]
    owner, other = (Node(name, forms, status_of=status_of) for name in ("owner", "other"))
    one = World(owner, other)
    async with running_nodes(owner, other):
        owner.gateway.serve_locally(backend(methods))
        other.gateway.forward_to(owner.card)
        await other.until_linked(owner)
        yield one


@pytest.fixture
async def channel(world: World) -> AsyncIterator[Any]:
    async with channel_to(world.other) as one:
        yield one


async def settled(world: World) -> int:
    """How much was written once nothing more is."""
    before = -1
    while world.written != before:
        before = world.written
        await asyncio.sleep(0.1)
    return before


# Slow readers.


async def test_a_stream_that_is_not_read_is_not_asked_for(world, channel):
    stream = channel.unary_stream("/t.T/Endless")(b"x")
    await stream.read()
    # Windows, the answer under way, and the buffers of the official client's sockets.
    assert await settled(world) * len(PIECE) < 30_000_000
    # The link goes on meanwhile, for streams and for calls.
    assert await channel.unary_unary("/t.T/Echo")(bytes(10_000_000)) == bytes(10_000_000)
    for _ in range(200):
        assert len(await stream.read()) == len(PIECE)
    assert world.written > 200
    stream.cancel()
    await until(lambda: world.link.call_count == 0)


async def test_many_of_them_hold_an_answer_each(world):
    """One that goes to the caller, one that waits at the owner, and a window between the two."""
    peer = await Peer.open(world.other.port)
    numbers = range(1, 101, 2)
    for number in numbers:
        asked = data(number, frame_message(b"x"), ends=True)
        peer.send(headers(number, call("/t.T/Endless")), asked)
    await until(lambda: world.written >= len(numbers))
    assert await settled(world) <= 3 * len(numbers)
    peer.close()
    await until(lambda: world.link.call_count == 0)
    credit = world.link._connection._credit
    assert (credit._given_bytes, len(credit._waiting)) == (0, 0)


async def test_long_answers_come_in_turn(world, channel, monkeypatch):
    """Answers that are longer than a window share a budget; all of them come."""
    monkeypatch.setattr(world.link._connection._credit, "_bytes_max", 1_000_000)
    raw = bytes(3_000_000)
    echo = channel.unary_unary("/t.T/Echo")
    answers = await asyncio.gather(*(echo(raw) for _ in range(10)))
    assert answers == [raw] * 10
    assert world.link._connection._credit._given_bytes == 0


# Many calls.


async def test_calls_beyond_the_streams_of_the_owner_wait(world, channel, monkeypatch):
    await _again(world, monkeypatch, streams=8)
    calls = [asyncio.ensure_future(_call(channel, "/t.T/Gate", b"%d" % n)) for n in range(40)]
    await until(lambda: world.inside == 8 and len(world.link._queue) == 32)
    world.gate.set()
    assert await asyncio.gather(*calls) == [b"%d" % number for number in range(40)]
    assert world.most == 8
    assert (len(world.link._queue), world.link._queue.size_bytes) == (0, 0)


async def test_only_some_wait(world, channel, monkeypatch):
    await _again(world, monkeypatch, streams=8)
    monkeypatch.setattr(bounds, "WAITING_CALLS_MAX", 3)
    calls = [asyncio.ensure_future(_call(channel, "/t.T/Gate", b"x")) for _ in range(11)]
    await until(lambda: len(world.link._queue) == 3)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _call(channel, "/t.T/Gate", b"x")
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "too many calls wait for the link" in refused.value.details()
    world.gate.set()
    assert await asyncio.gather(*calls) == [b"x"] * 11


async def test_none_waits_for_ever(world, channel, monkeypatch):
    await _again(world, monkeypatch, streams=1)
    monkeypatch.setattr(bounds, "HOLD_S", 0.1)
    first = asyncio.ensure_future(_call(channel, "/t.T/Gate", b"x"))
    await until(lambda: world.inside == 1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await _call(channel, "/t.T/Gate", b"x")
    assert "no room on the link to the owner in time" in refused.value.details()
    world.gate.set()
    assert await first == b"x"


async def test_who_leaves_while_waiting_is_forgotten(world, channel, monkeypatch):
    await _again(world, monkeypatch, streams=1)
    first = asyncio.ensure_future(_call(channel, "/t.T/Gate", b"x"))
    await until(lambda: world.inside == 1)
    leaving = channel.unary_unary("/t.T/Gate")(b"y")
    await until(lambda: len(world.link._queue) == 1)
    leaving.cancel()
    await until(lambda: len(world.link._queue) == 0)
    world.gate.set()
    assert await first == b"x"
    assert world.most == 1


async def test_streams_leave_room_for_calls(world, channel, monkeypatch):
    await _again(world, monkeypatch, streams=16)
    streams = [channel.stream_stream("/t.T/Open")() for _ in range(20)]
    await until(lambda: len(world.link._queue) == 6)
    assert await _call(channel, "/t.T/Echo", b"x") == b"x"
    world.gate.set()
    for stream in streams:
        assert await stream.read() == b"open"
        stream.cancel()


async def test_waiting_calls_go_back_when_the_link_is_lost(world, channel, monkeypatch):
    """They have never left: with the next owner they are done."""
    await _again(world, monkeypatch, streams=1)
    first = asyncio.ensure_future(_call(channel, "/t.T/Gate", b"x"))
    await until(lambda: world.inside == 1)
    second = asyncio.ensure_future(_call(channel, "/t.T/Echo", b"y"))
    await until(lambda: len(world.link._queue) == 1)
    await world.owner.link_server.stop(0.0)
    with pytest.raises(grpc.aio.AioRpcError):
        await first
    await until(lambda: world.other.gateway.waiting == 1)
    world.other.gateway.serve_locally(world.owner.gateway._local)
    assert await second == b"y"


async def test_requests_under_way_have_a_bound(world, channel, monkeypatch):
    monkeypatch.setattr(bounds, "LINK_REQUEST_BYTES_MAX", 2_500_000)
    raw = bytes(1_000_000)
    calls = [asyncio.ensure_future(_call(channel, "/t.T/Gate", raw)) for _ in range(5)]
    await until(lambda: world.inside == 2 and len(world.link._queue) == 3)
    world.gate.set()
    assert await asyncio.gather(*calls) == [raw] * 5
    assert world.link._request_bytes == 0


async def _again(world: World, monkeypatch: pytest.MonkeyPatch, *, streams: int) -> None:
    """Have the link made again, to an owner that takes so many streams."""
    monkeypatch.setattr(LinkEnd, "streams_max", streams)
    world.link.cut()
    world.link.keep()
    await world.other.until_linked(world.owner)


async def _call(channel: Any, path: str, raw: bytes) -> bytes:
    return await channel.unary_unary(path)(raw, timeout=20)


# Without ports: calls of a node itself.


class OwnCall:
    """A `Call` with no port behind it."""

    authorization = ""
    address = "10.0.0.1"
    certificate = None

    def __init__(self, lifetime: Lifetime | None = None) -> None:
        self.caller = EVERYBODY
        self.connection = lifetime

    def time_remaining(self) -> float | None:
        return 30.0

    def invocation_metadata(self) -> Iterable[Any]:
        return ()

    def set_trailing_metadata(self, trailing_metadata: Any, /) -> None:
        raise AssertionError("there is none")

    def end_with(self, error: Exception) -> None:
        raise AssertionError("nothing ends it")


async def test_calls_of_one_turn_leave_in_one_write(world):
    link = world.link
    transport = link._connection._transport
    written: list[int] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(transport, name)

        def write(self, content: bytes) -> None:
            written.append(len(content))
            transport.write(content)

    link._connection._transport = Counting()
    lifetime = Lifetime()
    answers = await asyncio.gather(
        *(link.unary("/t.T/Echo", b"%d" % number, OwnCall(lifetime)) for number in range(100))
    )
    assert answers == [b"%d" % number for number in range(100)]
    # The calls, and what the connection says for itself.
    assert len(written) <= 3
    lifetime.end()
    await until(lambda: world.owner.link_server.caller_count == 0)


async def test_a_caller_that_was_never_heard_of_is_told_again(world):
    """The owner lost the first call's head, say; the next one has it all again."""
    link, lifetime = world.link, Lifetime()
    assert await link.unary("/t.T/Echo", b"1", OwnCall(lifetime)) == b"1"
    [end] = world.owner.link_server._ends.values()
    end._origins.clear()
    with pytest.raises(connections.NeverLeft):
        await link.unary("/t.T/Echo", b"2", OwnCall(lifetime))
    assert await link.unary("/t.T/Echo", b"3", OwnCall(lifetime)) == b"3"
    assert world.owner.link_server.caller_count == 1
    lifetime.end()
    await until(lambda: world.owner.link_server.caller_count == 0)


async def test_the_end_of_callers_is_told_when_there_is_room(world, monkeypatch):
    await _again(world, monkeypatch, streams=1)
    link, lifetimes = world.link, [Lifetime() for _ in range(3)]
    for lifetime in lifetimes:
        await link.unary("/t.T/Echo", b"x", OwnCall(lifetime))
    assert world.owner.link_server.caller_count == 3
    last = asyncio.ensure_future(link.unary("/t.T/Gate", b"x", OwnCall(lifetimes[0])))
    await until(lambda: world.inside == 1)
    for lifetime in lifetimes:
        lifetime.end()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert world.owner.link_server.caller_count == 3
    world.gate.set()
    assert await last == b"x"
    await until(lambda: world.owner.link_server.caller_count == 0)


async def test_an_owner_that_stands_still_is_given_up(world, monkeypatch):
    """It has a call, and answers no ping: the call ends while its caller still waits."""
    monkeypatch.setattr(connections, "PING_AFTER_S", 0.05)
    monkeypatch.setattr(connections, "PING_WAIT_S", 0.1)
    monkeypatch.setattr("fanlog.cluster.link.link.LOOK_S", 0.05)
    link = world.link
    asked = asyncio.ensure_future(link.unary("/t.T/Gate", b"x", OwnCall()))
    await until(lambda: world.inside == 1)
    [end] = world.owner.link_server._ends.values()
    end._transport.pause_reading()
    with pytest.raises(Unavailable, match="was lost"):
        await asked


async def test_announcements_do_not_wait_behind_callers(world, monkeypatch):
    await _again(world, monkeypatch, streams=32)
    link = world.link
    calls = [asyncio.ensure_future(link.unary("/t.T/Gate", b"x", OwnCall())) for _ in range(40)]
    await until(lambda: world.inside == 30 and len(link._queue) == 10)
    assert await link.announce(b'{"name": "other"}', 17) == b"noted"
    assert world.owner.announced == [(b'{"name": "other"}', 17)]
    world.gate.set()
    await asyncio.gather(*calls)
