"""`fanlog sub reopen` and `fanlog dead-letter`, against a real server."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from commands import invoke
from server.replaying import numbered, partition_of, subscription, taken, topic


@pytest.fixture(scope="module")
def engine():
    return "memory"


class Shell:
    def __init__(self, server):
        self._environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": None}
        self.stderr = ""

    def run(self, *args, exit_code=0):
        result = invoke(args, env=self._environ)
        assert result.exit_code == exit_code, (result.output, result.exception)
        self.stderr = result.stderr
        return result.stdout

    def lines(self, *args):
        return [json.loads(line) for line in self.run(*args, "--json").splitlines()]


@pytest.fixture
def shell(server):
    return Shell(server)


def read(server, count=5):
    on = topic(server, message_retention_duration=timedelta(days=1))
    name = subscription(server, on)
    ids = server.publish(on, *numbered(count))
    taken(server, name)
    return name, ids


class TestReopen:
    def test_each_way(self, server, shell):
        name, ids = read(server)
        short = name.rpartition("/")[2]
        output = shell.run("sub", "reopen", short, "--message-id", ids[1], "--message-id", ids[2])
        assert output == f"reopened 2 messages of {name}; 0 skipped\n"
        assert taken(server, name) == [b"1", b"2"]
        partition = partition_of(ids[0])
        [line] = shell.lines(
            "sub", "reopen", name, "--offsets", f"{partition}:0", "--offsets", f"{partition}:3-9"
        )
        why = [{"reason": "not published yet", "count": 4}]
        assert line == {"name": name, "reopened": 3, "skipped": 4, "skipped_messages": why}
        assert shell.run("sub", "reopen", name, "--offsets", f"{partition}:0-9") == (
            f"reopened 2 messages of {name}; 7 skipped (3 still unacknowledged, so that they are "
            "delivered anyway; 4 not published yet)\n"
        )
        assert taken(server, name) == [b"0", b"1", b"2", b"3", b"4"]
        assert shell.lines("sub", "reopen", name, "--from", "10m")[0]["reopened"] == 5
        assert shell.lines("sub", "reopen", name, "--to", "10m")[0]["reopened"] == 0
        taken(server, name)
        for _ in range(2):
            asked = ("sub", "reopen", name, "--from", "10m", "--request-id", "once")
            assert shell.lines(*asked)[0]["reopened"] == 5
            taken(server, name)

    @pytest.mark.parametrize(
        ("args", "sentence"),
        [
            ((), "say what: --from or --to, or --offsets, or --message-id"),
            (("--from", "1h", "--message-id", "2000000000001"), "say what"),
            (("--offsets", "x"), "not of the form PARTITION:START"),
            (("--offsets", "1:5-5"), "START must be less than END"),
            (("--from", "yesterday"), "is not a time"),
        ],
    )
    def test_nonsense(self, shell, args, sentence):
        shell.run("sub", "reopen", "billing", *args, exit_code=1)
        assert sentence in shell.stderr


class TestDeadLetters:
    @pytest.fixture
    def reader(self, server):
        """The reader of three dead letters, and the subscription they failed on."""
        dead = topic(server)
        reader = subscription(server, dead)
        on = topic(server, message_retention_duration=timedelta(days=1))
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 1}
        name = subscription(server, on, dead_letter_policy=policy)
        server.publish(on, *numbered(3))
        server.nack(name, server.pull(name))
        server.await_drained(name)
        return reader, name

    def test_list(self, shell, reader):
        lines = shell.lines("dead-letter", "list", reader[0])
        assert [line["source_subscription"] for line in lines] == [reader[1]] * 3
        assert [line["attempts"] for line in lines] == [1, 1, 1]
        assert len(shell.lines("dead-letter", "list", reader[0], "--max", "2")) == 2
        assert shell.lines("dead-letter", "list", reader[0], "--reason", "nothing") == []
        assert "delivery attempts" in shell.run("dead-letter", "list", reader[0])

    def test_redrive(self, server, shell, reader):
        first = shell.lines("dead-letter", "list", reader[0])[0]["message_id"]
        output = shell.run("dead-letter", "redrive", reader[0], "--message-id", first)
        assert output.startswith("redrove 1 dead letters of ")
        [line] = shell.lines("dead-letter", "redrive", reader[0], "--source", reader[1])
        assert line == {"name": reader[0], "reopened": 2, "copied": 0, "skipped": 0}
        assert taken(server, reader[1]) == numbered(3)

    def test_copies_when_they_are_asked_for(self, server, shell):
        dead, on = topic(server), topic(server)
        reader = subscription(server, dead)
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 1}
        name = subscription(server, on, dead_letter_policy=policy)
        server.publish(on, b"x")
        server.nack(name, server.pull(name))
        server.await_drained(name)
        # The topic is another one of that name now: the original is gone.
        server.publisher.delete_topic(topic=on)
        server.subscriber.delete_subscription(subscription=name)
        server.topic(name=on)
        server.subscriber.create_subscription(name=name, topic=on)
        [line] = shell.lines("dead-letter", "redrive", reader, "--all")
        assert line == {"name": reader, "reopened": 0, "copied": 0, "skipped": 1}
        assert "is gone (topic deleted); ask for copies" in shell.stderr
        output = shell.run("dead-letter", "redrive", reader, "--all", "--copies")
        assert output == f"redrove 1 dead letters of {reader}: 0 reopened, 1 as copies; 0 skipped\n"
        assert taken(server, name) == [b"x"]

    def test_discard(self, server, shell, reader):
        [line] = shell.lines("dead-letter", "discard", reader[0], "--all", "--max", "2")
        assert line == {"name": reader[0], "discarded": 2, "skipped": 0}
        held = server.pull(reader[0])
        shell.run("dead-letter", "discard", reader[0], "--all")
        assert "skipped" in shell.stderr
        server.ack(reader[0], held)

    def test_by_a_filter(self, server, shell, reader):
        letters = shell.lines("dead-letter", "list", reader[0])
        second = ("--filter", f'message_id = "{letters[1]["message_id"]}"')
        assert len(shell.lines("dead-letter", "list", reader[0], *second)) == 1
        assert shell.lines("dead-letter", "count", reader[0], *second)[0]["letters"] == 1
        [line] = shell.lines("dead-letter", "redrive", reader[0], *second)
        assert line == {"name": reader[0], "reopened": 1, "copied": 0, "skipped": 0}
        assert taken(server, reader[1]) == [b"1"]
        [line] = shell.lines("dead-letter", "discard", reader[0], "--filter", "NOT attributes:x")
        assert line == {"name": reader[0], "discarded": 2, "skipped": 0}
        shell.run("dead-letter", "redrive", reader[0], "--filter", "payload.n =", exit_code=1)
        assert "filter: " in shell.stderr
        shell.run("dead-letter", "redrive", reader[0], "--filter", "", exit_code=1)
        assert "--filter: is empty" in shell.stderr

    @pytest.mark.parametrize("verb", ["redrive", "discard"])
    def test_which_must_be_said(self, shell, verb):
        shell.run("dead-letter", verb, "some", exit_code=1)
        assert "say which letters" in shell.stderr
        shell.run("dead-letter", verb, "some", "--all", "--message-id", "1", exit_code=1)
        assert "say which letters" in shell.stderr
        shell.run("dead-letter", verb, "some", "--message-id", "1", "--max", "3", exit_code=1)
        assert "--max: goes with a selection" in shell.stderr
