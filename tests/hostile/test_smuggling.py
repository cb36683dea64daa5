"""One connection of the HTTP port, and no doubt about where a request ends.

Each case hides `PUT /v1/projects/smuggled/topics/hidden` in what one reading takes for a body and
another for the next request. Either the whole is refused, or it is read in the one way that HTTP
says, and the hidden request is data.
"""

from __future__ import annotations

import re

import pytest

from hostile.victim import Victim

#: Nothing more was answered for so long.
QUIET_S = 0.5

HIDDEN = (
    b"PUT /v1/projects/smuggled/topics/hidden HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)
TARGET = b"POST /v1/projects/p/topics/none:publish HTTP/1.1\r\nHost: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(HIDDEN)


def exchange(victim: Victim, sent: bytes) -> list[int]:
    """Send bytes, and nothing more; the status codes of all that is answered.

    The connection stays open on our side: at its end, a request that waits would be dropped.
    """
    with victim.connect(http=True) as connection:
        connection.sendall(sent)
        answer = connection.recv(65_536)
        connection.settimeout(QUIET_S)
        try:
            while part := connection.recv(65_536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


REFUSED = {
    "two lengths": TARGET + JSON + b"Content-Length: 0\r\n" + LENGTH + b"\r\n" + HIDDEN,
    "two lengths in one": TARGET + JSON + b"Content-Length: 0, 5\r\n\r\n" + HIDDEN,
    "length and chunks": TARGET + JSON + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + HIDDEN,
    "chunks and length": TARGET + JSON + CHUNKED + LENGTH + b"\r\n0\r\n\r\n" + HIDDEN,
    "signed length": TARGET + JSON + b"Content-Length: +0\r\n\r\n" + HIDDEN,
    "negative length": TARGET + JSON + b"Content-Length: -1\r\n\r\n" + HIDDEN,
    "length in hex": TARGET + JSON + b"Content-Length: 0x0\r\n\r\n" + HIDDEN,
    "huge length": TARGET + JSON + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n" + HIDDEN,
    "space before the colon": TARGET + JSON + b"Content-Length : 5\r\n\r\n" + HIDDEN,
    "folded line": TARGET + JSON + b"X-A: b\r\n Content-Length: 5\r\n\r\n" + HIDDEN,
    "folded coding": TARGET + JSON + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "unknown coding": TARGET + JSON + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + HIDDEN,
    "chunked is not last": TARGET
    + JSON
    + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "coding with a control": TARGET
    + JSON
    + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"
    + HIDDEN,
    "chunk size is signed": TARGET + JSON + CHUNKED + b"\r\n-1\r\n\r\n" + HIDDEN,
    "chunk size is huge": TARGET + JSON + CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n" + HIDDEN,
    "chunk without its end": TARGET + JSON + CHUNKED + b"\r\n1\r\nxx0\r\n\r\n" + HIDDEN,
    "null in a header": TARGET + JSON + b"X-A: b\x00Content-Length: 5\r\n\r\n" + HIDDEN,
    "return in a header": TARGET + JSON + b"X-A: b\rContent-Length: 5\r\n\r\n" + HIDDEN,
}


@pytest.mark.parametrize("name", REFUSED)
def test_doubtful_requests_hide_nothing(victim: Victim, name: str) -> None:
    codes = exchange(victim, REFUSED[name])
    assert all(code >= 400 for code in codes), codes
    assert "projects/smuggled/topics/hidden" not in victim.topics("smuggled")
    # The next connection is served as ever.
    assert exchange(victim, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") == [200]


def test_a_request_without_a_version_is_the_last(victim: Victim) -> None:
    assert exchange(victim, b"GET /healthz\r\n\r\n" + HIDDEN) in ([], [200], [400])
    assert victim.topics("smuggled") == []


BARE = {
    "lines of LF alone": TARGET.replace(b"\r\n", b"\n") + b"Content-Length: 0\n\n",
    "a length hidden behind LF": TARGET + b"X-A: b\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("name", BARE)
def test_a_line_that_ends_in_lf_is_refused_or_a_line(victim: Victim, name: str) -> None:
    """HTTP allows either; both say that the length is 0 and no body follows."""
    codes = exchange(victim, BARE[name])
    assert len(codes) <= 1
    assert all(code >= 400 for code in codes)


def test_pipelined_requests_are_two(victim: Victim) -> None:
    """The hidden request does what it says where it is none: so these tests would see it."""
    sent = TARGET + JSON + b"Content-Length: 2\r\n\r\n{}" + HIDDEN
    assert exchange(victim, sent.replace(b"smuggled", b"shown")) == [400, 200]
    assert victim.topics("shown") == ["projects/shown/topics/hidden"]


def test_headers_without_end(victim: Victim) -> None:
    before = victim.memory()
    victim.forget_peak()
    with victim.connect(http=True, timeout_s=3.0) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for number in range(20_000):
                connection.sendall(b"X-%d: %s\r\n" % (number, b"a" * 1_000))
        except OSError:
            pass
        victim.still_serves()
        assert victim.peak() - before < 64 * 1024 * 1024
