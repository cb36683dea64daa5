"""Calls by gRPC's own client: messages, metadata, statuses, deadlines, cancellation, sizes."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from fanlog.transport.messages import PREFIX_BYTES
from transport.conftest import REQUEST_BYTES_MAX, World


async def test_a_message_and_its_answer(channel):
    echo = channel.unary_unary("/t.T/Echo")
    for size in (0, 1, 16_379, 16_380, 65_535, 1_000_000, REQUEST_BYTES_MAX):
        message = b"x" * size
        assert await echo(message) == message


async def test_many_at_once(channel):
    echo = channel.unary_unary("/t.T/Echo")
    messages = [b"%d" % n * n for n in range(500)]
    assert await asyncio.gather(*(echo(m) for m in messages)) == messages


async def test_streams_both_ways(channel):
    call = channel.stream_stream("/t.T/Both")()
    for size in (0, 10, 100_000, 2_000_000, 3):
        await call.write(b"y" * size)
        assert await call.read() == b"y" * size
    await call.done_writing()
    assert await call.read() == grpc.aio.EOF
    assert await call.code() == grpc.StatusCode.OK


async def test_a_stream_up(channel):
    call = channel.stream_unary("/t.T/Count")(iter([b"x" * 50_000] * 100))
    assert await call == b"5000000"


async def test_a_stream_down(channel):
    call = channel.unary_stream("/t.T/Flood")(b"200")
    assert [len(m) async for m in call] == [100_000] * 200


async def test_metadata_both_ways(world: World, channel):
    call = channel.unary_unary("/t.T/Tell")(
        b"", metadata=[("x-one", "1"), ("x-two-bin", b"\0\1\xff"), ("x-one", "2")], timeout=30
    )
    await call
    [told] = world.told
    metadata = told.invocation_metadata()
    assert [v for k, v in metadata if k == "x-one"] == ["1", "2"]
    assert dict(metadata)["x-two-bin"] == b"\0\1\xff"
    assert "te" not in dict(metadata)
    remaining = told.time_remaining()
    assert remaining is not None
    # gRPC's client rounds a time-out up to three digits.
    assert 0 < remaining <= 30.1
    trailing = dict(await call.trailing_metadata())
    assert trailing["x-said"] == "so"
    assert trailing["x-raw-bin"] == b"\0\xff"


async def test_a_status_with_message_and_details(channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/t.T/Fail")(b"\x08\x09details")
    assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.details() == "no: 100 % ünmöglich\n"
    trailing = dict(caught.value.trailing_metadata())
    assert trailing["grpc-status-details-bin"] == b"\x08\x09details"


async def test_an_unknown_method(channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/t.T/Nothing")(b"")
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert caught.value.details() == "unknown method /t.T/Nothing"


@pytest.mark.parametrize("method", ["Echo", "Count"])
async def test_a_message_that_is_too_long(channel, method):
    message = bytes(REQUEST_BYTES_MAX + 1)
    if method == "Echo":
        call = channel.unary_unary("/t.T/Echo")(message)
    else:
        call = channel.stream_unary("/t.T/Count")(iter([message]))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(REQUEST_BYTES_MAX) in caught.value.details()


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_requests(channel, how):
    echo = channel.unary_unary("/t.T/Echo")
    assert await echo(b"again " * 10_000, compression=how) == b"again " * 10_000
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await echo(bytes(REQUEST_BYTES_MAX + 1), compression=how)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_deadline_that_passes(world: World, channel):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/t.T/Wait")(b"", timeout=0.2)
    assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await asyncio.wait_for(world.cancelled.wait(), 5)


@pytest.mark.parametrize("method", ["Wait", "Deaf"])
async def test_a_call_that_is_cancelled(world: World, channel, method):
    if method == "Wait":
        call = channel.unary_unary("/t.T/Wait")(b"")
    else:
        call = channel.stream_stream("/t.T/Deaf")()
        await call.write(b"x")
    await asyncio.wait_for(world.waiting.wait(), 5)
    call.cancel()
    await asyncio.wait_for(world.cancelled.wait(), 5)


async def test_callers_that_hang_up_cancel_their_calls(world: World):
    channel = grpc.aio.insecure_channel(world.endpoint)
    call = channel.unary_unary("/t.T/Wait")(b"")
    await asyncio.wait_for(world.waiting.wait(), 5)
    await channel.close()
    await asyncio.wait_for(world.cancelled.wait(), 5)
    assert call.cancelled()


async def test_a_thousand_streams_on_one_channel(channel):
    calls = [channel.stream_stream("/t.T/Both")() for _ in range(999)]
    for number, call in enumerate(calls):
        await call.write(b"%d" % number)
    assert [await call.read() for call in calls] == [b"%d" % n for n in range(999)]
    assert await channel.unary_unary("/t.T/Echo")(b"beside") == b"beside"
    for call in calls:
        call.cancel()


async def test_a_stream_that_stalls_beside_calls(channel):
    """Its requests fill its own window; calls on the same connection are answered."""
    deaf = channel.stream_stream("/t.T/Deaf")()

    async def fill() -> None:
        for _ in range(1_000):
            await deaf.write(bytes(50_000))

    filling = asyncio.create_task(fill())
    echo = channel.unary_unary("/t.T/Echo")
    for _ in range(50):
        assert len(await echo(bytes(500_000), timeout=30)) == 500_000
    assert not filling.done()
    filling.cancel()
    deaf.cancel()


async def test_a_caller_that_does_not_read_holds_little(world: World, channel):
    """A flood of 100 MB for somebody who reads nothing waits in its verb, not in memory."""
    call = channel.unary_stream("/t.T/Flood")(b"1000")
    assert len(await call.read()) == 100_000
    await asyncio.sleep(0)
    [connection] = world.grpc._connections
    assert connection._transport.get_write_buffer_size() < 1_000_000
    assert connection._http2.queued_bytes(1) <= 100_000 + PREFIX_BYTES
    assert await channel.unary_unary("/t.T/Echo")(b"beside") == b"beside"
    call.cancel()


async def test_ten_thousand_refused_messages_on_one_connection(world: World, channel):
    """Data that is discarded gives its credit back: later calls still get through."""
    small = channel.unary_unary("/t.T/Small")
    message = bytes(1_000_000)

    async def refuse() -> None:
        for _ in range(200):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await small(message)
            assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED

    await asyncio.gather(*(refuse() for _ in range(50)))
    assert len(await channel.unary_unary("/t.T/Echo")(message)) == 1_000_000
    # All on one connection, which is still the first.
    assert world.grpc.connection_count == 1
    assert world.counts.calls == 10_001
    assert not world.counts.faults


@pytest.mark.parametrize("size", [17_000, 40_000])
async def test_too_much_metadata_ends_its_own_call_alone(world: World, channel, size):
    """It comes in one frame, or in several."""
    waiting = channel.unary_unary("/t.T/Wait")(b"")
    await asyncio.wait_for(world.waiting.wait(), 5)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/t.T/Echo")(b"", metadata=[("x-long", "x" * size)])
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert await channel.unary_unary("/t.T/Echo")(b"next") == b"next"
    assert not waiting.done()
    waiting.cancel()
