"""What a stream nacked goes to others first; what was never written to it is free at once."""

from __future__ import annotations

import pytest
from pyroaring import BitMap64

from fanlog.core.flow import Credit
from fanlog.core.redelivery import Nack
from fanlog.limits import AVERSION_S
from fanlog.model.resources import RetryPolicy
from unit.core.world import World, by_generation, subscription

ORDERINGS = pytest.mark.parametrize("ordering", ["none", "key", "strict"])


def world(*keys, **settings):
    made = World(subscription(settings.pop("ordering", "none"), **settings))
    made.publish(*keys)
    return made


def stream(client=None, **window):
    return Credit(**window, client=client or object())


def offsets(ids):
    return [offset for _, offset in ids]


class TestAversion:
    @ORDERINGS
    def test_the_stream_that_nacked_waits(self, ordering):
        made, mine = world(1, ordering=ordering), stream()
        made.nack(5.0, made.lease(mine))
        assert made.lease(mine) == []
        assert made.share.next_deadline() == 5.0 + AVERSION_S
        made.expire(5.0 + AVERSION_S / 2)
        assert made.lease(mine) == []
        made.expire(5.0 + AVERSION_S)
        assert offsets(made.lease(mine)) == [0]

    @ORDERINGS
    @pytest.mark.parametrize("other", [Credit(), stream()], ids=["a pull", "a stream"])
    def test_others_do_not(self, ordering, other):
        made, mine = world(1, ordering=ordering), stream()
        made.nack(5.0, made.lease(mine))
        assert offsets(made.lease(other)) == [0]

    @ORDERINGS
    def test_streams_of_one_client_are_one(self, ordering):
        made, mine = world(1, ordering=ordering), stream("go")
        made.nack(5.0, made.lease(mine))
        assert made.lease(stream("go")) == []
        assert offsets(made.lease(stream("python"))) == [0]

    def test_what_it_did_not_nack_is_for_it(self):
        made, mine = world(0, 0, 0), stream()
        held = made.lease(mine, 2)
        made.nack(5.0, held[:1])
        assert offsets(made.lease(mine)) == [2]

    def test_an_expired_lease_is_no_nack(self):
        made, mine = world(0), stream()
        made.lease(mine, deadline_s=10.0)
        made.expire(10.0)
        assert offsets(made.lease(mine)) == [0]

    def test_a_pull_and_push_have_none(self):
        made, mine = world(0), Credit()
        made.nack(5.0, made.lease(mine))
        assert offsets(made.lease(mine)) == [0]
        assert made.share.next_deadline() == 10.0, "of the lease, not of an aversion"

    def test_a_back_off_delays_all_and_an_aversion_its_client_only(self):
        retry = RetryPolicy(minimum_backoff_s=0.1, maximum_backoff_s=600.0)
        made, mine = world(0, retry=retry), stream()
        made.nack(5.0, made.lease(mine))
        assert made.lease() == []
        made.expire(5.1)
        assert made.lease(mine) == []
        assert offsets(made.lease()) == [0]

    def test_a_back_off_that_is_longer_stays_as_it_is(self):
        retry = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=600.0)
        made, mine = world(0, retry=retry), stream()
        made.nack(5.0, made.lease(mine))
        made.expire(5.0 + AVERSION_S)
        assert made.lease(mine) == []
        made.expire(9.0)
        assert offsets(made.lease(mine)) == [0]

    def test_a_delay_that_the_client_asked_for(self):
        made, mine = world(0), stream()
        ids = by_generation(made.lease(mine))
        nack = Nack(delay_s=0.0)
        made.decided(made.share.modify_ack_deadline(5.0, ids, 0, jitter=0.0, nack=nack))
        assert made.lease(mine) == []
        assert offsets(made.lease()) == [0]

    def test_a_key_is_not_split(self):
        made, mine, other = world(1, 1, 1, 2, ordering="key"), stream(), stream()
        held = made.lease(mine, 3)
        made.nack(5.0, held[1:2])
        assert offsets(made.lease(mine)) == [3], "of the key it has the first only"
        assert made.lease(other) == [], "the first of the key is still out"
        made.ack(6.0, held[:1])
        assert offsets(made.lease(other)) == [1, 2]

    def test_a_key_that_stays_with_its_stream_goes_on_after_the_aversion(self):
        made, mine = world(1, 1, ordering="key"), stream()
        held = made.lease(mine)
        made.nack(5.0, held[1:])
        assert made.lease(mine) == []
        made.expire(5.0 + AVERSION_S)
        assert offsets(made.lease(mine)) == [1]

    def test_messages_without_a_key_among_those_with(self):
        made, mine = world(0, 1, 0, ordering="key"), stream()
        made.nack(5.0, made.lease(mine))
        assert made.lease(mine) == []
        assert offsets(made.lease()) == [0, 2, 1]

    @ORDERINGS
    @pytest.mark.parametrize("key", [0, 1])
    def test_what_is_met_again_after_a_reopening(self, ordering, key):
        made, mine = world(2, key, 3, ordering=ordering, exactly_once=True), stream()
        held = made.lease(mine)
        made.ack(1.0, held[:1])
        made.ack(1.0, held[2:])
        opened = made.share.reopen(
            2.0, BitMap64([0, 2]), generation=made.next_generation(), is_wanted=False
        )
        made.decided(opened)
        made.nack(3.0, held[1:2])
        assert sorted(offsets(made.lease(mine))) == [0, 2]
        made.expire(3.0 + AVERSION_S)
        assert offsets(made.lease(mine)) == [1]

    def test_a_seek_forgets_them(self):
        made, mine = world(0), stream()
        made.nack(5.0, made.lease(mine))
        made.decided(made.share.seek(0, 0, generation=made.next_generation()))
        assert offsets(made.lease(mine)) == [0]
        assert made.share.next_deadline() == 10.0

    def test_a_late_ack_counts_meanwhile(self):
        made, mine = world(0), stream()
        held = made.lease(mine)
        made.nack(5.0, held)
        made.ack(5.1, held)
        made.expire(5.0 + AVERSION_S)
        assert made.unacked == []
        assert made.lease(mine) == []

    def test_several_of_several_clients_end_one_by_one(self):
        made, a, b = world(0, 0, 0), stream(), stream()
        first, second, third = made.lease(a, 1), made.lease(a, 1), made.lease(b, 1)
        made.nack(5.0, first)
        made.nack(5.1, [*second, *third])
        made.expire(5.0 + AVERSION_S)
        assert offsets(made.lease(a, 1)) == [0]
        made.expire(5.1 + AVERSION_S)
        assert offsets(made.lease(a, 1)) == [1]
        assert offsets(made.lease(b, 1)) == [2]


