"""Sinks: queries that publish in epochs, each once. Hard state, and what may follow it.

A *query* publishes one *epoch* after another. The rows of an epoch are *staged* first, by tasks
that may be tried more than once; committing the epoch names the attempts that won. What is
remembered of a query is its last epoch, and the one that is being published if it takes more than
one commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fanlog.core.records import (
    Committing,
    CommittingRecord,
    EpochProgress,
    ProgressRecord,
    Query,
    QueryRecord,
    SinkRecord,
    digest_of,
)
from fanlog.errors import FailedPrecondition


@dataclass(frozen=True, slots=True)
class StageKey:
    """Names the rows of one attempt of one task."""

    query: str
    epoch: int
    partition: int
    attempt: str

    def __str__(self) -> str:
        return (
            f"attempt {self.attempt!r} of partition {self.partition} of epoch {self.epoch} of "
            f"query {self.query!r}"
        )


class SinkTable:
    """Queries by digest. Not safe to share between threads."""

    def __init__(self) -> None:
        self._queries: dict[bytes, Query] = {}
        self._committing: dict[bytes, Committing] = {}
        self._progress: dict[bytes, EpochProgress] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def query(self, name: str) -> Query | None:
        return self._queries.get(digest_of(name))

    def committing(self, name: str) -> Committing | None:
        return self._committing.get(digest_of(name))

    def all_committing(self) -> Iterator[Committing]:
        yield from self._committing.values()

    def progress(self, name: str) -> EpochProgress:
        return self._progress.get(digest_of(name)) or EpochProgress(0, 0, 0)

    def check_epoch(self, name: str, epoch: int) -> None:
        """Refuse an epoch before the last one: it was committed, or never will be.

        Raises:
            FailedPrecondition: Names both.
        """
        last = self.query(name)
        if last is not None and epoch < last.epoch:
            raise FailedPrecondition(
                f"epoch {epoch} of query {name!r} comes before {last.epoch}, which is committed; a "
                "query that begins anew needs another name"
            )

    def is_over(self, key: StageKey) -> bool:
        """Whether what is staged can never be committed any more."""
        last = self.query(key.query)
        return last is not None and key.epoch <= last.epoch

    # Decisions: records to be applied and committed.

    def begun(self, committing: Committing) -> list[SinkRecord]:
        digest = digest_of(committing.query)
        return [
            CommittingRecord(digest, committing),
            ProgressRecord(digest, EpochProgress(0, 0, 0)),
        ]

    def advanced(self, name: str, progress: EpochProgress) -> list[SinkRecord]:
        return [ProgressRecord(digest_of(name), progress)]

    def committed(self, name: str, epoch: int, messages: int, now: float) -> list[SinkRecord]:
        digest = digest_of(name)
        return [
            QueryRecord(digest, Query(name, epoch, messages, now)),
            *self.given_up(name),
        ]

    def given_up(self, name: str) -> list[SinkRecord]:
        """Forget an epoch that is being published."""
        digest = digest_of(name)
        if digest not in self._committing:
            return []
        return [CommittingRecord(digest, None), ProgressRecord(digest, None)]

    def forgotten(self, before_s: float, *, limit: int) -> list[SinkRecord]:
        """Forget queries that committed nothing since a time."""
        idle = [
            digest
            for digest, query in self._queries.items()
            if query.committed_s < before_s and digest not in self._committing
        ]
        return [QueryRecord(digest, None) for digest in idle[:limit]]

    def apply(self, record: SinkRecord) -> None:
        """Change hard state. The only method that does."""
        digest = record.digest
        match record:
            case QueryRecord(query=query):
                self._queries.pop(digest, None)
                if query is not None:
                    self._queries[digest] = query
            case CommittingRecord(committing=committing):
                self._committing.pop(digest, None)
                if committing is not None:
                    self._committing[digest] = committing
            case ProgressRecord(progress=progress):
                self._progress.pop(digest, None)
                if progress is not None:
                    self._progress[digest] = progress
