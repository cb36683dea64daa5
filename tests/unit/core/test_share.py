"""The delivery machine: every row of its transition table, then seeks, settings and the ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyroaring import BitMap64

from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.records import AttemptsChunk, CursorHead, LeaseHeld
from fanlog.core.redelivery import UNSENT
from fanlog.core.share import Share, ShareStats
from fanlog.limits import DEAD_LETTER_RETRY_S
from fanlog.model import RetryPolicy
from unit.core.world import PARTITION, World, dead_letter, subscription

RETRY = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=60.0)


def states(world: World) -> str:
    """One letter a message: Backlog, Outstanding, Delayed, Forwarding, Acked."""
    stats = world.share.stats(world.end)
    counts = {
        "O": stats.outstanding,
        "D": stats.delayed,
        "F": stats.forwarding,
        "A": world.end - stats.backlog,
    }
    counts["B"] = world.end - sum(counts.values())
    return "".join(letter * counts[letter] for letter in "BODFA")


class TestTable:
    """The rows of the table at the top of `share.py`, top to bottom."""

    def test_backlog_leased_outstanding(self):
        world = World(subscription())
        world.publish(0, 0)
        assert states(world) == "BB"
        assert world.lease(max_messages=1) == [(1, 0)]
        assert states(world) == "BO"
        assert world.offsets() == [1]

    def test_outstanding_acknowledged_acked(self):
        world = World(subscription())
        world.publish(0)
        assert world.ack(1, world.lease()).count == 1
        assert states(world) == "A"
        assert world.share.cursor.floor == 1

    @pytest.mark.parametrize("how", ["nacked", "expired"])
    def test_outstanding_failed_with_back_off_delayed(self, how):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        fail(world, how)
        assert states(world) == "D"
        assert world.offsets() == []

    @pytest.mark.parametrize("how", ["nacked", "expired"])
    def test_outstanding_failed_without_back_off_backlog(self, how):
        world = World(subscription())
        world.publish(0)
        fail(world, how)
        assert states(world) == "B"
        assert world.offsets() == [0]

    @pytest.mark.parametrize("how", ["nacked", "expired"])
    def test_outstanding_failed_without_attempts_left_forwarding(self, how):
        world = World(subscription(attempts=1, retry=RETRY))
        world.publish(0)
        fail(world, how)
        assert states(world) == "F"
        (letter,) = world.letters
        assert (letter.offset, letter.attempts) == (0, 1)
        assert letter.reason == f"1 of 1 delivery attempts, the last one {how}"
        assert world.offsets() == []

    def test_delayed_back_off_over_backlog(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        fail(world, "nacked")
        assert world.share.next_deadline() == 14.0
        world.expire(13.9)
        assert states(world) == "D"
        world.expire(14.0)
        assert states(world) == "B"

    def test_forwarding_committed_acked(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        fail(world, "nacked")
        assert world.decided(world.share.forwarded(BitMap64([0, 5]))).count == 1
        assert states(world) == "A"

    def test_forwarding_without_a_topic_delayed(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        fail(world, "nacked")
        world.decided(world.share.forward_failed(20.0, BitMap64([0, 5])))
        assert states(world) == "D"
        assert world.share.next_deadline() == 20.0 + DEAD_LETTER_RETRY_S

    def test_backlog_acknowledged_late_acked(self):
        world = World(subscription())
        world.publish(0)
        ids = world.lease()
        world.nack(1, ids)
        assert world.ack(2, ids).count == 1
        assert states(world) == "A"
        assert world.offsets() == []

    def test_delayed_acknowledged_late_acked(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        ids = world.lease()
        world.nack(1, ids)
        world.ack(2, ids)
        world.expire(100.0)
        assert states(world) == "A"
        assert world.offsets() == []

    @pytest.mark.parametrize("state", "BODF")
    @pytest.mark.parametrize("how", ["seek", "advance"])
    def test_any_closed_acked(self, state, how):
        world = World(subscription(retry=RETRY, attempts=1 if state == "F" else 9))
        world.publish(0, 0)
        credit = Credit(max_bytes=100)
        if state != "B":
            ids = world.lease(credit, 1)
        if state in "DF":
            world.nack(1, ids)
        assert states(world) == "B" + state
        close(world, how, 1)
        assert states(world) == "BA"
        assert (credit.messages, credit.size_bytes) == (0, 0)
        world.expire(1_000.0)
        assert world.offsets() == [1]

    def test_acked_sought_before_backlog(self):
        world = World(subscription())
        world.publish(0, 0, 0, 0)
        world.ack(1, world.lease())
        assert states(world) == "AAAA"
        generation = world.next_generation()
        world.decided(world.share.seek(1, 2, generation=generation))
        assert states(world) == "BBAA"
        assert world.offsets() == [2, 3]


def fail(world: World, how: str) -> None:
    ids = world.lease(deadline_s=10.0)
    if how == "nacked":
        world.nack(10.0, ids)
    else:
        assert world.share.next_deadline() == 10.0
        world.expire(10.0)


def close(world: World, how: str, floor: int) -> None:
    if how == "seek":
        world.decided(world.share.seek(floor, floor, generation=world.next_generation()))
    else:
        world.decided(world.share.advance(floor))


class TestStaleIds:
    def test_they_count_while_another_lease_holds_the_message(self):
        world = World(subscription())
        world.publish(0)
        old = world.lease()
        world.expire(10.0)
        credit = Credit()
        world.lease(credit)
        world.ack(11.0, old)
        assert states(world) == "A"
        assert credit.messages == 0

    def test_an_old_and_a_new_id_of_one_message_are_one_acknowledgement(self):
        world = World(subscription())
        world.publish(0, 0)
        old = world.lease(max_messages=1)
        world.nack(1, old)
        credit = Credit(max_bytes=100)
        new = world.lease(credit)
        assert world.ack(2, [*old, *new, *old]).count == 2
        assert (credit.messages, credit.size_bytes) == (0, 0)
        assert states(world) == "AA"

    def test_they_change_no_deadline(self):
        world = World(subscription())
        world.publish(0)
        old = world.lease(deadline_s=10.0)
        world.nack(1, old)
        world.lease(deadline_s=11.0)
        assert world.modify(2, old, 100.0).count == 0
        assert world.nack(2, old).invalid == []
        assert world.share.next_deadline() == 11.0

    def test_they_do_not_count_for_what_is_being_forwarded(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        ids = world.lease()
        world.nack(1, ids)
        assert world.ack(2, ids).count == 0
        assert states(world) == "F"

    def test_they_do_not_count_after_a_seek(self):
        world = World(subscription())
        world.publish(0)
        ids = world.lease()
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        assert world.ack(1, ids).count == 0
        assert world.offsets() == [0]
        assert world.ack(1, ids).count == 0

    def test_they_count_after_a_restart_up_to_the_end_of_the_log(self):
        world = World(subscription())
        world.publish(0, 0)
        ids = world.lease()
        world.restart()
        assert world.decided(world.share.acknowledge(1, {1: [0]})).count == 0
        assert world.ack(1, [*ids, (1, 99)]).count == 2
        assert states(world) == "AA"
        assert world.offsets() == []

    def test_acknowledging_twice_is_once(self):
        world = World(subscription())
        world.publish(0)
        ids = world.lease()
        assert world.ack(1, ids).count == 1
        decision = world.ack(1, ids)
        assert (decision.count, decision.records, decision.invalid) == (0, [], [])


class TestLeases:
    def test_part_of_a_lease_is_extended_and_the_rest_expires(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        ids = world.lease(deadline_s=10.0)
        assert world.modify(5.0, ids[1:2], 20.0).count == 1
        assert world.expire(10.0).count == 2
        assert states(world) == "BBO"
        assert world.share.next_deadline() == 25.0
        assert world.offsets() == [0, 2]

    def test_an_abandoned_lease_runs_on(self):
        world = World(subscription())
        world.publish(0, 0)
        credit = Credit(max_messages=1)
        other = Credit(max_messages=1)
        ids = world.lease(credit, deadline_s=10.0)
        others = world.lease(other, deadline_s=10.0)
        world.share.abandon(credit)
        assert states(world) == "OO"
        world.ack(1, [*ids, *others])
        assert credit.messages == 1, "nobody looks at it any more"
        assert other.messages == 0

    def test_runs_speak_of_batches(self):
        world = World(subscription())
        world.publish(0, 0)
        world.publish(0, 0)
        budget = Credit().budget(3, 1_000)
        decision = world.share.lease(
            Credit(), world.end, world.batches, budget, generation=1, deadline_s=5.0
        )
        assert decision.grant is not None
        assert decision.grant.count == 3
        assert [(r.start, r.end, r.base, r.size_bytes) for r in decision.grant.runs] == [
            (0, 2, 0, 20),
            (2, 3, 2, 10),
        ]
        assert not decision.has_progressed

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_a_consumer_without_room_is_not_told_to_ask_again(self, ordering):
        world = World(subscription(ordering))
        world.publish(1, 2, 0, sizes=[50, 50, 50])
        credit = Credit(max_bytes=60)
        assert len(world.lease(credit)) == 1
        budget = credit.budget(10, 1_000)
        assert world.share.plan(credit, world.end, budget.messages)
        decision = world.share.lease(
            credit,
            world.end,
            world.batches,
            budget,
            generation=9,
            deadline_s=5.0,
        )
        assert decision.grant is None
        assert not decision.has_progressed

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_unreadable_batches_are_passed_over(self, ordering):
        world = World(subscription(ordering))
        for _ in range(3):
            world.publish(1, 0)
        world.damaged = {2}
        seen = []
        for _ in range(4):
            ids = world.lease(max_messages=2)
            world.ack(1, ids)
            seen += [offset for _, offset in ids]
        assert sorted(seen) == [0, 1, 4, 5]
        assert states(world) == "BBAAAA"
        # Another start may read them.
        world.damaged = set()
        world.restart()
        assert world.offsets() == [2, 3]

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    @pytest.mark.parametrize("key", [0, 1])
    def test_an_answer_begins_behind_what_cannot_be_read(self, ordering, key):
        """Nobody would wake a consumer that was sent away: nothing is going to change."""
        world = World(subscription(ordering))
        for _ in range(3):
            world.publish(key, key)
        world.damaged = {0}
        assert world.offsets(max_messages=1) == [2]

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    @pytest.mark.parametrize("key", [0, 1])
    def test_so_it_does_when_it_could_be_read_before(self, ordering, key):
        world = World(subscription(ordering))
        for _ in range(2):
            world.publish(key, key)
        world.nack(1, world.lease(max_messages=2))
        world.damaged = {0}
        assert world.offsets(max_messages=1) == [2]

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_what_cannot_be_read_is_no_reason_to_ask_for_ever(self, ordering):
        world = World(subscription(ordering))
        world.publish(1)
        world.publish(2)
        world.publish(3, sizes=[50])
        world.damaged = {1}
        credit = Credit(max_bytes=40)
        assert world.offsets(credit) == [0]
        assert world.offsets(credit) == []
        assert world.offsets(credit) == []


class TestAttempts:
    def test_failures_are_hard_under_a_dead_letter_policy(self):
        world = World(subscription(attempts=3))
        world.publish(0, 0)
        world.nack(1, world.lease()[:1])
        assert (world.share.attempts_of(0), world.share.attempts_of(1)) == (1, 0)
        world.restart()
        assert world.share.attempts_of(0) == 1
        assert world.share.has_attempts

    def test_failures_are_soft_under_a_retry_policy_alone(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        assert world.nack(1, world.lease()).records == []
        assert world.share.attempts_of(0) == 1
        world.restart()
        assert world.share.attempts_of(0) == 0
        assert world.offsets() == [0], "a restart forgets the back-off"

    def test_without_policies_nothing_is_counted(self):
        world = World(subscription())
        world.publish(0)
        assert world.nack(1, world.lease()).records == []
        assert not world.share.has_attempts

    def test_the_back_off_grows_with_each_failure(self):
        world = World(subscription(retry=RETRY))
        world.publish(0)
        now, waits = 0.0, []
        for _ in range(6):
            world.nack(now, world.lease(deadline_s=now + 10))
            deadline = world.share.next_deadline()
            assert deadline is not None
            waits.append(deadline - now)
            now = deadline
            world.expire(now)
        assert waits == [4.0, 8.0, 16.0, 32.0, 60.0, 60.0]

    def test_a_new_start_forwards_what_was_exhausted(self):
        world = World(subscription(attempts=1))
        world.publish(0, 0, 0)
        world.nack(1, world.lease()[1:2])
        world.restart()
        assert world.offsets() == [0, 2]
        assert [letter.reason for letter in world.letters] == ["1 of 1 delivery attempts"]
        assert states(world) == "OOF"

    def test_a_backlog_of_exhausted_ones_is_progress(self):
        world = World(subscription(attempts=3))
        world.publish(0, 0)
        world.nack(1, world.lease(max_messages=1))
        world.configure(replace(world.settings, dead_letter=dead_letter(1)))
        assert world.offsets(max_messages=1) == [1]
        assert [letter.offset for letter in world.letters] == [0]

    def test_not_forwarded_delivered_once_more_then_forwarded(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        fail(world, "nacked")
        world.decided(world.share.forward_failed(10.0, BitMap64([0])))
        world.expire(20.0)
        world.letters.clear()
        ids = world.lease(deadline_s=30.0)
        assert [offset for _, offset in ids] == [0]
        assert world.letters == []
        world.nack(21.0, ids)
        assert [(letter.offset, letter.attempts) for letter in world.letters] == [(0, 2)]
        world.decided(world.share.forwarded(BitMap64([0])))
        assert states(world) == "A"

    def test_counts_go_with_the_floor_and_with_a_seek(self):
        world = World(subscription(attempts=5))
        for _ in range(11):
            world.publish(*[0] * 100)
        ids = world.lease(max_messages=1_100)
        world.nack(1, [ids[0], ids[1_050]])
        assert sum(key[:1] == b"A" for key in world.store) == 2
        world.ack(2, [(1, o) for o in range(1_030)])
        assert sum(key[:1] == b"A" for key in world.store) == 1
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        assert sum(key[:1] == b"A" for key in world.store) == 0
        assert not world.share.has_attempts

    @pytest.mark.parametrize("ordering", ["none", "key", "strict"])
    def test_what_was_never_sent_was_no_attempt(self, ordering):
        world = World(subscription(ordering, retry=RETRY, attempts=1))
        world.publish(5, 5)
        for _ in range(3):
            ids = world.lease()
            by_generation = {ids[0][0]: [offset for _, offset in ids]}
            decision = world.decided(
                world.share.modify_ack_deadline(1, by_generation, 0, jitter=0.0, nack=UNSENT)
            )
            assert decision.records == []
            # No back-off either: whoever takes next gets it.
            assert states(world) == "BB"
        assert world.letters == []
        assert world.share.attempts_of(0) == 0


class TestSettings:
    def test_a_policy_removed_takes_its_records_along(self):
        world = World(subscription(attempts=5))
        world.publish(0)
        world.nack(1, world.lease())
        decision = world.configure(replace(world.settings, dead_letter=None))
        assert decision.records == [AttemptsChunk(3, PARTITION, 0, None)]
        assert not world.share.has_attempts
        assert [key[:1] for key in world.store] == [b"H"]

    def test_exactly_once_writes_down_the_leases_there_are(self):
        world = World(subscription())
        world.publish(0, 0)
        ids = world.lease(deadline_s=10.0)
        once = replace(world.settings, enable_exactly_once=True)
        assert world.configure(once).records == [
            LeaseHeld(3, PARTITION, 1, 0, 10.0, BitMap64([0, 1]))
        ]
        world.restart()
        assert world.offsets() == []
        assert world.ack(5, ids[:1]).invalid == []
        never = replace(world.settings, enable_exactly_once=False)
        assert world.configure(never).records == [LeaseHeld(3, PARTITION, 1, 0, 0.0, None)]
        assert world.held == set()
        assert states(world) == "OA"

    def test_strict_is_taken_on_without_touching_leases(self):
        world = World(subscription("key"))
        world.publish(1, 1, 1)
        credit = Credit()
        world.lease(credit, 1)
        world.configure(subscription("strict"))
        assert world.lease(credit, 1) == []
        world.configure(subscription("key"))
        assert [offset for _, offset in world.lease(credit, 1)] == [1]

    def test_nothing_changed_is_no_record(self):
        world = World(subscription(attempts=2))
        assert world.configure(world.settings).records == []

    def test_removal_leaves_nothing(self):
        world = World(subscription(exactly_once=True, attempts=5))
        world.publish(0, 0, 0, 0)
        credit = Credit()
        ids = world.lease(credit)
        world.ack(1, ids[1:2])
        world.nack(1, ids[2:3])
        assert {key[:1] for key in world.store} == {b"H", b"C", b"A", b"L"}
        for record in world.share.removed():
            assert record.value() is None
            world.share.apply(record)
            del world.store[record.key()]
        assert world.store == {}
        assert credit.messages == 0

    def test_created_at_a_floor(self):
        share = Share(subscription(), PARTITION, floor=7)
        assert share.created().records == [CursorHead(3, PARTITION, 7, 0)]
        assert share.next_offset == 7


class TestSeek:
    def test_everything_handed_out_is_void(self):
        world = World(subscription(exactly_once=True))
        world.publish(0, 0, 0)
        credit = Credit(max_messages=2)
        ids = world.lease(credit, deadline_s=10.0)
        world.decided(world.share.seek(1, 0, generation=world.next_generation()))
        assert credit.messages == 0
        assert world.held == set()
        assert world.ack(1, ids).invalid == ids
        assert world.offsets() == [1, 2]

    def test_past_the_end_and_back(self):
        world = World(subscription())
        world.publish(0, 0)
        world.decided(world.share.seek(2, 2, generation=world.next_generation()))
        assert states(world) == "AA"
        world.publish(0)
        assert world.offsets() == [2]
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        assert world.offsets() == [0, 1, 2]

    def test_a_snapshot_holds_what_was_unacknowledged_and_what_came_later(self):
        world = World(subscription())
        world.publish(0, 0, 0)
        ids = world.lease()
        world.ack(1, ids[1:2])
        cursor = world.share.cursor
        snapshot = Cursor(cursor.floor, cursor.chunks)
        world.ack(2, ids)
        world.publish(0)
        world.decided(world.share.restore(snapshot, 0, generation=world.next_generation()))
        assert world.offsets() == [0, 2, 3]
        world.decided(world.share.restore(snapshot, 2, generation=world.next_generation()))
        assert world.offsets() == [2, 3]

    def test_the_fence_outlives_a_restart(self):
        world = World(subscription())
        world.publish(0)
        ids = world.lease()
        world.decided(world.share.seek(0, 0, generation=world.next_generation()))
        world.restart()
        assert world.ack(1, ids).count == 0
        assert world.ack(1, world.lease()).count == 1


class TestAdvance:
    def test_not_backwards(self):
        world = World(subscription())
        world.publish(0, 0)
        world.decided(world.share.advance(1))
        assert world.share.advance(1).records == []
        assert world.share.stats(world.end) == ShareStats(1, 1, 0, 0, 0)

    def test_leases_end_with_their_messages(self):
        world = World(subscription(exactly_once=True))
        world.publish(0, 0, 0)
        ids = world.lease(deadline_s=10.0)
        world.decided(world.share.advance(2))
        assert world.held == {2}
        assert world.ack(1, ids[:1]).invalid == ids[:1]
        assert world.expire(10.0).count == 1
        assert world.offsets() == [2]

    def test_beyond_what_was_met(self):
        world = World(subscription())
        world.publish(0, 0)
        world.publish(0, 0)
        world.decided(world.share.advance(3))
        world.log_start = 2
        assert world.offsets() == [3]


def test_stats_beyond_the_end_are_not_negative():
    assert Share(subscription(), PARTITION, floor=9).stats(5).backlog == 0


def test_next_deadline_is_the_earliest_of_leases_and_back_offs():
    world = World(subscription(retry=RETRY))
    assert world.share.next_deadline() is None
    world.publish(0, 0)
    world.nack(1.0, world.lease(max_messages=1))
    world.lease(deadline_s=30.0)
    assert world.share.next_deadline() == 5.0
    world.expire(5.0)
    assert world.share.next_deadline() == 30.0
