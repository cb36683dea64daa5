"""`fanlog publish` and `fanlog pull` against a server of a few lines."""

from __future__ import annotations

import base64
import json

import grpc
import pytest

from fanlog.wire import types


@pytest.fixture
def orders(shell):
    shell.run("topic", "create", "orders")
    return "orders"


def message(data: bytes = b"hello", *, message_id: str = "1", attempt: int = 0, **more):
    made = types.ReceivedMessage(
        ack_id=f"ack-{message_id}",
        message=types.PubsubMessage(data=data, message_id=message_id, **more),
        delivery_attempt=attempt,
    )
    made.message.publish_time.FromJsonString("2025-01-31T12:00:00.5Z")
    return made


class TestPublish:
    def test_one(self, shell, server, orders):
        output = shell.run(
            "publish", orders, "hello", "--attr", "a=1", "--attr", "b=x=y", "--key", "k"
        )
        assert output == "published message 0\n"
        request = server.last(types.PublishRequest)
        assert request.topic == "projects/fanlog/topics/orders"
        assert list(request.messages) == [
            types.PubsubMessage(data=b"hello", attributes={"a": "1", "b": "x=y"}, ordering_key="k")
        ]

    def test_attributes_alone(self, shell, server, orders):
        shell.run("publish", orders, "--attr", "a=1")
        assert server.last(types.PublishRequest).messages[0].data == b""

    def test_lines_of_standard_input(self, shell, server, orders):
        output = shell.run("publish", orders, "-", stdin=b"one\n\ntwo\n\xff\nlast")
        assert output == "published 4 messages\n"
        sent = [
            item.data
            for request in server.requests
            if isinstance(request, types.PublishRequest)
            for item in request.messages
        ]
        assert sent == [b"one", b"two", b"\xff", b"last"]

    def test_requests_keep_to_the_limits(self, shell, server, orders):
        shell.run("publish", orders, "-", stdin=b"x\n" * 2500)
        sizes = [
            len(request.messages)
            for request in server.requests
            if isinstance(request, types.PublishRequest)
        ]
        assert sizes == [1000, 1000, 500]

    def test_large_lines_are_spread_by_size(self, shell, server, orders):
        line = b"x" * 900_000 + b"\n"
        shell.run("publish", orders, "-", stdin=line * 12)
        requests = [r for r in server.requests if isinstance(r, types.PublishRequest)]
        assert sum(len(request.messages) for request in requests) == 12
        assert max(request.ByteSize() for request in requests) <= 10_000_000

    def test_ids_for_machines(self, shell, orders):
        ids = shell.lines("publish", orders, "-", stdin=b"one\ntwo\n")
        assert ids == [{"message_id": "0"}, {"message_id": "1"}]

    def test_file(self, shell, server, orders, tmp_path):
        path = tmp_path / "picture"
        path.write_bytes(b"\x00\n\xff")
        shell.run("publish", orders, "--file", str(path))
        assert server.last(types.PublishRequest).messages[0].data == b"\x00\n\xff"

    def test_nothing_to_publish(self, shell, orders):
        assert "data or attributes" in shell.refusal("publish", orders)

    def test_file_and_data(self, shell, orders, tmp_path):
        assert "not both" in shell.refusal("publish", orders, "x", "--file", "y")

    def test_missing_file(self, shell, orders, tmp_path):
        missing = str(tmp_path / "none")
        assert "No such file" in shell.refusal("publish", orders, "--file", missing)

    def test_missing_topic(self, shell):
        assert "does not exist" in shell.refusal("publish", "orders", "x")


