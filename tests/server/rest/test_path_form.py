"""What is particular to the path form: PUT, positions, numbers in the query."""

from __future__ import annotations

import pytest

from server.unique import unique


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


def publish(call, topic: str, count: int) -> list[str]:
    body = {"messages": [{"data": "YQ=="}] * count}
    return list(call("POST", f"/v1/{topic}/publish", body).json()["messageIds"])


def pull(call, subscription: str, count: int = 100) -> list[dict]:
    path = f"/v1/{subscription}/pull?maxMessages={count}&returnImmediately=true"
    return call("POST", path).json().get("receivedMessages", [])


def ack(call, subscription: str, received: list[dict]) -> None:
    body = {"ackIds": [one["ackId"] for one in received]}
    assert call("POST", f"/v1/{subscription}/acknowledge", body).json() == {}


def ids(received: list[dict]) -> list[str]:
    return [one["message"]["messageId"] for one in received]


class TestPull:
    def test_ten_unless_told(self, server, call):
        topic, subscription = server.topic_and_subscription()
        publish(call, topic, 15)
        received = call("POST", f"/v1/{subscription}/pull").json()["receivedMessages"]
        assert len(received) == 10
        assert len(pull(call, subscription, 3)) == 3

    @pytest.mark.parametrize(
        ("query", "body", "word"),
        [
            ("maxMessages=0", None, "max_messages"),
            ("maxMessages=x", None, "maxMessages"),
            ("maxMessages=1&max_messages=2", None, "max_messages"),
            ("maxMessages=1", {"maxMessages": 2}, "maxMessages"),
            ("subscription=x", None, "subscription"),
            ("colour=red", None, "colour"),
        ],
    )
    def test_what_does_not_fit(self, server, call, query, body, word):
        _, subscription = server.topic_and_subscription()
        assert word in call.refused(400, "POST", f"/v1/{subscription}/pull?{query}", body)


class TestPut:
    def test_creates_then_replaces_all_settings(self, server, call):
        topic = server.topic()
        path = f"/v1/projects/test/subscriptions/{unique('path-sub')}"
        first = {
            "topic": topic,
            "ackDeadlineSeconds": 20,
            "filter": "event=a",
            "labels": {"a": "b"},
        }
        made = call("PUT", path, first).json()
        assert made["ackDeadlineSeconds"] == 20
        assert made["createdAt"].endswith("Z")
        again = call("PUT", path, first)
        assert (again.status_code, again.json()) == (200, made)
        replaced = call("PUT", path, {"topic": topic, "ackDeadlineSeconds": 40}).json()
        assert replaced["ackDeadlineSeconds"] == 40
        assert "filter" not in replaced
        assert "labels" not in replaced
        # When it was made is this form's to tell; Google's clients get no field of ours.
        assert replaced.pop("createdAt") == made["createdAt"]
        assert call("GET", path).json() == replaced
        google = call("PUT", path + "-2", first, headers={"x-goog-api-client": "gapic"}).json()
        assert "createdAt" not in google

    def test_a_topic_by_its_id(self, server, call):
        topic = server.topic()
        path = f"/v1/projects/test/subscriptions/{unique('path-sub')}"
        assert call("PUT", path, {"topic": topic.rpartition("/")[2]}).json()["topic"] == topic

    def test_what_cannot_be_changed(self, server, call):
        topic, other = server.topic(), server.topic()
        path = f"/v1/projects/test/subscriptions/{unique('path-sub')}"
        call("PUT", path, {"topic": topic})
        assert topic in call.refused(409, "PUT", path, {"topic": other})
        body = {"topic": topic, "enableMessageOrdering": True}
        assert "enable_message_ordering" in call.refused(409, "PUT", path, body)

    def test_backlog_and_leases_stay(self, server, call):
        topic, subscription = server.topic_and_subscription()
        published = publish(call, topic, 2)
        held = pull(call, subscription, 1)
        call("PUT", f"/v1/{subscription}", {"topic": topic, "ackDeadlineSeconds": 60})
        assert ids(pull(call, subscription)) == published[1:]
        ack(call, subscription, held)

    def test_a_dead_letter_topic_that_was_made_stays(self, server, call):
        topic = server.topic()
        path = f"/v1/projects/test/subscriptions/{unique('path-sub')}"
        body = {"topic": topic, "labels": {"fanlog-dead-letter": "auto"}}
        made = call("PUT", path, body).json()
        assert call("PUT", path, body).json() == made
        assert made["deadLetterPolicy"]["deadLetterTopic"].endswith(".dead-letters")

    @pytest.mark.parametrize(
        ("query", "headers"),
        [
            ("?alt=json", {}),
            ("?%24alt=json%3Benum-encoding%3Dint", {}),
            ("", {"x-goog-api-client": "gl-python/3"}),
            ("", {"if-none-match": "*"}),
        ],
    )
    def test_who_only_wants_to_create(self, server, call, query, headers):
        topic, subscription = server.topic_and_subscription()
        path = f"/v1/{subscription}{query}"
        call.refused(409, "PUT", path, {"topic": topic}, headers=headers)


