"""Pull, Acknowledge and ModifyAckDeadline through Google's own client."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument, NotFound

from fanlog import limits
from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S

MIB = 1024 * 1024


def data(received):
    return [one.message.data for one in received]


@pytest.fixture
def waiting_pull(server):
    """Begin a pull that waits; its future comes once the broker has it."""
    with ThreadPoolExecutor(max_workers=8) as pool:

        def begin(subscription, **options):
            future = pool.submit(server.await_pull, subscription, **options)
            server.await_waiters(subscription, 1)
            return future

        yield begin


def test_a_message_comes_back_as_it_was_published(server):
    topic, subscription = server.topic_and_subscription()
    [message_id] = server.publish(topic, b"hello", colour="red")

    [received] = server.pull(subscription)

    assert received.message.data == b"hello"
    assert received.message.attributes == {"colour": "red"}
    assert received.message.message_id == message_id
    assert received.delivery_attempt == 0
    server.ack(subscription, [received])
    assert server.pull(subscription) == []


def test_only_what_is_published_after_the_subscription_comes(server):
    topic = server.topic()
    server.publish(topic, b"before")
    subscription = server.subscription(topic)
    server.publish(topic, b"after")
    assert data(server.pull(subscription)) == [b"after"]


class TestWaiting:
    def test_return_immediately_answers_empty_at_once(self, server):
        _, subscription = server.topic_and_subscription()
        begun = time.monotonic()
        assert server.pull(subscription) == []
        assert time.monotonic() - begun < limits.PULL_WAIT_S / 2

    def test_a_waiting_pull_wakes_on_publish(self, server, waiting_pull):
        topic, subscription = server.topic_and_subscription()
        pull = waiting_pull(subscription)

        server.publish(topic, b"wake")

        assert data(pull.result(PATIENCE_S)) == [b"wake"]

    def test_a_waiting_pull_wakes_on_a_nack(self, server, waiting_pull):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"again")
        held = server.pull(subscription)
        pull = waiting_pull(subscription)

        server.nack(subscription, held)

        assert data(pull.result(PATIENCE_S)) == [b"again"]

    def test_one_message_wakes_one_of_many(self, server):
        topic, subscription = server.topic_and_subscription()
        with ThreadPoolExecutor(max_workers=4) as pool:
            pulls = [pool.submit(server.await_pull, subscription) for _ in range(4)]
            server.await_waiters(subscription, 4)
            for number in range(4):
                server.publish(topic, b"%d" % number)
            answers = [data(pull.result(PATIENCE_S)) for pull in pulls]
        assert sorted(itertools.chain(*answers)) == [b"0", b"1", b"2", b"3"]

    def test_an_empty_answer_comes_just_before_the_callers_deadline(self, start_server):
        server = start_server("memory", clock=ManualClock())
        _, subscription = server.topic_and_subscription()
        with ThreadPoolExecutor(max_workers=1) as pool:
            # The caller's own clock is the machine's, and this is over before it says much.
            pull = pool.submit(server.await_pull, subscription, timeout_s=PATIENCE_S)
            server.await_waiters(subscription, 1)
            server.advance(PATIENCE_S / 2 - 1)
            server.await_waiters(subscription, 1)
            assert not pull.done()
            server.advance(PATIENCE_S / 2 + 0.5)
            assert pull.result(PATIENCE_S) == []

    def test_without_a_deadline_it_answers_empty_after_30_seconds(self, start_server):
        server = start_server("memory", clock=ManualClock())
        _, subscription = server.topic_and_subscription()
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(server.await_pull, subscription, timeout_s=None)
            server.await_waiters(subscription, 1)
            server.advance(29)
            assert not pull.done()
            server.await_waiters(subscription, 1)
            server.advance(1.5)
            assert pull.result(PATIENCE_S) == []

    def test_deleting_the_subscription_ends_a_waiting_pull(self, server, waiting_pull):
        _, subscription = server.topic_and_subscription()
        pull = waiting_pull(subscription)

        server.subscriber.delete_subscription(subscription=subscription)

        with pytest.raises(NotFound, match="was deleted"):
            pull.result(PATIENCE_S)

    def test_detaching_the_subscription_ends_a_waiting_pull(self, server, waiting_pull):
        _, subscription = server.topic_and_subscription()
        pull = waiting_pull(subscription)

        server.publisher.detach_subscription(request={"subscription": subscription})

        with pytest.raises(FailedPrecondition, match="is detached"):
            pull.result(PATIENCE_S)
        with pytest.raises(FailedPrecondition, match="is detached"):
            server.pull(subscription)


class TestAnswers:
    def test_max_messages(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *[b"%d" % n for n in range(5)])
        assert data(server.pull(subscription, 2)) == [b"0", b"1"]
        assert data(server.pull(subscription, 2)) == [b"2", b"3"]
        assert data(server.pull(subscription, 2)) == [b"4"]
        assert server.pull(subscription, 2) == []

    @pytest.mark.parametrize("count", [0, -1])
    def test_max_messages_below_1_is_refused(self, server, count):
        _, subscription = server.topic_and_subscription()
        with pytest.raises(InvalidArgument, match=f"max_messages: {count} is out of range"):
            server.pull(subscription, count)

    def test_an_answer_has_at_most_1000_messages(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *[b"x"] * 1000)
        server.publish(topic, *[b"y"] * 1000)
        assert len(server.pull(subscription, 2_000_000_000)) == 1000
        assert data(server.pull(subscription, 5000)) == [b"y"] * 1000

    def test_answers_stop_at_3_5_MiB(self, server):
        topic, subscription = server.topic_and_subscription()
        for _ in range(2):
            server.publish(topic, *[b"x" * 400_000] * 20)

        sizes = []
        while some := server.pull(subscription):
            sizes.append(sum(len(one.message.data) for one in some))
            server.ack(subscription, some)

        assert sum(sizes) == 40 * 400_000
        assert max(sizes) <= 3_500 * 1024
        assert sizes[0] > 3 * MIB

    def test_a_larger_message_comes_alone(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"small")
        server.publish(topic, b"x" * 9_900_000)
        server.publish(topic, b"last")
        assert data(server.pull(subscription)) == [b"small"]
        [large] = server.pull(subscription)
        assert large.message.data == b"x" * 9_900_000
        assert data(server.pull(subscription)) == [b"last"]

    @pytest.mark.parametrize("name", ["", "sub", "projects/p/topics/sub", "projects/p"])
    def test_a_name_that_is_none(self, server, name):
        with pytest.raises(InvalidArgument, match="subscription"):
            server.pull(name)

    def test_a_subscription_that_does_not_exist(self, server):
        with pytest.raises(NotFound, match="'projects/test/subscriptions/nowhere' does not exist"):
            server.pull("projects/test/subscriptions/nowhere")


class TestAcknowledge:
    def test_a_message_held_by_one_does_not_go_to_another(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        assert data(held) == [b"x"]
        assert still_server.pull(subscription) == []

    def test_twice_is_fine(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        received = server.pull(subscription)
        server.ack(subscription, received)
        server.ack(subscription, received)
        assert server.pull(subscription) == []

    def test_a_late_one_counts_at_least_once(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        first = still_server.pull(subscription)
        still_server.advance(11)

        still_server.ack(subscription, first)

        assert still_server.pull(subscription) == []

    def test_a_late_one_ends_the_lease_of_the_redelivery(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        first = still_server.pull(subscription)
        still_server.advance(11)
        second = still_server.pull(subscription)
        assert data(second) == [b"x"]

        still_server.ack(subscription, first)
        still_server.nack(subscription, second)
        still_server.advance(11)

        assert still_server.pull(subscription) == []

    def test_a_late_one_counts_after_a_restart(self, start_server):
        server = start_server(clock=ManualClock())
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"acked", b"not acked")
        received = server.pull(subscription)
        server.restart()

        server.ack(subscription, received[:1])

        assert data(server.pull(subscription)) == [b"not acked"]

    def test_what_was_acked_stays_so_after_a_restart(self, start_server):
        server = start_server()
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, *[b"%d" % n for n in range(10)])
        server.ack(subscription, server.pull(subscription)[::2])
        server.restart()
        assert data(server.pull(subscription)) == [b"1", b"3", b"5", b"7", b"9"]

    @pytest.mark.parametrize("verb", ["ack", "modify"])
    @pytest.mark.parametrize("ack_id", ["", "nonsense", "0" * 52, "x" * 5000, "é" * 52, "٣" * 52])
    def test_an_id_that_is_none_is_refused_and_nothing_is_done(self, still_server, verb, ack_id):
        server = still_server
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        [received] = server.pull(subscription)
        forged = type(received)(ack_id=ack_id)

        settle = server.ack if verb == "ack" else partial(server.modify, seconds=60)
        with pytest.raises(InvalidArgument, match="is not an ack id of this service"):
            settle(subscription, [received, forged])

        server.advance(11)
        assert data(server.pull(subscription)) == [b"x"]

    @pytest.mark.parametrize("position", [0, 12, 20, 33, 45, 51])
    def test_a_changed_id_acknowledges_nobody_elses_message(self, still_server, position):
        """All but the offset is under the tag; an offset that was never leased is not acked."""
        server = still_server
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        [received] = server.pull(subscription)
        digit = "1" if received.ack_id[position] == "0" else "0"
        ack_id = received.ack_id[:position] + digit + received.ack_id[position + 1 :]
        forged = type(received)(ack_id=ack_id)

        if position < 40:
            with pytest.raises(InvalidArgument):
                server.ack(subscription, [forged])
        else:
            server.ack(subscription, [forged])

        server.publish(topic, b"y")
        server.advance(11)
        assert data(server.pull(subscription)) == [b"x", b"y"]

    def test_an_id_of_another_subscription_does_nothing(self, still_server):
        topic, one = still_server.topic_and_subscription()
        other = still_server.subscription(topic)
        still_server.publish(topic, b"x")
        of_one, of_other = still_server.pull(one), still_server.pull(other)

        still_server.ack(one, of_other)

        still_server.advance(11)
        assert data(still_server.pull(one)) == [b"x"]
        assert data(still_server.pull(other)) == [b"x"]
        assert of_one[0].ack_id != of_other[0].ack_id

    def test_an_id_of_an_earlier_subscription_of_that_name_does_nothing(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"old")
        old = still_server.pull(subscription)
        still_server.subscriber.delete_subscription(subscription=subscription)
        still_server.subscription(topic, name=subscription)
        still_server.publish(topic, b"new")

        still_server.ack(subscription, old)

        assert data(still_server.pull(subscription)) == [b"new"]

    def test_an_id_twice_in_a_request(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"0", b"1")
        held = still_server.pull(subscription)
        still_server.ack(subscription, held[:1] * 2)
        still_server.nack(subscription, held[1:] * 2)
        assert data(still_server.pull(subscription)) == [b"1"]

    def test_more_than_100000_ids_are_refused(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        held = server.pull(subscription)
        with pytest.raises(InvalidArgument, match="100001 ids; at most 100000 are allowed"):
            server.ack(subscription, held * 100_001)
        server.ack(subscription, held * 100_000)
        assert server.pull(subscription) == []

    @pytest.mark.parametrize("verb", ["ack", "modify"])
    def test_no_ids_are_refused(self, server, verb):
        _, subscription = server.topic_and_subscription()
        with pytest.raises(InvalidArgument, match="ack_ids: at least one is needed"):
            server.ack(subscription, []) if verb == "ack" else server.modify(subscription, [], 10)

    def test_a_subscription_that_does_not_exist(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"x")
        received = server.pull(subscription)
        for call in (server.ack, server.nack):
            with pytest.raises(NotFound, match="does not exist"):
                call("projects/test/subscriptions/nowhere", received)


class TestDeadlines:
    def test_a_lease_expires_at_its_deadline(self, still_server):
        topic, subscription = still_server.topic_and_subscription(ack_deadline_seconds=15)
        still_server.publish(topic, b"x")
        first = still_server.pull(subscription)
        still_server.advance(14.9)
        assert still_server.pull(subscription) == []
        still_server.advance(0.2)
        second = still_server.pull(subscription)
        assert data(second) == [b"x"]
        assert second[0].ack_id != first[0].ack_id
        assert second[0].message.message_id == first[0].message.message_id

    def test_expiry_wakes_a_waiting_pull(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        still_server.pull(subscription)
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(still_server.await_pull, subscription)
            still_server.await_waiters(subscription, 1)
            still_server.advance(10.1)
            assert data(pull.result(PATIENCE_S)) == [b"x"]

    def test_more_time(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        still_server.advance(5)
        still_server.modify(subscription, held, 600)
        still_server.advance(599)
        assert still_server.pull(subscription) == []
        still_server.advance(2)
        assert data(still_server.pull(subscription)) == [b"x"]

    def test_less_time(self, still_server):
        topic, subscription = still_server.topic_and_subscription(ack_deadline_seconds=600)
        still_server.publish(topic, b"x")
        still_server.modify(subscription, still_server.pull(subscription), 1)
        still_server.advance(1.1)
        assert data(still_server.pull(subscription)) == [b"x"]

    def test_for_some_of_an_answer(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, *[b"%d" % n for n in range(6)])
        held = still_server.pull(subscription)
        still_server.modify(subscription, held[1:4], 60)
        still_server.ack(subscription, held[2:3])
        still_server.advance(10.1)
        assert data(still_server.pull(subscription)) == [b"0", b"4", b"5"]
        still_server.advance(60)
        assert set(data(still_server.pull(subscription))) == {b"0", b"1", b"3", b"4", b"5"}

    def test_zero_gives_it_back_at_once(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"0", b"1")
        still_server.nack(subscription, still_server.pull(subscription)[1:])
        assert data(still_server.pull(subscription)) == [b"1"]

    def test_a_stale_id_does_not_touch_the_present_lease(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        first = still_server.pull(subscription)
        still_server.advance(11)
        still_server.pull(subscription)

        still_server.nack(subscription, first)
        assert still_server.pull(subscription) == []
        still_server.modify(subscription, first, 600)
        still_server.advance(11)

        assert data(still_server.pull(subscription)) == [b"x"]

    @pytest.mark.parametrize("seconds", [-1, 601])
    def test_outside_0_to_600_is_refused_and_nothing_is_done(self, still_server, seconds):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        held = still_server.pull(subscription)
        sentence = f"ack_deadline_seconds: {seconds} is out of range; 0 to 600 are allowed"
        with pytest.raises(InvalidArgument, match=sentence):
            still_server.modify(subscription, held, seconds)
        assert still_server.pull(subscription) == []
        still_server.advance(10.1)
        assert data(still_server.pull(subscription)) == [b"x"]

    def test_a_changed_ack_deadline_holds_for_the_next_lease(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        still_server.publish(topic, b"x")
        still_server.subscriber.update_subscription(
            request={
                "subscription": {"name": subscription, "ack_deadline_seconds": 60},
                "update_mask": {"paths": ["ack_deadline_seconds"]},
            }
        )
        still_server.pull(subscription)
        still_server.advance(59)
        assert still_server.pull(subscription) == []
        still_server.advance(2)
        assert data(still_server.pull(subscription)) == [b"x"]

    def test_a_changed_ack_deadline_holds_for_a_pull_that_waits(self, still_server):
        topic, subscription = still_server.topic_and_subscription()
        with ThreadPoolExecutor(max_workers=1) as pool:
            pull = pool.submit(still_server.await_pull, subscription)
            still_server.await_waiters(subscription, 1)
            still_server.subscriber.update_subscription(
                request={
                    "subscription": {"name": subscription, "ack_deadline_seconds": 60},
                    "update_mask": {"paths": ["ack_deadline_seconds"]},
                }
            )
            still_server.publish(topic, b"x")
            assert data(pull.result(PATIENCE_S)) == [b"x"]
        still_server.advance(59)
        assert still_server.pull(subscription) == []
