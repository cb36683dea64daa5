"""Messages as they come: `fanlog topic watch`, `fanlog sub tail`, and the follower below them."""

from __future__ import annotations

import pytest

from fanlog.client import CallFailed, Client
from fanlog.client.following import LATEST_TOPICS_MAX, TopicFollower
from fanlog.errors import FailedPrecondition, InvalidArgument
from server.conftest import PROJECT
from server.test_glance_cli import Shell, data


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture
def client(server):
    with Client(server.endpoint) as found:
        yield found


@pytest.fixture
def shell(server):
    return Shell(server)


class Enough(Exception):
    """The log was asked as often as it was to be."""


class Steps:
    """Does something whenever a follower waits; ends it when there is nothing left to do."""

    def __init__(self, *acts):
        self._acts = list(acts)

    def __call__(self, _):
        if not self._acts:
            raise Enough
        self._acts.pop(0)()


def came(follower):
    messages, found = iter(follower), []
    while True:
        try:
            found.append(next(messages).message.data)
        except Enough:
            return found


def nothing():
    pass


class TestFollower:
    def test_only_what_comes_from_now_on_and_once(self, server, client):
        topic = server.topic()
        server.publish(topic, b"before")
        steps = Steps(
            lambda: server.publish(topic, b"0", b"1"), nothing, lambda: server.publish(topic, b"2")
        )
        assert came(TopicFollower(client, {"topic": topic}, sleep=steps)) == [b"0", b"1", b"2"]

    def test_between_the_construction_and_the_first_look(self, server, client):
        topic = server.topic()
        follower = TopicFollower(client, {"topic": topic}, sleep=Steps())
        server.publish(topic, b"0")
        assert came(follower) == [b"0"]

    def test_the_latest_before(self, server, client):
        topic = server.topic()
        server.publish(topic, b"0", b"1", b"2")
        follower = TopicFollower(client, {"topic": topic}, sleep=Steps())
        server.publish(topic, b"3")
        assert [one.message.data for one in follower.latest(2)] == [b"1", b"2"]
        assert [one.message.data for one in follower.latest(9)] == [b"0", b"1", b"2"]
        assert follower.latest(0) == []
        assert came(follower) == [b"3"]

    def test_by_a_filter(self, server, client):
        topic = server.topic()
        steps = Steps(
            lambda: server.publish(topic, *[b'{"n": %d}' % n for n in range(50)]),
            lambda: server.publish(topic, b'{"n": 99}'),
        )
        criteria = {"topic": topic, "filter": "payload.n > 47"}
        found = came(TopicFollower(client, criteria, sleep=steps))
        assert found == [b'{"n": 48}', b'{"n": 49}', b'{"n": 99}']

    def test_more_than_a_page_has(self, server, client, monkeypatch):
        from fanlog import limits

        monkeypatch.setattr(limits, "BROWSE_MESSAGES_MAX", 3)
        topic = server.topic()
        bodies = [b"%d" % n for n in range(20)]

        def publish():
            for start in range(0, 20, 4):
                server.publish(topic, *bodies[start : start + 4])

        assert came(TopicFollower(client, {"topic": topic}, sleep=Steps(publish))) == bodies

    def test_of_a_subscription_its_own_filter_and_nothing_is_moved(self, server, client):
        topic, name = server.topic_and_subscription(filter='attributes.region = "eu"')
        steps = Steps(
            lambda: server.publish(topic, b"us", region="us"),
            lambda: server.publish(topic, b"eu", region="eu"),
        )
        assert came(TopicFollower(client, {"subscription": name}, sleep=steps)) == [b"eu"]
        assert [one.message.data for one in server.pull(name)] == [b"eu"]

    def test_of_a_pattern_topics_of_later_too(self, server, client):
        first = server.topic()
        stem = first.rpartition("/")[2]
        name = server.subscription(f"{first}*")
        server.publish(first, b"before")
        steps = Steps(
            lambda: server.topic(name=f"{first}-2"),
            lambda: (server.publish(f"{first}-2", b"0"), server.publish(first, b"1")),
        )
        follower = TopicFollower(client, {"subscription": name}, sleep=steps)
        assert [one.message.data for one in follower.latest(5)] == [b"before"]
        assert sorted(came(follower)) == [b"0", b"1"]
        assert stem

    def test_too_many_topics_for_the_latest(self, server, client):
        first = server.topic()
        for number in range(LATEST_TOPICS_MAX + 1):
            one = server.topic(name=f"{first}-{number}")
            server.publish(one, b"x")
        name = server.subscription(f"{first}-*", labels={"fanlog-start": "earliest"})
        follower = TopicFollower(client, {"subscription": name}, sleep=Steps())
        with pytest.raises(InvalidArgument, match="101 topics cannot be gathered"):
            follower.latest(1)

    def test_the_topic_is_deleted(self, server, client):
        topic = server.topic()
        steps = Steps(lambda: server.publisher.delete_topic(topic=topic), nothing)
        with pytest.raises(CallFailed) as caught:
            list(TopicFollower(client, {"topic": topic}, sleep=steps))
        assert caught.value.status == "NOT_FOUND"

    def test_a_server_that_is_started_again(self, start_server):
        server = start_server()
        topic = server.topic()
        with Client(server.endpoint) as client:
            said = []
            follower = TopicFollower(
                client, {"topic": topic}, tell=said.append, sleep=lambda _: None
            )
            server.publish(topic, b"0")
            messages = iter(follower)
            assert next(messages).message.data == b"0"
            server.restart()
            server.publish(topic, b"1")
            assert next(messages).message.data == b"1"

    def test_another_log(self, server, client):
        topic = server.topic()
        follower = TopicFollower(client, {"topic": topic}, sleep=Steps())
        follower._log_id = "of another"
        with pytest.raises(FailedPrecondition, match="another log"):
            list(follower)


