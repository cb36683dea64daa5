"""What nodes write to each other is what they read."""

from __future__ import annotations

import pytest

from fanlog.cluster.link.call import read_trailers
from fanlog.cluster.link.handshake import Greeting, HandshakeRefused
from fanlog.cluster.link.http_messages import HttpAnswerHead, HttpRequest
from fanlog.cluster.link.internal import announce_verb, read_gone, write_announcement, write_gone
from fanlog.cluster.link.origin import read_certificate, write_certificate
from fanlog.errors import InvalidArgument
from fanlog.http2.header_list import HeaderList
from fanlog.transport.statuses import CallRefused

CERTIFICATE = {
    "subject": ((("commonName", "billing"),),),
    "subjectAltName": (("email", "ann@example.com"), ("DNS", "shop.example")),
    "notAfter": "Nov 19 12:00:00 2030 GMT",
    "version": 3,
}

NO_LIST = b'\0\0\0\x18{"status":1,"headers":2}'


def test_a_certificate():
    assert read_certificate(write_certificate(CERTIFICATE)) == CERTIFICATE


def test_a_certificate_that_no_header_has_room_for():
    with pytest.raises(InvalidArgument, match="call the owner itself"):
        write_certificate({"subjectAltName": (("DNS", "x" * 30_000),)})


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff"])
def test_rubbish_is_no_certificate(raw):
    with pytest.raises(ValueError):
        read_certificate(raw)


def test_a_request_of_http():
    request = HttpRequest(
        method="POST",
        scheme="https",
        raw_path=b"/a%2Fb/\xff",
        path="/a/b/ÿ",
        query_string=b"a=%20",
        headers=[(b"x-odd", b"\xff\x80"), (b"x-odd", b"")],
        body=b"\0\xff" * 100,
    )
    assert HttpRequest.read(request.write()) == request


def test_an_answer_of_http():
    head = HttpAnswerHead(status=207, headers=[(b"x-said", b"so"), (b"x-said", b"\xff")])
    assert HttpAnswerHead.read(head.write(b"piece")) == (head, b"piece")


@pytest.mark.parametrize(
    "raw", [b"", b"\0\0\0\4", b"\0\0\0\2[]", b"\0\0\0\2{}", b'\0\0\0\x0c{"status":1}', NO_LIST]
)
@pytest.mark.parametrize("kind", [HttpRequest, HttpAnswerHead])
def test_rubbish_of_http(kind, raw):
    with pytest.raises(CallRefused):
        kind.read(raw)


def test_numbers_of_callers():
    numbers = (1, 2**40, 0)
    assert read_gone(write_gone(numbers)) == numbers
    with pytest.raises(CallRefused):
        read_gone(b"123")


async def test_an_announcement():
    told: list[tuple[bytes, int]] = []

    def note(card: bytes, applied_offset: int) -> bytes:
        told.append((card, applied_offset))
        return b"so"

    verb = announce_verb(note)
    assert await verb(write_announcement(b"card", 2**40)) == b"so"
    assert told == [(b"card", 2**40)]
    with pytest.raises(CallRefused):
        await verb(b"1234567")


def test_greetings():
    greeting = Greeting(cluster="shop", node="a", nonce=bytes(32))
    assert Greeting.read(greeting.write()) == greeting
    greeting.check("shop")
    for wrong in ("office", "Shop", ""):
        with pytest.raises(HandshakeRefused):
            greeting.check(wrong)
    with pytest.raises(HandshakeRefused, match="no nonce"):
        Greeting(cluster="shop", node="a", nonce=b"short").check("shop")


@pytest.mark.parametrize(("text", "code"), [(b"0", 0), (b"16", 16), (b"17", 2), (b"x", 14)])
def test_statuses(text, code):
    fields = ((b"grpc-status", text), (b"x-said", b"so"), (b"x-said", b"and so"))
    status, metadata = read_trailers(HeaderList(fields, None))
    assert status.code == code
    assert metadata == (() if code == 14 else (("x-said", "so"), ("x-said", "and so")))
