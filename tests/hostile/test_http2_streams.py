"""One stream that breaks a rule is reset and counted; what is only unusual is served."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from hostile import http2
from hostile.http2 import (
    CALL,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    HEADERS,
    PADDED,
    PING,
    PRIORITY,
    PROTOCOL_ERROR,
    REQUEST,
    RST_STREAM,
    START,
    WINDOW_UPDATE,
    WITH_PRIORITY,
    Frame,
    frame,
)
from hostile.test_http2_floods import NAMES, OPEN, WINDOW_MAX
from hostile.victim import Victim

TRAILERS = http2.literal(b"x-last", b"word")
BROKEN = {
    "window overflow": ([OPEN, frame(WINDOW_UPDATE, 0, 1, WINDOW_MAX)], FLOW_CONTROL_ERROR),
    "an update of 0": ([OPEN, frame(WINDOW_UPDATE, 0, 1, bytes(4))], PROTOCOL_ERROR),
    "depends on itself": ([frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 0))], PROTOCOL_ERROR),
    "a short priority": ([frame(PRIORITY, 0, 1, bytes(4))], FRAME_SIZE_ERROR),
    "trailers that do not end": (
        [OPEN, frame(HEADERS, END_HEADERS, 1, TRAILERS)],
        PROTOCOL_ERROR,
    ),
    "trailers with a path": (
        [OPEN, frame(HEADERS, END_HEADERS | END_STREAM, 1, http2.literal(b":path", b"/"))],
        PROTOCOL_ERROR,
    ),
    "another length": (
        [
            frame(HEADERS, END_HEADERS, 1, CALL + http2.literal(b"content-length", b"3")),
            frame(DATA, END_STREAM, 1, b"four"),
        ],
        PROTOCOL_ERROR,
    ),
    "a header in capitals": (
        [frame(HEADERS, END_HEADERS, 1, CALL + http2.literal(b"X-Y", b""))],
        PROTOCOL_ERROR,
    ),
    "a header of the connection": (
        [frame(HEADERS, END_HEADERS, 1, CALL + http2.literal(b"connection", b"close"))],
        PROTOCOL_ERROR,
    ),
    "no path": ([frame(HEADERS, END_HEADERS, 1, b"\x83\x86")], PROTOCOL_ERROR),
}
PROBE = frame(PING, 0, 0, b"a probe.")


def is_probe(one: Frame) -> bool:
    return (one.kind, one.payload) == (PING, b"a probe.")


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_ends_one_stream(victim: Victim, name: str) -> None:
    parts, code = BROKEN[name]
    counted = victim.count("fanlog_stream_faults_total", NAMES[code])
    good = frame(HEADERS, END_HEADERS, 3, CALL) + frame(DATA, END_STREAM, 3, REQUEST)
    with victim.connect() as connection:
        found = http2.talk(
            connection,
            [START, *parts, good, PROBE],
            lambda one: one.kind == HEADERS and bool(one.flags & END_STREAM),
        )
    resets = [one for one in found if one.kind == RST_STREAM]
    assert [(one.stream, one.code) for one in resets] == [(1, code)]
    # The other stream of the connection is served.
    assert b"grpc-status\x010" in found[-1].payload
    assert found[-1].stream == 3
    assert victim.count("fanlog_stream_faults_total", NAMES[code]) == counted + 1


def test_priorities_and_padding_and_trailers_are_served(victim: Victim) -> None:
    """All of them at once: who sends them breaks no rule."""
    priority = struct.pack(">IB", 7, 200)
    padded = b"\x09" + priority + CALL + bytes(9)
    parts = [
        frame(PRIORITY, 0, 5, priority),
        frame(HEADERS, END_HEADERS | PADDED | WITH_PRIORITY, 1, padded),
        frame(DATA, PADDED, 1, b"\x20" + REQUEST[:7] + bytes(32)),
        frame(DATA, PADDED, 1, b"\xff" + REQUEST[7:] + bytes(255)),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, TRAILERS),
    ]
    with victim.connect() as connection:
        found = http2.talk(
            connection,
            [START, *parts],
            lambda one: bool(one.flags & END_STREAM) and one.kind == HEADERS,
        )
    assert b"grpc-status\x010" in found[-1].payload
    assert not [one for one in found if one.kind == RST_STREAM]


@pytest.mark.parametrize("is_abrupt", [False, True], ids=["half-closed", "reset"])
def test_connections_that_are_half_open_are_let_go(victim: Victim, is_abrupt: bool) -> None:
    """Callers that leave in the middle of a message."""
    before = victim.count("fanlog_connections", "grpc")
    half = OPEN + frame(DATA, 0, 1, b"\0" + struct.pack(">I", 1_000_000) + bytes(10_000))
    connections = [victim.connect() for _ in range(50)]
    for connection in connections:
        connection.sendall(START + half + PROBE)
        while b"a probe." not in connection.recv(1 << 16):
            pass
    assert victim.count("fanlog_connections", "grpc") >= before + 50
    for connection in connections:
        if is_abrupt:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        else:
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(1 << 16):
                pass
    late_s = time.monotonic() + 10
    while victim.count("fanlog_connections", "grpc") > before:
        assert time.monotonic() < late_s
    for connection in connections:
        connection.close()
