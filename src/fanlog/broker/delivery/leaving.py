"""The messages of one delivery on their way out: kept as they are, written anew, or given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate

from pyroaring import BitMap64

from fanlog.broker.delivery.delivery import Delivery
from fanlog.log.batch import Batch
from fanlog.model.resources import Offset


@dataclass(slots=True)
class Rewritten:
    """Neighbours of one batch that are written anew and say the same of it."""

    batch: Batch
    first: int
    said: Mapping[str, str]
    fields: list[bytes] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.first + len(self.fields)

    def as_batch(self) -> Batch:
        """A batch that was never stored, at the place of those it stands for."""
        batch = self.batch
        return replace(
            batch,
            base_offset=batch.base_offset + self.first,
            starts=[0, *accumulate(map(len, self.fields))],
            # The holder of each key was decided when they were leased.
            key_hashes=None,
            attributes={**batch.attributes, **self.said},
            content=b"".join(self.fields),
        )


@dataclass(slots=True)
class Leaving:
    """The messages of one delivery that leave, and those that are given back."""

    delivery: Delivery
    runs: list[tuple[Batch, int, int]] = field(default_factory=list)
    #: Dead letters by their reason.
    refused: defaultdict[str, BitMap64] = field(default_factory=lambda: defaultdict(BitMap64))
    unsent: BitMap64 = field(default_factory=BitMap64)
    _rewritten: Rewritten | None = None

    def rewrite(self, batch: Batch, index: int, said: Mapping[str, str], made: bytes) -> None:
        """Let a message leave that is written anew, and says something besides its batch."""
        last = self._rewritten
        if last is None or last.batch is not batch or last.end != index or last.said != said:
            self.close()
            last = self._rewritten = Rewritten(batch, index, said)
        last.fields.append(made)

    def close(self) -> None:
        """The neighbours that were written anew are complete."""
        if self._rewritten is not None:
            made, self._rewritten = self._rewritten.as_batch(), None
            self.runs.append((made, 0, made.count))

    def keep(self, batch: Batch, first: int, end: int) -> None:
        """Let messages leave as they are."""
        self.close()
        if self.runs and self.runs[-1][0] is batch and self.runs[-1][2] == first:
            first = self.runs.pop()[1]
        self.runs.append((batch, first, end))

    def offsets(self) -> Iterator[Offset]:
        for batch, first, end in self.runs:
            yield from range(batch.base_offset + first, batch.base_offset + end)

    def without(self, gone: set[Offset]) -> None:
        runs, self.runs = self.runs, []
        for batch, first, end in runs:
            for index in range(first, end):
                if batch.base_offset + index not in gone:
                    self.keep(batch, index, index + 1)

    def as_delivery(self) -> Delivery:
        count = sum(end - first for _, first, end in self.runs)
        return replace(
            self.delivery,
            runs=self.runs,
            count=count,
            redelivered=min(count, self.delivery.redelivered),
            size_bytes=sum(bytes_of(*run) for run in self.runs),
        )


def bytes_of(batch: Batch, first: int, end: int) -> int:
    """Bytes of the messages of a batch from one index to before another."""
    return batch.starts[end] - batch.starts[first]
