"""Floods: frames that bring nothing end a connection, and the load of honest clients does not."""

from __future__ import annotations

import pytest

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.header_blocks import encode
from unit.http2.pair import REQUEST, Pair, output, server

HEAD = encode([(b":status", b"200")])
#: As many as a connection of the server takes.
STREAMS = 1_100


@pytest.mark.parametrize(
    "raw",
    [
        frames.ping(bytes(8), is_ack=False),
        frames.settings([]),
        frames.head(0, codes.DATA, 0, 1),
        frames.head(5, codes.PRIORITY, 0, 3) + bytes(5),
        frames.head(0, 77, 0, 0),
        frames.window_update(1, 1),
    ],
    ids=["ping", "settings", "empty data", "priority", "unknown", "window"],
)
def test_floods_end(raw):
    pair = Pair()
    pair.request()
    for _ in range(20_000):
        events = pair.server.receive(raw, 0.0)
        output(pair.server)
        if pair.server.is_ended:
            break
    assert events[-1].code == ErrorCode.ENHANCE_YOUR_CALM


def test_rapid_resets_end():
    pair = Pair()
    for _ in range(2_000):
        stream_id = pair.client.request(REQUEST, ends=True)
        assert stream_id is not None
        pair.client.reset(stream_id, ErrorCode.CANCEL)
        pair.pump()
        if pair.server.is_ended:
            break
    assert pair.at_server[-1].code == ErrorCode.ENHANCE_YOUR_CALM


def test_probing_the_bandwidth_under_load_does_not():
    pair = Pair()
    for number in range(50_000):
        if number % 1_000 == 0:
            stream_id = pair.request()
        raw = frames.ping(bytes(8), is_ack=False) + b"".join(
            frames.data(stream_id, bytes(1_000), ends=False)
        )
        pair.server.receive(raw, 0.0)
        pair.server.credit(stream_id, 1_000)
        output(pair.server)
    assert not pair.server.is_ended


def test_a_header_block_that_does_not_end():
    pair = Pair()
    raw = frames.head(0, codes.HEADERS, 0, 1)
    raw += (frames.head(8_000, codes.CONTINUATION, 0, 1) + bytes(8_000)) * 10
    [ended] = pair.server.receive(raw, 0.0)
    assert ended.code == ErrorCode.ENHANCE_YOUR_CALM


def test_all_streams_of_a_connection_may_be_cancelled_at_once():
    """A client with a thousand streaming pulls that closes them is no flood."""
    pair = Pair(server_side=server(streams_max=STREAMS))
    ids = [pair.request() for _ in range(STREAMS)]
    for stream_id in ids:
        pair.client.reset(stream_id, ErrorCode.CANCEL)
    pair.pump()
    assert not pair.server.is_ended
    assert pair.server.open_streams == 0


def test_ten_thousand_refused_requests_are_no_flood_and_their_data_is_credited():
    """Answered at their first bytes; the rest of each is on its way, and is discarded."""
    pair = Pair()
    for number in range(10_000):
        stream_id = 2 * number + 1
        pair.server.receive(
            frames.headers(stream_id, encode(REQUEST), ends=False, size_max=1 << 14), 0.0
        )
        pair.server.send_headers(stream_id, HEAD, ends=True)
        pair.server.reset(stream_id, ErrorCode.NO_ERROR)
        part = b"".join(frames.data(stream_id, bytes(1 << 14), ends=False))
        assert pair.server.receive(part * 4, 0.0) == []
        output(pair.server)
    assert not pair.server.is_ended


def test_a_peer_that_is_trusted_is_not_counted():
    """A node works for many callers: all of them may leave at once, with answers on their way."""
    pair = Pair()
    pair.server.trust(8_000)
    for _ in range(3):
        ids = [pair.client.request(REQUEST, ends=True) for _ in range(2_000)]
        pair.pump()
        for stream_id in ids:
            assert stream_id is not None
            pair.client.reset(stream_id, ErrorCode.CANCEL)
        pair.pump()
    assert not pair.server.is_ended
    assert pair.server.open_streams == 0


def test_frames_of_streams_that_were_reset_long_ago_are_late_for_who_keeps_their_ids():
    """A client that resets more streams than it remembers takes late data for a mistake."""
    for kept, is_ended in ((4_000, False), (None, True)):
        pair = Pair()
        if kept is not None:
            pair.client.trust(kept)
        first = pair.request(ends=True)
        pair.pump()
        pair.server.answer(first, HEAD, b"on its way", encode([(b"grpc-status", b"0")]))
        late = output(pair.server)
        pair.client.reset(first, ErrorCode.CANCEL)
        for _ in range(2_000):
            stream_id = pair.client.request(REQUEST, ends=True)
            assert stream_id is not None
            pair.client.reset(stream_id, ErrorCode.CANCEL)
        pair.client.receive(late, 0.0)
        assert pair.client.is_ended is is_ended
