"""The end of a connection that is drained: which streams are still processed."""

from __future__ import annotations

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.events import ConnectionEnded, GoAwayReceived, HeadersReceived, StreamReset
from fanlog.http2.header_blocks import encode
from unit.http2.pair import REQUEST, Pair, output


def request(stream_id: int) -> bytes:
    return frames.headers(stream_id, encode(REQUEST), ends=False, size_max=1 << 14)


def data(stream_id: int) -> bytes:
    return b"".join(frames.data(stream_id, b"content", ends=True))


def test_a_drain_serves_what_is_on_its_way_and_nothing_after():
    pair = Pair()
    pair.server.announce_end()
    late = pair.client.request(REQUEST, ends=True)
    assert late is not None
    found = pair.server.receive(output(pair.client), 0.0)
    assert [type(one) for one in found] == [HeadersReceived]
    pair.server.refuse_new()
    too_late = pair.client.request(REQUEST, ends=True)
    assert too_late is not None
    pair.pump()
    assert GoAwayReceived(codes.WINDOW_MAX, 0) in pair.at_client
    assert pair.take_at_server() == []
    assert StreamReset(too_late, ErrorCode.REFUSED_STREAM, by_peer=True) in pair.at_client
    assert pair.client.is_open(late)


def test_a_client_opens_nothing_after_a_goaway():
    """RFC 9113, 6.8; nor when its ids have run out."""
    pair = Pair()
    pair.server.announce_end()
    pair.pump()
    assert pair.client.request(REQUEST, ends=True) is None
    other = Pair()
    other.client._ids.next_local = codes.WINDOW_MAX
    assert other.client.request(REQUEST, ends=True) == codes.WINDOW_MAX
    assert other.client.request(REQUEST, ends=True) is None


def test_nothing_above_the_last_id_is_processed_and_its_data_is_no_fault():
    pair = Pair()
    assert len(pair.server.receive(request(1), 0.0)) == 1
    pair.server.refuse_new()
    late = range(3, 6_000, 2)
    # All headers first: more streams than ids are remembered.
    raw = [*map(request, late), *map(data, late)]
    for number, part in enumerate(raw):
        assert pair.server.receive(part, number / 100) == []
    [one] = pair.server.receive(data(1), 60.0)
    assert one.stream_id == 1


def test_a_later_goaway_does_not_name_streams_that_were_not_processed():
    pair = Pair()
    pair.server.receive(request(1), 0.0)
    pair.server.refuse_new()
    pair.server.receive(request(3), 0.0)
    pair.server.refuse_new()
    assert frames.go_away(3, ErrorCode.NO_ERROR, "draining") not in output(pair.server)
    assert pair.server.receive(request(5) + data(3), 0.0) == []
    [ended] = pair.server.receive(frames.head(1, codes.PING, 0, 0) + b"x", 0.0)
    assert isinstance(ended, ConnectionEnded)
    assert (1).to_bytes(4) + ErrorCode.FRAME_SIZE_ERROR.to_bytes(4) in output(pair.server)
