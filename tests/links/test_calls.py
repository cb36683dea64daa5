"""Calls through a node that does not own: what comes to the owner, and what comes back."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from links.nodes import until
from transport.conftest import REQUEST_BYTES_MAX


async def test_a_request_and_its_answer_go_through(channel):
    assert await channel.unary_unary("/t.T/Echo")(b"hello") == b"hello"


@pytest.mark.parametrize("size", [0, 1, 16 * 1024, 65_530, 100_000, REQUEST_BYTES_MAX])
async def test_of_any_size(channel, size):
    raw = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert await channel.unary_unary("/t.T/Echo")(raw) == raw


async def test_metadata_goes_both_ways(pair, channel):
    sent = (("x-asked", "this"), ("x-raw-bin", b"\0\1"), ("authorization", "Bearer abc"))
    call = channel.unary_unary("/t.T/Tell")(b"x", metadata=sent, timeout=30)
    assert await call == b"x"
    [told] = pair.owned.told
    found = dict(told.invocation_metadata())
    assert (found["x-asked"], found["x-raw-bin"]) == ("this", b"\0\1")
    assert "grpc-python" in found["user-agent"]
    assert not any(name.startswith("fanlog-link") for name in found)
    assert (told.authorization, told.address) == ("Bearer abc", "127.0.0.1")
    remaining = told.time_remaining()
    assert 29 < remaining <= 30
    trailing = dict(await call.trailing_metadata())
    assert (trailing["x-said"], trailing["x-raw-bin"]) == ("so", b"\0\xff")


async def test_a_refusal_comes_as_it_was_given(channel):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t.T/Fail")(b"details")
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.value.details() == "no: 100 % ünmöglich\n"
    trailing = dict(refused.value.trailing_metadata())
    assert trailing["grpc-status-details-bin"] == b"details"


async def test_a_deadline_ends_the_call_on_both_nodes(pair, channel):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t.T/Wait")(b"", timeout=0.3)
    assert refused.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(10):
        await pair.owned.cancelled.wait()


async def test_a_caller_that_leaves_cancels_its_call_at_the_owner(pair, channel):
    call = channel.unary_unary("/t.T/Wait")(b"")
    sending = asyncio.ensure_future(_outcome(call))
    await pair.owned.waiting.wait()
    call.cancel()
    assert await sending is grpc.StatusCode.CANCELLED
    async with asyncio.timeout(10):
        await pair.owned.cancelled.wait()
    await until(lambda: pair.other.link_to(pair.owner).call_count == 0)


async def test_many_calls_at_once(channel):
    call = channel.unary_unary("/t.T/Echo")
    answers = await asyncio.gather(*(call(b"%d" % number) for number in range(3_000)))
    assert answers == [b"%d" % number for number in range(3_000)]


async def test_a_stream_goes_both_ways(channel):
    stream = channel.stream_stream("/t.T/Both")()
    for number in range(20):
        await stream.write(b"%d" % number)
        assert await stream.read() == b"%d" % number
    await stream.done_writing()
    assert await stream.read() is grpc.aio.EOF
    assert await stream.code() is grpc.StatusCode.OK


async def test_messages_of_a_stream_are_counted_at_its_end(channel):
    stream = channel.stream_unary("/t.T/Count")(iter([bytes(300_000)] * 20))
    assert await stream == b"6000000"


async def test_a_stream_of_many_answers(channel):
    stream = channel.unary_stream("/t.T/Flood")(b"100")
    sizes = [len(one) async for one in stream]
    assert sizes == [100_000] * 100


async def test_a_caller_that_leaves_a_stream_cancels_it_at_the_owner(pair, channel):
    stream = channel.stream_stream("/t.T/Deaf")()
    await stream.write(b"x")
    await pair.owned.waiting.wait()
    stream.cancel()
    async with asyncio.timeout(10):
        await pair.owned.cancelled.wait()


async def test_an_unknown_method_is_refused_by_the_node_that_was_asked(pair, channel):
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await channel.unary_unary("/t.T/None")(b"")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert pair.owner.link_server.counts.calls <= 2


async def _outcome(call) -> grpc.StatusCode:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    except asyncio.CancelledError:
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode.OK
