"""Sinks: queries that publish in epochs, each epoch once. Hard state.

A *query* publishes one *epoch* after another. The rows of an epoch are *staged* first, by tasks
that may be tried more than once; committing the epoch names the attempts that won. Of a query, its
last epoch is remembered, and the one that is being published if that takes more than one commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

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
    """The name of the rows that one attempt of one task has staged."""

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
        """Whether staged rows can never be committed any more."""
        last = self.query(key.query)
        return last is not None and key.epoch <= last.epoch

    # Decisions: records to be applied and committed.

    def begin(self, committing: Committing) -> list[SinkRecord]:
        """Decide an epoch that takes more than one commit."""
        digest = digest_of(committing.query)
        return [
            CommittingRecord(digest, committing),
            ProgressRecord(digest, EpochProgress(0, 0, 0)),
        ]

    def advance(self, name: str, progress: EpochProgress) -> list[SinkRecord]:
        return [ProgressRecord(digest_of(name), progress)]

    def commit(self, name: str, epoch: int, messages: int, now: float) -> list[SinkRecord]:
        """Make an epoch the query's last, and so refuse it, and all before it, from now on."""
        digest = digest_of(name)
        return [
            QueryRecord(digest, Query(name, epoch, messages, now)),
            *self.give_up(name),
        ]

    def give_up(self, name: str) -> list[SinkRecord]:
        """Forget an epoch that is being published."""
        digest = digest_of(name)
        if digest not in self._committing:
            return []
        return [CommittingRecord(digest, None), ProgressRecord(digest, None)]

    def forget_idle(self, before_s: float, *, limit: int) -> list[SinkRecord]:
        """Forget queries that have committed no epoch since a time."""
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
            case _:
                assert_never(record)
