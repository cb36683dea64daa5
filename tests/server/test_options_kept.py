"""What messages and subscriptions ask for, where others look after them: copies, backups, trims."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fanlog.broker.clock import ManualClock
from fanlog.log.backup import backup, restore
from fanlog.model.schedules import Schedule
from server.asking_surfaces import rest
from server.conftest import PROJECT
from server.receiver import receiving
from server.unique import unique


def data(received):
    return [one.message.data for one in received]


def take(server, name):
    received = server.pull(name)
    if received:
        server.ack(name, received)
    return data(received)


class TestCopies:
    """`What is made of messages that ask for something` in `docs/reference/options.md`."""

    @pytest.fixture
    def server(self, still_server):
        return still_server

    @pytest.fixture
    def letters(self, server):
        """The reader of dead letters, of messages that each asked for something and failed.

        Their times-to-live are over, and the message that one of them depends on is acknowledged.
        """
        dead, topic = server.topic(), server.topic()
        reader = server.subscription(dead)
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        name = server.subscription(topic, dead_letter_policy=policy)
        [cause] = server.publish(topic, b"cause")
        assert take(server, name) == [b"cause"]
        server.publish(topic, b"delayed", **{"fanlog-delay": "30", "fanlog-ttl": "20"})
        server.publish(topic, b"low")
        server.publish(topic, b"high", **{"fanlog-priority": "9", "fanlog-ttl": "60"})
        server.publish(topic, b"effect", **{"fanlog-depends-on": cause})
        server.advance(31)
        received = server.pull(name)
        assert data(received)[0] == b"high"
        assert sorted(data(received)) == [b"delayed", b"effect", b"high", b"low"]
        for one in received:
            server.subscriber.modify_ack_deadline(
                subscription=name,
                ack_ids=[one.ack_id],
                ack_deadline_seconds=0,
                metadata=[("fanlog-requeue", "false")],
            )
        server.await_drained(name)
        server.advance(100)
        return reader, name, cause

    def test_dead_letters_keep_the_priority_alone(self, server, letters):
        reader, _, _ = letters
        found = server.await_pull(reader)
        assert data(found)[0] == b"high"
        asked = {
            one.message.data: {
                key: value
                for key, value in one.message.attributes.items()
                if key in ("fanlog-delay", "fanlog-ttl", "fanlog-priority", "fanlog-depends-on")
            }
            for one in found
        }
        priority = {"fanlog-priority": "9"}
        assert asked == {b"delayed": {}, b"low": {}, b"high": priority, b"effect": {}}

    def test_redriven_where_they_failed_they_come_however_late(self, server, letters):
        reader, name, _ = letters
        assert int(rest(server, "POST", f"/v1/{reader}:redrive", {"all": True})["reopened"]) == 4
        found = server.pull(name)
        assert data(found)[0] == b"high"
        assert sorted(data(found)) == [b"delayed", b"effect", b"high", b"low"]

    def test_a_cause_that_is_reopened_is_waited_for_again(self, server, letters):
        _, name, cause = letters
        topic = server.subscriber.get_subscription(subscription=name).topic
        server.publish(topic, b"later", **{"fanlog-depends-on": cause})
        [held] = server.pull(name)
        server.subscriber.modify_ack_deadline(
            subscription=name, ack_ids=[held.ack_id], ack_deadline_seconds=0
        )
        rest(server, "POST", f"/v1/{name}:reopen", {"messageIds": [cause]})
        assert data(server.pull(name)) == [b"cause"]

    def test_redriven_copies_ask_for_the_priority_alone(self, server, letters):
        reader, name, _ = letters
        topic = server.subscriber.get_subscription(subscription=name).topic
        kept = {"name": topic, "message_retention_duration": timedelta(minutes=10)}
        mask = {"paths": ["message_retention_duration"]}
        server.publisher.update_topic(topic=kept, update_mask=mask)
        server.advance(700)
        server.sweep()
        body = {"all": True, "copies": True}
        assert int(rest(server, "POST", f"/v1/{reader}:redrive", body)["copied"]) == 4
        found = server.pull(name)
        assert data(found)[0] == b"high"
        assert sorted(data(found)) == [b"delayed", b"effect", b"high", b"low"]
        for one in found:
            assert not {"fanlog-delay", "fanlog-ttl", "fanlog-depends-on"} & set(
                one.message.attributes
            )


class TestBackup:
    def test_all_that_was_asked_for_is_in_a_backup(self, start_server, tmp_path):
        clock = ManualClock()
        before = start_server(clock=clock)
        topic, plain = before.topic_and_subscription(
            labels={"fanlog-ttl": "500"}, dead_letter_policy=None
        )
        before.publish(topic, b"delayed", **{"fanlog-delay": "60"})
        [low] = before.publish(topic, b"low")
        before.publish(topic, b"high", **{"fanlog-priority": "9"})
        before.publish(topic, b"effect", **{"fanlog-depends-on": low})
        before.publish(topic, b"short", **{"fanlog-ttl": "5"})
        [once] = before.publish(topic, b"once", **{"fanlog-dedup-id": "a"})
        moving, single = before.topic_and_subscription(labels={"fanlog-delivery": "at-most-once"})
        before.publish(moving, b"1", b"2")
        assert data(before.pull(single, 1)) == [b"1"]
        total = before.topic(labels={"fanlog-ordering": "total"})
        ordered = before.subscription(total, enable_message_ordering=True)
        before.publish(total, *(b"%d" % n for n in range(5)))
        sticky = before.subscription(
            total,
            labels={"fanlog-assignment": "sticky", "fanlog-slots": "8", "fanlog-start": "earliest"},
        )
        name = f"projects/{PROJECT}/schedules/{unique('minutely')}"
        ticked = before.topic()
        ticks = before.subscription(ticked)
        schedule = Schedule(
            name=name, topic=ticked, cron="* * * * *", time_zone="Europe/Berlin", data=b"tick"
        )
        before.run(before.broker.schedules.create(schedule))
        before.stop()
        backup(tmp_path / "data-0", tmp_path / "backup")
        restore(tmp_path / "backup", tmp_path / "restored")

        after = start_server(clock=clock, data_dir=tmp_path / "restored")
        after.advance(6)
        received = after.pull(plain)
        assert data(received) == [b"high", b"low", b"once"]
        after.ack(plain, received)
        assert take(after, plain) == [b"effect"]
        assert after.publish(topic, b"again", **{"fanlog-dedup-id": "a"}) == [once]
        after.advance(60)
        assert take(after, plain) == [b"delayed"]
        assert data(after.pull(single)) == [b"2"]
        found = after.pull(ordered)
        assert data(found) == [b"%d" % n for n in range(5)]
        assert {one.message.ordering_key for one in found} == {"fanlog-total"}
        slots = {
            one.message.attributes["fanlog-slot"] for one in after.open_stream(sticky).messages(5)
        }
        assert len(slots) == 1
        [tick] = after.await_pull(ticks)
        assert tick.message.attributes["fanlog-schedule"] == name
        labels = after.subscriber.get_subscription(subscription=plain).labels
        assert dict(labels) == {"fanlog-ttl": "500"}


class TestTrims:
    @pytest.fixture
    def server(self, lean_server):
        return lean_server

    def test_a_retention_that_is_made_shorter_ends_delayed_messages(self, server):
        topic, name = server.topic_and_subscription(enable_message_ordering=True)
        server.publish(topic, b"late", key="k", **{"fanlog-delay": "3600"})
        server.publish(topic, b"behind", key="k")
        changed = {"name": name, "message_retention_duration": timedelta(minutes=10)}
        server.subscriber.update_subscription(
            subscription=changed, update_mask={"paths": ["message_retention_duration"]}
        )
        server.advance(601)
        server.sweep()
        server.publish(topic, b"fresh", key="k")
        assert take(server, name) == [b"fresh"]
        server.advance(3600)
        assert take(server, name) == []
        [partition] = server.broker.hard.catalog.topic(topic).partitions
        agenda = server.broker.hard.agendas.find(partition)
        assert agenda is None or not agenda.pending


def test_410_holds_a_key_where_it_is(server):
    answers = iter([204, 410])
    with receiving(lambda _: next(answers, 204)) as endpoint:
        config = {"push_config": {"push_endpoint": endpoint.url()}}
        topic, name = server.topic_and_subscription(enable_message_ordering=True, **config)
        server.publish(topic, b"1", b"2", b"3", b"4", key="k")
        server.await_metric("fanlog_push_breaker", name, 3)
        server.subscriber.modify_push_config(subscription=name, push_config={})
        pulled = server.await_pull(name)
        assert data(pulled) == [b"2", b"3", b"4"], "the one that was refused is the next"
        server.ack(name, pulled[:1])
        server.nack(name, pulled[1:])
        server.subscriber.modify_push_config(
            subscription=name, push_config={"push_endpoint": endpoint.url("/again")}
        )
        endpoint.wait(4)
        server.await_drained(name)
    assert [one.data for one in endpoint.received] == [b"1", b"2", b"3", b"4"]