class TestGivingBack:
    @ORDERINGS
    @pytest.mark.parametrize("exactly_once", [False, True])
    def test_what_was_not_written_is_free_and_the_rest_is_not(self, ordering, exactly_once):
        made, mine = world(1, 2, 3, ordering=ordering, exactly_once=exactly_once), stream()
        [(written, _)] = made.lease(mine, 1)
        made.lease(mine)
        decision = made.decided(made.share.give_back(5.0, mine, written))
        assert decision.count == 2
        assert made.share.stats(made.end).outstanding == 1
        assert mine.messages == 1
        if exactly_once:
            assert made.held == {0}, "a lease is hard, and so is its end"
        assert offsets(made.lease()) == [1, 2]

    def test_it_was_no_attempt(self):
        made, mine = world(0, attempts=1), stream()
        made.lease(mine)
        made.decided(made.share.give_back(5.0, mine, 0))
        assert made.share.attempts_of(0) == 0
        assert made.letters == []
        assert offsets(made.lease(mine)) == [0], "nor was it a nack"

    def test_a_back_off_is_not_waited_for(self):
        retry = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=600.0)
        made, mine = world(0, retry=retry), stream()
        made.lease(mine)
        made.decided(made.share.give_back(5.0, mine, 0))
        assert offsets(made.lease()) == [0]

    def test_of_a_key_it_is_the_end_that_comes_back(self):
        made, mine = world(1, 1, 1, ordering="key"), stream()
        held = made.lease(mine, 1)
        made.lease(mine)
        made.decided(made.share.give_back(5.0, mine, held[0][0]))
        assert made.lease(stream()) == []
        made.ack(6.0, held)
        assert offsets(made.lease(stream())) == [1, 2]

    def test_others_keep_theirs(self):
        made, mine, other = world(0, 0), stream(), stream()
        made.lease(other, 1)
        made.lease(mine, 1)
        made.decided(made.share.give_back(5.0, mine, 0))
        assert offsets(made.lease()) == [1]

    def test_nothing_to_give_back_decides_nothing(self):
        made, mine = world(0, exactly_once=True), stream()
        [(written, _)] = made.lease(mine)
        decision = made.share.give_back(5.0, mine, written)
        assert (decision.count, decision.records) == (0, [])
