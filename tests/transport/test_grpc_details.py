"""Details of gRPC on the wire, as a peer by hand sees them: encodings, metadata, ends, pings."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator

import grpc
import pytest

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.transport import grpc_server
from transport.conftest import REQUEST_BYTES_MAX, World, serving
from transport.peer import Peer, call, data, headers

FOLDS = {b"gzip": gzip.compress, b"deflate": zlib.compress}


def framed(content: bytes, flag: int = 0) -> bytes:
    return bytes((flag,)) + len(content).to_bytes(4) + content


async def ask(peer: Peer, stream_id: int, fields, content: bytes) -> dict[bytes, bytes]:
    peer.send(headers(stream_id, fields))
    for start in range(0, len(content), 10_000):
        part = content[start : start + 10_000]
        peer.send(data(stream_id, part, ends=start + 10_000 >= len(content)))
    return await peer.until_answered(stream_id)


@pytest.fixture
async def peer(world: World) -> AsyncIterator[Peer]:
    one = await Peer.open(world.port)
    yield one
    one.close()


@pytest.mark.parametrize("encoding", FOLDS)
@pytest.mark.parametrize("method", ["Echo", "Count"])
async def test_a_bomb_is_unfolded_no_further_than_it_may(peer: Peer, encoding: bytes, method: str):
    bomb = framed(FOLDS[encoding](bytes(50_000_000)), 1)
    assert len(bomb) < 60_000
    fields = call(f"/t.T/{method}", (b"grpc-encoding", encoding))
    tracemalloc.start()
    try:
        answer = await ask(peer, 1, fields, bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer[b"grpc-status"] == b"8"
    assert str(REQUEST_BYTES_MAX).encode() in answer[b"grpc-message"]
    assert peak < 2 * REQUEST_BYTES_MAX + 1_000_000


@pytest.mark.parametrize("encoding", FOLDS)
async def test_a_folded_message_that_is_none(peer: Peer, encoding: bytes):
    fields = call("/t.T/Echo", (b"grpc-encoding", encoding))
    whole = FOLDS[encoding](b"content")
    for stream_id, content in ((1, b"rubbish"), (3, whole[:-1]), (5, whole + b"more")):
        answer = await ask(peer, stream_id, fields, framed(content, 1))
        assert answer[b"grpc-status"] == b"13"
    # Folded, and no word of how; and a flag that has no meaning.
    assert (await ask(peer, 7, call(), framed(whole, 1)))[b"grpc-status"] == b"13"
    assert (await ask(peer, 9, call(), framed(whole, 2)))[b"grpc-status"] == b"13"


async def test_an_unknown_encoding(peer: Peer):
    answer = await ask(peer, 1, call("/t.T/Echo", (b"grpc-encoding", b"br")), framed(b""))
    assert answer[b"grpc-status"] == b"12"
    assert answer[b"grpc-accept-encoding"] == b"identity,deflate,gzip"


async def test_answers_without_a_message_are_one_block(peer: Peer):
    for stream_id, path in ((1, "/t.T/Nothing"), (3, "/t.T/Fail")):
        answer = await ask(peer, stream_id, call(path), framed(b""))
        assert answer[b":status"] == b"200"
        assert answer[b"content-type"] == b"application/grpc"
        [block] = peer.of(codes.HEADERS, stream_id)
        assert block.flags & codes.END_STREAM
        assert not peer.of(codes.DATA, stream_id)
    # Percent-encoded, as UTF-8.
    message = peer.fields[3][b"grpc-message"]
    assert message == b"no: 100 %25 %C3%BCnm%C3%B6glich%0A"


async def test_binary_metadata_with_and_without_padding(world: World, peer: Peer):
    pairs = [(b"x-a-bin", b"AAE="), (b"x-b-bin", b"AAE"), (b"x-c-bin", b"!"), (b"x-d", b"AAE")]
    answer = await ask(peer, 1, call("/t.T/Tell", *pairs), framed(b""))
    found = dict(world.told[0].invocation_metadata())
    assert [found[name] for name in ("x-a-bin", "x-b-bin", "x-c-bin", "x-d")] == [
        b"\0\1",
        b"\0\1",
        b"",
        "AAE",
    ]
    assert answer[b"x-raw-bin"] == b"AP8"
    assert answer[b"x-said"] == b"so"


async def test_a_deadline_of_the_peer_ends_the_verb_with_a_status(world: World, peer: Peer):
    """Also one that a client would end by itself, had it not been made by hand."""
    answer = await ask(peer, 1, call("/t.T/Wait", (b"grpc-timeout", b"50m")), framed(b""))
    assert answer[b"grpc-status"] == b"4"
    await asyncio.wait_for(world.cancelled.wait(), 5)


async def test_a_reset_reaches_the_verb(world: World, peer: Peer):
    peer.send(headers(1, call("/t.T/Wait")), data(1, framed(b""), ends=True))
    await asyncio.wait_for(world.waiting.wait(), 5)
    peer.send(frames.rst_stream(1, ErrorCode.CANCEL))
    await asyncio.wait_for(world.cancelled.wait(), 5)


async def test_another_content_type_is_answered_415(peer: Peer):
    fields = [(name, b"text/html" if name == b"content-type" else v) for name, v in call()]
    peer.send(headers(1, fields, ends=True))
    await peer.until(lambda _: bool(peer.of(codes.DATA, 1)))
    assert peer.fields[1][b":status"] == b"415"


async def test_too_many_headers_are_431_and_a_status(peer: Peer):
    answer = await ask(peer, 1, call("/t.T/Echo", (b"x", b"v" * 17_000)), framed(b""))
    assert answer[b":status"] == b"431"
    assert answer[b"grpc-status"] == b"8"


async def test_clients_of_grpc_read_the_status_beside_431(channel):
    # In a short frame: each counts 32 bytes beside its own.
    metadata = [(f"x-{number}", "v") for number in range(500)]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await channel.unary_unary("/t.T/Echo")(b"", metadata=metadata)
    assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_pings_go_both_ways(world: World, monkeypatch):
    monkeypatch.setattr(grpc_server, "SWEEP_S", 0.02)
    monkeypatch.setattr(grpc_server, "PING_AFTER_S", 0.1)
    peer = await Peer.open(world.port)
    peer.send(frames.ping(b"from me.", is_ack=False))
    await peer.until(lambda _: bool(peer.of(codes.PING)))
    assert peer.of(codes.PING)[0].payload == b"from me."
    assert peer.of(codes.PING)[0].flags == codes.ACK
    await peer.until(lambda _: len(peer.of(codes.PING)) == 2)
    assert peer.of(codes.PING)[1].flags == 0
    peer.close()


# Compressed answers, where they are wanted.

TEXT = b"again and " * 1_000


@pytest.fixture
async def folding() -> AsyncIterator[World]:
    async with serving(folds_answers=True) as one:
        yield one


@pytest.mark.parametrize(
    ("accepted", "is_folded"),
    [(b"identity, gzip", True), (b"identity,deflate", False), (None, False)],
)
@pytest.mark.parametrize("method", ["Echo", "Both"])
async def test_answers_are_compressed_for_those_who_take_it(
    folding: World, method: str, accepted: bytes | None, is_folded: bool
):
    peer = await Peer.open(folding.port)
    more = [] if accepted is None else [(b"grpc-accept-encoding", accepted)]
    answer = await ask(peer, 1, call(f"/t.T/{method}", *more), framed(TEXT))
    content = b"".join(one.payload for one in peer.of(codes.DATA, 1))
    assert answer.get(b"grpc-encoding") == (b"gzip" if is_folded else None)
    if is_folded:
        assert content[0] == 1
        assert int.from_bytes(content[1:5]) == len(content) - 5 < 500
        assert gzip.decompress(content[5:]) == TEXT
    else:
        assert content == framed(TEXT)
    peer.close()


async def test_short_answers_and_random_ones_are_not(folding: World):
    async with grpc.aio.insecure_channel(folding.endpoint) as channel:
        echo, both = channel.unary_unary("/t.T/Echo"), channel.stream_stream("/t.T/Both")()
        for message in (b"", b"x" * 1_023, bytes(range(256)) * 4, TEXT * 50):
            assert await echo(message) == message
            await both.write(message)
            assert await both.read() == message
        both.cancel()


async def test_answers_are_not_compressed_unless_that_is_set(peer: Peer):
    fields = call("/t.T/Echo", (b"grpc-accept-encoding", b"gzip"))
    answer = await ask(peer, 1, fields, framed(TEXT))
    assert b"grpc-encoding" not in answer
