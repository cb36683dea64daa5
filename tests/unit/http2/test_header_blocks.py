"""HPACK: our decoder reads what the library writes, and the library what we write."""

from __future__ import annotations

from contextlib import suppress

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.http2.codes import ErrorCode, Fault
from fanlog.http2.header_blocks import HeaderDecoder, TooManyHeaders, encode
from fanlog.http2.header_list import HeaderList

#: Few of them, so that they come again and the tables are used.
NAMES = st.sampled_from([b":path", b"x-a", b"x-b", b"content-type", b"grpc-timeout", b"te"])
VALUES = st.binary(max_size=40) | st.sampled_from([b"/", b"trailers", b"v" * 300, b""])
LISTS = st.lists(st.lists(st.tuples(NAMES, VALUES), max_size=8), max_size=8)


def fields(found: HeaderList) -> list[tuple[bytes, bytes]]:
    return list(found.fields)


@given(LISTS, st.booleans(), st.sampled_from([0, 64, 256, 4096]))
def test_blocks_of_the_library_are_read(lists, huffman, table_bytes):
    encoder, decoder = hpack.Encoder(), HeaderDecoder(1 << 20)
    encoder.header_table_size = table_bytes
    for headers in lists:
        block = encoder.encode(headers, huffman=huffman)
        # Twice where that changes nothing: the second time it is known.
        assert fields(decoder.decode(block)) == headers


@given(LISTS)
def test_our_blocks_are_read_by_the_library(lists):
    decoder = hpack.Decoder()
    for headers in lists:
        assert decoder.decode(encode(headers), raw=True) == headers
        assert fields(HeaderDecoder(1 << 20).decode(encode(headers))) == headers


@given(st.binary(max_size=60))
def test_rubbish_is_a_fault_or_headers(block):
    decoder = HeaderDecoder(1 << 16)
    with suppress(Fault):
        decoder.decode(block)


def test_a_known_block_is_forgotten_when_the_table_changes():
    encoder, decoder = hpack.Encoder(), HeaderDecoder(1 << 16)
    decoder.decode(encoder.encode([(b"x-a", b"1")]))
    block = encoder.encode([(b"x-a", b"1")])
    assert decoder.decode(block) is decoder.decode(block)
    decoder.decode(encoder.encode([(b"x-b", b"2")]))
    # The same bytes say something else now: the table has moved on.
    assert fields(decoder.decode(block)) == [(b"x-b", b"2")]


def test_a_list_that_is_too_long_leaves_the_table_in_order():
    encoder, decoder = hpack.Encoder(), HeaderDecoder(200)
    with pytest.raises(TooManyHeaders):
        decoder.decode(encoder.encode([(b"x-a", b"1"), (b"x-b", b"v" * 200)]))
    assert fields(decoder.decode(encoder.encode([(b"x-a", b"1")]))) == [(b"x-a", b"1")]


@pytest.mark.parametrize("entry_bytes", [4_000])
def test_a_bomb_of_indices_is_counted_and_not_kept(entry_bytes):
    encoder, decoder = hpack.Encoder(), HeaderDecoder(16 * 1024)
    decoder.decode(encoder.encode([(b"x", b"v" * entry_bytes)]))
    with pytest.raises(TooManyHeaders):
        decoder.decode(b"\xbe" * 30_000)


@pytest.mark.parametrize(
    "block",
    [b"\x80", b"\xff" * 5 + b"\x7f", b"\x40\x05ab", b"\x82\x20", b"\x3f\xff\xff\x7f", b"\xc0"],
    ids=["index 0", "a long number", "cut", "size behind a header", "too large", "no entry"],
)  # fmt: skip
def test_blocks_that_are_none(block):
    with pytest.raises(Fault) as caught:
        HeaderDecoder(1 << 16).decode(block)
    assert caught.value.code == ErrorCode.COMPRESSION_ERROR


@pytest.mark.parametrize(
    ("headers", "fault"),
    [
        ([(b"X", b"y")], "a name that is none"),
        ([(b"", b"y")], "a name that is none"),
        ([(b"x", b"a\nb")], "a value with a character that none has"),
        ([(b"connection", b"close")], "a header of the connection"),
        ([(b"te", b"gzip")], "te with anything but trailers"),
        ([(b":path", b"")], "an empty path"),
        ([(b"x", b"y"), (b":path", b"/")], "a pseudo-header behind others"),
        ([(b":status", b"200")], "a pseudo-header that no request has"),
        ([(b":path", b"/"), (b":path", b"/")], "a pseudo-header twice"),
        ([(b":method", b"CONNECT")], "CONNECT, which nothing here serves"),
        ([(b":path", b"/")], "a pseudo-header is missing"),
    ],
)
def test_requests_that_are_none(headers, fault):
    if fault == "an empty path":
        headers = [(b":method", b"GET"), (b":scheme", b"http"), *headers]
    assert HeaderDecoder(1 << 16).decode(encode(headers)).request_fault() == fault
