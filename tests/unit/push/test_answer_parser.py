"""Answers of endpoints, parsed from bytes that come in any parts."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.push.rules.answer_parser import AnswerParser, BadAnswer, WebAnswer

OK = b"HTTP/1.1 200 OK\r\n"
REFUSED = b"HTTP/1.1 422 No\r\n"


def fed(*parts: bytes) -> AnswerParser:
    parser = AnswerParser()
    for part in parts:
        parser.feed(part)
    return parser


@pytest.mark.parametrize(
    ("answer", "status", "keeps_alive"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, True),
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 204, False),
        (OK + b"Content-Length: 2\r\n\r\nab", 200, True),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Trailer: 1\r\n\r\n", 200, True),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, True),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK
         + b"Content-Length: 0\r\n\r\n", 200, True),
        (b"HTTP/1.1 101 Other\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x81\x00", 101, False),
        (b"HTTP/1.1 101 Switching\r\n\r\n", 101, False),
        # Servers that write no CR.
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_whole", [True, False])
def test_an_answer_is_complete(answer, status, keeps_alive, is_whole):
    parts = [answer] if is_whole else [answer[at : at + 1] for at in range(len(answer))]
    parser = AnswerParser()
    for part in parts:
        if parser.is_complete:
            # The connection is closed by then.
            break
        parser.feed(part)
    assert parser.is_complete
    assert parser.status == status
    assert parser.keeps_alive == keeps_alive


def test_headers_and_first_bytes_of_a_refusal():
    parser = fed(
        b"HTTP/1.1 103 Hints\r\nRetry-After: 99\r\n\r\n",
        REFUSED + b"RETRY-AFTER: 7\r\ncontent-type: text/plain\r\nContent-Encoding: gzip\r\n",
        b"Content-Length: 5\r\n\r\nno",
    )
    assert parser.has_head
    assert not parser.is_complete
    parser.feed(b"way")
    assert parser.answer() == WebAnswer(422, "7", "text/plain", "gzip", b"noway")


def test_a_trailer_is_no_header():
    parser = fed(
        REFUSED + b"Transfer-Encoding: chunked\r\n\r\n0\r\nRetry-After: 7\r\n\r\n",
    )
    assert parser.answer().retry_after is None


def test_a_body_without_a_length_lasts_until_the_connection_ends():
    parser = fed(REFUSED + b"\r\nno")
    assert parser.has_head
    assert not parser.is_complete
    parser.end()
    assert parser.answer().first == b"no"
    assert not parser.keeps_alive


def test_of_a_long_body_little_is_kept_and_the_connection_is_not_used_again():
    parser = fed(REFUSED + b"Content-Length: 999999999\r\n\r\n")
    fed_bytes = 0
    while not parser.is_complete:
        parser.feed(b"x" * 1_000)
        fed_bytes += 1_000
    assert fed_bytes <= limits.PUSH_ANSWER_BYTES_MAX + 1_000
    assert parser.answer().first == b"x" * limits.PUSH_ANSWER_KEPT_BYTES
    assert not parser.keeps_alive
    assert fed(OK + b"Content-Length: 2\r\n\r\nab").answer().first == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"\x16\x03\x01\x00\x00",
        b"220 smtp.example.org ESMTP\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length: 99999999999999999999999\r\n\r\n",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_no_status_can_be_had_of_it(answer):
    with pytest.raises(BadAnswer):
        fed(answer)


@pytest.mark.parametrize(
    "part", [b"X-A: " + b"a" * 1_000 + b"\r\n", b"a" * 1_000, b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_a_head_without_end_is_refused(part):
    parser = AnswerParser()
    if b"HTTP" not in part:
        parser.feed(OK + b"X-B: ")
    for _ in range(limits.PUSH_ANSWER_HEAD_BYTES_MAX // len(part) - 1):
        parser.feed(part)
    with pytest.raises(BadAnswer, match="too long"):
        parser.feed(part * 2)


@pytest.mark.parametrize(
    "more", [b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b"HTTP/1.1 4", b"rubbish", b"x"]
)
def test_bytes_behind_an_answer_change_nothing_but_end_the_connection(more):
    answer = REFUSED + b"Retry-After: 7\r\nContent-Length: 2\r\n\r\nno"
    parser = fed(answer + more)
    assert parser.is_complete
    assert parser.answer() == WebAnswer(422, "7", "", "", b"no")
    assert not parser.keeps_alive


def test_a_broken_body_leaves_the_status():
    parser = fed(REFUSED + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert parser.is_complete
    assert parser.status == 422
    assert not parser.keeps_alive


def test_answers_on_one_connection_share_nothing():
    parser = fed(REFUSED + b"Retry-After: 7\r\nContent-Length: 2\r\n\r\nno")
    assert parser.keeps_alive
    parser.begin()
    assert not parser.has_bytes
    parser.feed(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
    assert parser.answer() == WebAnswer(503, None, "", "", b"")
    assert parser.keeps_alive
