"""Records of delivering again: what is reopened, and requests that were done.

Their kinds and lengths are made right in every other input: what lies in the bitmaps is the
fuzzer's.
"""

from __future__ import annotations

import struct

from pyroaring import BitMap64

from fanlog.core import records
from fanlog.core.cursor import Cursor, runs
from fanlog.core.records import ReopenedChunk, RequestRecord
from fanlog.core.requests import Requests
from fanlog.limits import CURSOR_CHUNK_OFFSETS, OFFSET_MAX
from fuzz.bounds import Target
from fuzz.draw import Draw

_VERSION = b"\x01"
_OPEN_HEAD = struct.Struct("<QdI")


def replay_record(data: bytes) -> None:
    """Refused as damaged; or a record that comes back from its bytes, and does what it says."""
    draw = Draw(data)
    mode = draw.below(4)
    key, value = (_reopened if mode & 1 else _request)(draw, is_fitted=bool(mode & 2))
    try:
        found = records.decode(key, value)
    except (records.UnknownRecord, records.DamagedRecord):
        return
    assert found.key() == key
    again = found.value()
    assert again is not None
    assert records.decode(key, again).value() == again
    if isinstance(found, ReopenedChunk):
        _check_reopened(found)
    else:
        assert isinstance(found, RequestRecord)
        done = Requests()
        done.apply(found)
        assert len(done) == 1
        for record in done.forget(found.owner):
            done.apply(record)
        assert not len(done)


def _reopened(draw: Draw, *, is_fitted: bool) -> tuple[bytes, bytes]:
    if not is_fitted:
        return ReopenedChunk.KIND + draw.chunk(), draw.rest()
    key = ReopenedChunk.KIND + draw.take(20).ljust(20, b"\0")
    fence, since_s = draw.number(8), float(draw.number(4))
    bits, wanted = draw.chunk(), draw.rest()
    return key, _VERSION + _OPEN_HEAD.pack(fence, since_s, len(bits)) + bits + wanted


def _request(draw: Draw, *, is_fitted: bool) -> tuple[bytes, bytes]:
    if not is_fitted:
        return RequestRecord.KIND + draw.chunk(), draw.rest()
    key = RequestRecord.KIND + draw.take(24).ljust(24, b"\0")
    return key, _VERSION + draw.take(32).ljust(32, b"\0")


def _check_reopened(found: ReopenedChunk) -> None:
    """Beside a cursor that has acknowledged all of its chunk, and lets them be acknowledged."""
    opened, low = found.opened, found.chunk * CURSOR_CHUNK_OFFSETS
    assert opened is not None
    assert opened.bits
    assert opened.wanted.issubset(opened.bits)
    high = low + CURSOR_CHUNK_OFFSETS
    assert low <= opened.bits.min() <= opened.bits.max() < high
    if high > OFFSET_MAX:
        return
    cursor = Cursor(high)
    cursor.apply_reopened(found.chunk, opened)
    assert cursor.floor == opened.bits.min()
    assert cursor.open_before(high) == len(opened.bits)
    assert list(cursor.unacked_ranges(0, high)) == list(runs(opened.bits))
    assert cursor.acknowledged(opened.bits) == BitMap64()
    change = cursor.acknowledge(opened.bits)
    for number, chunk in change.reopened.items():
        cursor.apply_reopened(number, chunk)
    assert (cursor.floor, cursor.mark) == (high, high)


TARGETS = (Target(name="replay_record", run=replay_record),)
