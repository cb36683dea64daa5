"""Floods and bombs of HTTP/2: each ends its connection as RFC 9113 says, is counted and bounded."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from hostile import http2
from hostile.http2 import (
    CALL,
    CANCEL,
    COMPRESSION_ERROR,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    RST_STREAM,
    SETTINGS,
    START,
    WINDOW_UPDATE,
    frame,
)
from hostile.victim import MEMORY_MAX, Victim

NAMES = {
    PROTOCOL_ERROR: "PROTOCOL_ERROR",
    FLOW_CONTROL_ERROR: "FLOW_CONTROL_ERROR",
    FRAME_SIZE_ERROR: "FRAME_SIZE_ERROR",
    COMPRESSION_ERROR: "COMPRESSION_ERROR",
    ENHANCE_YOUR_CALM: "ENHANCE_YOUR_CALM",
}
#: Streams are numbered by odd numbers.
STREAMS = range(1, 20_000, 2)
OPEN = frame(HEADERS, END_HEADERS, 1, CALL)
WINDOW_MAX = struct.pack(">I", 2**31 - 1)


def rapid_resets() -> list[bytes]:
    return [
        frame(HEADERS, END_HEADERS, stream, CALL) + frame(RST_STREAM, 0, stream, CANCEL)
        for stream in STREAMS
    ]


def resets_of_ours() -> list[bytes]:
    """Calls that break a rule at once, so that the server resets them."""
    return [
        frame(HEADERS, END_HEADERS, stream, CALL) + frame(WINDOW_UPDATE, 0, stream, bytes(4))
        for stream in STREAMS
    ]


def pings() -> list[bytes]:
    return [frame(PING, 0, 0, bytes(8)) * 1_000] * 200


def settings() -> list[bytes]:
    """The same setting over and over; each wants an answer."""
    return [frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff" * 10) * 1_000] * 50


def empty_settings() -> list[bytes]:
    return [frame(SETTINGS, 0, 0) * 1_000] * 200


def settings_that_were_agreed() -> list[bytes]:
    return [frame(SETTINGS, 1, 0) * 1_000] * 200


def empty_data() -> list[bytes]:
    return [OPEN, *[frame(DATA, 0, 1) * 1_000] * 200]


def slow_body() -> list[bytes]:
    """A message of 20 MB, a byte at a time."""
    first = frame(DATA, 0, 1, b"\0" + struct.pack(">I", 20_000_000))
    return [OPEN, first, *[frame(DATA, 0, 1, b"x") * 1_000] * 200]


def padding() -> list[bytes]:
    """Data that is nothing but padding."""
    return [OPEN, *[frame(DATA, PADDED, 1, b"\xff" + bytes(255)) * 100] * 200]


def more_padding_than_there_is_room() -> list[bytes]:
    return [OPEN, frame(DATA, PADDED, 1, b"\x05" + bytes(4))]


def priorities() -> list[bytes]:
    return [frame(PRIORITY, 0, 3, bytes(5)) * 1_000] * 200


def unknown_frames() -> list[bytes]:
    return [frame(0x77, 0, 0, bytes(10)) * 1_000] * 200


def continuations() -> list[bytes]:
    """Headers that never end: 32 MiB of them."""
    more = frame(CONTINUATION, 0, 1, http2.literal(b"x-" + b"a" * 20, b"b" * 100) * 100)
    return [frame(HEADERS, 0, 1, CALL), *[more] * 2_500]


def empty_continuations() -> list[bytes]:
    return [frame(HEADERS, 0, 1, CALL), *[frame(CONTINUATION, 0, 1) * 1_000] * 200]


def ten_megabytes_in_one_header() -> list[bytes]:
    """Its length is announced: 10,000,000 bytes of value."""
    begin = CALL + b"\x00\x03x-y\x7f\x81\xac\xe2\x04"
    more = frame(CONTINUATION, 0, 1, b"v" * 16_000)
    return [frame(HEADERS, 0, 1, begin), *[more] * 625]


def header_bombs() -> list[bytes]:
    """An entry of 4,000 bytes, then a byte for each time it is named again: 64 MB a block."""
    entry = b"\x40\x0ax-filling-\x7f\xa1\x1e" + b"v" * 4_000
    block = CALL + entry + b"\xbe" * 12_000
    return [
        frame(HEADERS, END_HEADERS | END_STREAM, stream, block) for stream in range(1, 1_000, 2)
    ]


def table_sizes() -> list[bytes]:
    """The table is resized thousands of times a block; then beyond what was agreed."""
    resized = (b"\x20" + b"\x3f\xe1\x1f") * 4_000 + CALL
    blocks = [frame(HEADERS, END_HEADERS, stream, resized) for stream in range(1, 100, 2)]
    return [*blocks, frame(HEADERS, END_HEADERS, 101, b"\x3f\xe2\x1f" + CALL)]


def open_streams() -> list[bytes]:
    """Calls that never send their request."""
    return [frame(HEADERS, END_HEADERS, stream, CALL) for stream in STREAMS]


def window_updates() -> list[bytes]:
    return [frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01") * 1_000] * 200


def window_overflow() -> list[bytes]:
    return [frame(WINDOW_UPDATE, 0, 0, WINDOW_MAX)]


def window_overflow_by_settings() -> list[bytes]:
    """A stream's window is moved by settings, beyond its largest."""
    moved = frame(SETTINGS, 0, 0, b"\x00\x04" + WINDOW_MAX)
    return [OPEN, frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 1_000)), moved]


