"""LMDB's pages, judged without LMDB, which trusts them. At rest only.

A flipped bit in a page of a tree may make LMDB abort the process, lose entries without a word, or
use a page again that is in use. So the structure of a file is verified before it is trusted. The
verifier comes with `lmdb`; this module adds two facts that it cannot know: which flags our trees
have, and which of the two meta pages is the right one.

LMDB keeps two meta pages and believes the one with the higher transaction number. A flipped bit in
that number makes it believe the other: the last commit is gone, and every page is in order. But
each meta page leads to our own record of the last commit, which has a checksum. If the page that is
not believed leads to a later one, the file has been rolled back. A crash cannot look like this: the
pages that the older meta page leads to are not used again before it is overwritten.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Sequence
from enum import IntFlag
from pathlib import Path
from typing import NamedTuple

from lmdb import verify

from fanlog.log import batch as codec
from fanlog.log import envelope
from fanlog.log.envelope import Record

#: Pages that LMDB has lost count of: they are never used again, and nothing else is wrong.
_HARMLESS = "neither reachable nor in the freeDB"

# Of LMDB 0.9, in the byte order of the machine. A page's header: number, pad, flags, and where its
# free space begins and ends. Behind it, on a meta page: magic, version, address, map size, the tree
# of free pages, the main tree, last page, transaction. A tree: pad (of the free one: page size),
# flags, depth, counts, root. A node: length of its value in two halves, flags, length of its key.
PAGE = struct.Struct("=QHHHH")
_META = struct.Struct("=IIQQ48s48sQQ")
_TREE = struct.Struct("=IHHQQQQQ")
NODE = struct.Struct("=HHHH")
POINTER = struct.Struct("=H")

#: More than LMDB writes before it first syncs.
_UNBORN_PAGES_MAX = 16

#: Keys of the tree of free pages are numbers, those of all others bytes, with one value each.
_FLAGS = (8, 0)

#: Of a node whose value has pages of its own: their first number stands in its place.
OVERFLOW_NODE = 1
_PLAIN, _TREE_NODE = 0, 2


class Flags(IntFlag):
    """Kinds of pages."""

    LEAF = 2
    OVERFLOW = 4


class _Meta(NamedTuple):
    transaction: int
    #: Of the tree of free pages and of the main tree.
    flags: tuple[int, int]
    #: Of the databases.
    database_flags: Sequence[int]
    #: Our record of the last commit that this meta page leads to; None when there is none.
    last: Record | None


def problems(path: Path, *, facts: bytes, last: bytes) -> list[str]:
    """List the problems of a data file, a sentence each.

    `facts` is the database, and `last` the key in it, of our record of the last commit.
    """
    try:
        found: list[str] = verify.verify(str(path), subdir=False)  # type: ignore[no-untyped-call]
    except verify.VerifyError as error:
        return [str(error)]
    if not found:
        metas = sorted(_metas(path, facts, last), key=lambda meta: meta.transaction)
        found = [text for text in (_wrong_flags(metas[1]), _rollback(*metas)) if text]
    return found


def page_size(head: bytes) -> int:
    """The bytes of a page, from the first bytes of a file."""
    found: int = _TREE.unpack(_META.unpack_from(head, PAGE.size)[4])[0]
    return found


def is_harmless(problem: str) -> bool:
    """Whether a broker can live with it: space is lost, and nothing else."""
    return _HARMLESS in problem


def is_unborn(path: Path) -> bool:
    """Whether the power went before LMDB had made the file: nothing was ever in it.

    Then neither of its meta pages has seen a transaction, and it holds a few pages without anything
    of ours. Damage may look like the first; never like the second.
    """
    if path.stat().st_size > _UNBORN_PAGES_MAX * mmap.PAGESIZE:
        return False
    content = path.read_bytes()
    if codec.MAGIC in content or envelope.MAGIC in content:
        return False
    content = content.ljust(2 * mmap.PAGESIZE, b"\0")
    metas = (_META.unpack_from(content, page * mmap.PAGESIZE + PAGE.size) for page in (0, 1))
    return not any(transaction for *_, transaction in metas)


def _wrong_flags(believed: _Meta) -> str:
    """LMDB believes the flags of a tree, and walks it in another order or aborts."""
    if believed.flags == _FLAGS and not any(believed.database_flags):
        return ""
    return (
        f"trees have the flags {believed.flags} and {believed.database_flags}, which we never set"
    )


def _rollback(other: _Meta, believed: _Meta) -> str:
    if believed.last is None or other.last is None:
        return ""
    if believed.last.sequence >= other.last.sequence:
        return ""
    return (
        f"the meta page of transaction {believed.transaction}, which LMDB believes, leads to "
        f"commit {believed.last.sequence}, the other one to the later {other.last.sequence}"
    )


def _metas(path: Path, facts: bytes, last: bytes) -> list[_Meta]:
    with path.open("rb") as file:
        page_bytes = page_size(file.read(PAGE.size + _META.size))

        def read(number: int) -> bytes:
            file.seek(number * page_bytes)
            return file.read(page_bytes)

        return [_meta(read, number, facts, last) for number in (0, 1)]


def _meta(read: Callable[[int], bytes], number: int, facts: bytes, last: bytes) -> _Meta:
    *_, free, main, _, transaction = _META.unpack_from(read(number), PAGE.size)
    free, main = _TREE.unpack(free), _TREE.unpack(main)
    record, database_flags = None, []
    try:
        databases = {
            name: _TREE.unpack(value) for name, value in _leaf(read(main[-1]), _TREE_NODE).items()
        }
        database_flags = [tree[1] for tree in databases.values()]
        record = envelope.decode(_leaf(read(databases[facts][-1]), _PLAIN)[last])
    except (struct.error, KeyError, ValueError, OSError):
        # The older meta page of a new file leads nowhere; a wild one proves nothing.
        pass
    return _Meta(transaction, (free[1], main[1]), database_flags, record)


def _leaf(page: bytes, kind: int) -> dict[bytes, bytes]:
    """Entries of a leaf whose nodes are of one kind; few databases and facts fit on one page."""
    _, _, flags, lower, _ = PAGE.unpack_from(page)
    entries: dict[bytes, bytes] = {}
    if flags != Flags.LEAF:
        return entries
    for (position,) in POINTER.iter_unpack(page[PAGE.size : lower]):
        low, high, node_kind, key_bytes = NODE.unpack_from(page, position)
        middle = position + NODE.size + key_bytes
        if node_kind == kind:
            key = page[position + NODE.size : middle]
            entries[key] = page[middle : middle + (low | high << 16)]
    return entries
