"""The slack of LMDB's pages: bytes in a page in use that hold nothing, and may hold old content.

LMDB writes a new page into memory that another page had, without clearing it. A value of its own
page is then followed by a part of something that was deleted or replaced long ago, and a copy
without free pages still has it. So copies have their slack zeroed: a secret that was plain once is
not in a backup, nor in a compacted file, unless it still is plain.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from fanlog.log.pages import NODE, OVERFLOW_NODE, PAGE, POINTER, Flags, page_size

_META_PAGES = 2
_PAGE_NUMBER = struct.Struct("=Q")


class _Stretch(NamedTuple):
    start: int
    end: int


def zero_slack(file: BinaryIO) -> int:
    """Zero the slack of a file that LMDB has just copied without its free pages.

    Returns how many bytes were zeroed that were not zero. The caller syncs the file.
    """
    descriptor = file.fileno()
    page_bytes = page_size(os.pread(descriptor, 4_096, 0))
    assert page_bytes > PAGE.size
    zeroed = 0
    for stretch in _slack(descriptor, page_bytes):
        content = os.pread(descriptor, stretch.end - stretch.start, stretch.start)
        count = len(content) - content.count(0)
        if count:
            os.pwrite(descriptor, bytes(len(content)), stretch.start)
            zeroed += count
    return zeroed


def _slack(descriptor: int, page_bytes: int) -> Iterator[_Stretch]:
    """The stretches between the nodes of each page, and behind each value of pages of its own.

    Pages whose numbers make no sense are left as they are: whoever reads the copy will say so.
    """
    file_bytes = os.fstat(descriptor).st_size
    start = _META_PAGES * page_bytes
    while start + page_bytes <= file_bytes:
        _, _, flags, lower, upper = PAGE.unpack(os.pread(descriptor, PAGE.size, start))
        if flags & Flags.OVERFLOW:
            # Its leaf says how long the value is. The number of its pages stands in two halves.
            start += max(1, lower | upper << 16) * page_bytes
            continue
        if PAGE.size <= lower <= upper <= page_bytes:
            yield _Stretch(start + lower, start + upper)
            if flags & Flags.LEAF:
                page = os.pread(descriptor, page_bytes, start)
                for end in _value_ends(page, lower, page_bytes):
                    if end <= file_bytes:
                        yield _Stretch(end, -(-end // page_bytes) * page_bytes)
        start += page_bytes


def _value_ends(page: bytes, lower: int, page_bytes: int) -> Iterator[int]:
    """Where in the file the values of a leaf end that have pages of their own."""
    for (position,) in POINTER.iter_unpack(page[PAGE.size : lower & ~1]):
        if position + NODE.size > len(page):
            continue
        low, high, kind, key_bytes = NODE.unpack_from(page, position)
        at = position + NODE.size + key_bytes
        if kind & OVERFLOW_NODE and at + _PAGE_NUMBER.size <= len(page):
            (first,) = _PAGE_NUMBER.unpack_from(page, at)
            yield first * page_bytes + PAGE.size + (low | high << 16)
