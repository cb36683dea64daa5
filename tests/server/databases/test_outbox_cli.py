"""`fanlog outbox`, on a server and a database of each kind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from commands import invoke
from fanlog.outbox import Outbox
from server.conftest import PATIENCE_S
from server.databases.conftest import Database


@pytest.fixture
def address(database: Database, tmp_path: Path, monkeypatch: Any) -> str:
    """As the command takes it: a file, or a function of a module in the working directory."""
    monkeypatch.chdir(tmp_path)
    if database.kind == "sqlite":
        return database.address
    name = f"program_{abs(hash(database.address))}"
    (tmp_path / f"{name}.py").write_text(
        textwrap.dedent(f"""
            import psycopg

            def connect():
                return psycopg.connect({database.address!r})
        """)
    )
    return f"{name}:connect"


def run(*args: object, code: int = 0) -> str:
    result = invoke(["outbox", *map(str, args)])
    assert result.exit_code == code, result.output + result.stderr
    return str(result.stdout or result.stderr)


def add(database: Database, topic: str, *data: bytes) -> None:
    with closing(database.connect()) as connection:
        for one in data:
            Outbox().add(connection, topic, one, key="k")
        connection.commit()


def test_from_create_to_drain(server, database, address):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    assert run("create", address, "--lanes", 2) == "created outbox fanlog_outbox\n"
    assert run("create", address) == "outbox fanlog_outbox was there\n"
    add(database, topic, b"1", b"2")
    add(database, f"{topic}-no", b"3")
    found = json.loads(run("status", address, "--json"))
    assert (found["rows"], found["lanes"], found["refused"]) == (3, 2, [])
    said = json.loads(run("relay", address, "--drain", "--json", "--endpoint", server.endpoint))
    assert (said["published"], said["refused"], said["failures"]) == (2, 1, 0)
    assert [one.message.data for one in server.pull(subscription)] == [b"1", b"2"]
    shown = run("status", address)
    assert f"topic '{topic}-no' does not exist" in shown
    [refused] = json.loads(run("status", address, "--json"))["refused"]
    assert run("retry", address) == "1 to be tried again\n"
    assert run("discard", address, refused["id"]) == "discarded 1\n"
    assert run("renew", address) == "0 messages count as new\n"
    assert "row 99 is not there" in run("discard", address, 99, code=1)


def test_a_relay_runs_until_it_is_told_to_stop(server, database, address, tmp_path):
    topic, subscription = server.topic_and_subscription(enable_message_ordering=True)
    run("create", address)
    command = [sys.executable, "-m", "fanlog", "outbox", "relay", address]
    with subprocess.Popen(
        [*command, "--endpoint", server.endpoint, "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as relay:
        assert relay.stderr is not None
        assert relay.stderr.readline() == f"relay of fanlog_outbox to {server.endpoint}\n"
        add(database, topic, b"1", b"2")
        assert [one.message.data for one in server.drain(subscription, 2)] == [b"1", b"2"]
        relay.send_signal(signal.SIGTERM)
        said, errors = relay.communicate(timeout=PATIENCE_S)
    assert relay.returncode == 0, errors
    assert json.loads(said)["published"] == 2
    assert json.loads(run("status", address, "--json"))["rows"] == 0


def test_what_is_no_outbox(database, address, tmp_path):
    database.run("CREATE TABLE other (id INTEGER)")
    endpoint = ("--endpoint", "127.0.0.1:1")
    assert "table fanlog_outbox does not exist; make it" in run("relay", address, *endpoint, code=1)
    said = run("relay", address, "--table", "other", *endpoint, code=1)
    assert "it lacks lane" in said
    assert "table: 'a b'" in run("status", address, "--table", "a b", code=1)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("nowhere.db", "is neither a file nor MODULE:FUNCTION"),
        ("no_such_module:connect", "cannot be imported"),
        ("sqlite3:no_such_function", "has no function"),
    ],
)
def test_what_is_no_database(address, words):
    assert words in run("status", address, code=1)


def test_a_server_that_is_not_there(database, address):
    run("create", address)
    add(database, "projects/shop/topics/orders", b"1")
    said = run("relay", address, "--drain", "--endpoint", "127.0.0.1:1", code=1)
    assert "no server answers at 127.0.0.1:1" in said
    assert json.loads(run("status", address, "--json"))["rows"] == 1


def test_a_file_that_is_none(tmp_path):
    path = tmp_path / "text.db"
    path.write_text("this is no database, and long enough to be seen to be none " * 20)
    assert "the database says: file is not a database" in run("status", path, code=1)


def test_relays_at_work_keep_renew_away(database, address):
    run("create", address)
    database.run("UPDATE fanlog_outbox_lanes SET held_until = 99999999999")
    assert "a relay holds a lane of fanlog_outbox: stop the relays" in run("renew", address, code=1)
