"""The commands that look at things: each against a server."""

from __future__ import annotations

import json

import pytest

from commands import invoke
from server.conftest import PROJECT
from server.test_dead_letters import World
from server.unique import unique


@pytest.fixture(scope="module")
def engine():
    return "memory"


class Shell:
    def __init__(self, server, project=f"{PROJECT}"):
        self._environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": project}
        self.stderr = ""

    def run(self, *args, exit_code=0):
        result = invoke(args, env=self._environ)
        assert result.exit_code == exit_code, (result.output, result.exception)
        self.stderr = result.stderr
        return result.stdout

    def lines(self, *args, exit_code=0):
        text = self.run(*args, "--json", exit_code=exit_code)
        return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture
def shell(server):
    return Shell(server)


def data(lines):
    return [line["data"] for line in lines]


class TestBrowse:
    def test_what_it_shows(self, server, shell):
        topic = server.topic()
        ids = server.publish(topic, b"hello", key="k", colour="red")
        output = shell.run("message", "browse", topic.rpartition("/")[2])
        assert output.split() == [*output.split()[:1], ids[0], "key=k", "colour=red", "hello"]
        [line] = shell.lines("message", "browse", topic)
        assert (line["data"], line["offset"], line["tier"]) == ("hello", 0, "hot")
        assert line["attributes"] == {"colour": "red"}

    def test_from_where_and_which(self, server, shell):
        topic, subscription = server.topic_and_subscription(filter="attributes:a")
        ids = server.publish(topic, b"0", b"1", a="x")
        server.advance(100)
        server.publish(topic, b"2", b'{"n": 5}', key="k")
        browse = ("message", "browse", topic)
        assert data(shell.lines(*browse, "--newest", "--max", "2")) == ['{"n": 5}', "2"]
        assert data(shell.lines(*browse, "--offset", "3")) == ['{"n": 5}']
        assert data(shell.lines(*browse, "--message-id", ids[1], "--max", "2")) == ["1", "2"]
        assert data(shell.lines(*browse, "--filter", "payload.n > 4")) == ['{"n": 5}']
        assert data(shell.lines(*browse, "--key", "k")) == ["2", '{"n": 5}']
        assert data(shell.lines(*browse, "--attr", "a=x")) == ["0", "1"]
        assert data(shell.lines("message", "browse", "--sub", subscription)) == ["0", "1"]
        assert shell.run(*browse, "--key", "none") == ""
        assert shell.stderr == "no messages\n"

    def test_pages_that_find_nothing_say_how_far_they_came(self, server, shell, monkeypatch):
        from fanlog import limits

        monkeypatch.setattr(limits, "BROWSE_LOOKED_MAX", 2)
        topic = server.topic()
        for _ in range(3):
            server.publish(topic, b"x", b"y")
        assert shell.run("message", "browse", topic, "--attr", "no=such") == ""
        assert shell.stderr.count("looking on") == 2
        assert shell.stderr.endswith("no messages\n")

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            ([], "name a topic, or give --sub"),
            (["orders", "--offset", "1", "--message-id", "2"], "give one of --from"),
            (["orders", "--attr", "x"], "not of the form KEY=VALUE"),
        ],
    )
    def test_what_makes_no_sense(self, shell, args, words):
        shell.run("message", "browse", *args, exit_code=1)
        assert words in shell.stderr

    def test_what_a_stranger_wrote_is_shown_as_text(self, server, shell):
        topic = server.topic()
        server.publish(topic, b"\x1b[2J<script>", **{"k\u202e": "v"})
        output = shell.run("message", "browse", topic)
        assert "\x1b" not in output
        assert "\u202e" not in output


def test_try_a_filter(server, shell):
    topic = server.topic()
    server.publish(topic, *[b'{"n": %d}' % n for n in range(10)])
    try_it = ("topic", "try-filter", topic, "payload.n >= 8")
    assert shell.run(*try_it) == "2 of 10 messages match\n"
    [line] = shell.lines(*try_it, "--last", "3", "--show", "1")
    assert (line["looked_at"], line["matched"]) == (3, 2)
    assert data(line["matching"]) == ['{"n": 9}']
    assert data(line["others"]) == ['{"n": 7}']
    shell.run("topic", "try-filter", topic, "a =", exit_code=1)
    assert "filter: expected a value" in shell.stderr


def test_search(server):
    project = unique("project")
    shell = Shell(server, project)
    topics = [server.topic(name=f"projects/{project}/topics/{one}") for one in ("orders", "bills")]
    server.subscription(topics[0], name=f"projects/{project}/subscriptions/press")
    server.publish(topics[0], b"0", b"1")
    assert [one["name"] for one in shell.lines("topic", "search", "BILL")] == [topics[1]]
    found = shell.lines("topic", "search", "--order-by", "messages")
    assert [one["messages"] for one in found] == [2, 0]
    [row] = shell.lines("sub", "search", "--topic", "orders", "--order-by", "age")
    assert (row["backlog"], row["consumers"], row["mode"]) == (2, 0, "pull")
    assert "press" in shell.run("sub", "search")


def test_problems_are_the_exit_status(server):
    project = unique("project")
    shell = Shell(server, project)
    assert shell.run("problems") == ""
    assert shell.stderr == "nothing is wrong\n"
    topic = server.topic(name=f"projects/{project}/topics/orders")
    server.subscription(
        topic,
        name=f"projects/{project}/subscriptions/press",
        message_retention_duration={"seconds": 86_400},
    )
    server.publish(topic, b"0")
    server.advance(700)
    assert shell.run("problems").startswith("WARNING  press has no consumer")
    server.advance(86_400 * 0.95)
    lines = shell.lines("problems", exit_code=1)
    assert [one["code"] for one in lines] == ["backlog_ending", "subscription_unattended"]
    assert shell.run("problems", "--all", exit_code=1)


def test_status(server, shell):
    [line] = shell.lines("status")
    assert line["version"]
    assert line["auth"] == "none"
    assert int(line["memory_bytes"]) > 0


def test_delivery_and_estimates(server, shell):
    topic, name = server.topic_and_subscription()
    stream = server.open_stream(name, client_id="one")
    server.publish(topic, b"0", b"1")
    stream.messages(2)
    assert "one" in shell.run("sub", "delivery", name)
    [line] = shell.lines("sub", "delivery", name)
    assert [one["client_id"] for one in line["consumers"]] == ["one"]
    assert shell.run("sub", "estimate", name, "purge") == (
        "2 messages would be acknowledged, 2 of them held by consumers now\n"
    )
    [line] = shell.lines("sub", "estimate", name, "seek", "--time", "1h")
    assert "would be delivered again" in line["sentence"]
    shell.run("sub", "estimate", name, "seek", "--time", "1h", "--position", "now", exit_code=1)
    assert shell.run("topic", "estimate", topic).startswith("1 subscription keeps what waits")
    stream.close()


def test_letters_are_counted(server, shell):
    world = World(server, 1)
    server.publish(world.topic, b"0", b"1")
    world.fail(1)
    server.await_metric("fanlog_dead_letters_total", world.subscription, 2)
    server.run(server.broker.ledger.sync())
    [line] = shell.lines("dead-letter", "count", world.reader)
    assert (line["letters"], line["source_subscription"]) == (2, world.subscription)


def test_what_the_caller_may_do(server, shell):
    [line] = shell.lines("auth", "may", "server", "--permission", "fanlog.metrics.get")
    assert line == {"resource": "server", "permissions": ["fanlog.metrics.get"]}
    shell.run("auth", "may", "server", "--permission", "no.such", exit_code=1)
    assert "'no.such' is no permission" in shell.stderr
