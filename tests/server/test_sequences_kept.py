"""Numbers of publishers where others look after the messages: copies, push, backups, trims."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core.exceptions import FailedPrecondition

from fanlog.broker.clock import ManualClock
from fanlog.log.backup import backup, restore
from fanlog.server.resource_file import ensure_resources, read_resources
from server.asking_surfaces import rest
from server.receiver import receiving
from server.test_publisher_sequences import data, publish, take


def keep_for_ten_minutes(server, topic, subscription):
    """Nobody needs messages that are older."""
    kept = {"message_retention_duration": timedelta(minutes=10)}
    mask = {"paths": ["message_retention_duration"]}
    server.publisher.update_topic(topic={"name": topic, **kept}, update_mask=mask)
    server.subscriber.update_subscription(
        subscription={"name": subscription, **kept}, update_mask=mask
    )


def fail(server, name, received):
    """Nack messages for good: they become dead letters."""
    for one in received:
        server.subscriber.modify_ack_deadline(
            subscription=name,
            ack_ids=[one.ack_id],
            ack_deadline_seconds=0,
            metadata=[("fanlog-requeue", "false")],
        )


class TestCopies:
    @pytest.fixture
    def server(self, still_server):
        return still_server

    @pytest.fixture
    def failed(self, server):
        """Number 2 of three is a dead letter; its reader, its topic and subscription, the ids."""
        dead, topic = server.topic(), server.topic()
        reader = server.subscription(dead)
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        name = server.subscription(topic, dead_letter_policy=policy)
        ids = publish(server, topic, 1, 2, 3)
        received = server.pull(name)
        fail(server, name, received[1:2])
        server.ack(name, [received[0], received[2]])
        server.await_drained(name)
        return reader, topic, name, ids

    def test_a_dead_letter_has_no_number_and_leaves_no_gap(self, server, failed):
        reader, topic, name, ids = failed
        [letter] = server.await_pull(reader)
        attributes = dict(letter.message.attributes)
        assert letter.message.data == b"2"
        assert attributes["fanlog-publisher"] == "p"
        assert "fanlog-sequence" not in attributes
        assert attributes["fanlog-source-message-id"] == ids[1]
        publish(server, topic, 4)
        assert take(server, name) == [b"4"]
        assert publish(server, topic, 2) == [ids[1]], "it was published all the same"
        assert take(server, name) == []

    def test_letters_of_many_publishers_are_not_held_back(self, server):
        dead, topic = server.topic(), server.topic()
        reader = server.subscription(dead)
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        name = server.subscription(topic, dead_letter_policy=policy)
        publish(server, topic, 5)
        publish(server, topic, 3, publisher="q", epoch=7)
        fail(server, name, server.pull(name))
        server.await_drained(name)
        assert sorted(data(server.await_pull(reader, 2))) == [b"3", b"5"]

    def test_a_letter_is_redriven_where_it_failed(self, server, failed):
        reader, topic, name, _ = failed
        publish(server, topic, 5)
        answer = rest(server, "POST", f"/v1/{reader}:redrive", {"all": True})
        assert int(answer["reopened"]) == 1
        assert take(server, name) == [b"2"], "the gap before 5 is none of its business"
        publish(server, topic, 4)
        assert take(server, name) == [b"4", b"5"]

    def test_a_redriven_copy_is_neither_a_repetition_nor_behind_a_gap(self, server, failed):
        reader, topic, name, ids = failed
        keep_for_ten_minutes(server, topic, name)
        server.advance(700)
        server.sweep()
        publish(server, topic, 5)
        body = {"all": True, "copies": True}
        answer = rest(server, "POST", f"/v1/{reader}:redrive", body)
        assert int(answer["copied"]) == 1
        [copy] = server.pull(name)
        assert copy.message.data == b"2"
        assert "fanlog-sequence" not in copy.message.attributes
        server.ack(name, [copy])
        assert publish(server, topic, 2) == [ids[1]], "the original is known, and is gone"
        publish(server, topic, 4)
        assert take(server, name) == [b"4", b"5"]

    def test_messages_that_stood_behind_a_gap_are_reopened_in_order(self, server):
        topic, name = server.topic_and_subscription(enable_message_ordering=True)
        [first, *_] = publish(server, topic, 1, key="k")
        [third, fourth] = publish(server, topic, 3, 4, key="k")
        [second] = publish(server, topic, 2, key="k")
        assert take(server, name) == [b"1", b"2", b"3", b"4"]
        body = {"messageIds": [fourth, second, third, first]}
        assert int(rest(server, "POST", f"/v1/{name}:reopen", body)["reopened"]) == 4
        assert sorted(take(server, name)) == [b"1", b"2", b"3", b"4"]
        server.await_drained(name)

    def test_a_message_behind_a_gap_is_not_reopened_ahead_of_it(self, server):
        topic, name = server.topic_and_subscription()
        publish(server, topic, 1)
        [held] = publish(server, topic, 3)
        assert take(server, name) == [b"1"]
        answer = rest(server, "POST", f"/v1/{name}:reopen", {"messageIds": [held]})
        assert int(answer.get("reopened", 0)) == 0
        assert take(server, name) == []
        server.subscriber.seek(request={"subscription": name, "time": "2999-01-01T00:00:00Z"})
        answer = rest(server, "POST", f"/v1/{name}:reopen", {"messageIds": [held]})
        assert int(answer["reopened"]) == 1
        assert take(server, name) == [], "it is still behind its gap"
        publish(server, topic, 2)
        assert take(server, name) == [b"2", b"3"]


@pytest.mark.parametrize("ordering", [False, True])
def test_push(still_server, ordering):
    server = still_server
    with receiving() as endpoint:
        topic, name = server.topic_and_subscription(
            enable_message_ordering=ordering, push_config={"push_endpoint": endpoint.url()}
        )
        key = "k" if ordering else ""
        publish(server, topic, 1, key=key)
        endpoint.wait(1)
        publish(server, topic, 3, 4, key=key)
        server.publish(topic, b"plain")
        endpoint.wait(2)
        publish(server, topic, 2, key=key)
        endpoint.wait(5)
        server.await_drained(name)
    found = [one.data for one in endpoint.received]
    assert found[:2] == [b"1", b"plain"]
    # Without order, requests are on their way side by side.
    assert (found if ordering else sorted(found[2:]))[-3:] == [b"2", b"3", b"4"]


@pytest.mark.parametrize("first", [0, 9])
@pytest.mark.parametrize("ordering", [False, True])
def test_priority_does_not_overtake_a_gap(still_server, first, ordering):
    """What stood behind a gap has its place behind what filled it, whatever its priority."""
    server = still_server
    topic, name = server.topic_and_subscription(enable_message_ordering=ordering)
    server.publish(topic, b"low")
    publish(server, topic, 1, fanlog_priority=str(first))
    publish(server, topic, 3, fanlog_priority="9")
    assert take(server, name) == ([b"1", b"low"] if first else [b"low", b"1"])
    server.publish(topic, b"low")
    publish(server, topic, 2, fanlog_priority=str(first))
    found = take(server, name)
    assert sorted(found) == [b"2", b"3", b"low"]
    assert found.index(b"2") < found.index(b"3")
    server.await_drained(name)
    # As well when it is given up.
    publish(server, topic, 5, fanlog_priority="9")
    assert take(server, name) == []
    server.advance(31)
    assert take(server, name) == [b"5"]
    server.await_drained(name)


def test_a_time_to_live_goes_on_behind_a_gap(still_server):
    server = still_server
    topic, name = server.topic_and_subscription()
    publish(server, topic, 1)
    publish(server, topic, 3, fanlog_ttl="5")
    server.advance(10)
    publish(server, topic, 2)
    publish(server, topic, 4)
    assert take(server, name) == [b"1", b"2", b"4"]
    server.await_drained(name)


def test_a_cause_behind_a_gap_is_waited_for(still_server):
    server = still_server
    topic, name = server.topic_and_subscription()
    publish(server, topic, 1)
    [cause] = publish(server, topic, 3)
    server.publish(topic, b"effect", **{"fanlog-depends-on": cause})
    assert take(server, name) == [b"1"]
    publish(server, topic, 2)
    assert take(server, name) == [b"2", b"3", b"effect"]
    server.await_drained(name)


def test_in_a_backup(start_server, tmp_path):
    clock = ManualClock()
    before = start_server(clock=clock)
    topic, name = before.topic_and_subscription()
    later = before.subscription(topic)
    ids = publish(before, topic, 1, 2)
    [fourth] = publish(before, topic, 4)
    publish(before, topic, 6)
    [third] = publish(before, topic, 3)
    assert take(before, name) == [b"1", b"2", b"3", b"4"]
    before.stop()
    backup(tmp_path / "data-0", tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")

    after = start_server(clock=clock, data_dir=tmp_path / "restored")
    assert publish(after, topic, 1, 2, 3, 4) == [*ids, third, fourth]
    with pytest.raises(FailedPrecondition, match="expected next is 5"):
        publish(after, topic, 0)
    assert take(after, name) == []
    assert take(after, later) == [b"1", b"2", b"3", b"4"]
    publish(after, topic, 5)
    assert take(after, name) == take(after, later) == [b"5", b"6"]
    after.await_drained(name)


class TestTrims:
    @pytest.fixture
    def server(self, lean_server):
        return lean_server

    @pytest.mark.parametrize("ordering", [False, True])
    def test_what_retention_takes_is_no_gap(self, server, ordering):
        topic, name = server.topic_and_subscription(enable_message_ordering=ordering)
        keep_for_ten_minutes(server, topic, name)
        key = "k" if ordering else ""
        ids = publish(server, topic, 1, 2, key=key)
        server.advance(700)
        server.sweep()
        publish(server, topic, 3, key=key)
        assert take(server, name) == [b"3"]
        assert publish(server, topic, 2, key=key) == [ids[1]], "known, and gone"
        assert take(server, name) == []
        server.await_drained(name)

    @pytest.mark.parametrize("ordering", [False, True])
    @pytest.mark.parametrize("is_filled", [False, True])
    def test_retention_takes_a_message_behind_a_gap(self, server, ordering, is_filled):
        topic = server.topic(labels={"fanlog-gap-timeout": "3600"})
        name = server.subscription(topic, enable_message_ordering=ordering)
        keep_for_ten_minutes(server, topic, name)
        key = "k" if ordering else ""
        publish(server, topic, 1, key=key)
        assert take(server, name) == [b"1"]
        publish(server, topic, 3, key=key)
        server.advance(700)
        server.sweep()
        publish(server, topic, 4, key=key)
        assert take(server, name) == []
        if is_filled:
            publish(server, topic, 2, key=key)
            assert take(server, name) == [b"2", b"4"]
        else:
            # The time-out of 3 counts, though it is gone: nobody gets 4 before 2 is given up.
            server.advance(2890)
            server.sweep()
            assert take(server, name) == []
            server.advance(20)
        publish(server, topic, 5, key=key)
        assert take(server, name) == [b"5"]
        server.await_drained(name)

    def test_places_go_with_their_messages(self, server):
        topic, name = server.topic_and_subscription()
        keep_for_ten_minutes(server, topic, name)
        publish(server, topic, 1)
        publish(server, topic, 3)
        publish(server, topic, 2)
        assert take(server, name) == [b"1", b"2", b"3"]
        server.advance(700)
        server.sweep()
        publish(server, topic, 4)
        server.sweep()
        [partition] = server.broker.hard.catalog.topic(topic).partitions
        assert server.broker.hard.agendas.find(partition) is None
        assert take(server, name) == [b"4"]


RESOURCES = """
[topics.numbers-of-a-file]
labels = { fanlog-gap-timeout = "5", fanlog-publisher-life = "600" }
"""


def test_labels_in_the_resources_file(still_server, tmp_path):
    server = still_server
    path = tmp_path / "resources.toml"
    path.write_text(RESOURCES)
    server.run(ensure_resources(server.broker, read_resources(path, "p-numbers")))
    topic = "projects/p-numbers/topics/numbers-of-a-file"
    name = server.subscription(topic)
    publish(server, topic, 1)
    publish(server, topic, 3)
    assert take(server, name) == [b"1"]
    server.advance(5.1)
    assert take(server, name) == [b"3"]
    server.advance(600)
    server.sweep()
    with pytest.raises(FailedPrecondition, match="is not known"):
        publish(server, topic, 4)
