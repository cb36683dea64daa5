"""The lanes of an outbox as its relays see them: each step is one transaction.

A relay *holds* a lane by a token of its own, up to a time. Time only says when another relay may
take the lane over; that no row is published twice does not depend on any clock, see `relay`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import uuid4

from fanlog.outbox.publisher import OutboxRow
from fanlog.outbox.tables import OutboxTables

#: A refused row is tried again after 1 s, then twice as long each time, up to this.
RETRY_S_MAX: Final = 300.0
_REASON_CHARACTERS_MAX: Final = 1_000
#: Of rows that may be published now: neither refused lately, nor behind one of their key that was.
_READY: Final = (
    "o.lane = :lane AND o.epoch IS NULL AND o.retry_at <= :now AND NOT EXISTS ("
    "SELECT 1 FROM {rows} r WHERE r.lane = o.lane AND r.topic = o.topic "
    "AND r.ordering_key = o.ordering_key AND r.ordering_key <> '' AND r.id < o.id "
    "AND r.retry_at > :now)"
)


class LaneLost(Exception):
    """Another relay took the lane over, or somebody changed its rows: there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that is held."""

    number: int
    query: str
    #: The last one that was opened; 0 for none.
    epoch: int
    #: When that was, unless it is known to be published, or not to be.
    opened_at: float | None
    holder: str


class Lanes:
    """The lanes on one connection, which belongs to them alone. Errors of the database pass."""

    def __init__(
        self, connection: Any, tables: OutboxTables, clock: Callable[[], float], hold_s: float
    ) -> None:
        self._connection = connection
        self._tables = tables
        self._run = tables.dialect.execute
        self._clock = clock
        self._hold_s = hold_s
        self._ready = _READY.format(rows=tables.rows)

    def take(self, but: Collection[int]) -> Lane | None:
        """Hold a lane that has something to do and that nobody holds, the longest unserved first.

        Args:
            but: Numbers of lanes that are not wanted.
        """
        tables, now, holder = self._tables, self._clock(), str(uuid4())
        others = f"AND l.lane NOT IN ({', '.join(map(str, but))})" if but else ""
        # Where rows can be locked, relays that look at once each find another lane.
        lock = "" if tables.dialect.kind == "sqlite" else "FOR UPDATE OF l SKIP LOCKED"
        with _Transaction(self._connection) as transaction:
            statement = (
                f"SELECT l.lane FROM {tables.lanes} l "
                f"WHERE l.held_until <= :now {others} AND (l.opened_at IS NOT NULL OR EXISTS "
                f"(SELECT 1 FROM {tables.rows} o WHERE o.lane = l.lane AND o.retry_at <= :now)) "
                f"ORDER BY l.held_until, l.lane LIMIT 1 {lock}"
            )
            # Nothing to do is found out by reading alone.
            found = self._run(self._connection, statement, now=now).fetchone()
            if found is None:
                return None
            number = int(found[0])
            if tables.dialect.kind == "sqlite":
                # A transaction that has read may not write when another has written meanwhile.
                self._connection.rollback()
                tables.dialect.begin(self._connection)
            held = self._run(
                self._connection,
                f"UPDATE {tables.lanes} SET holder = :holder, held_until = :until "
                "WHERE lane = :lane AND held_until <= :now",
                holder=holder,
                until=now + self._hold_s,
                lane=number,
                now=now,
            )
            if held.rowcount != 1:
                # Where rows cannot be locked another relay may have been faster.
                return None
            statement = f"SELECT query, epoch, opened_at FROM {tables.lanes} WHERE lane = :lane"
            query, epoch, opened_at = self._run(self._connection, statement, lane=number).fetchone()
            transaction.commit()
        return Lane(number, query, epoch, opened_at, holder)

    def ready(self, lane: Lane, *, most: int, bytes_max: int) -> list[OutboxRow]:
        """The rows that come next: at least one, if there are any, however large it is."""
        tables = self._tables
        with _Transaction(self._connection):
            sizes = self._run(
                self._connection,
                f"SELECT o.id, length(o.data) + length(o.attributes) FROM {tables.rows} o "
                f"WHERE {self._ready} ORDER BY o.id LIMIT :most",
                lane=lane.number,
                now=self._clock(),
                most=most,
            ).fetchall()
            chosen: list[int] = []
            size_bytes = 0
            for row_id, row_bytes in sizes:
                size_bytes += row_bytes
                if chosen and size_bytes > bytes_max:
                    break
                chosen.append(int(row_id))
            if not chosen:
                return []
            rows = self._run(
                self._connection,
                "SELECT id, topic, data, attributes, ordering_key, dedup_id "
                f"FROM {tables.rows} WHERE id IN ({_listed(chosen)}) ORDER BY id",
            ).fetchall()
        return [
            OutboxRow(int(row_id), topic, bytes(data), json.loads(attributes), key, dedup_id)
            for row_id, topic, data, attributes, key, dedup_id in rows
        ]

    def refuse(self, lane: Lane, reasons: Sequence[tuple[OutboxRow, str]]) -> None:
        """Write down that rows cannot be published now, and why."""
        with self._holding(lane) as transaction:
            for row, reason in reasons:
                self._run(
                    self._connection,
                    f"UPDATE {self._tables.rows} SET refused = :reason, refusals = refusals + 1, "
                    "retry_at = :now + CASE WHEN refusals < 9 THEN (1 << refusals) ELSE :most END "
                    "WHERE id = :id",
                    # PostgreSQL's texts have no such character.
                    reason=reason.replace("\0", "")[:_REASON_CHARACTERS_MAX],
                    now=self._clock(),
                    most=RETRY_S_MAX,
                    id=row.id,
                )
            transaction.commit()

    def open(self, lane: Lane, rows: Sequence[OutboxRow]) -> Lane:
        """Write down that rows are the lane's next epoch, before it may be published.

        Raises:
            LaneLost: It is not to be published.
        """
        now, epoch = self._clock(), lane.epoch + 1
        with self._holding(lane, epoch=epoch, opened_at=now) as transaction:
            found = self._run(
                self._connection,
                f"UPDATE {self._tables.rows} SET epoch = :epoch "
                f"WHERE epoch IS NULL AND id IN ({_listed([row.id for row in rows])})",
                epoch=epoch,
            )
            if found.rowcount != len(rows):
                raise LaneLost
            transaction.commit()
        return replace(lane, epoch=epoch, opened_at=now)

    def close(self, lane: Lane, *, is_published: bool) -> tuple[Lane, int]:
        """Remove the rows of the open epoch, which is published; or have them ready again.

        Returns the lane and how many rows that were.
        """
        tables = self._tables
        with self._holding(lane, epoch=lane.epoch, opened_at=None) as transaction:
            what = "DELETE FROM {}" if is_published else "UPDATE {} SET epoch = NULL"
            done = self._run(
                self._connection,
                f"{what.format(tables.rows)} WHERE lane = :lane AND epoch = :epoch",
                lane=lane.number,
                epoch=lane.epoch,
            )
            transaction.commit()
        return replace(lane, opened_at=None), int(done.rowcount)

    def holds(self, lane: Lane) -> bool:
        """Whether no other relay has taken a lane over."""
        statement = f"SELECT 1 FROM {self._tables.lanes} WHERE lane = :lane AND holder = :holder"
        with _Transaction(self._connection):
            found = self._run(
                self._connection, statement, lane=lane.number, holder=lane.holder
            ).fetchone()
        return found is not None

    def release(self, lane: Lane) -> None:
        """Let others have a lane."""
        with _Transaction(self._connection) as transaction:
            self._run(
                self._connection,
                f"UPDATE {self._tables.lanes} SET holder = '', held_until = :now "
                "WHERE lane = :lane AND holder = :holder",
                now=self._clock(),
                lane=lane.number,
                holder=lane.holder,
            )
            transaction.commit()

    # Private.

    def _holding(self, lane: Lane, **columns: object) -> _Transaction:
        """A transaction in which the lane is held, and stays so; some columns are set.

        Raises:
            LaneLost: Another relay has it.
        """
        self._tables.dialect.begin(self._connection)
        transaction = _Transaction(self._connection)
        settings = "".join(f", {name} = :{name}" for name in columns)
        with transaction.ended_by_error():
            held = self._run(
                self._connection,
                f"UPDATE {self._tables.lanes} SET held_until = :until{settings} "
                "WHERE lane = :lane AND holder = :holder",
                until=self._clock() + self._hold_s,
                lane=lane.number,
                holder=lane.holder,
                **columns,
            )
            if held.rowcount != 1:
                raise LaneLost
        return transaction


class _Transaction:
    """The transaction of a connection: rolled back at its end, unless it is committed."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._is_over = False

    def __enter__(self) -> _Transaction:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_over:
            return
        if kind is None:
            self._connection.rollback()
            return
        # The error that ended it says more than that the connection is gone.
        with suppress(Exception):
            self._connection.rollback()

    def commit(self) -> None:
        self._connection.commit()
        self._is_over = True

    def ended_by_error(self) -> _EndedByError:
        return _EndedByError(self)


class _EndedByError:
    """Rolls a transaction back when an error comes, and leaves it open otherwise."""

    def __init__(self, transaction: _Transaction) -> None:
        self._transaction = transaction

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._transaction.__exit__(kind, *rest)


def _listed(numbers: Sequence[int]) -> str:
    """Numbers of ours in a statement: databases differ in how many parameters they take."""
    return ", ".join(str(int(number)) for number in numbers)
