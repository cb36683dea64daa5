"""Seeds of the target for records of delivering again; see `fuzz.seeds`."""

from __future__ import annotations

from collections.abc import Iterator

from pyroaring import BitMap64

from fanlog.core.records import RememberedAnswer, ReopenedChunk, RequestRecord
from fanlog.core.reopening import OpenChunk
from fanlog.limits import CURSOR_CHUNK_OFFSETS
from fanlog.model.resources import PartitionId
from fuzz.draw import chunk

_REQUEST, _REOPENED, _FITTED = 0, 1, 2


def reopened() -> list[ReopenedChunk]:
    """Few, many in a row, and some in a later chunk, with and without those that are wanted."""
    later = 3 * CURSOR_CHUNK_OFFSETS
    return [
        ReopenedChunk(3, PartitionId(2), number, OpenChunk(bits, fence, 1.5, wanted))
        for number, bits, fence, wanted in (
            (0, BitMap64([5, 6, 9]), 1, BitMap64()),
            (0, BitMap64(range(CURSOR_CHUNK_OFFSETS)), 0, BitMap64([7])),
            (3, BitMap64([later, later + 40, later + 65_535]), 2**40, BitMap64([later + 40])),
        )
    ]


def requests() -> list[RequestRecord]:
    return [
        RequestRecord(
            3, bytes(range(16)), RememberedAnswer(reopened=2**40, copied=1), 1_700_000_000.25
        )
    ]


def seeds() -> dict[str, list[bytes]]:
    return {"replay_record": list(_replay_records())}


def _replay_records() -> Iterator[bytes]:
    for record in reopened():
        key, value = record.key(), record.value()
        assert value is not None
        assert record.opened is not None
        yield bytes([_REOPENED]) + chunk(key[1:]) + value
        size = int.from_bytes(value[17:21], "little")
        bits, wanted = value[21 : 21 + size], value[21 + size :]
        head = key[1:] + record.opened.fence.to_bytes(8, "little") + b"\1\0\0\0"
        yield bytes([_REOPENED | _FITTED]) + head + chunk(bits) + wanted
    for request in requests():
        key, value = request.key(), request.value()
        assert value is not None
        yield bytes([_REQUEST]) + chunk(key[1:]) + value
        yield bytes([_REQUEST | _FITTED]) + key[1:] + value[1:]
