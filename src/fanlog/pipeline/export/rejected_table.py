"""The table of messages that an export rejected: rows are read, and deleted once redriven."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyroaring import BitMap64

from fanlog.lake.location import LakeError, Location
from fanlog.lake.tables import open_table
from fanlog.pipeline.export.rules.table_rows import REJECTED, rejected_table

#: How often rows are taken out while others change the table.
TRIES = 5


class RejectedRows:
    """The rows of one subscription in a table of rejected messages.

    Args:
        name: Of the table they were meant for.
    """

    def __init__(self, location: Location, name: str, subscription: str) -> None:
        self._location = location
        self._table = rejected_table(name)
        self._subscription = subscription

    def rows(self, reason: str = "", *, to_batch: int | None = None) -> pa.Table:
        """The rows, oldest first: with a text in their reason, of batches up to `to_batch`."""
        opened = self._open()
        if opened is None:
            return REJECTED.empty_table()
        found = opened.to_pyarrow_table()
        found = found.filter(pc.equal(found["subscription_name"], self._subscription))
        if reason:
            found = found.filter(pc.match_substring(found["reason"], reason))
        if to_batch is not None:
            found = found.filter(pc.less_equal(found["batch"], to_batch))
        return found.sort_by([("batch", "ascending"), ("offset", "ascending")])

    def offsets(self, reason: str, *, to_batch: int) -> Iterator[tuple[int, dict[int, BitMap64]]]:
        """The messages of each batch: its number, and offsets by partition."""
        found = self.rows(reason, to_batch=to_batch)
        for number in pc.unique(found["batch"]).to_pylist():
            some = found.filter(pc.equal(found["batch"], number))
            sets: dict[int, BitMap64] = {}
            pairs = zip(some["partition"].to_pylist(), some["offset"].to_pylist(), strict=True)
            for partition, offset in pairs:
                sets.setdefault(partition, BitMap64()).add(offset)
            yield number, sets

    def forget(self, reason: str, *, to_batch: int) -> None:
        """Take those rows out of the table."""
        if self._open() is None:
            return
        where = f"subscription_name = {_quote(self._subscription)} AND batch <= {to_batch}"
        if reason:
            where += f" AND strpos(reason, {_quote(reason)}) > 0"
        for left in reversed(range(TRIES)):
            opened = self._open()
            assert opened is not None, "a table of rejected messages is never removed"
            try:
                opened.delete(where)
                return
            except CommitFailedError:
                # The table was compacted just now, or more was rejected.
                if not left:
                    raise

    def _open(self) -> DeltaTable | None:
        try:
            opened: DeltaTable = open_table(self._location, self._table)
        except LakeError:
            # Nothing was rejected so far.
            return None
        return opened


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
