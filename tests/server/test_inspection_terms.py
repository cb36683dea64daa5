"""What looking says of messages that are delayed, that lapse, and that are urgent."""

from __future__ import annotations

import random

import pytest
from pyroaring import BitMap64

from fanlog import times
from fanlog.broker.verbs.reopening import Wanted
from fanlog.model.ids import parse_message_id
from server import test_inspection
from server.test_inspection import data, stamp, states
from server.test_traces import on

server, looking = test_inspection.server, test_inspection.looking


def asking(server, topic, *messages, key="", **asked):
    named = {f"fanlog-{name.replace('_', '-')}": str(value) for name, value in asked.items()}
    return server.publish(topic, *messages, key=key, **named)


class TestPeek:
    def test_a_pending_message_says_when_it_is_due(self, server, looking):
        topic, name = server.topic_and_subscription()
        asking(server, topic, b"late", delay=60, priority=7)
        server.publish(topic, b"now")
        late, now = looking.peek(name)
        assert (late.state, late.priority, late.until) == (
            "PENDING",
            7,
            stamp(server.clock.now() + 60),
        )
        assert (now.state, now.priority, now.HasField("until")) == ("BACKLOG", 0, False)
        received = server.pull(name)
        assert data(received) == [b"now"]
        server.ack(name, received)
        server.advance(61)
        [late] = looking.peek(name)
        assert (late.state, late.HasField("until")) == ("BACKLOG", False)
        assert data(server.pull(name)) == [b"late"]

    def test_at_a_time(self, server, looking):
        topic, name = server.topic_and_subscription()
        at_s = round(server.clock.now()) + 30
        asking(server, topic, b"x", deliver_at=times.of_ns(at_s * 10**9))
        [found] = looking.peek(name)
        assert (found.state, found.until) == ("PENDING", stamp(at_s))

    def test_who_lapses_says_when_and_that_it_has(self, server, looking):
        topic, name = server.topic_and_subscription()
        asking(server, topic, b"short", ttl=5)
        asking(server, topic, b"later", ttl=5, delay=60)
        server.publish(topic, b"ever")
        published_s = server.clock.now()
        short, later, ever = looking.peek(name)
        assert short.expires_at == stamp(published_s + 5)
        assert later.expires_at == stamp(published_s + 65)
        assert not ever.HasField("expires_at")
        server.advance(6)
        found = list(looking.peek(name))
        assert [one.lapsed for one in found] == [True, False, False]
        assert states(found) == ["BACKLOG", "PENDING", "BACKLOG"]
        assert data(server.pull(name)) == [b"ever"]
        assert data(looking.peek(name)) == [b"later", b"ever"]

    def test_a_subscription_has_a_time_to_live_for_those_without(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, labels={"fanlog-ttl": "20"})
        server.publish(topic, b"its")
        asking(server, topic, b"own", ttl=5)
        found = list(looking.peek(name))
        assert [one.expires_at for one in found] == [
            stamp(server.clock.now() + 20),
            stamp(server.clock.now() + 5),
        ]

    @pytest.mark.parametrize("first", [0, 2])
    def test_a_key_waits_for_its_pending_message_before_anybody_met_it(
        self, server, looking, first
    ):
        topic = server.topic()
        name = server.subscription(topic, enable_message_ordering=True)
        [held] = asking(server, topic, b"0", delay=60, key="k")
        other = server.publish(topic, b"1", key="other")
        ids = [held, *other, *server.publish(topic, b"2", key="k")]
        found = {one.message.data: one for one in looking.peek(name, message_id=ids[first])}
        assert found[b"2"].behind_message_id == held
        assert on(looking, ids[2], name).behind_message_id == held
        received = server.pull(name)
        assert data(received) == [b"1"]
        server.ack(name, received)
        assert on(looking, ids[2], name).behind_message_id == held
        server.advance(61)
        assert data(server.pull(name)) == [b"0", b"2"]

    def test_a_pending_message_that_a_filter_leaves_out_holds_up_nobody(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, enable_message_ordering=True, filter='attributes.a = "1"')
        server.publish(topic, b"0", key="k", **{"fanlog-delay": "60"})
        server.publish(topic, b"1", key="k", a="1")
        [found] = looking.peek(name)
        assert (found.message.data, found.behind_message_id) == (b"1", "")
        assert data(server.pull(name)) == [b"1"]

    def test_key_slots(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, labels={"fanlog-assignment": "sticky"})
        asking(server, topic, b"late", delay=60, key="k")
        asking(server, topic, b"now", ttl=5, key="k")
        found = list(looking.peek(name))
        assert states(found) == ["PENDING", "BACKLOG"]
        assert looking.backlog(name).pending == 1
        assert looking.purge(name).purged == 2
        server.advance(61)
        assert data(looking.peek(name)) == []


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("is_ordered", [False, True])
def test_a_peek_shows_what_pulls_then_get(server, looking, seed, is_ordered):
    """With delays, times-to-live and priorities: what is shown as ready comes, and nothing else."""
    rng = random.Random(f"{seed} {is_ordered}")
    topic = server.topic()
    name = server.subscription(
        topic,
        enable_message_ordering=is_ordered,
        filter='attributes.a != "0"' if rng.random() < 0.5 else "",
    )
    for number in range(25):
        key = rng.choice(["", "x", "y", "z"]) if is_ordered else ""
        asked = {"fanlog-delay": str(rng.choice([1, 20]))} if rng.random() < 0.2 else {}
        if rng.random() < 0.2:
            asked["fanlog-ttl"] = str(rng.choice([2, 30]))
        if not key and rng.random() < 0.3:
            asked["fanlog-priority"] = str(rng.randint(1, 9))
        server.publish(topic, b"%d" % number, key=key, a=str(rng.randrange(3)), **asked)
        if rng.random() < 0.3:
            for one in server.pull(name, rng.randint(1, 3)):
                rng.choice([server.ack, server.nack, lambda *_: None])(name, [one])
        if rng.random() < 0.2:
            server.advance(rng.choice([1.0, 11.0]))
    found = list(looking.peek(name, page_size=rng.choice([1, 4, 100])))
    ready = {
        one.message.message_id
        for one in found
        if one.state == "BACKLOG" and not one.behind_message_id and not one.lapsed
    }
    never = {one.message.message_id for one in found if one.state == "PENDING" or one.lapsed}
    got: list[str] = []
    for _ in range(10):
        # A key stays with who has its first message: all of it comes in one answer.
        got += [one.message.message_id for one in server.pull(name, 100 if is_ordered else 5)]
    assert not never & set(got)
    if is_ordered:
        # What lapsed leaves when it is the first of its key: what is behind it waits for that.
        lapsed = {one.message.ordering_key for one in found if one.lapsed} - {""}
        held_up = {one.message.message_id for one in found if one.message.ordering_key in lapsed}
        assert ready - held_up <= set(got)
        waited = {one.message.message_id for one in found if one.behind_message_id}
        assert set(got) <= ready | waited
    else:
        assert set(got) == ready


