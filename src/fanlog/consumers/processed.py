"""The ids of processed messages, in the database of the consumer and in its own transactions.

An id is written in the transaction that the caller has open, and the caller commits: work and id
become durable together, or a rollback takes both away and the message counts as new when it comes
again. The ids of a consumer are a unique key: of two that process one message at a time, the second
waits for the first one's transaction, and then finds a duplicate, or, after a rollback, a new
message. SQLite lets it wait for as long as the connection's time-out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import wraps
from hashlib import blake2b
from inspect import iscoroutinefunction
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from fanlog.databases import tables
from fanlog.databases.dialect import Dialect, dialect_of
from fanlog.databases.tables import TableName
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.attributes import ORIGINAL_ID

P = ParamSpec("P")
T = TypeVar("T")

#: Messages come again for as long as they are kept: seven days, unless the topic says otherwise.
KEEP: Final = timedelta(days=8)
#: Longest id, and longest name of a consumer: a key of two such is allowed in every database.
_CHARACTERS_MAX: Final = 255
_COLUMNS: Final = ("consumer", "message_id", "processed_at")
#: One id in so many prunes, and so many old ids at most: no consumer waits for long.
_PRUNE_ONE_IN: Final = 256
_PRUNE_ROWS: Final = 1_000
_SAVEPOINT: Final = "fanlog_once"


def once(
    connection: Any,
    *,
    consumer: str = "",
    table: str = "fanlog_processed",
    keep: timedelta = KEEP,
    id_of: Callable[[Any], str] | None = None,
    paramstyle: str | None = None,
    clock: Callable[[], float] = time.time,
) -> ProcessedIds:
    """The ids of messages that a consumer has processed, kept in its database.

    Args:
        connection: A DB-API connection (SQLite, PostgreSQL, any other), or a function without
            arguments that gives the one to use now, for programs with a connection for each thread.
        consumer: Consumers of one database that each work on the same messages have a name each.
        table: Its name, `TABLE` or `SCHEMA.TABLE`; it is made when it is first needed.
        keep: How long ids are kept: for as long as their messages can come again.
        id_of: Gives the id of a message; its message id if not given, see `message_id_of`.
        paramstyle: For a wrapper whose style is not that of the module of the connection.
        clock: Seconds since 1970.

    Raises:
        InvalidArgument: A value is none of these.
    """
    if keep <= timedelta(0):
        raise InvalidArgument(f"keep: {keep} is no time for which an id could be kept")
    if len(consumer) > _CHARACTERS_MAX:
        raise InvalidArgument(f"consumer: a name has at most {_CHARACTERS_MAX} characters")
    name = TableName.parse(table)
    return ProcessedIds(connection, consumer, name, keep, id_of, paramstyle, clock)


def message_id_of(message: Any) -> str:
    """The id that a message has each time it comes, a redriven copy of it included.

    Takes messages of the official clients, of `fanlog.Client`, received ones, and plain ids.

    Raises:
        InvalidArgument: It has none.
    """
    found: object = message
    if not isinstance(message, str):
        inner = getattr(message, "message", message)
        if getattr(inner, "message_id", None) is None:
            inner = message
        attributes = getattr(inner, "attributes", None) or {}
        found = attributes.get(ORIGINAL_ID) or getattr(inner, "message_id", "")
    if not isinstance(found, str) or not found:
        raise InvalidArgument(f"message: {type(message).__name__} has no message id")
    return found


class ProcessedIds:
    """The ids that one consumer has processed; made by `once`.

    As safe to share between threads as the connection is. Nothing here commits or rolls back.
    """

    def __init__(
        self,
        connection: Any,
        consumer: str,
        table: TableName,
        keep: timedelta,
        id_of: Callable[[Any], str] | None,
        paramstyle: str | None,
        clock: Callable[[], float],
    ) -> None:
        self._source = connection
        self._consumer = consumer
        self._table = table
        self._keep_s = keep.total_seconds()
        self._id_of = id_of or message_id_of
        self._paramstyle = paramstyle
        self._clock = clock
        self._dialect: Dialect | None = None
        #: Whether the table is there for good; never asked again then. One that was made here may
        #: go with a rollback.
        self._is_there = False
        self._has_made = False
        if not _gives_connections(connection):
            self._dialect = dialect_of(connection, paramstyle)

    def add(self, message: Any) -> bool:
        """Write down that a message is processed, in the transaction of the connection.

        Returns whether it is new: False for one whose work was committed before, which is to be
        acknowledged and otherwise left alone. Waits for another transaction that has the same id.

        Raises:
            FailedPrecondition: The connection has no transaction, or the table is another one.
            InvalidArgument: The message has no id.
        """
        message_id = self._id(message)
        connection, dialect = self._connected()
        dialect.check_transaction(connection)
        dialect.begin(connection)
        self._ensure_table(connection, dialect)
        try:
            is_new = self._insert(connection, dialect, message_id)
        except dialect.error:
            # Perhaps somebody else's transaction that made the table was rolled back, or it was
            # dropped: the caller's next transaction is to look again.
            self._is_there = False
            raise
        if is_new and _draw(message_id) == 0:
            self._prune(connection, dialect)
        return is_new

    @contextmanager
    def processing(self, message: Any) -> Iterator[bool]:
        """`add`, around the work: a context whose value is whether the message is new.

        When the work fails, it and the id are taken back, and the transaction goes on as it was
        before; commit after the context, not in it. (Databases other than SQLite and PostgreSQL:
        the id alone is taken back; roll the transaction back.)

        Raises:
            FailedPrecondition: As of `add`; or the transaction was ended inside of the context.
        """
        connection, dialect = self._connected()
        dialect.check_transaction(connection)
        dialect.begin(connection)
        if dialect.kind == "other":
            is_new = self.add(message)
            try:
                yield is_new
            except BaseException:
                if is_new:
                    with suppress(dialect.error):
                        self._remove(connection, dialect, self._id(message))
                raise
            return
        dialect.execute(connection, f"SAVEPOINT {_SAVEPOINT}")
        try:
            yield self.add(message)
        except BaseException:
            # It is gone when the work rolled back by itself, or the connection was lost.
            with suppress(dialect.error):
                dialect.execute(connection, f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
                dialect.execute(connection, f"RELEASE SAVEPOINT {_SAVEPOINT}")
            raise
        try:
            dialect.execute(connection, f"RELEASE SAVEPOINT {_SAVEPOINT}")
        except dialect.error as error:
            raise FailedPrecondition(
                "the transaction was committed or rolled back while its message was being "
                "processed: do that after the context"
            ) from error

    def __call__(
        self, work: Callable[Concatenate[Any, P], T]
    ) -> Callable[Concatenate[Any, P], T | None]:
        """As a decorator: work on the message, its first argument, unless it is a duplicate.

        The result for a duplicate is None. The caller commits, as ever.
        """
        if iscoroutinefunction(work):
            raise InvalidArgument(
                f"{work.__qualname__} is a coroutine, and would work after its transaction: use "
                "`with ids.processing(message)` inside of it"
            )

        @wraps(work)
        def unless_duplicate(message: Any, /, *args: P.args, **kwargs: P.kwargs) -> T | None:
            with self.processing(message) as is_new:
                return work(message, *args, **kwargs) if is_new else None

        return unless_duplicate

    def __contains__(self, message: object) -> bool:
        """Whether a message is processed, as far as the connection can see."""
        connection, dialect = self._connected()
        message_id = self._id(message)
        if not tables.is_there(dialect, connection, self._table):
            return False
        return self._find(connection, dialect, message_id)

    def create_table(self) -> None:
        """Make the table, unless it is there; the caller commits.

        Nobody needs to: `add` does so. It is for databases in which making a table ends the
        transaction, such as MySQL.
        """
        connection, dialect = self._connected()
        dialect.check_transaction(connection)
        self._ensure_table(connection, dialect)

    def prune(self) -> int:
        """Remove ids that are older than they are kept, and say how many; the caller commits.

        The number is 0 with modules that do not tell.
        Some are removed by `add` every now and then, so nobody needs to.
        """
        connection, dialect = self._connected()
        dialect.check_transaction(connection)
        self._ensure_table(connection, dialect)
        removed = 0
        while found := self._prune(connection, dialect):
            removed += found
            if dialect.kind == "other":
                break
        return removed

    # Private.

    def _connected(self) -> tuple[Any, Dialect]:
        connection = self._source() if _gives_connections(self._source) else self._source
        if self._dialect is None:
            self._dialect = dialect_of(connection, self._paramstyle)
        return connection, self._dialect

    def _id(self, message: Any) -> str:
        message_id: object = self._id_of(message)
        if not isinstance(message_id, str) or not 0 < len(message_id) <= _CHARACTERS_MAX:
            raise InvalidArgument(
                f"message: its id is to be a text of 1 to {_CHARACTERS_MAX} characters"
            )
        return message_id

    def _ensure_table(self, connection: Any, dialect: Dialect) -> None:
        if self._is_there:
            return
        if tables.is_there(dialect, connection, self._table):
            tables.check_columns(dialect, connection, self._table, _COLUMNS, "")
            # SQLite answers without a round trip: it is asked each time.
            self._is_there = not self._has_made and dialect.kind != "sqlite"
            return
        self._has_made = True
        quoted = self._table.quoted(dialect)
        text = f"VARCHAR({_CHARACTERS_MAX})" if dialect.kind == "other" else "TEXT"
        statement = (
            f"CREATE TABLE IF NOT EXISTS {quoted} (consumer {text} NOT NULL, "
            f"message_id {text} NOT NULL, processed_at DOUBLE PRECISION NOT NULL, "
            "PRIMARY KEY (consumer, message_id))"
        )
        indexes = [] if dialect.kind == "other" else [self._index(dialect)]
        tables.create(dialect, connection, self._table, statement, *indexes)

    def _index(self, dialect: Dialect) -> str:
        index = TableName("", f"{self._table.table}_by_age")
        # SQLite has the schema at the index, PostgreSQL at the table alone.
        if dialect.kind == "sqlite":
            index = self._table.with_ending("by_age")
            table = TableName("", self._table.table)
        else:
            table = self._table
        return (
            f"CREATE INDEX IF NOT EXISTS {index.quoted(dialect)} "
            f"ON {table.quoted(dialect)} (consumer, processed_at)"
        )

    def _insert(self, connection: Any, dialect: Dialect, message_id: str) -> bool:
        statement = (
            f"INSERT INTO {self._table.quoted(dialect)} (consumer, message_id, processed_at) "
            "VALUES (:consumer, :message_id, :now)"
        )
        values = {"consumer": self._consumer, "message_id": message_id, "now": self._clock()}
        if dialect.kind != "other":
            statement += " ON CONFLICT DO NOTHING"
            return bool(dialect.execute(connection, statement, **values).rowcount == 1)
        if self._find(connection, dialect, message_id):
            return False
        try:
            dialect.execute(connection, statement, **values)
        except dialect.integrity_error:
            # Another transaction had it meanwhile, and was waited for.
            return False
        return True

    def _find(self, connection: Any, dialect: Dialect, message_id: str) -> bool:
        statement = (
            f"SELECT 1 FROM {self._table.quoted(dialect)} "
            "WHERE consumer = :consumer AND message_id = :message_id"
        )
        values = {"consumer": self._consumer, "message_id": message_id}
        return dialect.execute(connection, statement, **values).fetchone() is not None

    def _remove(self, connection: Any, dialect: Dialect, message_id: str) -> None:
        statement = (
            f"DELETE FROM {self._table.quoted(dialect)} "
            "WHERE consumer = :consumer AND message_id = :message_id"
        )
        dialect.execute(connection, statement, consumer=self._consumer, message_id=message_id)

    def _prune(self, connection: Any, dialect: Dialect) -> int:
        table = self._table.quoted(dialect)
        old = "consumer = :consumer AND processed_at < :before"
        match dialect.kind:
            case "postgresql":
                # Consumers that prune at once do not wait for each other, nor for ever.
                chosen = (
                    f"ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {old} ORDER BY processed_at "
                    f"LIMIT {_PRUNE_ROWS} FOR UPDATE SKIP LOCKED))"
                )
            case "sqlite":
                chosen = (
                    f"rowid IN (SELECT rowid FROM {table} WHERE {old} ORDER BY processed_at "
                    f"LIMIT {_PRUNE_ROWS})"
                )
            case "other":
                chosen = old
        before = self._clock() - self._keep_s
        values = {"consumer": self._consumer, "before": before}
        removed = dialect.execute(connection, f"DELETE FROM {table} WHERE {chosen}", **values)
        return int(max(0, removed.rowcount))


def _gives_connections(source: Any) -> bool:
    """Connections of some modules can be called, too."""
    return callable(source) and not hasattr(source, "cursor")


def _draw(message_id: str) -> int:
    """Drawn from the id, so that it is the same each time and nothing need be remembered."""
    return int.from_bytes(blake2b(message_id.encode(), digest_size=4).digest()) % _PRUNE_ONE_IN
