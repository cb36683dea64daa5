"""The outbox of a program: it adds messages in its own transactions, and looks after those refused.

Nothing here commits or rolls back: what is added is published if the caller's transaction commits.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from fanlog import times
from fanlog.databases.tables import TableName
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.attributes import DEDUP_ID
from fanlog.outbox.tables import LANES_DEFAULT, OutboxTables
from fanlog.wire import types
from fanlog.wire.publish import parse_publish


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that the broker would not publish; later rows of its key wait for it."""

    id: int
    topic: str
    ordering_key: str
    reason: str
    refusals: int
    #: RFC 3339.
    retry_time: str


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """What an outbox has in it."""

    #: Rows that are not published, those that were refused included.
    rows: int
    oldest_age_s: float
    lanes: int
    #: Lanes that a relay works on.
    held_lanes: int
    #: Epochs of which it is not written down whether they are published.
    open_epochs: int
    refused: Sequence[RefusedRow]


class Outbox:
    """An outbox in one table of a SQLite or PostgreSQL database; safe to share between threads.

    Args:
        table: `TABLE` or `SCHEMA.TABLE`; another one beside it has `_lanes` at its end.
        paramstyle: For a wrapper whose style is not that of the module of the connection.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        table: str = "fanlog_outbox",
        *,
        paramstyle: str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = str(TableName.parse(table))
        self._paramstyle = paramstyle
        self._clock = clock
        #: Never changed once there are some.
        self._lanes = 0

    def create(self, connection: Any, *, lanes: int = LANES_DEFAULT) -> bool:
        """Make the tables, unless they are there; whether they were made.

        Args:
            lanes: As many relays can publish at once.

        Raises:
            FailedPrecondition: There are other tables of that name, or no transaction.
        """
        tables = self._tables(connection)
        return tables.create(connection, lanes)

    def add(
        self,
        connection: Any,
        topic: str,
        data: bytes,
        attributes: Mapping[str, str] | None = None,
        key: str = "",
    ) -> str:
        """Have a message published when the transaction of the connection is committed.

        Messages of a key are published in the order they are added, by transactions that come one
        after the other; of transactions that add to a key at once, in the order they commit or add.

        Args:
            topic: Full name.
            key: The ordering key.

        Returns the dedup id that the message is published with, as `fanlog-dedup-id`: the one in
        its attributes, or a new one.

        Raises:
            InvalidArgument: It could not be published: checked as a publish is.
            FailedPrecondition: There is no transaction, or the tables are not there.
        """
        tables = self._tables(connection)
        lanes = self._lane_count(connection, tables)
        given = {DEDUP_ID: str(uuid4()), **(attributes or {})}
        try:
            message = types.PubsubMessage(data=data, attributes=given, ordering_key=key)
            request = types.PublishRequest(topic=topic, messages=[message])
        except (TypeError, ValueError) as error:
            raise InvalidArgument(f"the message is none: {error}") from error
        parse_publish(request.SerializeToString())
        dedup_id = given.pop(DEDUP_ID)
        tables.dialect.begin(connection)
        tables.dialect.execute(
            connection,
            f"INSERT INTO {tables.rows} "
            "(lane, topic, data, attributes, ordering_key, dedup_id, added_at) VALUES "
            "(:lane, :topic, :data, :attributes, :ordering_key, :dedup_id, :added_at)",
            lane=_lane(topic, key or dedup_id, lanes),
            topic=topic,
            data=bytes(data),
            attributes=json.dumps(given),
            ordering_key=key,
            dedup_id=dedup_id,
            added_at=self._clock(),
        )
        return dedup_id

    def status(self, connection: Any, *, refused_max: int = 100) -> OutboxStatus:
        """What is in the outbox, with the first of the refused rows."""
        tables, now = OutboxTables.of(connection, self._table, self._paramstyle), self._clock()
        tables.check(connection)
        run = tables.dialect.execute
        rows, oldest = run(
            connection, f"SELECT COUNT(*), MIN(added_at) FROM {tables.rows}"
        ).fetchone()
        lanes, held, opened = run(
            connection,
            "SELECT COUNT(*), SUM(CASE WHEN held_until > :now THEN 1 ELSE 0 END), "
            f"COUNT(opened_at) FROM {tables.lanes}",
            now=now,
        ).fetchone()
        refused = run(
            connection,
            "SELECT id, topic, ordering_key, refused, refusals, retry_at "
            f"FROM {tables.rows} WHERE retry_at > 0 ORDER BY id LIMIT :most",
            most=refused_max,
        ).fetchall()
        return OutboxStatus(
            rows=int(rows),
            oldest_age_s=0.0 if oldest is None else max(0.0, now - oldest),
            lanes=int(lanes),
            held_lanes=int(held or 0),
            open_epochs=int(opened),
            refused=[
                RefusedRow(
                    id=int(row_id),
                    topic=topic,
                    ordering_key=key,
                    reason=reason,
                    refusals=int(refusals),
                    retry_time=times.of_datetime(datetime.fromtimestamp(retry_at, UTC)),
                )
                for row_id, topic, key, reason, refusals, retry_at in refused
            ],
        )

    def retry(self, connection: Any) -> int:
        """Have refused rows tried again at once, and say how many; the caller commits."""
        tables = self._writable(connection)
        statement = f"UPDATE {tables.rows} SET retry_at = 0 WHERE retry_at > 0"
        return int(tables.dialect.execute(connection, statement).rowcount)

    def discard(self, connection: Any, row_ids: Sequence[int]) -> int:
        """Remove refused rows, which are then never published; the caller commits.

        Raises:
            FailedPrecondition: One is not there, or was not refused; nothing is removed.
        """
        tables = self._writable(connection)
        for row_id in row_ids:
            done = tables.dialect.execute(
                connection,
                f"DELETE FROM {tables.rows} WHERE id = :id AND refusals > 0 AND epoch IS NULL",
                id=row_id,
            )
            if done.rowcount != 1:
                raise FailedPrecondition(
                    f"row {row_id} is not there, or was not refused: roll back"
                )
        return len(row_ids)

    def renew(self, connection: Any) -> int:
        """Forget what is known of earlier publishes: every row that is there counts as new.

        For a database that was set back, or an epoch in doubt, see `Relay`. What was published
        before is published again, unless the topic still knows its dedup id. Returns how many rows
        there are; the caller commits.

        Raises:
            FailedPrecondition: A relay is at work.
        """
        tables = self._writable(connection)
        held = tables.dialect.execute(
            connection, f"SELECT MAX(held_until) FROM {tables.lanes}"
        ).fetchone()
        if held[0] > self._clock():
            raise FailedPrecondition(
                f"a relay holds a lane of {tables.rows_name}: stop the relays, and wait until what "
                "they held is free"
            )
        tables.rename_queries(connection)
        tables.dialect.execute(connection, f"UPDATE {tables.rows} SET epoch = NULL")
        count = tables.dialect.execute(connection, f"SELECT COUNT(*) FROM {tables.rows}")
        return int(count.fetchone()[0])

    # Private.

    def _tables(self, connection: Any) -> OutboxTables:
        tables = OutboxTables.of(connection, self._table, self._paramstyle)
        tables.dialect.check_transaction(connection)
        return tables

    def _writable(self, connection: Any) -> OutboxTables:
        tables = self._tables(connection)
        tables.check(connection)
        tables.dialect.begin(connection)
        return tables

    def _lane_count(self, connection: Any, tables: OutboxTables) -> int:
        if not self._lanes:
            tables.check(connection)
            # Not remembered while there are none: their transaction may be rolled back.
            self._lanes = tables.lane_count(connection)
            if not self._lanes:
                raise FailedPrecondition(f"table {tables.lanes_name} is empty; create the outbox")
        return self._lanes


def _lane(topic: str, key: str, lanes: int) -> int:
    digest = blake2b(f"{topic}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % lanes