class TestTrace:
    def test_pending_then_not(self, server, looking):
        topic, name = server.topic_and_subscription()
        [message_id] = asking(server, topic, b"x", delay=60, priority=3)
        due_s = server.clock.now() + 60
        trace = looking.trace(message_id)
        assert (trace.due_at, trace.priority) == (stamp(due_s), 3)
        found = on(looking, message_id, name)
        assert (found.state, found.until) == ("PENDING", stamp(due_s))
        due = times.of_ns(found.until.ToNanoseconds())
        assert found.next_delivery == f"at {due}, as its publisher asked"
        server.advance(61)
        assert on(looking, message_id, name).state == "BACKLOG"
        server.ack(name, server.pull(name))
        found = on(looking, message_id, name)
        assert (found.state, found.next_delivery) == ("ACKNOWLEDGED", "")

    @pytest.mark.parametrize("is_letter", [False, True])
    def test_lapsed(self, server, looking, is_letter):
        topic, letters = server.topic(), server.topic()
        policy = {"dead_letter_topic": letters, "max_delivery_attempts": 5}
        extra = (
            {"dead_letter_policy": policy, "labels": {"fanlog-expired": "dead-letter"}}
            if is_letter
            else {}
        )
        name = server.subscription(topic, **extra)
        [message_id] = asking(server, topic, b"x", ttl=5)
        found = on(looking, message_id, name)
        assert (found.lapsed, found.expires_at) == (False, stamp(server.clock.now() + 5))
        server.advance(6)
        found = on(looking, message_id, name)
        assert (found.state, found.lapsed) == ("BACKLOG", True)
        assert ("dead letter" if is_letter else "dropped") in found.next_delivery
        assert server.pull(name) == []
        found = on(looking, message_id, name)
        assert (found.lapsed, found.HasField("expires_at")) == (False, False)

    def test_who_is_reopened_does_not_lapse(self, server, looking):
        topic, name = server.topic_and_subscription()
        [message_id] = asking(server, topic, b"x", ttl=5)
        server.ack(name, server.pull(name))
        server.advance(6)
        assert on(looking, message_id, name).state == "ACKNOWLEDGED"
        offsets = {parse_message_id(message_id)[0]: BitMap64([parse_message_id(message_id)[1]])}
        server.run(server.broker.reopening.reopen(name, Wanted(offsets)))
        found = on(looking, message_id, name)
        assert (found.state, found.lapsed, found.HasField("expires_at")) == (
            "BACKLOG",
            False,
            False,
        )
        [peeked] = looking.peek(name)
        assert (peeked.lapsed, peeked.HasField("expires_at")) == (False, False)
        assert data(server.pull(name)) == [b"x"]


