"""Key slots: streams of one subscription that each have keys of their own."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
from collections import defaultdict
from typing import Any

import google.pubsub_v1 as gapic
import grpc
import pytest
from google.api_core import exceptions
from google.cloud import pubsub_v1

from commands import invoke
from fanlog import limits
from fanlog.broker.delivery.feed import Feed
from fanlog.v1 import catalog_pb2 as pb
from fanlog.wire.publish import key_hash
from server import options_page
from server.conftest import PATIENCE_S, unique
from server.rest.http import Http

STICKY = {"fanlog-assignment": "sticky"}
SLOTS = 64


def slot_of(message) -> int:
    """The slot of a message's key, worked out apart."""
    return (key_hash(message.ordering_key) >> 32) % SLOTS


def said(received) -> set[int]:
    return {int(one.message.attributes["fanlog-slot"]) for one in received}


def consumers(server, subscription) -> pb.DescribeConsumersResponse:
    with server.channel() as channel:
        call: Any = channel.unary_unary("/fanlog.v1.Catalog/DescribeConsumers")
        request = pb.DescribeConsumersRequest(subscription=subscription)
        answer = call(request.SerializeToString(), timeout=PATIENCE_S)
    return pb.DescribeConsumersResponse.FromString(answer)


def gather(streams, count) -> list[list[Any]]:
    """What each stream gets, until they have so many messages together."""
    found: list[list[Any]] = [[] for _ in streams]
    late_s = time.monotonic() + PATIENCE_S
    while sum(map(len, found)) < count:
        assert time.monotonic() < late_s, f"{sum(map(len, found))} of {count} messages came"
        for stream, messages in zip(streams, found, strict=True):
            messages += stream.pending()
        time.sleep(0.001)
    assert sum(map(len, found)) == count
    return found


def publish_keys(server, topic, count, first=0) -> None:
    for number in range(first, first + count):
        server.publish(topic, b"%d" % number, key=f"key-{number}")


@pytest.fixture
def sticky(still_server):
    return still_server.topic_and_subscription(labels=STICKY)


