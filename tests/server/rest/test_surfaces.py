"""One table of cases over every surface: what works on one works on all, and fails alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from server.conftest import PATIENCE_S
from server.rest.json_surfaces import GoogleJson, PathForm, Short
from server.rest.official_surfaces import Gapic, official_rest
from server.rest.surfaces import Refused, subscription_name, topic_name
from server.unique import unique

SURFACES = ("grpc", "official-rest", "google-json", "short", "path")
FORMS = {"google-json": GoogleJson, "short": Short, "path": PathForm}
LONG_AGO = "2001-01-01T00:00:00Z"
FAR_AHEAD = "2101-01-01T00:00:00Z"


@pytest.fixture(params=SURFACES)
def surface(server, request):
    match request.param:
        case "grpc":
            yield Gapic(server.publisher, server.subscriber)
        case "official-rest":
            yield official_rest(server)
        case form:
            speaker = FORMS[form](server)
            yield speaker
            speaker.close()


@pytest.fixture
def topic(surface):
    name = unique("rest-topic")
    surface.create_topic(name)
    return name


@pytest.fixture
def subscription(surface, topic):
    name = unique("rest-sub")
    surface.create_subscription(name, topic)
    return name


def data(received: list[Any]) -> list[bytes]:
    return [one.data for one in received]


def ack_ids(received: list[Any]) -> list[str]:
    return [one.ack_id for one in received]


def refused(call: Any, *args: Any, **fields: Any) -> Refused:
    with pytest.raises(Refused) as found:
        call(*args, **fields)
    return found.value


class TestTopics:
    def test_life(self, surface):
        name = unique("rest-topic")
        made = surface.create_topic(name, labels={"team": "a"})
        assert made["name"] == topic_name(name)
        assert made["labels"] == {"team": "a"}
        assert surface.get_topic(name) == made
        changed = surface.update_topic(
            name, labels={"team": "b"}, message_retention_duration="3600s"
        )
        assert changed["labels"] == {"team": "b"}
        assert changed["message_retention_duration"] == "3600s"
        assert surface.get_topic(name) == changed
        surface.delete_topic(name)
        assert refused(surface.get_topic, name).status == "NOT_FOUND"

    def test_lists_page_by_page(self, surface):
        made = [topic_name(unique("listed")) for _ in range(5)]
        for name in made:
            surface.create_topic(name.rpartition("/")[2])
        found = surface.list_topics(page_size=2)
        assert set(made) <= set(found)
        assert len(found) == len(set(found))

    def test_its_subscriptions(self, surface, topic, subscription):
        assert surface.list_topic_subscriptions(topic) == [subscription_name(subscription)]


class TestSubscriptions:
    def test_life(self, surface, topic):
        name = unique("rest-sub")
        dead = unique("dead")
        surface.create_topic(dead)
        made = surface.create_subscription(
            name,
            topic,
            ack_deadline_seconds=20,
            filter='attributes.a = "b"',
            enable_message_ordering=True,
            labels={"team": "a"},
            dead_letter_policy={
                "dead_letter_topic": topic_name(dead),
                "max_delivery_attempts": 7,
            },
            retry_policy={"minimum_backoff": "1s", "maximum_backoff": "2s"},
        )
        assert made["name"] == subscription_name(name)
        assert made["topic"] == topic_name(topic)
        assert made["ack_deadline_seconds"] == 20
        assert made["filter"] == 'attributes.a = "b"'
        assert made["enable_message_ordering"] is True
        assert made["dead_letter_policy"]["max_delivery_attempts"] == 7
        assert made["retry_policy"] == {"minimum_backoff": "1s", "maximum_backoff": "2s"}
        assert surface.get_subscription(name) == made
        changed = surface.update_subscription(name, ack_deadline_seconds=60, labels={})
        assert changed["ack_deadline_seconds"] == 60
        assert "labels" not in changed
        assert changed["filter"] == made["filter"]
        assert surface.get_subscription(name) == changed
        assert subscription_name(name) in surface.list_subscriptions(page_size=3)
        surface.delete_subscription(name)
        assert refused(surface.get_subscription, name).status == "NOT_FOUND"

    def test_detach(self, surface, subscription):
        surface.detach(subscription)
        assert surface.get_subscription(subscription)["detached"] is True
        assert refused(surface.pull, subscription).status == "FAILED_PRECONDITION"


class TestMessages:
    def test_publish_pull_acknowledge(self, surface, topic, subscription):
        published = surface.publish(
            topic,
            {"data": b"\x00\xff one", "attributes": {"k": "v", "empty": ""}},
            {"data": b"two"},
            {"attributes": {"only": "attributes"}},
        )
        received = surface.pull(subscription)
        assert [one.message_id for one in received] == published
        assert data(received) == [b"\x00\xff one", b"two", b""]
        assert received[0].attributes == {"k": "v", "empty": ""}
        surface.ack(subscription, ack_ids(received))
        assert surface.pull(subscription) == []

    def test_no_more_than_asked_for(self, surface, topic, subscription):
        surface.publish(topic, *({"data": b"%d" % n} for n in range(5)))
        assert data(surface.pull(subscription, 2)) == [b"0", b"1"]
        assert data(surface.pull(subscription, 10)) == [b"2", b"3", b"4"]

    def test_a_nack_brings_it_back(self, surface, topic, subscription):
        surface.publish(topic, {"data": b"again"})
        surface.nack(subscription, ack_ids(surface.pull(subscription)))
        assert data(surface.pull(subscription, wait=True)) == [b"again"]

    def test_a_longer_deadline(self, surface, topic, subscription):
        surface.publish(topic, {"data": b"held"})
        held = surface.pull(subscription)
        surface.modify(subscription, ack_ids(held), 600)
        assert surface.pull(subscription) == []
        surface.ack(subscription, ack_ids(held))

    def test_a_pull_waits_for_the_first_message(self, surface, topic, subscription, server):
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(surface.pull, subscription, wait=True)
            server.await_waiters(subscription_name(subscription), 1)
            server.publish(topic_name(topic), b"late")
            assert data(pull.result(PATIENCE_S)) == [b"late"]

    def test_delivery_attempts_and_dead_letters(self, surface, topic):
        dead, name, letters = unique("dead"), unique("rest-sub"), unique("letters")
        surface.create_topic(dead)
        surface.create_subscription(letters, dead)
        surface.create_subscription(
            name,
            topic,
            dead_letter_policy={
                "dead_letter_topic": topic_name(dead),
                "max_delivery_attempts": 2,
            },
        )
        surface.publish(topic, {"data": b"bad"})
        for attempt in (1, 2):
            [one] = surface.pull(name, wait=True)
            assert one.attempt == attempt
            surface.nack(name, [one.ack_id])
        assert data(surface.pull(letters, wait=True)) == [b"bad"]

    def test_a_filter(self, surface, topic):
        name = unique("rest-sub")
        surface.create_subscription(name, topic, filter='attributes.colour = "red"')
        surface.publish(
            topic,
            {"data": b"red", "attributes": {"colour": "red"}},
            {"data": b"blue", "attributes": {"colour": "blue"}},
        )
        assert data(surface.pull(name)) == [b"red"]

    def test_a_pattern(self, surface):
        stem, name = unique("pattern"), unique("rest-sub")
        surface.create_topic(f"{stem}.placed")
        surface.create_subscription(name, f"{stem}.*")
        surface.create_topic(f"{stem}.paid")
        surface.publish(f"{stem}.placed", {"data": b"placed"})
        surface.publish(f"{stem}.paid", {"data": b"paid"})
        received = surface.pull(name) + surface.pull(name)
        assert sorted(data(received)) == [b"paid", b"placed"]
        topics = {one.attributes["fanlog-topic"] for one in received}
        assert topics == {topic_name(f"{stem}.placed"), topic_name(f"{stem}.paid")}

    def test_order_within_a_key(self, surface, topic):
        name = unique("rest-sub")
        surface.create_subscription(name, topic, enable_message_ordering=True)
        surface.publish(topic, *({"data": b"%d" % n, "ordering_key": "k"} for n in range(3)))
        received = surface.pull(name)
        assert [one.ordering_key for one in received] == ["k"] * 3
        surface.ack(name, ack_ids(received[:1]))
        surface.nack(name, ack_ids(received[1:]))
        again = []
        while len(again) < 2:
            some = surface.pull(name, wait=True)
            surface.ack(name, ack_ids(some))
            again += data(some)
        assert again == [b"1", b"2"]

    def test_exactly_once_says_which_ack_id_is_stale(self, surface, topic):
        name = unique("rest-sub")
        surface.create_subscription(name, topic, enable_exactly_once_delivery=True)
        surface.publish(topic, {"data": b"x"})
        held = ack_ids(surface.pull(name))
        surface.ack(name, held)
        error = refused(surface.ack, name, [held[0][:-1] + "9"])
        assert (error.status, error.reason) == ("FAILED_PRECONDITION", "ACK_IDS_REFUSED")


class TestSeek:
    def test_to_a_time(self, surface, topic, subscription):
        surface.update_subscription(subscription, retain_acked_messages=True)
        surface.publish(topic, {"data": b"a"}, {"data": b"b"})
        surface.ack(subscription, ack_ids(surface.pull(subscription)))
        surface.seek_to_time(subscription, LONG_AGO)
        assert data(surface.pull(subscription)) == [b"a", b"b"]
        surface.seek_to_time(subscription, FAR_AHEAD)
        assert surface.pull(subscription) == []

    def test_to_a_snapshot(self, surface, topic, subscription):
        snapshot = unique("snap")
        surface.publish(topic, {"data": b"a"})
        made = surface.create_snapshot(snapshot, subscription, labels={"why": "test"})
        assert made["topic"] == topic_name(topic)
        assert surface.get_snapshot(snapshot) == made
        assert made["name"] in surface.list_snapshots()
        assert surface.update_snapshot(snapshot, labels={})["expire_time"] == made["expire_time"]
        surface.ack(subscription, ack_ids(surface.pull(subscription)))
        surface.seek_to_snapshot(subscription, snapshot)
        assert data(surface.pull(subscription)) == [b"a"]
        surface.delete_snapshot(snapshot)
        assert refused(surface.get_snapshot, snapshot).status == "NOT_FOUND"


class TestErrors:
    def test_what_does_not_exist(self, surface, topic):
        for call, args, reason in (
            (surface.get_topic, ("nope",), "TOPIC_NOT_FOUND"),
            (surface.delete_topic, ("nope",), "TOPIC_NOT_FOUND"),
            (surface.publish, ("nope", {"data": b"x"}), "TOPIC_NOT_FOUND"),
            (surface.get_subscription, ("nope",), "SUBSCRIPTION_NOT_FOUND"),
            (surface.delete_subscription, ("nope",), "SUBSCRIPTION_NOT_FOUND"),
            (surface.pull, ("nope",), "SUBSCRIPTION_NOT_FOUND"),
            (surface.ack, ("nope", ["x"]), "SUBSCRIPTION_NOT_FOUND"),
            (surface.nack, ("nope", ["x"]), "SUBSCRIPTION_NOT_FOUND"),
            (surface.seek_to_time, ("nope", LONG_AGO), "SUBSCRIPTION_NOT_FOUND"),
            (surface.create_subscription, (unique("rest-sub"), "nope"), "TOPIC_NOT_FOUND"),
            (surface.create_snapshot, (unique("snap"), "nope"), "SUBSCRIPTION_NOT_FOUND"),
        ):
            error = refused(call, *args)
            assert (error.status, error.reason) == ("NOT_FOUND", reason), call
            assert "nope" in error.message

    def test_what_exists_already(self, surface, topic, subscription):
        for error in (
            refused(surface.create_topic, topic),
            refused(surface.create_subscription, subscription, topic),
        ):
            assert (error.status, error.reason) == ("ALREADY_EXISTS", "ALREADY_EXISTS")

    def test_values_out_of_range(self, surface, topic, subscription):
        for call, args, fields, word in (
            (surface.create_topic, ("no",), {}, "3 to 255"),
            (surface.create_topic, ("goog-no",), {}, "goog"),
            (surface.create_topic, (unique("t"),), {"labels": {"A": "b"}}, "label"),
            (surface.publish, (topic,), {}, "messages"),
            (surface.publish, (topic, {"ordering_key": "k"}), {}, "messages[0]"),
            (surface.pull, (subscription, 0), {}, "max_messages"),
            (surface.ack, (subscription, []), {}, "ack_ids"),
            (surface.ack, (subscription, ["what"]), {}, "what"),
            (surface.modify, (subscription, ["what"], 601), {}, "ack_deadline_seconds"),
            (
                surface.create_subscription,
                (unique("rest-sub"), topic),
                {"filter": "attributes.a ="},
                "filter",
            ),
            (
                surface.update_subscription,
                (subscription,),
                {"ack_deadline_seconds": 9},
                "ack_deadline_seconds",
            ),
        ):
            error = refused(call, *args, **fields)
            assert error.status == "INVALID_ARGUMENT", (call, args, fields)
            assert word in error.message

    def test_what_is_not_supported_is_refused_by_name(self, surface, topic):
        error = refused(surface.create_topic, unique("rest-topic"), kms_key_name="k")
        # The short form has no such field at all.
        assert error.status in ("UNIMPLEMENTED", "INVALID_ARGUMENT")
        assert "kms_key_name" in error.message

    def test_nothing_is_changed_by_what_is_refused(self, surface, topic, subscription):
        refused(surface.publish, topic, {"data": b"good"}, {"ordering_key": "no data"})
        assert surface.pull(subscription) == []