class TestPurge:
    @pytest.mark.parametrize("is_ordered", [False, True])
    def test_pending_and_held_ones_go_and_never_come(self, server, looking, is_ordered):
        topic = server.topic()
        name = server.subscription(topic, enable_message_ordering=is_ordered)
        asking(server, topic, b"held", key="h" if is_ordered else "")
        asking(server, topic, b"late", delay=60, key="k" if is_ordered else "")
        asking(server, topic, b"behind", key="k" if is_ordered else "")
        assert b"late" not in data(server.pull(name))
        assert looking.purge(name, dry_run=True).purged == 3
        assert looking.purge(name).purged == 3
        assert looking.backlog(name).pending == 0
        after = server.publish(topic, b"after", key="k" if is_ordered else "")
        assert [one.message.message_id for one in looking.peek(name)] == after
        received = server.pull(name)
        assert data(received) == [b"after"]
        server.ack(name, received)
        server.advance(61)
        assert server.pull(name) == []
        assert server.metric("fanlog_purged_total", name) == 3

    def test_only_one_of_two_subscriptions_goes_without(self, server, looking):
        topic, name = server.topic_and_subscription()
        other = server.subscription(topic)
        asking(server, topic, b"late", delay=60)
        looking.purge(name)
        server.advance(61)
        assert server.pull(name) == []
        assert data(server.pull(other)) == [b"late"]


class TestBacklog:
    def test_pending_ones_are_counted_apart(self, server, looking):
        topic, name = server.topic_and_subscription()
        asking(server, topic, b"1", b"2", delay=60)
        server.publish(topic, b"3", b"4")
        server.pull(name, 1)
        found = looking.backlog(name, by_topic=True)
        assert (found.messages, found.outstanding, found.delayed, found.pending) == (4, 1, 0, 2)
        assert [one.pending for one in found.topics] == [2]
        server.advance(61)
        assert looking.backlog(name).pending == 0

    def test_those_that_wait_for_others_are_counted_apart(self, server, looking):
        topic, name = server.topic_and_subscription()
        [cause] = server.publish(topic, b"cause")
        asking(server, topic, b"1", b"2", depends_on=cause)
        asking(server, topic, b"late", depends_on=cause, delay=60)
        first = server.pull(name)
        assert data(first) == [b"cause"]
        found = looking.backlog(name, by_topic=True)
        [part] = found.topics
        for one in (found, part):
            counts = (one.messages, one.outstanding, one.delayed, one.pending, one.depending)
            assert counts == (4, 1, 0, 1, 2)
        assert server.metric("fanlog_depending_messages", name) == 2
        assert server.metric("fanlog_backlog_pending_messages", name) == 1
        server.ack(name, first)
        assert data(server.pull(name)) == [b"1", b"2"]
        server.advance(61)
        found = looking.backlog(name)
        assert (found.pending, found.depending) == (0, 0)
        assert server.metric("fanlog_depending_messages", name) == 0
        assert server.metric("fanlog_backlog_pending_messages", name) == 0

    def test_what_a_filter_leaves_out_is_not_waited_for(self, server, looking):
        topic = server.topic()
        name = server.subscription(topic, filter='attributes.a = "1"')
        for number in range(4):
            server.publish(topic, b"x", a=str(number % 2), **{"fanlog-delay": "60"})
        server.pull(name)
        found = looking.backlog(name)
        assert (found.messages, found.pending) == (2, 2)


class TestGaps:
    """Messages that are held back behind a gap in the numbers of their publisher."""

    def test_peek_and_trace_say_what_they_wait_for(self, server, looking):
        topic = server.topic(labels={"fanlog-gap-timeout": "20"})
        name = server.subscription(topic)

        def publish(*numbers):
            return [
                asking(server, topic, b"%d" % number, publisher="p", sequence=number)[0]
                for number in numbers
            ]

        publish(1, 3)
        arrived_s = server.clock.now()
        server.advance(5)
        [held, _] = publish(6, 4)
        first, third, sixth, fourth = looking.peek(name)
        assert (first.state, first.waits_for) == ("BACKLOG", "")
        assert (third.state, third.waits_for) == ("PENDING", "number 2 of publisher 'p'")
        assert third.until == stamp(arrived_s + 20)
        assert fourth.waits_for == "number 2 of publisher 'p'"
        assert (sixth.waits_for, sixth.until) == (
            "number 2 of publisher 'p'",
            stamp(arrived_s + 25),
        )
        publish(2)
        sixth = list(looking.peek(name))[2]
        assert sixth.waits_for == "number 5 of publisher 'p'"
        traced = on(looking, held, name)
        assert (traced.state, traced.waits_for) == ("PENDING", "number 5 of publisher 'p'")
        assert traced.until == stamp(arrived_s + 25)
        assert traced.next_delivery == "when number 5 of its publisher comes, or is given up"
        publish(5)
        assert {one.waits_for for one in looking.peek(name)} == {""}
