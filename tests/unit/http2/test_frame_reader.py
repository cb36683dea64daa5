"""Bytes to frames, however the bytes are cut."""

from __future__ import annotations

import pytest

from fanlog.http2 import codes, frames
from fanlog.http2.codes import ErrorCode
from fanlog.http2.frame_reader import Frame, FrameReader
from fanlog.http2.patience import Patience

SIZE_MAX = 256 * 1024
LONG = bytes(range(256)) * 400


def a_reader() -> FrameReader:
    reader = FrameReader(b"", SIZE_MAX, Patience(0.0))
    found, fault = reader.read(frames.settings(()))
    assert fault is None
    assert len(found) == 1
    return reader


def read_in_pieces(reader: FrameReader, data: bytes, size: int) -> list[Frame]:
    found: list[Frame] = []
    for start in range(0, len(data), size):
        more, fault = reader.read(data[start : start + size])
        assert fault is None
        found += more
    return found


@pytest.mark.parametrize("size", [1_000, 16_383, 16_393, 20_000, 65_536, 1 << 20])
def test_a_long_data_frame_comes_in_pieces_of_which_the_last_ends_the_stream(size: int) -> None:
    data = b"".join(frames.data(1, LONG, ends=True)) + frames.ping(b"01234567", is_ack=False)
    *pieces, ping = read_in_pieces(a_reader(), data, size)
    assert b"".join(payload for *_, payload in pieces) == LONG
    assert [flags for _, flags, _, _ in pieces] == [0] * (len(pieces) - 1) + [codes.END_STREAM]
    assert {(kind, stream) for kind, _, stream, _ in pieces} == {(codes.DATA, 1)}
    assert ping[0] == codes.PING


def test_pieces_are_no_crumbs() -> None:
    data = b"".join(frames.data(1, LONG, ends=False))
    pieces = read_in_pieces(a_reader(), data, 100)
    assert min(len(payload) for *_, payload in pieces[:-1]) >= codes.FRAME_BYTES_MIN


def test_a_frame_that_is_too_long_is_refused_by_its_head() -> None:
    _, fault = a_reader().read(frames.head(SIZE_MAX + 1, codes.DATA, 0, 1))
    assert fault is not None
    assert fault.code == ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize("kind", [codes.HEADERS, codes.SETTINGS])
def test_a_long_frame_that_is_no_data_comes_whole(kind: int) -> None:
    frame = frames.head(len(LONG), kind, codes.END_HEADERS, 1) + LONG
    [found] = read_in_pieces(a_reader(), frame, 1_000)
    assert found[0] == kind
    assert found[3] == LONG


def test_long_data_with_padding_comes_whole() -> None:
    frame = frames.head(len(LONG), codes.DATA, codes.PADDED, 1) + LONG
    [found] = read_in_pieces(a_reader(), frame, 1_000)
    assert found[3] == LONG
