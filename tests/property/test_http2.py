"""Two connections under any mix of actions: data arrives whole, in order, once; no bug asserts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fanlog.http2.codes import ErrorCode
from fanlog.http2.connection import Http2Connection
from fanlog.http2.events import (
    ConnectionEnded,
    DataReceived,
    HeadersReceived,
    StreamReset,
    TrailersReceived,
)
from fanlog.http2.header_blocks import encode
from fanlog.http2.settings import Http2Settings
from unit.http2.pair import REQUEST, Pair, output

HEAD, LAST = encode([(b":status", b"200")]), encode([(b"grpc-status", b"0")])


class Talk(RuleBasedStateMachine):
    """A client and a server; bytes are carried in portions, credit is given by chance."""

    def __init__(self) -> None:
        super().__init__()
        self.client = Http2Connection(
            "client", Http2Settings(stream_window=50), window=70_000, now=0.0
        )
        self.server = Http2Connection(
            "server", Http2Settings(stream_window=40, streams_max=3), window=70_000, now=0.0
        )
        self.up, self.down = bytearray(), bytearray()
        #: Sent and received, by side and stream.
        self.sent: dict[tuple[str, int], bytes] = {}
        self.got: dict[tuple[str, int], bytes] = {}
        self.opened: list[int] = []
        self.seen: set[int] = set()
        self.answering: set[int] = set()
        self.over: set[int] = set()
        self.ended: set[tuple[str, int]] = set()

    @rule()
    def open(self) -> None:
        stream_id = self.client.request(REQUEST, ends=False)
        if stream_id is not None:
            self.opened.append(stream_id)

    @precondition(lambda self: self.opened)
    @rule(data=st.data(), content=st.binary(max_size=120), ends=st.booleans())
    def ask(self, data, content, ends) -> None:
        stream_id = data.draw(st.sampled_from(self.opened))
        if ("client", stream_id) in self.ended or not self.client.is_open(stream_id):
            return
        self.client.send_data(stream_id, content, ends=ends)
        self.sent["client", stream_id] = self.sent.get(("client", stream_id), b"") + content
        if ends:
            self.ended.add(("client", stream_id))

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), content=st.binary(max_size=120), ends=st.booleans())
    def answer(self, data, content, ends) -> None:
        stream_id = data.draw(st.sampled_from(sorted(self.seen)))
        if ("server", stream_id) in self.ended or not self.server.is_open(stream_id):
            return
        if stream_id not in self.answering:
            self.answering.add(stream_id)
            self.server.send_headers(stream_id, HEAD)
        self.server.send_data(stream_id, content)
        self.sent["server", stream_id] = self.sent.get(("server", stream_id), b"") + content
        if ends:
            self.ended.add(("server", stream_id))
            self.server.send_trailers(stream_id, LAST)

    @precondition(lambda self: self.opened)
    @rule(data=st.data(), by_client=st.booleans())
    def reset(self, data, by_client) -> None:
        stream_id = data.draw(st.sampled_from(self.opened))
        (self.client if by_client else self.server).reset(stream_id, ErrorCode.CANCEL)
        self.over.add(stream_id)

    @precondition(lambda self: self.opened)
    @rule(data=st.data(), size=st.integers(1, 200), at_client=st.booleans())
    def credit(self, data, size, at_client) -> None:
        stream_id = data.draw(st.sampled_from(self.opened))
        (self.client if at_client else self.server).credit(stream_id, size)

    @rule(is_held=st.booleans(), at_client=st.booleans())
    def hold(self, is_held, at_client) -> None:
        (self.client if at_client else self.server).hold(is_held=is_held)

    @rule(size=st.integers(1, 300))
    def carry(self, size) -> None:
        self.up += output(self.client)
        self.down += output(self.server)
        self._take("client", self.server.receive(bytes(self.up[:size]), 0.0))
        del self.up[:size]
        self._take("server", self.client.receive(bytes(self.down[:size]), 0.0))
        del self.down[:size]
        self._take("client", self.server.go_on())
        self._take("server", self.client.go_on())

    def _take(self, sender: str, events) -> None:
        for event in events:
            assert not isinstance(event, ConnectionEnded), event
            if isinstance(event, HeadersReceived) and sender == "client":
                self.seen.add(event.stream_id)
            elif isinstance(event, DataReceived):
                key = (sender, event.stream_id)
                self.got[key] = self.got.get(key, b"") + event.data
                if event.ends:
                    assert self.got[key] == self.sent.get(key, b"")
            elif isinstance(event, TrailersReceived):
                key = (sender, event.stream_id)
                assert self.got.get(key, b"") == self.sent.get(key, b"")
            elif isinstance(event, StreamReset):
                self.over.add(event.stream_id)

    @invariant()
    def data_is_a_beginning_of_what_was_sent(self) -> None:
        for key, got in self.got.items():
            assert self.sent.get(key, b"").startswith(got)

    def teardown(self) -> None:
        """With credit for all, everything that was not reset arrives."""
        for side in (self.client, self.server):
            side.hold(is_held=False)
        for _ in range(200):
            for stream_id in self.opened:
                self.client.credit(stream_id, 500)
                self.server.credit(stream_id, 500)
            self.carry(1 << 20)
        for (side, stream_id), sent in self.sent.items():
            if stream_id not in self.over:
                assert self.got.get((side, stream_id), b"") == sent


TestTalk = Talk.TestCase
TestTalk.settings = settings(max_examples=60, stateful_step_count=40)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_any_bytes_end_in_events_or_in_go_away(parts):
    pair = Pair()
    pair.request()
    for part in parts:
        pair.server.receive(part, 0.0)
    output(pair.server)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 11), st.integers(0, 255), st.integers(0, 9), st.binary(max_size=20)
        ),
        max_size=20,
    )
)
def test_any_frames_end_in_events_or_in_go_away(drawn):
    pair = Pair()
    pair.request()
    answered = set()
    for kind, flags, stream_id, payload in drawn:
        head = len(payload).to_bytes(3) + bytes((kind, flags)) + stream_id.to_bytes(4)
        pair.server.receive(head + payload, 0.0)
        if stream_id not in answered and pair.server.is_open(stream_id):
            answered.add(stream_id)
            pair.server.answer(stream_id, HEAD, b"x", LAST)
    output(pair.server)