class TestAssignment:
    def test_each_stream_has_slots_of_its_own(self, still_server, sticky):
        topic, subscription = sticky
        streams = [still_server.open_stream(subscription) for _ in range(3)]
        still_server.await_waiters(subscription, 3)
        publish_keys(still_server, topic, 60)
        got = gather(streams, 60)
        for received in got:
            assert said(received) == {slot_of(one.message) for one in received}
        slots = [said(received) for received in got]
        assert all(slots)
        assert not slots[0] & slots[1]
        assert not slots[0] & slots[2]
        assert not slots[1] & slots[2]

    def test_messages_without_a_key_go_by_their_ids(self, still_server, sticky):
        topic, subscription = sticky
        first = still_server.open_stream(subscription)
        second = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        still_server.publish(topic, *(b"%d" % number for number in range(100)))
        mine, others = gather([first, second], 100)
        assert not said(mine) & said(others)
        assert min(len(mine), len(others)) > 20

    def test_a_slot_moves_only_when_what_was_out_of_it_is_settled(self, still_server, sticky):
        topic, subscription = sticky
        first = still_server.open_stream(subscription)
        publish_keys(still_server, topic, 200)
        held = first.messages(200)
        second = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        publish_keys(still_server, topic, 200)
        [stays, comes] = consumers(still_server, subscription).consumers
        assert set(comes.moving_slots) <= said(held)
        still = [one for one in held if slot_of(one.message) in set(comes.moving_slots)]
        soon = gather([first, second], 200 - len(still))
        assert not said(still) & (said(soon[0]) | said(soon[1]))
        still_server.ack(subscription, held)
        after = gather([first, second], len(still))
        assert not after[0]
        assert said(after[1]) == set(comes.moving_slots)
        assert set(stays.slots) | set(comes.slots) | set(comes.moving_slots) == set(range(SLOTS))

    def test_a_half_closed_stream_holds_its_slots_until_they_are_settled(
        self, still_server, sticky
    ):
        topic, subscription = sticky
        leaving = still_server.open_stream(subscription)
        still_server.publish(topic, b"a", key="k")
        held = leaving.messages(1)
        other = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        leaving.half_close()
        leaving.wait_closed()
        still_server.publish(topic, b"b", key="k")
        still_server.publish(topic, b"c", key="some other key")
        assert [one.message.data for one in other.messages(1)] == [b"c"]
        shown = consumers(still_server, subscription)
        assert list(shown.left_slots) == sorted(said(held))
        assert list(shown.consumers[0].moving_slots) == sorted(said(held))
        still_server.ack(subscription, held)
        assert [one.message.data for one in other.messages(1)] == [b"b"]

    def test_a_stream_that_died_holds_its_slots_until_its_leases_are_over(
        self, still_server, sticky
    ):
        topic, subscription = sticky
        dying = still_server.open_stream(subscription)
        still_server.publish(topic, b"a", key="k")
        dying.messages(1)
        dying.close()
        other = still_server.open_stream(subscription)
        still_server.publish(topic, b"b", key="k")
        still_server.await_waiters(subscription, 1)
        assert other.pending() == []
        still_server.advance(10.0)
        assert sorted(one.message.data for one in other.messages(2)) == [b"a", b"b"]

    def test_a_nacked_message_comes_back_to_its_owner(self, still_server, sticky):
        topic, subscription = sticky
        streams = [still_server.open_stream(subscription) for _ in range(2)]
        still_server.await_waiters(subscription, 2)
        still_server.publish(topic, b"a", key="k")
        [(owner, held)] = [
            (one, got) for one, got in zip(streams, gather(streams, 1), strict=True) if got
        ]
        still_server.modify(subscription, held, 0)
        still_server.await_waiters(subscription, 2)
        assert owner.pending() == []
        still_server.advance(limits.AVERSION_S)
        assert [one.message.data for one in owner.messages(1)] == [b"a"]

    def test_a_client_that_comes_again_has_its_slots_again(self, still_server, sticky):
        _, subscription = sticky
        for name in ("a", "b", "c"):
            still_server.open_stream(subscription, client_id=name)
            still_server.await_waiters(subscription, "abc".index(name) + 1)
        before = {
            one.client_id: list(one.slots)
            for one in consumers(still_server, subscription).consumers
        }
        moves = still_server.metric("fanlog_key_slot_moves_total", subscription)
        lost = still_server._streams.pop(1 - 3)
        lost.half_close()
        lost.wait_closed()
        still_server.open_stream(subscription, client_id="b")
        still_server.await_waiters(subscription, 3)
        after = {
            one.client_id: list(one.slots)
            for one in consumers(still_server, subscription).consumers
        }
        assert set(after["b"]) < set(before["b"]), "three cannot have 22 each"
        assert len(after["b"]) == len(before["b"]) - 1
        moved = still_server.metric("fanlog_key_slot_moves_total", subscription) - moves
        assert moved == len(before["b"]) + len(after["b"])
        assert still_server.metric("fanlog_key_slot_members", subscription) == 3

    def test_a_slow_stream_holds_up_no_other(self, still_server, sticky):
        topic, subscription = sticky
        slow = still_server.open_stream(subscription, max_outstanding_messages=1)
        quick = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        for first in range(0, 3_000, 1_000):
            still_server.publish(topic, *(b"%d" % (first + n) for n in range(1_000)))
        received = []
        mine = {
            number
            for one in consumers(still_server, subscription).consumers[1:]
            for number in one.slots
        }
        while len(received) < 1_200:
            received += quick.messages_now()
            still_server.ack(subscription, received[-900:])
        assert said(received) <= mine
        assert len(slow.pending()) == 1

    def test_a_stream_far_behind_looks_on_in_turns(self, still_server, sticky, monkeypatch):
        """It finds its one message behind thousands of others, and lets others take meanwhile."""
        topic, subscription = sticky
        keys = {(key_hash(key) >> 32) % SLOTS: key for key in map(str, range(1_000))}
        for _ in range(20):
            still_server.publish(topic, *[b"x"] * 1_000, key=keys[60])
        still_server.publish(topic, b"found", key=keys[3])
        still_server.open_stream(subscription, max_outstanding_messages=1).messages(1)
        turns: list[object] = []
        lease = Feed._lease

        async def noted(self, consumer, **bounds):
            turns.append(consumer)
            return await lease(self, consumer, **bounds)

        monkeypatch.setattr(Feed, "_lease", noted)
        # Of the slots that could move, the lowest go first: 3 is among them.
        second = still_server.open_stream(subscription, max_outstanding_messages=100)
        assert [one.message.data for one in second.messages(1)] == [b"found"]
        assert len(turns) > 5

    def test_with_a_filter_and_after_a_seek(self, still_server):
        topic, subscription = still_server.topic_and_subscription(
            labels=STICKY, filter='attributes.kind = "yes"'
        )
        first = still_server.open_stream(subscription)
        second = still_server.open_stream(subscription)
        still_server.await_waiters(subscription, 2)
        for number in range(20):
            for kind in ("yes", "no"):
                still_server.publish(topic, b"%d" % number, key=f"k{number}", kind=kind)
        before = gather([first, second], 20)
        # Leases of before the seek are over: the messages come again, to the same owners.
        still_server.subscriber.seek(request={"subscription": subscription, "time": {"seconds": 0}})
        after = gather([first, second], 20)
        for one, other in zip(before, after, strict=True):
            assert sorted(m.message.data for m in one) == sorted(m.message.data for m in other)

    def test_a_slot_is_one_over_all_topics_of_a_pattern(self, still_server):
        prefix = f"slots{time.monotonic_ns()}"
        topics = [still_server.topic(name=f"projects/test/topics/{prefix}.{name}") for name in "ab"]
        subscription = still_server.subscription(
            f"projects/test/topics/{prefix}.*", labels=STICKY, enable_message_ordering=True
        )
        first = still_server.open_stream(subscription)
        still_server.publish(topics[0], b"a", key="k")
        held = first.messages(1)
        second = still_server.open_stream(subscription, client_id="second")
        still_server.await_waiters(subscription, 2)
        first.half_close()
        first.wait_closed()
        still_server.publish(topics[1], b"b", key="k")
        still_server.await_waiters(subscription, 1)
        assert second.pending() == [], "the key's slot is held, in the other topic"
        still_server.ack(subscription, held)
        [got] = second.messages(1)
        assert (got.message.data, said([got])) == (b"b", said(held))
        assert got.message.attributes["fanlog-topic"] == topics[1]