class TestPositions:
    def test_where_a_subscription_stands(self, server, call):
        topic, subscription = server.topic_and_subscription()
        published = publish(call, topic, 4)
        held = pull(call, subscription, 2)
        found = call("GET", f"/v1/{subscription}/snapshot").json()
        assert found["subscription"] == subscription
        assert found["topic"] == topic
        assert found["position"] == published[0]
        assert found["unackedMessages"] == 4
        assert found["outstandingMessages"] == 2
        ack(call, subscription, held)
        found = call("GET", f"/v1/{subscription}/snapshot").json()
        assert found["position"] == published[2]

    def test_back_to_a_position_and_to_a_message(self, server, call):
        topic, subscription = server.topic_and_subscription(retain_acked_messages=True)
        published = publish(call, topic, 3)
        begin = call("GET", f"/v1/{subscription}/snapshot").json()["position"]
        ack(call, subscription, pull(call, subscription))
        end = call("GET", f"/v1/{subscription}/snapshot").json()["position"]

        def seek(**target: str) -> list[str]:
            moved = call("POST", f"/v1/{subscription}/seek", target).json()
            received = pull(call, subscription)
            assert moved["reopened"] == len(received)
            if received:
                ack(call, subscription, received)
            return ids(received)

        assert seek(position=begin) == published
        assert seek(messageId=published[1]) == published[1:]
        assert seek(message_id=published[2]) == published[2:]
        assert seek(position=end) == []

    def test_a_pattern_has_a_place_in_each_topic(self, server, call):
        stem = unique("path-pattern")
        topics = [f"projects/test/topics/{stem}.{end}" for end in "ab"]
        for topic in topics:
            server.topic(name=topic)
        subscription = server.subscription(
            f"projects/test/topics/{stem}.*",
            name=f"projects/test/subscriptions/{unique('path-sub')}",
            retain_acked_messages=True,
        )
        published = [publish(call, topic, 2) for topic in topics]
        position = call("GET", f"/v1/{subscription}/snapshot").json()["position"]
        assert position.split(",") == [published[0][0], published[1][0]]
        ack(call, subscription, pull(call, subscription) + pull(call, subscription))
        call("POST", f"/v1/{subscription}/seek", {"messageId": published[1][1]})
        assert ids(pull(call, subscription)) == [published[1][1]]
        call("POST", f"/v1/{subscription}/seek", {"position": position})
        found = ids(pull(call, subscription) + pull(call, subscription))
        assert sorted(found) == sorted(published[0] + published[1])

    def test_one_that_is_detached_stands_nowhere(self, server, call):
        _, subscription = server.topic_and_subscription()
        call("POST", f"/v1/{subscription}:detach")
        assert call("GET", f"/v1/{subscription}/snapshot").json()["position"] == ""

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"position": "x"},
            {"position": ""},
            {"position": 5},
            {"position": "99999000000000000"},
            {"messageId": "2000000000000,3000000000000"},
            {"messageId": "2000000000000", "time": "2026-01-01T00:00:00Z"},
            {"colour": "red"},
            [],
        ],
    )
    def test_what_does_not_fit(self, server, call, body):
        topic, subscription = server.topic_and_subscription()
        publish(call, topic, 1)
        call.refused(400, "POST", f"/v1/{subscription}/seek", body)
        assert len(pull(call, subscription)) == 1

    def test_a_message_that_is_yet_to_come(self, server, call):
        topic, subscription = server.topic_and_subscription()
        [last] = publish(call, topic, 1)
        ahead = str(int(last) + 2)
        sentence = call.refused(400, "POST", f"/v1/{subscription}/seek", {"messageId": ahead})
        assert "no message" in sentence

    def test_the_short_form_has_them_too(self, call):
        topic, name = unique("path-short"), unique("path-sub")
        call("POST", "/v1/topics", {"name": topic})
        body = {"name": name, "topic": topic, "retain_acked_messages": True}
        call("POST", "/v1/subscriptions", body)
        full = f"projects/fanlog/subscriptions/{name}"
        published = publish(call, f"projects/fanlog/topics/{topic}", 3)
        ack(call, full, pull(call, full))
        found = call("GET", f"/v1/subscriptions/{name}/snapshot").json()
        assert (found["topic"], found["unacked_messages"]) == (topic, 0)
        path = f"/v1/subscriptions/{name}:seek"
        moved = call("POST", path, {"message_id": published[1]}).json()
        assert (moved["reopened"], moved["acknowledged"]) == (2, 0)
        assert "hint" not in moved
        found = call("GET", f"/v1/subscriptions/{name}/snapshot").json()
        assert found["position"] == published[1]
        moved = call("POST", path, {"position": published[2]}).json()
        assert (moved["reopened"], moved["acknowledged"]) == (0, 1)
        assert moved["hint"] == "nothing was reopened: nothing from there on was acknowledged"
        assert ids(pull(call, full)) == published[2:]
        moved = call("POST", path, {"position": "now"}).json()
        assert (moved["reopened"], moved["acknowledged"]) == (0, 1)
        assert moved["hint"].endswith("nothing was published from there on")
        assert call("POST", path, {"position": "earliest"}).json()["reopened"] == 3
        assert ids(pull(call, full)) == published
