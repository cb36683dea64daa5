"""Headers of forwarded calls: what travels, and blocks that are the same for the same caller."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.cluster.link import heads
from fanlog.cluster.link.heads import HeadBlocks, introduce, write_head, write_timeout
from fanlog.http2.header_blocks import HeaderDecoder
from fanlog.transport.timeouts import parse_timeout

METADATA = (("x-asked", "this"), ("x-raw-bin", b"\0\1"), ("x-odd", "a\ufffdb"))


def fields(block: bytes) -> list[tuple[bytes, bytes]]:
    found = HeaderDecoder(1 << 20).decode(block)
    assert found.request_fault() is None
    return list(found.fields)


def test_a_head_has_what_its_caller_sent():
    block = write_head("/t.T/Echo", METADATA, "Bearer x", b"10S", introduce(7, "10.0.0.1", b"{}"))
    found = dict(fields(block))
    assert found[b":path"] == b"/t.T/Echo"
    assert found[b"authorization"] == b"Bearer x"
    assert found[b"grpc-timeout"] == b"10S"
    assert (found[b"x-asked"], found[b"x-raw-bin"], found[b"x-odd"]) == (b"this", b"AAE", b"a\xffb")
    assert found[b"fanlog-link-caller"] == b"7"
    assert found[b"fanlog-link-address"] == b"10.0.0.1"
    assert found[b"fanlog-link-certificate-bin"] == b"e30"


@pytest.mark.parametrize("name", ["grpc-accept-encoding", "content-length"])
def test_what_is_between_a_caller_and_its_node_stays_there(name):
    assert name.encode() not in dict(fields(write_head("/t.T/Echo", [(name, "1")])))


def test_the_same_caller_has_the_same_block():
    blocks = HeadBlocks()
    one = blocks.block("/t.T/Echo", METADATA, "", b"10S", 1)
    assert blocks.block("/t.T/Echo", METADATA, "", b"10S", 1) is one
    others = [
        blocks.block("/t.T/Tell", METADATA, "", b"10S", 1),
        blocks.block("/t.T/Echo", (*METADATA, ("x", "y")), "", b"10S", 1),
        blocks.block("/t.T/Echo", METADATA, "Bearer x", b"10S", 1),
        blocks.block("/t.T/Echo", METADATA, "", b"11S", 1),
        blocks.block("/t.T/Echo", METADATA, "", b"10S", 2),
    ]
    assert len({one, *others}) == 6


def test_blocks_are_forgotten_when_they_are_many(monkeypatch):
    monkeypatch.setattr(heads, "KNOWN_BYTES_MAX", 1_000)
    blocks = HeadBlocks()
    for number in range(100):
        blocks.block("/t.T/Echo", METADATA, "", b"10S", number)
        assert blocks._known_bytes <= 1_000
        assert sum(len(block) for _, block in blocks._known.values()) == blocks._known_bytes


@given(st.floats(min_value=1e-6, max_value=9e7))
def test_a_time_out_is_cut_a_little_and_never_longer(seconds):
    written = parse_timeout(write_timeout(seconds))
    assert written is not None
    assert seconds * 0.99 - 1e-6 <= written <= seconds * (1 + 1e-9)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, b""),
        (0.0, b"1u"),
        (0.0123456, b"12300u"),
        (59.99987, b"59900m"),
        (60.0, b"60S"),
        (1e9, b"99999999S"),
    ],
)
def test_time_outs(seconds, text):
    assert write_timeout(seconds) == text