class TestPull:
    def test_readable(self, shell, server):
        server.answers = [
            [message(b"hello", attributes={"b": "2", "a": "1"}, ordering_key="k", attempt=2)]
        ]
        assert shell.run("pull", "billing", "--max", "1") == (
            "2025-01-31T12:00:00.500Z  1  attempt=2  key=k  a=1 b=2  hello\n"
        )
        assert "--ack" in shell.stderr
        request = server.last(types.PullRequest)
        assert request.subscription == "projects/fanlog/subscriptions/billing"
        assert (request.max_messages, request.return_immediately) == (1, True)

    def test_for_machines(self, shell, server):
        server.answers = [[message(b"hello", attributes={"a": "1"}), message(b"\xff")]]
        first, second = shell.lines("pull", "billing")
        assert first == {
            "message_id": "1",
            "publish_time": "2025-01-31T12:00:00.500Z",
            "data": "hello",
            "attributes": {"a": "1"},
            "ack_id": "ack-1",
        }
        assert base64.b64decode(second["data_base64"]) == b"\xff"
        assert "data" not in second

    def test_acknowledges_what_was_shown(self, shell, server):
        server.answers = [[message(message_id="1"), message(message_id="2")]]
        shell.run("pull", "billing", "--ack")
        assert list(server.last(types.AcknowledgeRequest).ack_ids) == ["ack-1", "ack-2"]
        assert shell.stderr == ""

    def test_does_not_acknowledge_by_itself(self, shell, server):
        server.answers = [[message()]]
        shell.run("pull", "billing")
        assert not any(isinstance(r, types.AcknowledgeRequest) for r in server.requests)

    def test_asks_again_until_it_has_enough(self, shell, server):
        server.answers = [[message(), message()], [message()]]
        assert len(shell.lines("pull", "billing", "--max", "3")) == 3
        asked = [r.max_messages for r in server.requests if isinstance(r, types.PullRequest)]
        assert asked == [3, 1]

    def test_nothing_there(self, shell):
        assert shell.run("pull", "billing") == ""
        assert shell.stderr == "no messages\n"

    def test_wait(self, shell, server):
        shell.run("pull", "billing", "--wait", "5s")
        assert not server.last(types.PullRequest).return_immediately

    def test_follow_goes_on_after_an_empty_answer(self, shell, server):
        server.answers = [[message()], [], [message()]]
        output = shell.run("pull", "billing", "--follow", "--max", "2", "--ack")
        assert output.count("\n") == 2

    def test_strangers_words_cannot_move_the_cursor(self, shell, server):
        server.answers = [[message("a\x1b[2Jb\nc ☃".encode())]]
        assert shell.run("pull", "billing").endswith("a\\x1b[2Jb\\nc ☃\n")

    def test_markup_is_text(self, shell, server):
        server.answers = [[message(b"[bold]x[/bold] :smile:")]]
        assert shell.run("pull", "billing").endswith("[bold]x[/bold] :smile:\n")

    def test_missing_subscription(self, shell, server):
        server.refusal = (grpc.StatusCode.NOT_FOUND, "no such subscription")
        assert "no such subscription" in shell.refusal("pull", "billing")

    def test_follow_fails_when_there_never_was_a_server(self, shell):
        message = shell.refusal("pull", "billing", "--follow", "--endpoint", "127.0.0.1:1")
        assert "no server answers" in message


def test_refusal_without_a_reason(shell, server):
    server.refusal = (grpc.StatusCode.INTERNAL, "")
    assert "INTERNAL" in shell.refusal("pull", "billing")


def test_every_json_line_is_one_object(shell, server):
    server.answers = [[message(b"two\nlines")]]
    [line] = shell.run("pull", "billing", "--json").splitlines()
    assert json.loads(line)["data"] == "two\nlines"


class TestStrangersWords:
    """Nothing that a message says reaches the terminal as an instruction."""

    #: A colour, a C1 control, the mark that turns the direction of writing, and a line separator.
    WORDS = "a\x1b[31m\x9b\u202e\u2028b"

    @pytest.fixture
    def said(self, shell, server):
        one = message(
            self.WORDS.encode(),
            attributes={self.WORDS: self.WORDS},
            ordering_key=self.WORDS,
        )
        server.answers = [[one]]
        return lambda *options: shell.run("pull", "billing", *options)

    def test_as_text(self, said):
        text = said()
        assert text.count("\n") == 1
        assert all(char.isprintable() for char in text.rstrip("\n"))

    def test_as_json(self, said):
        line = said("--json")
        assert all(char.isprintable() for char in line.rstrip("\n"))
        found = json.loads(line)
        assert found["attributes"] == {self.WORDS: self.WORDS}
        assert (found["data"], found["ordering_key"]) == (self.WORDS, self.WORDS)


class TestTerms:
    def test_options(self, shell, server, orders):
        shell.run("publish", orders, "x", "--delay", "1m30s", "--ttl", "2h", "--priority", "7")
        [sent] = server.last(types.PublishRequest).messages
        assert dict(sent.attributes) == {
            "fanlog-delay": "90",
            "fanlog-ttl": "7200",
            "fanlog-priority": "7",
        }
        shell.run("publish", orders, "x", "--deliver-at", "2030-01-31T12:00:00Z")
        [sent] = server.last(types.PublishRequest).messages
        assert dict(sent.attributes) == {"fanlog-deliver-at": "2030-01-31T12:00:00Z"}
        shell.run("publish", orders, "x", "--depends-on", "1", "--depends-on", "2")
        [sent] = server.last(types.PublishRequest).messages
        assert dict(sent.attributes) == {"fanlog-depends-on": "1,2"}

    def test_numbers(self, shell, server, orders):
        given = ("--publisher", "p", "--sequence", "7", "--publisher-epoch", "2")
        shell.run("publish", orders, "x", *given)
        [sent] = server.last(types.PublishRequest).messages
        assert dict(sent.attributes) == {
            "fanlog-publisher": "p",
            "fanlog-sequence": "7",
            "fanlog-publisher-epoch": "2",
        }
        refusal = shell.refusal("publish", orders, "x", *given, "--attr", "fanlog-sequence=8")
        assert "--sequence say the same; give one of them" in refusal

    def test_one_thing_said_twice(self, shell, orders):
        given = ("--ttl", "5s", "--attr", "fanlog-ttl=6")
        assert "give one of them" in shell.refusal("publish", orders, "x", *given)
