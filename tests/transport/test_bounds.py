"""Memory and time that a caller may have the gRPC server spend, and that end when it does."""

from __future__ import annotations

import asyncio
import gc

import grpc

from fanlog.http2 import codes, frames
from fanlog.http2.codes import PREFACE, ErrorCode
from fanlog.transport import grpc_connection, grpc_server
from fanlog.transport.request_credit import RequestCredit
from fanlog.transport.server_call import ServerCall
from transport.conftest import UNFINISHED_BYTES_MAX, World
from transport.peer import Peer, call, data, headers


async def test_a_preface_that_is_never_whole(world: World, monkeypatch):
    monkeypatch.setattr(grpc_connection, "PREFACE_S", 0.05)
    for raw in (PREFACE[:3], PREFACE[:-1], PREFACE, PREFACE + b"\0\0\0\4\0\0\0\0"):
        peer = await Peer.open(world.port, raw)
        await peer.until(lambda _: False)
        assert not [one for one in peer.frames if one.kind == codes.GOAWAY]
        peer.close()
    assert world.counts.given_up["late"] == 4
    assert world.grpc.connection_count == 0


async def test_first_bytes_of_another_protocol(world: World):
    peer = await Peer.open(world.port, b"\x16\x03\x01\x02\x00")
    await peer.until(lambda _: False)
    assert peer.frames == []
    assert world.counts.given_up["unknown"] == 1
    peer.close()


async def test_a_call_whose_message_never_begins(world: World, monkeypatch, channel):
    monkeypatch.setattr(grpc_connection, "PREFACE_S", 0.02)
    monkeypatch.setattr(grpc_server, "MESSAGE_S", 0.2)
    running = channel.unary_unary("/t.T/Wait")(b"")
    await asyncio.wait_for(world.waiting.wait(), 5)
    peer = await Peer.open(world.port)
    # Before and after the first look at the connection.
    for stream_id in (1, 3):
        peer.send(headers(stream_id, call()))
        answer = await peer.until_answered(stream_id)
        assert answer[b"grpc-status"] == b"8"
        assert b"did not come within" in answer[b"grpc-message"]
    assert world.counts.given_up["late"] == 2
    assert not running.done()
    peer.close()


async def test_an_answered_call_leaves_nothing_behind(world: World, channel):
    """Its deadline is seconds away, and no timer keeps it until then."""
    echo = channel.unary_unary("/t.T/Echo")
    for _ in range(20):
        await echo(b"x" * 100, timeout=4)
    await channel.unary_unary("/t.T/Tell")(b"", timeout=4)
    world.told.clear()
    gc.collect()
    # Other servers of this process, of other tests, may have calls of their own.
    [connection] = world.grpc._connections
    calls = [one for one in gc.get_objects() if isinstance(one, ServerCall)]
    assert not [one for one in calls if one._port is connection]


async def test_messages_that_no_verb_takes_are_counted(world: World, channel):
    """An empty message is five bytes on the wire, and many times that in memory."""
    peer = await Peer.open(world.port)
    streams = range(1, 61, 2)
    for stream_id in streams:
        peer.send(headers(stream_id, call("/t.T/Deaf")), data(stream_id, bytes(5) * 3_000) * 4)
    await peer.until_answered(1)
    assert peer.fields[1][b"grpc-status"] == b"8"
    assert await channel.unary_unary("/t.T/Echo")(b"beside") == b"beside"
    assert world.grpc._unfinished.size_bytes <= UNFINISHED_BYTES_MAX
    assert world.counts.given_up["too_many"] > 0
    peer.close()


async def test_a_stream_whose_verb_is_behind_is_not_credited_ahead(world: World):
    peer = await Peer.open(world.port)
    peer.send(headers(1, call("/t.T/Deaf")), data(1, b"\0" + (30_000).to_bytes(4)))
    peer.send(data(1, bytes(15_000)) * 2, data(1, b"\0" + (1_000_000).to_bytes(4)))
    # Another stream's message is credited: both were looked at.
    peer.send(headers(3, call()), data(3, b"\0" + (1_000_000).to_bytes(4)))
    await peer.until(lambda _: bool(peer.of(codes.WINDOW_UPDATE, 3)))
    assert not peer.of(codes.WINDOW_UPDATE, 1)
    peer.close()


async def test_messages_that_a_verb_takes_are_not(world: World, channel):
    both = channel.stream_stream("/t.T/Both")()
    for _ in range(3):
        await both.write(bytes(200_000))
        assert len(await both.read()) == 200_000
    assert len(world.grpc._unfinished) == 0
    both.cancel()