class TestRestart:
    def test_under_exactly_once_a_slot_waits_for_leases_of_before(self, start_server):
        server = start_server(clock=None)
        topic, subscription = server.topic_and_subscription(
            labels=STICKY, enable_exactly_once_delivery=True
        )
        before = server.open_stream(subscription, stream_ack_deadline_seconds=60)
        server.publish(topic, b"a", key="k")
        [held] = before.messages(1)
        server.restart()
        server.publish(topic, b"b", key="k")
        server.publish(topic, b"c", key="another")
        stream = server.open_stream(subscription, stream_ack_deadline_seconds=60)
        assert [one.message.data for one in stream.messages(1)] == [b"c"]
        assert list(consumers(server, subscription).left_slots) == sorted(said([held]))
        server.ack(subscription, [held])
        assert [one.message.data for one in stream.messages(1)] == [b"b"]


class TestUnderLoad:
    def test_official_clients_come_and_go(self, server):
        """In order by key, no slot with two at once, and nothing lost."""
        topic, subscription = server.topic_and_subscription(
            labels=STICKY, enable_message_ordering=True, ack_deadline_seconds=10
        )
        lock = threading.Lock()
        #: Who works on a slot now, how often; and the numbers of each key in the order of work.
        busy: dict[int, tuple[int, int]] = {}
        worked: dict[str, list[int]] = defaultdict(list)
        clashes: list[str] = []

        def work(who: int, message: Any) -> None:
            slot = int(message.attributes["fanlog-slot"])
            with lock:
                holder, count = busy.get(slot, (who, 0))
                if count and holder != who:
                    clashes.append(f"slot {slot}: {who} and {holder}")
                busy[slot] = who, count + 1
                worked[message.ordering_key].append(int(message.data))
            time.sleep(0.0005)
            with lock:
                holder, count = busy[slot]
                busy[slot] = holder, count - 1
            message.ack()

        def consume(who: int) -> Any:
            client = server.subscribing()
            flow = pubsub_v1.types.FlowControl(max_messages=20)
            return client.subscribe(
                subscription,
                lambda one: work(who, one),
                flow_control=flow,
                await_callbacks_on_shutdown=True,
            )

        total, keys = 1_000, 40
        futures = [consume(who) for who in range(2)]
        for number in range(total):
            server.publish(topic, b"%d" % number, key=f"k{number % keys}")
            if number in (200, 400):
                futures.append(consume(len(futures)))
            if number in (500, 700):
                gone = futures.pop(0)
                gone.cancel()
                gone.result()
        server.await_drained(subscription)
        for future in futures:
            future.cancel()
            future.result()
        assert not clashes
        assert sorted({n for numbers in worked.values() for n in numbers}) == list(range(total))
        for numbers in worked.values():
            firsts = list(dict.fromkeys(numbers))
            assert firsts == sorted(firsts)
        assert server.metric("fanlog_key_slot_moves_total", subscription) > 0


