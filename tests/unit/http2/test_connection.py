"""A connection: requests and answers, windows, ends, and frames that come too late."""

from __future__ import annotations

import pytest

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.events import (
    ConnectionEnded,
    DataReceived,
    HeadersReceived,
    HeadersRefused,
    PingAnswered,
    SettingsAgreed,
    StreamDrained,
    StreamReset,
    TrailersReceived,
)
from fanlog.http2.header_blocks import encode
from fanlog.http2.send_queue import OUTPUT_BYTES_MAX
from unit.http2.pair import REQUEST, WINDOW, Pair, client, output, server

HEAD = encode([(b":status", b"200")])
LAST = encode([(b"grpc-status", b"0")])


def data_of(events, stream_id: int) -> bytes:
    return b"".join(
        e.data for e in events if isinstance(e, DataReceived) and e.stream_id == stream_id
    )


def frames_of(raw: bytes) -> list[tuple[int, int, int, bytes]]:
    """Type, flags, stream and payload of each frame."""
    found, position = [], 0
    while position < len(raw):
        length = int.from_bytes(raw[position : position + 3])
        stream_id = int.from_bytes(raw[position + 5 : position + 9])
        payload = raw[position + 9 : position + 9 + length]
        found.append((raw[position + 3], raw[position + 4], stream_id, payload))
        position += 9 + length
    return found


class TestRequests:
    def test_a_request_and_its_answer(self):
        pair = Pair()
        stream_id = pair.request()
        pair.client.send_data(stream_id, b"question", ends=True)
        pair.pump()
        [headers, data] = pair.take_at_server()
        assert headers.headers.fields == tuple(REQUEST)
        assert data == DataReceived(stream_id, b"question", True)
        pair.server.answer(stream_id, HEAD, b"answer", LAST)
        pair.pump()
        [headers, data, trailers] = pair.take_at_client()
        assert isinstance(headers, HeadersReceived)
        assert data == DataReceived(stream_id, b"answer", False)
        assert isinstance(trailers, TrailersReceived)
        assert trailers.headers.fields == ((b"grpc-status", b"0"),)
        assert pair.client.open_streams == pair.server.open_streams == 0

    def test_an_answer_that_is_one_block(self):
        pair = Pair()
        stream_id = pair.request(ends=True)
        pair.server.send_headers(stream_id, HEAD, ends=True)
        pair.pump()
        [headers] = pair.take_at_client()
        assert headers.ends
        assert pair.client.open_streams == 0

    def test_the_same_block_gives_the_same_list(self):
        pair = Pair()
        for _ in range(3):
            pair.request(ends=True)
        lists = [e.headers for e in pair.take_at_server() if isinstance(e, HeadersReceived)]
        assert lists[1] is lists[2]

    def test_long_headers_continue(self):
        pair = Pair(server_side=server(header_list_bytes_max=1 << 20))
        fields = [*REQUEST, *((b"x-%d" % n, b"v" * 500) for n in range(40))]
        stream_id = pair.client.request(fields, ends=True)
        kinds = [kind for kind, *_ in frames_of(output(pair.client))]
        assert kinds == [codes.HEADERS, codes.CONTINUATION]
        assert stream_id is not None

    def test_a_list_that_is_too_long_is_refused_and_the_connection_goes_on(self):
        pair = Pair(server_side=server(header_list_bytes_max=500))
        pair.client.request([*REQUEST, (b"x", b"v" * 500)], ends=True)
        pair.pump()
        assert pair.take_at_server() == [HeadersRefused(1)]
        pair.request(ends=True)
        assert isinstance(pair.take_at_server()[0], HeadersReceived)

    def test_trailers_of_a_request(self):
        pair = Pair()
        stream_id = pair.request()
        pair.client.send_data(stream_id, b"x")
        pair.client.send_trailers(stream_id, encode([(b"x", b"y")]))
        pair.pump()
        assert [type(e) for e in pair.take_at_server()] == [
            HeadersReceived,
            DataReceived,
            TrailersReceived,
        ]

    def test_informational_headers_are_passed_over(self):
        pair = Pair()
        stream_id = pair.request(ends=True)
        pair.server.send_headers(stream_id, encode([(b":status", b"100")]))
        pair.server.send_headers(stream_id, HEAD, ends=True)
        pair.pump()
        [headers] = pair.take_at_client()
        assert headers.headers.fields == ((b":status", b"200"),)


