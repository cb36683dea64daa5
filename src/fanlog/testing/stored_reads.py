"""The part of the conformance suite about batches as they are stored, and their index."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from fanlog.log import batch as codec
from fanlog.log.api import Damaged, Log, StoredBatch, Trim
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.author import ALL_BYTES, ONE, THREE, TWO, Author, make_body

T = TypeVar("T")


class StoredReads(ABC):
    """Tests of `read_stored`, `sequence_of` and the values of `positions`; see `LogConformance`."""

    @abstractmethod
    def damage(self, log: Log, place: Path, partition: PartitionId, base_offset: Offset) -> Log:
        """Flip a bit of the body of the batch stored at `base_offset`, behind the engine's back.

        Returns the log to go on with: the same, or one opened again.
        """

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run one of the log's coroutines to its end."""
        return asyncio.run(coroutine)

    def stored(
        self,
        log: Log,
        partition: PartitionId,
        offset: Offset,
        *,
        end: Offset = ALL_BYTES,
        max_bytes: int = ALL_BYTES,
    ) -> list[StoredBatch]:
        """Stored batches, none of them damaged."""
        found = self.run(log.read_stored(partition, offset, end=end, max_bytes=max_bytes))
        stored = [item for item in found if isinstance(item, StoredBatch)]
        assert stored == found
        return stored

    def test_stored_batches_are_what_read_decodes(self, log: Log, author: Author) -> None:
        author.commit({ONE: [make_body(b"a", b"b"), make_body(b"c")], TWO: [make_body(b"x")]})
        author.commit({ONE: [make_body(b"d", attributes={"k": "v"}), make_body(b"e")]})
        author.publish(ONE, *(bytes([n]) * 1000 for n in range(200)))
        author.publish(ONE, b"last")
        whole = self.run(log.read(ONE, 0, max_bytes=ALL_BYTES))
        stored = self.stored(log, ONE, 0)
        assert [codec.decode(item.value) for item in stored] == whole
        assert [item.end_offset for item in stored] == [batch.end_offset for batch in whole]
        assert [item.partition for item in stored] == [ONE] * len(stored)

    def test_stored_batches_are_read_from_and_to_an_offset(self, log: Log, author: Author) -> None:
        for _ in range(4):
            author.publish(ONE, b"a", b"b", b"c")
        spans = [(i.base_offset, i.end_offset) for i in self.stored(log, ONE, 4, end=7)]
        assert spans == [(3, 6), (6, 9)]
        spans = [(i.base_offset, i.end_offset) for i in self.stored(log, ONE, 3, end=6)]
        assert spans == [(3, 6)]
        assert [i.base_offset for i in self.stored(log, ONE, 0, max_bytes=1)] == [0]
        assert self.stored(log, ONE, 5, end=5) == []
        assert self.stored(log, ONE, 12) == self.stored(log, ONE, 99) == []
        assert self.stored(log, TWO, 0) == []

    def test_stored_batches_of_a_trimmed_partition(self, log: Log, author: Author) -> None:
        for _ in range(3):
            author.publish(ONE, b"a", b"b")
        author.commit(trims=[Trim(partition=ONE, before=3)])
        author.collect_garbage()
        assert [i.base_offset for i in self.stored(log, ONE, 0)] == [2, 4]
        author.commit(trims=[Trim(partition=ONE, before=6)])
        assert self.stored(log, ONE, 0) == self.stored(log, ONE, 5) == []
        author.commit(trims=[Trim(partition=ONE, before=6, dropped=True)])
        assert self.stored(log, ONE, 0) == []

    def test_damaged_stored_batch(self, log: Log, author: Author, tmp_path: Path) -> None:
        for _ in range(3):
            author.publish(ONE, b"a", b"b")
        log = self.damage(log, tmp_path, ONE, 2)
        try:
            items = self.run(log.read_stored(ONE, 0, end=6, max_bytes=ALL_BYTES))
            assert [type(item) for item in items] == [StoredBatch, Damaged, StoredBatch]
            assert (items[1].base_offset, items[1].end_offset) == (2, 4)
        finally:
            log.close()

    def test_sequence_of_an_offset(self, log: Log, author: Author) -> None:
        first = author.publish(ONE, b"a", b"b")
        author.publish(TWO, b"x")
        second = author.publish(ONE, b"c")
        found = [log.sequence_of(ONE, offset) for offset in range(4)]
        assert found == [first, first, second, None]
        author.commit(trims=[Trim(partition=ONE, before=1)])
        assert [log.sequence_of(ONE, offset) for offset in range(2)] == [None, first]
        assert log.sequence_of(THREE, 0) is None

    def test_positions_say_how_much(self, log: Log, author: Author) -> None:
        author.commit({ONE: [make_body(b"a", b"b")], TWO: [make_body(b"x")]})
        author.publish(ONE, *(bytes([n]) * 10_000 for n in range(100)))
        stored = {
            (i.partition, i.base_offset): i for p in (ONE, TWO) for i in self.stored(log, p, 0)
        }
        positions = log.positions(0, limit=1_000)
        assert len(positions) == len(stored) > 3
        for position in positions:
            item = stored[position.partition, position.base_offset]
            assert position.end_offset == item.end_offset
            assert position.size_bytes == len(item.value)
