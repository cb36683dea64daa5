"""Processed ids: in the transaction of the work, made on demand, pruned; two consumers at once."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from fanlog import Client
from fanlog.consumers import once
from fanlog.errors import FailedPrecondition, InvalidArgument
from server.conftest import PATIENCE_S
from server.databases.conftest import Database


@pytest.fixture
def work(database: Database) -> Any:
    database.run("CREATE TABLE work (message TEXT)")
    return lambda: [row[0] for row in database.run("SELECT message FROM work ORDER BY message")]


def do(connection: Any, database: Database, message: str) -> None:
    mark = "?" if database.kind == "sqlite" else "%s"
    connection.cursor().execute(f"INSERT INTO work VALUES ({mark})", (message,))


def test_a_second_time_is_no_first(database, work):
    connection = database.connect()
    ids = once(connection)
    for message in ("a", "b", "a"):
        if ids.add(message):
            do(connection, database, message)
        connection.commit()
    assert work() == ["a", "b"]
    assert "a" in ids
    assert "c" not in ids


def test_it_is_in_the_transaction_of_the_caller(database, work):
    connection = database.connect()
    ids = once(connection)
    # The first time the table is made in it, too.
    for _ in range(3):
        assert ids.add("a")
        do(connection, database, "a")
        connection.rollback()
    assert work() == []
    assert ids.add("a")
    connection.commit()
    assert not ids.add("a")
    connection.rollback()
    other = once(database.connect())
    assert not other.add("a")


def test_a_rollback_takes_the_table_away_that_others_have_seen(database):
    connection = database.connect()
    maker, other = once(connection, consumer="maker"), once(connection, consumer="other")
    assert [maker.add("a"), maker.add("a"), other.add("a")] == [True, False, True]
    connection.rollback()
    if database.kind == "postgresql":
        # It takes the table for granted; after that failure it looks again.
        with pytest.raises(psycopg.errors.UndefinedTable):
            other.add("a")
        connection.rollback()
    assert other.add("a")
    assert maker.add("a")
    connection.rollback()
    assert [other.add("a"), maker.add("a")] == [True, True]


def test_nothing_is_committed_by_it(database):
    connection = database.connect()
    ids = once(connection)
    ids.create_table()
    connection.commit()
    ids.add("a")
    assert "a" not in once(database.connect())
    connection.commit()
    assert "a" in once(database.connect())


def test_what_fails_in_the_context_is_taken_back_and_the_rest_stays(database, work):
    connection = database.connect()
    ids = once(connection)
    do(connection, database, "before")

    @ids
    def fail(message: str) -> None:
        do(connection, database, message)
        _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail("a")
    connection.commit()
    assert work() == ["before"]
    with ids.processing("a") as is_new:
        assert is_new
    connection.commit()
    with ids.processing("a") as is_new:
        assert not is_new


def test_an_error_of_the_database_in_the_context_leaves_the_transaction_usable(database, work):
    connection = database.connect()
    ids = once(connection)
    with pytest.raises((sqlite3.Error, psycopg.Error)), ids.processing("a"):
        connection.cursor().execute("INSERT INTO nowhere VALUES (1)")
    assert ids.add("a")
    connection.commit()


def test_a_commit_in_the_context_is_refused_with_a_sentence(database):
    connection = database.connect()
    ids = once(connection)
    with (
        pytest.raises(FailedPrecondition, match="do that after the context"),
        ids.processing("a"),
    ):
        connection.commit()


def test_a_decorator(database, work):
    connection = database.connect()

    @once(connection)
    def handle(message: str, suffix: str = "") -> str:
        do(connection, database, message + suffix)
        return "done"

    assert handle("a", suffix="!") == "done"
    connection.commit()
    assert handle("a", suffix="!") is None
    connection.commit()
    assert work() == ["a!"]
    assert handle.__name__ == "handle"


def test_a_coroutine_is_refused(database):
    with pytest.raises(InvalidArgument, match="is a coroutine"):

        @once(database.connect())
        async def handle(message: object) -> None:
            await asyncio.sleep(0)


def test_consumers_of_one_database_do_not_share_ids(database):
    connection = database.connect()
    billing, mail = once(connection, consumer="billing"), once(connection, consumer="mail")
    assert [billing.add("a"), mail.add("a"), billing.add("a")] == [True, True, False]


def test_another_table(database):
    if database.kind == "postgresql":
        database.run("CREATE SCHEMA app")
    name = "app.Done" if database.kind == "postgresql" else "main.Done"
    connection = database.connect()
    ids = once(connection, table=name)
    assert [ids.add("a"), ids.add("a")] == [True, False]
    connection.commit()
    quoted = ".".join(f'"{part}"' for part in name.split("."))
    assert database.run(f"SELECT message_id FROM {quoted}") == [("a",)]


@pytest.mark.parametrize(
    "name", ['x"; DROP TABLE work; --', "", "a.b.c", "1st", "a b", "é", "x" * 49, "a\n"]
)
def test_a_name_that_could_not_be_written_safely_is_refused(database, name):
    with pytest.raises(InvalidArgument, match="table: "):
        once(database.connect(), table=name)


def test_a_table_of_something_else_is_refused(database, work):
    connection = database.connect()
    ids = once(connection, table="work")
    with pytest.raises(
        FailedPrecondition, match=r"it lacks consumer, message_id, processed_at; .*message"
    ):
        ids.add("a")


def test_old_ids_are_pruned(database):
    now = [1_000_000.0]
    connection = database.connect()
    ids = once(connection, keep=timedelta(hours=1), clock=lambda: now[0])
    other = once(connection, consumer="other", clock=lambda: now[0])
    for number in range(2_500):
        assert ids.add(f"old {number}")
    other.add("kept")
    now[0] += 3_000
    ids.add("younger")
    now[0] += 601
    assert ids.prune() == 2_500
    assert ids.prune() == 0
    assert "younger" in ids
    assert "kept" in other
    assert ids.add("old 1")


def test_they_are_pruned_by_and_by_without_being_asked(database):
    now = [1_000_000.0]
    connection = database.connect()
    ids = once(connection, keep=timedelta(hours=1), clock=lambda: now[0])
    for number in range(1_000):
        ids.add(f"old {number}")
    now[0] += 3_601
    for number in range(3_000):
        ids.add(f"new {number}")
    connection.commit()
    [[count]] = database.run("SELECT COUNT(*) FROM fanlog_processed")
    assert count == 3_000


def together(database: Database, end: str) -> list[object]:
    """Two consumers add an id at once; the first ends its transaction while the second waits."""
    first, second = database.connect(), database.connect()
    once(first).create_table()
    first.commit()
    assert once(first).add("a")
    is_asking = threading.Event()

    def add() -> bool:
        is_asking.set()
        return once(second).add("a")

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(add)
        is_asking.wait(PATIENCE_S)
        # It waits, whether it has come to that yet or not.
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        getattr(first, end)()
        result = waiting.result(PATIENCE_S)
    second.commit()
    return [result, "a" in once(second)]


def test_two_at_once_the_second_waits_and_finds_a_duplicate(database):
    assert together(database, "commit") == [False, True]


def test_two_at_once_the_second_is_the_first_after_a_rollback(database):
    assert together(database, "rollback") == [True, True]


def test_many_at_once_with_a_table_to_make(database, work):
    """Every message is worked on once, whoever comes first, and whoever makes the table."""

    def consume(_: int) -> None:
        with closing(database.connect()) as connection:
            for number in range(40):
                with once(connection).processing(f"{number:02}") as is_new:
                    if is_new:
                        do(connection, database, f"{number:02}")
                connection.commit()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(consume, range(6)))
    assert work() == [f"{number:02}" for number in range(40)]


def test_a_busy_sqlite_says_so_and_nothing_is_done(tmp_path):
    path = str(tmp_path / "busy.db")
    with closing(sqlite3.connect(path)) as one, closing(sqlite3.connect(path, timeout=0)) as two:
        assert once(one).add("a")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            once(two).add("a")
        two.rollback()
        one.commit()
        assert not once(two).add("a")


def test_a_connection_that_commits_each_statement_is_refused(database):
    connection = database.connect()
    if database.kind == "sqlite":
        connection.isolation_level = None
    else:
        connection.autocommit = True
    ids = once(connection)
    with pytest.raises(FailedPrecondition, match="commits each statement by itself"):
        ids.add("a")
    with (
        pytest.raises(FailedPrecondition, match="commits each statement by itself"),
        ids.processing("a"),
    ):
        pass
    connection.cursor().execute("BEGIN")
    assert ids.add("a")
    connection.cursor().execute("COMMIT")
    assert "a" in once(database.connect())


def test_a_function_gives_the_connection_of_a_thread(database):
    local = threading.local()

    def connected() -> Any:
        if not hasattr(local, "connection"):
            local.connection = database.connect()
        return local.connection

    ids = once(connected)
    assert ids.add("a")
    local.connection.commit()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ids.add, "a").result(PATIENCE_S) is False


def test_messages_of_every_kind_have_an_id(server, database):
    topic, subscription = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"x")
    connection = database.connect()
    ids = once(connection)
    with Client(server.endpoint) as client:
        [received] = client.pull(subscription, max_messages=1)
    client_message = received.message
    seen = []
    done = threading.Event()

    def callback(message: Any) -> None:
        seen.append(message)
        message.ack()
        done.set()

    client_ack = [received.ack_id]
    server.subscriber.modify_ack_deadline(
        request={"subscription": subscription, "ack_ids": client_ack, "ack_deadline_seconds": 0}
    )
    stream = server.subscribing().subscribe(subscription, callback)
    assert done.wait(PATIENCE_S)
    stream.cancel()
    stream.result(PATIENCE_S)
    assert ids.add(message_id)
    for same in (received, client_message, seen[0]):
        assert not ids.add(same)


def test_a_copy_of_a_message_has_the_id_of_its_original(database):
    ids = once(database.connect())
    assert ids.add(SimpleNamespace(message_id="1", attributes={}))
    copy = {"fanlog-original-message-id": "1"}
    assert not ids.add(SimpleNamespace(message_id="2", attributes=copy))


def test_an_id_of_the_programs_own(database):
    ids = once(database.connect(), id_of=lambda message: message.attributes["order"])
    assert ids.add(SimpleNamespace(message_id="1", attributes={"order": "7"}))
    assert not ids.add(SimpleNamespace(message_id="2", attributes={"order": "7"}))


@pytest.mark.parametrize("message", ["", None, 7, object(), b"1", "x" * 256])
def test_what_has_no_id_is_refused(database, message):
    with pytest.raises(InvalidArgument, match="message: "):
        once(database.connect()).add(message)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"keep": timedelta(0)}, "keep"),
        ({"consumer": "x" * 256}, "consumer"),
        ({"paramstyle": "sql"}, "paramstyle"),
    ],
)
def test_settings_that_are_none_are_refused(database, options, word):
    with pytest.raises(InvalidArgument, match=f"{word}: "):
        once(database.connect(), **options)


def test_what_is_no_connection_is_refused():
    with pytest.raises(InvalidArgument, match="no DB-API connection"):
        once(object())


class _Wrapper:
    """A connection of a pool: what it is a connection of is inside."""

    def __init__(self, inner: Any) -> None:
        self.driver_connection = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver_connection, name)


def test_a_connection_in_a_wrapper(database):
    ids = once(_Wrapper(database.connect()))
    assert [ids.add("a"), ids.add("a")] == [True, False]


@pytest.fixture
def duck() -> Iterator[Any]:
    """A database of another kind, of which nothing is known but the DB-API."""
    duckdb = pytest.importorskip("duckdb")
    with closing(duckdb.connect()) as connection:
        yield connection


def test_any_other_database(duck):
    ids = once(duck)
    duck.begin()
    assert ids.add("a")
    assert not ids.add("a")
    duck.commit()
    duck.begin()
    assert not ids.add("a")
    with pytest.raises(ZeroDivisionError), ids.processing("b"):
        _ = 1 / 0
    assert ids.add("b")
    duck.rollback()
    assert "a" in ids
    assert "b" not in ids
    duck.begin()
    assert ids.prune() == 0
    duck.commit()