async def test_a_request_that_was_answered_by_its_headers_is_forgotten(world: World):
    peer = await Peer.open(world.port)
    peer.send(headers(1, call("/t.T/Nothing")), headers(3, call("/t.T/Nothing")))
    await peer.until_answered(3)
    [connection] = world.grpc._connections
    assert connection.call_count == 2
    peer.send(data(1, b"", ends=True), frames.ping(bytes(8), is_ack=False))
    await peer.until(lambda _: bool(peer.of(codes.PING)))
    assert connection.call_count == 1
    # One that goes on is told to stop; it was no fault of its.
    peer.send(data(3, bytes(10_000)) * 4)
    await peer.until(lambda _: bool(peer.of(codes.RST_STREAM, 3)))
    assert peer.of(codes.RST_STREAM, 3)[0].code == ErrorCode.NO_ERROR
    peer.close()


async def test_nothing_above_the_last_id_of_a_drain_is_processed(world: World):
    peer = await Peer.open(world.port)
    peer.send(headers(1, call("/t.T/Both")), data(1, b"\0\0\0\0\1x"))
    await peer.until(lambda _: bool(peer.of(codes.DATA, 1)))
    stopping = asyncio.create_task(world.grpc.stop(5))
    await peer.until(lambda _: bool(peer.of(codes.PING)))
    # On its way when the first GOAWAY was sent: it is served.
    peer.send(headers(3, call()), data(3, b"\0\0\0\0\1y", ends=True))
    assert (await peer.until_answered(3))[b"grpc-status"] == b"0"
    peer.send(frames.ping(peer.of(codes.PING)[0].payload, is_ack=True))
    await peer.until(lambda _: len(peer.of(codes.GOAWAY)) == 2)
    assert [int.from_bytes(one.payload[:4]) for one in peer.of(codes.GOAWAY)] == [2**31 - 1, 3]
    calls = world.counts.calls
    peer.send(headers(5, call()), data(5, b"\0\0\0\0\1z", ends=True))
    peer.send(data(1, b"", ends=True))
    assert (await peer.until_answered(1))[b"grpc-status"] == b"0"
    last = await peer.until_over()
    assert int.from_bytes(last.payload[:4]) == 3
    assert world.counts.calls == calls
    assert 5 not in peer.fields
    await asyncio.wait_for(stopping, 5)
    peer.close()


async def test_thirteen_hundred_streams_at_once_are_all_served(world: World, channel):
    """Those above the limit wait, or are refused and tried again: the client's own business."""
    both = channel.stream_stream("/t.T/Both")

    async def ask(number: int) -> bytes:
        one = both()
        await one.write(b"%d" % number)
        found: bytes = await one.read()
        await one.done_writing()
        assert await one.code() == grpc.StatusCode.OK
        return found

    found = await asyncio.gather(*map(ask, range(1_300)))
    assert found == [b"%d" % number for number in range(1_300)]


async def test_streams_above_the_limit_are_refused_and_counted(world: World):
    peer = await Peer.open(world.port)
    count = grpc_connection.STREAMS_MAX + 5
    for number in range(count):
        peer.send(headers(2 * number + 1, call("/t.T/Deaf")))
    await peer.until(lambda _: bool(peer.of(codes.RST_STREAM, 2 * count - 1)))
    refused = [one for one in peer.frames if one.kind == codes.RST_STREAM]
    assert [one.code for one in refused] == [ErrorCode.REFUSED_STREAM] * 5
    assert world.counts.streams_refused == 5
    peer.close()


class _Waiting:
    """Stands for a call."""


def test_credit_goes_in_the_order_of_asking_and_asks_few():
    """One that does not fit is not passed, and the others behind it are not asked each time."""
    credit = RequestCredit(100)
    holder, large, *small = (_Waiting() for _ in range(1_000))
    assert credit.take(holder, 90)  # type: ignore[arg-type]
    assert not credit.take(large, 50)  # type: ignore[arg-type]
    assert not any(credit.take(one, 1) for one in small)  # type: ignore[arg-type]
    asked = []

    def again(one: object) -> None:
        asked.append(one)
        credit.take(one, 50 if one is large else 1)  # type: ignore[arg-type]

    credit.give_back(10, again)
    assert asked == [large]
    credit.give_back(80, again)
    assert asked[1:4] == [large, small[0], small[1]]