def a_frame_that_is_too_long() -> list[bytes]:
    return [b"\xff\xff\xff" + frame(DATA, 0, 1)[3:]]


def go_aways() -> list[bytes]:
    return [frame(GOAWAY, 0, 0, bytes(8)) * 1_000] * 20


ATTACKS: dict[Callable[[], list[bytes]], int] = {
    rapid_resets: ENHANCE_YOUR_CALM,
    resets_of_ours: ENHANCE_YOUR_CALM,
    pings: ENHANCE_YOUR_CALM,
    settings: ENHANCE_YOUR_CALM,
    empty_settings: ENHANCE_YOUR_CALM,
    settings_that_were_agreed: ENHANCE_YOUR_CALM,
    empty_data: ENHANCE_YOUR_CALM,
    slow_body: ENHANCE_YOUR_CALM,
    padding: ENHANCE_YOUR_CALM,
    more_padding_than_there_is_room: PROTOCOL_ERROR,
    priorities: ENHANCE_YOUR_CALM,
    unknown_frames: ENHANCE_YOUR_CALM,
    continuations: ENHANCE_YOUR_CALM,
    empty_continuations: ENHANCE_YOUR_CALM,
    ten_megabytes_in_one_header: ENHANCE_YOUR_CALM,
    header_bombs: ENHANCE_YOUR_CALM,
    table_sizes: COMPRESSION_ERROR,
    open_streams: ENHANCE_YOUR_CALM,
    window_updates: ENHANCE_YOUR_CALM,
    window_overflow: FLOW_CONTROL_ERROR,
    window_overflow_by_settings: FLOW_CONTROL_ERROR,
    a_frame_that_is_too_long: FRAME_SIZE_ERROR,
    go_aways: ENHANCE_YOUR_CALM,
}
FAULTS = "fanlog_connection_faults_total"


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_connection_ends_and_others_are_served(
    victim: Victim, attack: Callable[[], list[bytes]]
) -> None:
    code = ATTACKS[attack]
    victim.still_serves()
    counted, before = victim.count(FAULTS, NAMES[code]), victim.memory()
    victim.forget_peak()
    with victim.connect() as connection:
        found = http2.talk(connection, [START, *attack()], lambda one: one.kind == GOAWAY)
        victim.still_serves()
    assert found[-1].kind == GOAWAY
    assert found[-1].code == code, found[-1].payload
    assert victim.count(FAULTS, NAMES[code]) == counted + 1
    assert victim.peak() - before < MEMORY_MAX


@pytest.mark.parametrize(
    "attack", [attack for attack, code in ATTACKS.items() if code == ENHANCE_YOUR_CALM]
)
def test_a_flood_of_a_peer_that_never_reads(
    victim: Victim, attack: Callable[[], list[bytes]]
) -> None:
    """Its answers pile up: at most a few hundred KiB of them, and then nothing more is read."""
    victim.still_serves()
    before = victim.memory()
    victim.forget_peak()
    with victim.connect(timeout_s=3.0) as connection:
        http2.send_all(connection, [START, *attack()])
        # The connection is still open on our side: nothing is let go because we left.
        victim.still_serves()
        assert victim.peak() - before < MEMORY_MAX


def test_streams_past_the_limit_are_refused_before_the_flood_ends(victim: Victim) -> None:
    refused = victim.count("fanlog_grpc_streams_refused_total")
    with victim.connect() as connection:
        found = http2.talk(connection, [START, *open_streams()], lambda one: one.kind == GOAWAY)
    resets = [one for one in found if one.kind == RST_STREAM]
    assert {one.code for one in resets} == {REFUSED_STREAM}
    assert victim.count("fanlog_grpc_streams_refused_total") == refused + len(resets) > refused
    # The first was not: the limit is far above it.
    assert min(one.stream for one in resets) > 2_000


def test_header_bombs_are_refused_one_by_one_before(victim: Victim) -> None:
    given_up = victim.count("fanlog_requests_given_up_total", "too_long")
    with victim.connect() as connection:
        # Answers to what came with the last straw follow GOAWAY.
        found = http2.talk(connection, [START, *header_bombs()], lambda _: False)
    answers = [one for one in found if one.kind == HEADERS]
    assert all(b"431" in one.payload for one in answers)
    assert victim.count("fanlog_requests_given_up_total", "too_long") == given_up + len(answers)
    assert 10 < len(answers) < 100


def test_many_connections_that_say_nothing(victim: Victim) -> None:
    before = victim.memory()
    connections = [victim.connect() for _ in range(300)]
    try:
        for number, connection in enumerate(connections):
            connection.sendall(PREFACE[: number % len(PREFACE)])
        victim.still_serves()
        assert victim.memory() - before < MEMORY_MAX
    finally:
        for connection in connections:
            connection.close()