class TestShown:
    def test_consumers_are_shown_over_rest_as_over_grpc(self, server):
        topic, subscription = server.topic_and_subscription(labels=STICKY | {"fanlog-slots": "8"})
        first = server.open_stream(subscription, client_id="one")
        server.await_waiters(subscription, 1)
        second = server.open_stream(subscription, client_id="two")
        server.await_waiters(subscription, 2)
        for number in range(30):
            server.publish(topic, b"x", key=f"k{number}")
        got = gather([first, second], 30)
        shown = consumers(server, subscription)
        assert shown.slot_count == 8
        assert [one.client_id for one in shown.consumers] == ["one", "two"]
        assert sorted(n for one in shown.consumers for n in one.slots) == list(range(8))
        assert [one.address for one in shown.consumers] == ["127.0.0.1"] * 2
        assert shown.consumers[1].outstanding == len(got[1])
        assert sum(one.outstanding for one in shown.consumers) == 30
        with urllib.request.urlopen(server.http(f"/v1/{subscription}/consumers")) as response:
            over_rest = json.load(response)
        assert over_rest["slotCount"] == 8
        assert over_rest["consumers"][0]["slots"] == list(shown.consumers[0].slots)

    def test_the_command_line_shows_them(self, server):
        environ = {"PUBSUB_EMULATOR_HOST": server.endpoint, "FANLOG_PROJECT": "test"}
        topic = server.topic()
        name = unique("sticky")
        made = invoke(
            ["sub", "create", name, "--topic", topic, "--sticky", "--slots", "6"], env=environ
        )
        assert made.exit_code == 0, made.output
        server.open_stream(f"projects/test/subscriptions/{name}", client_id="one")
        server.await_waiters(f"projects/test/subscriptions/{name}", 1)
        shown = invoke(["sub", "consumers", name], env=environ)
        assert "one" in shown.stdout
        assert "0-5" in shown.stdout
        lines = invoke(["sub", "consumers", name, "--json"], env=environ).stdout.splitlines()
        assert json.loads(lines[0])["slots"] == [0, 1, 2, 3, 4, 5]
        refused = invoke(
            ["sub", "create", unique("sub"), "--topic", topic, "--slots", "6"], env=environ
        )
        assert refused.exit_code != 0
        assert "label fanlog-slots: needs the label fanlog-assignment" in refused.stderr
        pulled = invoke(["pull", name], env=environ)
        assert pulled.exit_code != 0
        assert "a single pull has no place" in pulled.stderr

    def test_a_subscription_without_key_slots_says_so(self, server):
        _, subscription = server.topic_and_subscription()
        with pytest.raises(grpc.RpcError) as caught:
            consumers(server, subscription)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "has no key slots" in caught.value.details()

    def test_without_consumers_none_are_shown(self, server):
        _, subscription = server.topic_and_subscription(labels=STICKY)
        assert consumers(server, subscription) == pb.DescribeConsumersResponse(slot_count=64)


