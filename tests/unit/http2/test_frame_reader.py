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


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (frames.head(SIZE_MAX + 1, codes.DATA, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
        (frames.head(SIZE_MAX, codes.HEADERS, 0, 1), ErrorCode.FRAME_SIZE_ERROR),
        (frames.head(SIZE_MAX, codes.SETTINGS, 0, 0), ErrorCode.FRAME_SIZE_ERROR),
        (frames.head(SIZE_MAX, codes.DATA, codes.PADDED, 1), ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_a_frame_that_would_have_to_be_held_is_refused_by_its_head(
    head: bytes, code: ErrorCode
) -> None:
    _, fault = a_reader().read(head)
    assert fault is not None
    assert fault.code == code