class TestWindows:
    def test_data_waits_for_the_window_of_its_stream(self):
        pair = Pair(server_side=server(stream_window=10))
        stream_id = pair.request()
        pair.client.send_data(stream_id, b"x" * 25, ends=True)
        pair.pump()
        assert data_of(pair.at_server, stream_id) == b"x" * 10
        assert pair.client.queued_bytes(stream_id) == 15
        pair.server.credit(stream_id, 100)
        pair.pump()
        assert data_of(pair.at_server, stream_id) == b"x" * 25
        assert StreamDrained(stream_id) in pair.at_client
        assert pair.at_server[-1].ends

    def test_streams_take_turns_at_the_connections_window(self):
        pair = Pair(server_side=server(stream_window=WINDOW * 4))
        one, two = pair.request(), pair.request()
        # Bytes that arrive are credited: so the server does not read for a while.
        pair.client.send_data(one, bytes(WINDOW))
        pair.client.send_data(two, bytes(WINDOW))
        pair.client.send_data(one, bytes(WINDOW))
        first = output(pair.client)
        assert len(first) < 2 * OUTPUT_BYTES_MAX
        assert pair.client.can_go_on
        pair.client.go_on()
        pair.at_server += pair.server.receive(first, 0.0)
        pair.pump()
        assert len(data_of(pair.at_server, one)) == 2 * WINDOW
        assert len(data_of(pair.at_server, two)) == WINDOW

    def test_a_stream_that_is_not_read_does_not_stop_the_others(self):
        pair = Pair(server_side=server(stream_window=WINDOW))
        stalled, other = pair.request(), pair.request()
        pair.client.send_data(stalled, bytes(3 * WINDOW))
        pair.pump()
        pair.client.send_data(other, b"here", ends=True)
        pair.pump()
        assert len(data_of(pair.at_server, stalled)) == WINDOW
        assert data_of(pair.at_server, other) == b"here"

    def test_data_of_refused_streams_gives_its_credit_back(self):
        pair = Pair(server_side=server(streams_max=1))
        kept = pair.request()
        # As one that has not read the server's settings yet.
        pair.client.peer.streams_max = 1_000
        for _ in range(100):
            stream_id = pair.client.request(REQUEST, ends=False)
            assert stream_id is not None
            pair.client.send_data(stream_id, bytes(60_000), ends=True)
            pair.pump()
        resets = [e for e in pair.at_client if isinstance(e, StreamReset)]
        assert {e.code for e in resets} == {ErrorCode.REFUSED_STREAM}
        assert len(resets) == 100
        pair.client.send_data(kept, b"still here", ends=True)
        pair.pump()
        assert data_of(pair.at_server, kept) == b"still here"

    def test_padding_is_credited_by_itself(self):
        pair = Pair(server_side=server(stream_window=100))
        stream_id = pair.request()
        padded = bytes((50,)) + b"data" + bytes(50)
        for _ in range(5):
            raw = frames.head(len(padded), codes.DATA, codes.PADDED, stream_id) + padded
            pair.at_server += pair.server.receive(raw, 0.0)
            pair.server.credit(stream_id, 4)
        assert data_of(pair.at_server, stream_id) == b"data" * 5
        assert pair.server.receive_window(stream_id) == 100

    def test_a_peer_that_sends_more_than_its_credit_loses_the_stream(self):
        pair = Pair(server_side=server(stream_window=10))
        stream_id = pair.request()
        raw = b"".join(frames.data(stream_id, b"x" * 11, ends=False))
        events = pair.server.receive(raw, 0.0)
        assert events == [StreamReset(stream_id, ErrorCode.FLOW_CONTROL_ERROR, by_peer=False)]

    def test_settings_move_the_windows_of_open_streams(self):
        pair = Pair(server_side=server(stream_window=10))
        stream_id = pair.request()
        pair.client.send_data(stream_id, b"x" * 10)
        pair.pump()
        pair.client.receive(frames.settings([(4, 4)]), 0.0)
        pair.client.send_data(stream_id, b"y" * 5)
        assert pair.client.queued_bytes(stream_id) == 5
        pair.client.receive(frames.settings([(4, 15)]), 0.0)
        assert pair.client.queued_bytes(stream_id) == 0

    def test_a_full_socket_holds_data_and_lets_control_pass(self):
        pair = Pair()
        stream_id = pair.request(ends=True)
        assert pair.server.hold(is_held=True) == []
        pair.server.answer(stream_id, HEAD, b"answer", LAST)
        pair.server.ping(b"12345678")
        pair.pump()
        assert not data_of(pair.at_client, stream_id)
        assert PingAnswered(b"12345678") in pair.at_server
        assert pair.server.hold(is_held=False) == [StreamDrained(stream_id)]
        pair.pump()
        assert data_of(pair.at_client, stream_id) == b"answer"
        assert pair.server.open_streams == 0


