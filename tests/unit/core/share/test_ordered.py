"""Order within a key: runs, recalls, back-offs, dead letters, overflow and rescans.

Keys are small numbers here; 0 is a message without a key.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.model.resources import RetryPolicy
from unit.core.world import RETRY, World, dead_letter, subscription


def world(*keys: int, **options: object) -> World:
    made = World(subscription(options.pop("ordering", "key"), **options))  # type: ignore[arg-type]
    if keys:
        made.publish(*keys)
    return made


def offsets(ids: list[tuple[int, int]]) -> list[int]:
    return [offset for _, offset in ids]


class TestRuns:
    def test_one_answer_may_hold_a_run_of_a_key(self):
        made = world(1, 2, 1, 1, 2)
        assert made.offsets(max_messages=3) == [0, 1, 2]

    def test_nothing_of_the_key_goes_elsewhere_meanwhile(self):
        made, a, b = world(1, 2, 1, 1, 3), Credit(), Credit()
        held = made.lease(a, 1)
        assert offsets(made.lease(b)) == [1, 4]
        assert made.lease(b) == []
        made.ack(1, held)
        assert offsets(made.lease(b)) == [2, 3]

    def test_the_holder_may_go_on_with_the_key(self):
        made, a = world(1, 1, 1), Credit()
        assert offsets(made.lease(a, 1)) == [0]
        assert offsets(made.lease(a, 1)) == [1]
        made.publish(1)
        assert offsets(made.lease(a)) == [2, 3]

    def test_not_when_strict(self):
        made, a = world(1, 1, 2, 1, ordering="strict"), Credit()
        first = made.lease(a)
        assert offsets(first) == [0, 2]
        assert made.lease(a) == []
        made.ack(1, first[:1])
        second = made.lease(a)
        assert offsets(second) == [1]
        made.nack(1, second)
        assert offsets(made.lease(Credit())) == [1]

    def test_an_abandoned_run_still_holds_up_its_key(self):
        made, a, b = world(1, 1, 2), Credit(), Credit()
        held = made.lease(a, 1)
        assert offsets(made.lease(b)) == [2]
        assert made.share.has_some(made.end)
        made.share.abandon(a)
        assert not made.share.has_some(made.end)
        assert made.lease(b) == []
        made.ack(1, held)
        assert offsets(made.lease(b)) == [1]

    def test_keys_take_turns(self):
        made, a = world(1, 1, 1, 2, 2), Credit()
        made.nack(1, made.lease(a))
        assert offsets(made.lease(a, 2)) == [0, 1]
        assert offsets(made.lease(a, 2)) == [3, 4]
        assert offsets(made.lease(a, 2)) == [2]

    def test_acknowledged_batches_in_between_are_passed_over(self):
        made = world(1, 2)
        made.publish(3, 3)
        made.publish(4)
        ids = made.lease(max_messages=4)
        made.ack(1, ids[2:])
        made.restart()
        a = Credit()
        assert offsets(made.lease(a, 2)) == [0, 1]
        assert made.share.plan(a, made.end, 9) == [(4, 5)]
        assert offsets(made.lease(a)) == [4]


class TestAcks:
    def test_an_ack_is_hard_when_all_earlier_ones_are(self):
        made = world(1, 1, 1, 2)
        ids = made.lease()
        assert made.ack(1, ids[1:3]).count == 2
        assert made.share.cursor.acked_above_mark == 0
        assert made.ack(1, ids[3:]).records, "another key does not wait"
        made.ack(1, ids[:1])
        assert made.unacked == []

    def test_a_soft_ack_gives_its_credit_back_at_once(self):
        made, credit = world(1, 1), Credit(max_messages=2)
        ids = made.lease(credit)
        made.ack(1, ids[1:])
        assert credit.messages == 1
        assert made.share.stats(made.end).outstanding == 1

    def test_soft_acks_are_forgotten_by_a_restart(self):
        made = world(1, 1)
        made.ack(1, made.lease()[1:])
        made.restart()
        assert made.offsets() == [0, 1]

    def test_a_late_ack_does_not_count_for_a_key(self):
        made = world(1, 1)
        ids = made.lease()
        made.nack(1, ids[:1])
        assert made.ack(2, ids).count == 0
        assert made.offsets() == [0, 1]

    def test_a_stale_ack_counts_for_who_holds_the_message_now(self):
        made = world(1, 1)
        old = made.lease()
        made.nack(1, old[:1])
        made.lease()
        assert made.ack(2, old).count == 2
        assert made.unacked == []


class TestFailures:
    @pytest.mark.parametrize("how", ["nack", "expire"])
    def test_a_failure_takes_along_all_after_it(self, how):
        made, credit = world(1, 2, 1, 1, 2), Credit(max_bytes=1_000)
        ids = made.lease(credit, deadline_s=10.0)
        made.modify(1, [ids[0], ids[1], ids[3], ids[4]], 60.0)
        if how == "nack":
            made.nack(2, [ids[2]])
        else:
            assert made.expire(10.0).count == 1
        assert made.share.stats(made.end).outstanding == 3
        assert (credit.messages, credit.size_bytes) == (3, 30)
        assert made.lease(Credit()) == [], "the first of the run is still out"
        assert offsets(made.lease(credit)) == [2, 3]

    def test_soft_acks_behind_it_come_again(self):
        made = world(1, 1, 1)
        ids = made.lease()
        made.ack(1, ids[2:])
        made.nack(2, ids[1:2])
        made.ack(3, ids[:1])
        assert made.offsets() == [1, 2]

    def test_only_the_failed_one_is_counted(self):
        made = world(1, 1, attempts=5)
        made.nack(1, made.lease()[:1])
        assert [made.share.attempts_of(o) for o in (0, 1)] == [1, 0]

    def test_several_failures_of_one_key_come_back_once(self):
        made = world(1, 1, 1)
        made.nack(1, made.lease())
        assert made.offsets() == [0, 1, 2]

    def test_a_run_over_two_answers_comes_back_whole(self):
        made, a = world(1, 1, 1), Credit()
        first = made.lease(a, 1)
        made.lease(a, 2)
        made.nack(1, first)
        assert a.messages == 0
        assert offsets(made.lease(Credit())) == [0, 1, 2]


class TestBackOff:
    def test_a_key_that_waits_does_not_hold_up_the_others(self):
        made = world(1, 2, 1, retry=RETRY)
        ids = made.lease()
        made.nack(1, [ids[0]])
        made.publish(1, 2, 3)
        assert made.share.stats(made.end).delayed == 1
        assert made.offsets() == [5]
        made.ack(1, [ids[1]])
        assert made.offsets() == [4]
        made.expire(5.0)
        assert made.offsets() == [0, 2, 3]

    def test_two_back_offs_of_a_key_do_not_free_each_other(self):
        made, a = world(1, 1, 1, retry=RETRY), Credit()
        ids = made.lease(a, deadline_s=100.0)
        made.nack(0, [ids[1]])
        made.nack(3, [ids[0]])
        assert made.share.stats(made.end).delayed == 2
        made.expire(4.0)
        assert made.lease(a) == []
        made.expire(7.0)
        assert offsets(made.lease(a)) == [0, 1, 2]

    def test_the_second_may_wait_longer_than_the_first(self):
        made, a = world(1, 1, retry=RETRY), Credit()
        first, second = made.lease(a, deadline_s=100.0)
        made.nack(0.0, [second])
        made.expire(4.0)
        made.nack(4.0, made.lease(a, deadline_s=100.0))
        made.nack(5.0, [first])
        assert [made.share.attempts_of(o) for o in (0, 1)] == [1, 2]
        made.expire(9.0)
        assert made.offsets(a) == [0]
        made.expire(12.0)
        assert made.offsets(a) == [1]

    def test_a_waiting_message_that_cannot_be_read_does_not_come_back_keyless(self):
        made = world(1, 1, retry=RETRY)
        made.publish(1)
        made.nack(0, made.lease())
        made.share.skip(0, 2)
        made.expire(50.0)
        assert made.share.stats(made.end).delayed == 0
        assert made.offsets() == [2]


class TestKeyless:
    def test_they_wait_for_nobody(self):
        made, a, b = world(0, 1, 0, 1, 0), Credit(), Credit()
        assert offsets(made.lease(a, 2)) == [0, 1]
        assert offsets(made.lease(b)) == [2, 4]

    def test_a_failure_comes_back_alone(self):
        made = world(0, 0, 1)
        ids = made.lease()
        made.nack(1, ids[:1])
        assert made.offsets() == [0]

    def test_what_does_not_fit_stays(self):
        made = world(0, 0, 0)
        made.nack(1, made.lease())
        assert made.offsets(max_messages=2) == [0, 1]
        assert offsets(made.lease(Credit(max_bytes=5), max_bytes=5)) == [2]

    def test_what_does_not_fit_a_window_stays(self):
        made, credit = world(0, 0), Credit(max_bytes=15)
        made.nack(1, made.lease())
        assert made.offsets(credit) == [0]
        assert made.offsets(credit) == []
        assert made.offsets() == [1]

    def test_acks_are_hard_at_once_and_may_be_late(self):
        made = world(0, 0, 1, retry=RETRY)
        ids = made.lease()
        made.ack(1, ids[1:2])
        assert made.unacked == [0, 2]
        made.nack(1, ids)
        assert made.ack(2, ids).count == 1, "the one with a key is due again"
        assert made.unacked == [2]
        made.expire(50.0)
        assert made.offsets() == [2]

    def test_late_when_it_waits_to_be_delivered(self):
        made = world(0, 0)
        ids = made.lease()
        made.nack(1, ids)
        assert made.ack(2, ids[:1]).count == 1
        assert made.offsets() == [1]

    def test_dead_letters(self):
        made = world(0, 1, attempts=1)
        made.nack(1, made.lease()[:1])
        assert [letter.offset for letter in made.letters] == [0]
        made.restart()
        assert made.offsets() == [1], "exhausted before the restart"
        assert [letter.offset for letter in made.letters] == [0]
        made.decided(made.share.return_unforwarded(5.0, BitMap64([0])))
        made.expire(50.0)
        assert made.offsets() == [0]

    def test_exhausted_by_a_new_policy(self):
        made = world(0, 0, attempts=3)
        made.nack(1, made.lease()[:1])
        made.configure(replace(made.settings, dead_letter=dead_letter(1)))
        assert made.offsets() == []
        assert [letter.offset for letter in made.letters] == [0]


class TestDeadLetters:
    def test_the_next_goes_on_when_the_head_is_forwarded(self):
        made = world(1, 1, 1, attempts=1)
        made.nack(1, made.lease()[:1])
        assert [letter.offset for letter in made.letters] == [0]
        assert made.offsets() == [], "not before that is committed"
        made.decided(made.share.acknowledge_forwarded(BitMap64([0])))
        assert made.offsets() == [1, 2]

    def test_the_middle_of_a_run_waits_until_it_is_first(self):
        made, a = world(1, 1, 1, 2, attempts=1), Credit()
        ids = made.lease(a, 3)
        made.nack(1, ids[1:2])
        assert made.letters == []
        # Not delivered again, and not in the way of others.
        assert made.share.plan(a, made.end, 1) == [(3, 4)]
        assert offsets(made.lease(a)) == [3]
        assert made.lease(a) == []
        made.ack(2, ids[:1])
        assert [letter.offset for letter in made.letters] == [1]
        made.decided(made.share.acknowledge_forwarded(BitMap64([1])))
        assert offsets(made.lease(a)) == [2]

    def test_a_whole_run_leaves_one_by_one(self):
        made = world(1, 1, attempts=1)
        made.nack(1, made.lease())
        assert [letter.offset for letter in made.letters] == [0]
        made.decided(made.share.acknowledge_forwarded(BitMap64([0])))
        assert [letter.offset for letter in made.letters] == [0, 1]
        made.decided(made.share.acknowledge_forwarded(BitMap64([1])))
        assert made.unacked == []

    def test_not_forwarded_delivered_again_then_forwarded(self):
        made = world(1, 1, attempts=1)
        made.nack(0, made.lease()[:1])
        made.decided(made.share.return_unforwarded(0, BitMap64([0])))
        assert made.offsets() == []
        made.letters.clear()
        made.expire(limits.DEAD_LETTER_RETRY_S)
        ids = made.lease()
        assert offsets(ids) == [0, 1]
        made.nack(11, ids[:1])
        assert [(letter.offset, letter.attempts) for letter in made.letters] == [(0, 2)]

    def test_exhausted_before_a_restart(self):
        made = world(1, 2, 1, attempts=1)
        made.nack(1, made.lease()[:1])
        made.restart()
        assert made.offsets() == [1]
        assert [letter.offset for letter in made.letters] == [0]

    def test_exhausted_found_by_a_scan_is_announced(self):
        made = world(1, 2, attempts=1, exactly_once=True)
        made.nack(1, made.lease(deadline_s=50.0)[:1])
        made.restart()
        assert made.share.has_some(made.end)
        made.expire(2)
        assert [letter.offset for letter in made.letters] == [0]

    def test_exhausted_found_by_a_scan_and_sought_away(self):
        made = world(1, 2, attempts=1, exactly_once=True)
        made.nack(1, made.lease(deadline_s=50.0)[:1])
        made.restart()
        decision = made.share.seek(0, 0, generation=made.next_generation())
        assert decision.dead_letters == []
        made.decided(decision)
        assert made.offsets() == [0, 1]


class TestRetention:
    def test_soft_acks_behind_what_is_gone_become_hard(self):
        made = world(1, 1, 1)
        ids = made.lease()
        made.ack(1, ids[1:2])
        made.decided(made.share.advance(1))
        assert made.unacked == [2]
        assert made.share.cursor.floor == 2

    @pytest.mark.parametrize("state", ["waiting", "delayed", "forwarding"])
    def test_the_key_goes_on_behind_what_is_gone(self, state):
        made = world(1, 1, retry=RETRY, attempts=1 if state == "forwarding" else 9)
        ids = made.lease()
        if state == "waiting":
            made.lease(Credit())
            made.expire(10.0)
            made.expire(50.0)
        else:
            made.nack(1, ids[:1])
        made.decided(made.share.advance(1))
        made.log_start = 1
        stats = made.share.stats(made.end)
        assert (stats.delayed, stats.forwarding, stats.backlog) == (0, 0, 1)
        assert made.offsets() == [1]

    def test_fresh_messages_are_found_behind_a_trimmed_log(self):
        made = world(1)
        made.publish(1, 1)
        made.publish(1)
        made.decided(made.share.advance(2))
        made.log_start = 2
        assert made.offsets() == [2, 3]


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(limits, "KEY_WAITING_MAX", 2)
    monkeypatch.setattr(limits, "WAITING_MAX", 3)


@pytest.mark.usefixtures("_small")
class TestOverflow:
    def drain(self, made: World, consumer: Credit) -> list[int]:
        seen = []
        for _ in range(100):
            ids = made.lease(consumer, 3)
            if not ids:
                return seen
            seen += offsets(ids)
            made.ack(1, ids)
        raise AssertionError

    def test_an_overflowed_key_is_scanned_again_in_order(self):
        made, a, b = world(1), Credit(), Credit()
        for _ in range(4):
            made.publish(1, 2, 1)
        held = made.lease(a, 1)
        others = made.lease(b)
        assert offsets(others) == [2, 5, 8, 11]
        assert made.lease(b) == []
        made.ack(1, held)
        assert self.drain(made, b) == [1, 3, 4, 6, 7, 9, 10, 12]

    def test_all_keys_together_are_bounded(self):
        made, a, b = world(1, 2, 3), Credit(), Credit()
        for _ in range(3):
            made.publish(1, 2, 3)
        held = made.lease(a, 3)
        assert made.lease(b) == []
        made.ack(1, held)
        seen = self.drain(made, b)
        assert [[o for o in seen if o % 3 == key] for key in range(3)] == [
            [3, 6, 9],
            [4, 7, 10],
            [5, 8, 11],
        ]

    def test_a_scan_survives_acknowledged_and_trimmed_batches(self):
        made, a, b = world(1), Credit(), Credit()
        for _ in range(3):
            made.publish(1, 1)
        made.publish(2)
        held = made.lease(a, 1)
        made.ack(1, made.lease(b))
        made.ack(1, held)
        made.ack(1, made.lease(b, 2))
        # The key is to be scanned from offset 3 on; retention ends for its next two.
        made.decided(made.share.advance(5))
        made.log_start = 5
        assert made.offsets(b) == [5, 6]

    def test_a_scan_goes_around_what_cannot_be_read(self):
        made, a, b = world(1), Credit(), Credit()
        for _ in range(3):
            made.publish(1, 1)
        held = made.lease(a, 1)
        assert made.lease(b) == []
        made.damaged = {3}
        made.ack(1, held)
        assert self.drain(made, b) == [1, 2, 5, 6]

    def test_a_scan_goes_around_it_within_one_answer(self):
        made, a, b = world(1), Credit(), Credit()
        for _ in range(3):
            made.publish(1, 1)
        held = made.lease(a, 1)
        assert made.lease(b) == []
        made.damaged = {3}
        made.ack(1, held)
        for offset in (1, 2, 5, 6):
            assert made.offsets(b, 1) == [offset]

    def test_a_scan_goes_around_it_when_all_before_is_acknowledged(self):
        made, a, b, c = world(1), Credit(), Credit(), Credit()
        for keys in [(1, 1, 1), (2,), (3,), (1, 1)]:
            made.publish(*keys)
        held = made.lease(a, 1)
        made.ack(1, made.lease(b, 1))
        assert made.offsets(c) == [5]
        made.damaged = {5}
        made.ack(1, held)
        # After the third one the scan is to go on at 4, and nothing is open there before 5.
        assert self.drain(made, b) == [1, 2, 3, 6, 7]

    def test_fresh_ones_wait_behind_the_scan(self):
        made, a, b = world(1, 1, 1, 1, 1), Credit(), Credit()
        held = made.lease(a, 1)
        assert made.lease(b) == []
        made.publish(1)
        made.ack(1, held)
        assert self.drain(made, b) == [1, 2, 3, 4, 5]

    def test_a_back_off_found_by_the_scan_is_waited_for(self):
        """Its lease failed after a restart, before it was met; then its key had no room."""
        retry = RetryPolicy(minimum_backoff_s=100.0, maximum_backoff_s=100.0)
        made = World(subscription("key", exactly_once=True, retry=retry))
        made.publish(1, 2, 3, 4)
        ids = made.lease()
        made.restart(scan=False)
        made.nack(1, ids)
        # Three of them fill the share; the fourth is to be scanned for.
        assert made.lease() == []
        made.expire(100)
        assert made.lease() == []
        made.expire(101)
        assert made.offsets() == [0, 1, 2, 3]

    def test_a_recall_may_pass_the_bound(self):
        made = world(*[1] * 9)
        ids = made.lease()
        made.nack(1, ids)
        assert made.offsets() == list(range(9))

    def test_strict(self):
        made = world(*[1] * 9, ordering="strict")
        assert self.drain(made, Credit()) == list(range(9))