class TestCommands:
    def test_watch_shows_the_latest_and_stops(self, server, shell):
        topic = server.topic()
        ids = server.publish(topic, b"0", b"1", b"2", key="k", colour="red")
        watch = ("topic", "watch", topic, "--last", "2", "--max", "2")
        assert data(shell.lines(*watch)) == ["1", "2"]
        output = shell.run(*watch).splitlines()
        assert output[0].split()[1:] == [ids[1], "key=k", "colour=red", "1"]
        assert shell.run(*watch, "--data") == "1\n2\n"
        assert data(shell.lines(*watch[:3], "-n", "3", "--max", "3", "--key", "k")) == [*"012"]

    def test_tail_begins_with_ten_and_takes_nothing(self, server, shell):
        topic, name = server.topic_and_subscription(filter="attributes:a")
        server.publish(topic, *[b"%d" % n for n in range(15)], a="x")
        server.publish(topic, b"unwanted")
        assert data(shell.lines("sub", "tail", name, "--max", "10")) == [*map(str, range(5, 15))]
        tail = ("sub", "tail", name, "--filter", "attributes:a", "--max", "1", "--last", "1")
        assert shell.run(*tail, "--data") == "14\n"
        assert len(server.pull(name, 100)) == 15

    def test_consume_acknowledges_what_it_shows(self, server, shell):
        topic, name = server.topic_and_subscription()
        server.publish(topic, b"0", b"1", b"2")
        consume = ("sub", "tail", name, "--consume", "--max")
        assert data(shell.lines(*consume, "2")) == ["0", "1"]
        assert shell.run(*consume, "1", "--data") == "2\n"
        server.advance(1_000)
        assert server.pull(name) == []

    def test_data_that_is_long_is_whole_where_a_machine_reads(self, server, shell):
        topic = server.topic()
        server.publish(topic, b"x" * 100_000)
        watch = ("topic", "watch", topic, "--last", "1", "--max", "1")
        assert shell.run(*watch, "--data") == "x" * 100_000 + "\n"
        assert data(shell.lines(*watch)) == ["x" * 100_000]
        assert shell.run(*watch).endswith("x…\n")

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["sub", "tail", "some", "--consume", "--filter", "a=b"], "--consume: takes every"),
            (["sub", "tail", "some", "--consume", "--last", "3"], "--consume: takes every"),
            (["sub", "tail", "some", "--consume", "--attr", "a=b"], "--consume: takes every"),
            (["topic", "watch", "some", "--data", "--json"], "give --data or --json"),
            (["topic", "watch", "no-such-topic"], "no-such-topic"),
            (["sub", "tail", "no-such-sub"], "no-such-sub"),
        ],
    )
    def test_what_makes_no_sense(self, shell, args, words):
        shell.run(*args, exit_code=1)
        assert words in shell.stderr

    def test_what_a_stranger_wrote_is_shown_as_text(self, server, shell):
        topic = server.topic()
        server.publish(topic, b"\x1b[2J", **{"k\u202e": "v"})
        output = shell.run("topic", "watch", topic, "--last", "1", "--max", "1")
        assert "\x1b" not in output
        assert "\u202e" not in output


def test_a_filter_that_cannot_be_read(server, shell):
    topic = server.topic()
    server.publish(topic, b"x")
    watch = ("topic", "watch", topic.rpartition("/")[2], "--filter", "a =", "--last", "1")
    shell.run(*watch, exit_code=1)
    assert "filter: expected a value" in shell.stderr
    assert PROJECT in topic