class TestRefused:
    def test_a_pull(self, server):
        _, subscription = server.topic_and_subscription(labels=STICKY)
        with pytest.raises(exceptions.FailedPrecondition, match="a single pull has no place"):
            server.pull(subscription)

    def test_push_later(self, server):
        _, subscription = server.topic_and_subscription(labels=STICKY)
        with pytest.raises(exceptions.InvalidArgument, match="there are no streams"):
            server.subscriber.modify_push_config(
                request={
                    "subscription": subscription,
                    "push_config": {"push_endpoint": "http://localhost:1/"},
                }
            )


ROWS, ASKED = (options_page.rows("Consumers with key slots", table) for table in (0, 1))


def answered(answer, call):
    """Call, and expect what the reference says of it."""
    sentence = options_page.sentence(answer)
    if sentence is None:
        call()
        return
    refusals = (exceptions.InvalidArgument, exceptions.FailedPrecondition)
    with pytest.raises(refusals, match=re.escape(sentence)):
        call()


class TestReference:
    @pytest.mark.parametrize(("fields", "answer"), ROWS, ids=[row[0] for row in ROWS])
    def test_settings(self, still_server, fields, answer):
        asked = {"name": f"projects/test/subscriptions/{unique('slots')}"}
        asked["topic"] = still_server.topic()
        asked |= json.loads(fields.strip("`").replace("TOPIC", still_server.topic()))
        request = gapic.Subscription.from_json(json.dumps(asked))
        answered(answer, lambda: still_server.subscriber.create_subscription(request=request))

    @pytest.mark.parametrize(("labels", "asked", "answer"), ASKED)
    def test_what_is_asked_later(self, still_server, labels, asked, answer):
        _, name = still_server.topic_and_subscription(labels=json.loads(labels.strip("`")))

        def update():
            wanted = json.loads(asked.strip("`").replace("TOPIC", still_server.topic()))
            changed = gapic.Subscription.from_json(json.dumps(wanted | {"name": name}))
            request = {"subscription": changed, "update_mask": {"paths": list(wanted)}}
            still_server.subscriber.update_subscription(request=request)

        def describe():
            http, path = Http(still_server), f"/v1/{name}/consumers"
            sentence = options_page.sentence(answer)
            if sentence is None:
                assert http("GET", path).json() == {"slotCount": SLOTS}
            else:
                assert sentence in http.refused(400, "GET", path)
            http.close()

        if asked == "consumers":
            describe()
        else:
            calls = {"pull": lambda: still_server.pull(name)}
            answered(answer, calls.get(asked, update))

    def test_priorities_are_ignored(self, still_server, sticky):
        topic, subscription = sticky
        for priority in range(10):
            attributes = {"fanlog-priority": str(priority)}
            still_server.publish(topic, *[b"x"] * 20, **attributes)
        received = still_server.open_stream(subscription).messages(200)
        slots = defaultdict(list)
        for one in received:
            slots[one.message.attributes["fanlog-slot"]].append(int(one.message.message_id))
        assert len(slots) > SLOTS // 2
        assert all(found == sorted(found) for found in slots.values())