class TestEnds:
    def test_a_reset_by_the_caller(self):
        pair = Pair()
        stream_id = pair.request()
        pair.client.reset(stream_id, ErrorCode.CANCEL)
        pair.pump()
        assert pair.at_server[-1] == StreamReset(stream_id, ErrorCode.CANCEL, by_peer=True)
        # An answer that comes now is for nobody.
        pair.server.answer(stream_id, HEAD, b"late", LAST)
        assert output(pair.server) == b""

    def test_frames_on_their_way_when_a_stream_was_reset_are_ignored(self):
        pair = Pair()
        stream_id = pair.request()
        pair.client.send_data(stream_id, b"on its way")
        pair.server.reset(stream_id, ErrorCode.CANCEL)
        pair.take_at_server()
        pair.pump()
        assert pair.take_at_server() == []
        assert not pair.server.is_ended

    def test_a_broken_rule_ends_the_connection_with_its_reason(self):
        pair = Pair()
        raw = frames.head(7, codes.PING, 0, 0) + b"1234567"
        events = pair.server.receive(raw, 0.0)
        events += pair.server.receive(bytes(100), 0.0)
        [ended] = events
        assert ended == ConnectionEnded(ErrorCode.FRAME_SIZE_ERROR, "PING of another size")
        kind, _, _, payload = frames_of(output(pair.server))[-1]
        assert kind == codes.GOAWAY
        assert payload.endswith(b"PING of another size")
        assert pair.server.receive(bytes(100), 0.0) == []

    def test_the_client_opens_no_more_than_the_server_takes(self):
        pair = Pair(server_side=server(streams_max=2))
        assert [pair.client.request(REQUEST, ends=True) for _ in range(3)] == [1, 3, None]

    def test_settings_are_agreed(self):
        one, two = client(), server()
        events = two.receive(output(one), 0.0)
        assert events == []
        assert SettingsAgreed() in one.receive(output(two), 0.0)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (frames.head(5, codes.DATA, 0, 1) + b"12345", ErrorCode.PROTOCOL_ERROR),
        (frames.head(4, codes.RST_STREAM, 0, 7) + bytes(4), ErrorCode.PROTOCOL_ERROR),
        (frames.head(4, codes.WINDOW_UPDATE, 0, 7) + b"\0\0\0\1", ErrorCode.PROTOCOL_ERROR),
        (frames.head(4, codes.WINDOW_UPDATE, 0, 0) + bytes(4), ErrorCode.PROTOCOL_ERROR),
        (frames.window_update(0, codes.WINDOW_MAX), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.head(1, codes.SETTINGS, codes.ACK, 0) + b"1", ErrorCode.FRAME_SIZE_ERROR),
        (frames.settings([(4, 1 << 31)]), ErrorCode.FLOW_CONTROL_ERROR),
        (frames.settings([(5, 1)]), ErrorCode.PROTOCOL_ERROR),
        (frames.settings([(2, 2)]), ErrorCode.PROTOCOL_ERROR),
        (frames.head(4, codes.PUSH_PROMISE, 4, 1) + bytes(4), ErrorCode.PROTOCOL_ERROR),
        (frames.head(1, codes.CONTINUATION, 4, 1) + b"1", ErrorCode.PROTOCOL_ERROR),
        (frames.head(7, codes.GOAWAY, 0, 0) + bytes(7), ErrorCode.FRAME_SIZE_ERROR),
        (frames.head(16_385, codes.DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
        (frames.headers(2, encode(REQUEST), ends=True, size_max=100), ErrorCode.PROTOCOL_ERROR),
        (frames.headers(1, b"\x80", ends=True, size_max=100), ErrorCode.COMPRESSION_ERROR),
        (
            frames.head(3, codes.HEADERS, 0, 1) + bytes(3) + frames.ping(bytes(8), is_ack=False),
            ErrorCode.PROTOCOL_ERROR,
        ),
    ],
)  # fmt: skip
def test_rules_of_the_connection(raw, code):
    [ended] = Pair().server.receive(raw, 0.0)
    assert isinstance(ended, ConnectionEnded)
    assert ended.code == code


def test_a_preface_that_is_none():
    [ended] = server().receive(b"GET / HTTP/1.1\r\n\r\n", 0.0)
    assert ended.code == ErrorCode.PROTOCOL_ERROR


def test_bytes_may_come_one_by_one():
    one, two = client(), server()
    stream_id = one.request(REQUEST, ends=True)
    events = [e for byte in output(one) for e in two.receive(bytes((byte,)), 0.0)]
    assert [type(e) for e in events] == [HeadersReceived]
    assert events[0].stream_id == stream_id
