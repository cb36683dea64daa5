"""Floods of HTTP/2 frames: others are served meanwhile, and memory stays bounded."""

from __future__ import annotations

import pytest

from hostile import http2
from hostile.http2 import (
    CALL,
    CANCEL,
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)
from hostile.victim import MEMORY_MAX, Victim

START = PREFACE + frame(SETTINGS, 0, 0)
#: Streams are numbered by odd numbers.
STREAMS = range(1, 20_000, 2)


def rapid_resets() -> list[bytes]:
    return [
        frame(HEADERS, END_HEADERS, stream, CALL) + frame(RST_STREAM, 0, stream, CANCEL)
        for stream in STREAMS
    ]


def open_streams() -> list[bytes]:
    """Calls that never send their request."""
    return [frame(HEADERS, END_HEADERS, stream, CALL) for stream in STREAMS]


def pings() -> list[bytes]:
    return [frame(PING, 0, 0, bytes(8)) * 1_000] * 200


def settings() -> list[bytes]:
    """The same setting over and over; each wants an answer, which is never read."""
    return [frame(SETTINGS, 0, 0, b"\x00\x04\x00\x00\xff\xff" * 10) * 1_000] * 50


def empty_settings() -> list[bytes]:
    return [frame(SETTINGS, 0, 0) * 1_000] * 200


def continuations() -> list[bytes]:
    """Headers that never end: 32 MiB of them."""
    more = frame(CONTINUATION, 0, 1, http2.literal(b"x-" + b"a" * 20, b"b" * 100) * 100)
    return [frame(HEADERS, 0, 1, CALL), *[more] * 2_500]


def empty_continuations() -> list[bytes]:
    return [frame(HEADERS, 0, 1, CALL), *[frame(CONTINUATION, 0, 1) * 1_000] * 200]


def table_sizes() -> list[bytes]:
    """A header table of the largest size, filled again and again by one byte each."""
    entry = b"\x40\x0ax-filling-\x7f\x81\x1e" + b"v" * 4_000
    block = CALL + entry + b"\xbe" * 200
    return [
        frame(HEADERS, END_HEADERS | END_STREAM, stream, block) for stream in range(1, 2_000, 2)
    ]


def window_updates() -> list[bytes]:
    return [frame(WINDOW_UPDATE, 0, 0, b"\x00\x00\x00\x01") * 1_000] * 200


@pytest.mark.parametrize(
    "attack",
    [
        rapid_resets,
        open_streams,
        pings,
        settings,
        empty_settings,
        continuations,
        empty_continuations,
        table_sizes,
        window_updates,
    ],
)
def test_others_are_served_and_memory_is_bounded(victim: Victim, attack) -> None:
    victim.still_serves()
    before = victim.memory()
    victim.forget_peak()
    sent = [START, *attack()]
    # gRPC keeps headers that never end, as they come: they cost a few times what they weigh.
    most = max(MEMORY_MAX, 4 * sum(map(len, sent))) if attack is continuations else MEMORY_MAX
    with victim.connect(timeout_s=3.0) as connection:
        http2.send_all(connection, sent)
        # The connection is still open on our side: nothing is let go because we left.
        victim.still_serves()
        assert victim.peak() - before < most
    victim.still_serves()


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
