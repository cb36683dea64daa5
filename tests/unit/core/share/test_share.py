"""The delivery machine: every row of its transition table, then stale ids and leases."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.share import Share
from fanlog.limits import DEAD_LETTER_RETRY_S
from unit.core.world import PARTITION, RETRY, World, fail, states, subscription


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
        assert world.decided(world.share.acknowledge_forwarded(BitMap64([0, 5]))).count == 1
        assert states(world) == "A"

    def test_forwarding_without_a_topic_delayed(self):
        world = World(subscription(attempts=1))
        world.publish(0)
        fail(world, "nacked")
        world.decided(world.share.return_unforwarded(20.0, BitMap64([0, 5])))
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
