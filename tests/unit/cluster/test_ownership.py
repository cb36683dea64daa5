"""The rules of owning, one by one. The session is 3 s: renew 1, answer 1.5, rank 0.5."""

from __future__ import annotations

import math

import pytest

from fanlog.cluster.ownership import (
    Announced,
    OwnerSession,
    Seen,
    Vigil,
    may_answer,
    rank_of,
    renew_at,
    serve_from,
)

SESSION = OwnerSession(3.0)
NAN = -math.inf


def seen(**given: object) -> Seen:
    """A standby at the end of a log that node "a" owns, and was heard at 100."""
    known: dict[str, object] = {
        "term": 7,
        "owner": "a",
        "successor": None,
        "members": (),
        "applied_offset": 50,
        "end_offset": 50,
        "is_whole": True,
        "heard_s": 100.0,
        "fetched_s": 100.0,
        "clock_ahead_s": 0.0,
    }
    return Seen(**(known | given))  # type: ignore[arg-type]


class TestAnswering:
    @pytest.mark.parametrize(
        ("renewed_s", "from_s", "now", "expected"),
        [
            (100.0, 0.0, 100.0, True),
            (100.0, 0.0, 101.49, True),
            # Half a session after the last record was sent.
            (100.0, 0.0, 101.5, False),
            # A successor that must wait for its predecessor.
            (100.0, 100.5, 100.4, False),
            (100.0, 100.5, 100.5, True),
            # A node that does not own.
            (NAN, 0.0, 100.0, False),
        ],
    )
    def test_until_half_a_session_after_the_last_record_was_sent(
        self, renewed_s, from_s, now, expected
    ):
        found = may_answer(SESSION, from_s=from_s, renewed_s=renewed_s, now=now)
        assert found == expected

    @pytest.mark.parametrize(
        ("renewed_s", "told_s", "expected"),
        [
            # Nothing was appended for a third of a session.
            (100.0, 100.0, 101.0),
            # Commits renew, too; the members are told every session all the same.
            (110.0, 100.0, 103.0),
            (100.0, NAN, NAN),
        ],
    )
    def test_renewals(self, renewed_s, told_s, expected):
        assert renew_at(SESSION, renewed_s=renewed_s, told_s=told_s) == expected


class TestServing:
    @pytest.mark.parametrize(
        ("before", "term", "expected"),
        [
            # Nobody owned before.
            (seen(term=-1, owner="", heard_s=NAN), 50, 200.0),
            # The owner had stopped answering before it said so.
            (seen(successor="b"), 50, 200.0),
            (seen(successor=""), 50, 200.0),
            # It was free, and another node was faster: that one may answer still.
            (seen(term=-1, owner="", heard_s=NAN), 51, 203.0),
            (seen(successor=""), 61, 203.0),
            (seen(successor="b"), 51, 203.0),
            # Silent for a session by the time it answers.
            (seen(heard_s=196.9), 50, 199.9),
            (seen(heard_s=199.0), 50, 202.0),
            # Something came between the decision and the take-over: perhaps the owner's.
            (seen(heard_s=196.9), 51, 203.0),
        ],
    )
    def test_from_when_on(self, before, term, expected):
        assert serve_from(SESSION, before, term, 200.0) == pytest.approx(expected)


def watch(*looks: tuple[float, Seen], name: str = "b") -> list[float]:
    """The times of the looks at which node `name` is to take over."""
    vigil = Vigil(SESSION, name)
    found = []
    for now, one in looks:
        vigil.look(one, now)
        if vigil.is_time(one, now):
            found.append(now)
    return found


def steadily(begin: float, end: float, step: float = 0.5, **given: object):
    """Looks at a silent owner, by a standby that reads all the time."""
    times = [begin + step * number for number in range(round((end - begin) / step) + 1)]
    return [(now, seen(fetched_s=now, **given)) for now in times]


class TestTakingOver:
    def test_after_a_session_of_silence(self):
        assert watch(*steadily(100.0, 104.0))[0] == 103.0

    def test_an_owner_that_is_heard_is_left_alone(self):
        looks = [(now, seen(fetched_s=now, heard_s=now - 0.9)) for now in range(100, 120)]
        assert watch(*looks) == []

    @pytest.mark.parametrize("ahead_s", [5.1, -5.1])
    def test_one_whose_clock_seemed_off_leaves_it_to_others_but_not_for_ever(self, ahead_s):
        """What it knows may be old: without an owner, nothing tells it that it was put right."""
        assert watch(*steadily(100.0, 120.0, clock_ahead_s=ahead_s))[0] == 112.0
        left = steadily(100.0, 120.0, clock_ahead_s=ahead_s, successor="")
        assert watch(*left)[0] == 109.0
        named = steadily(100.0, 120.0, clock_ahead_s=ahead_s, successor="b")
        assert watch(*named)[0] == 109.0

    def test_each_one_that_is_further_on_goes_first(self):
        members = (Announced("c", 50), Announced("b", 40), Announced("d", 60))
        assert watch(*steadily(100.0, 106.0, members=members), name="d")[0] == 103.0
        assert watch(*steadily(100.0, 106.0, members=members), name="c")[0] == 103.5
        assert watch(*steadily(100.0, 106.0, members=members), name="b")[0] == 104.0
        # The owner has not heard of it yet.
        assert watch(*steadily(100.0, 106.0, members=members), name="e")[0] == 104.5

    def test_the_owner_is_no_standby_of_its_own(self):
        members = (Announced("a", 90), Announced("b", 40))
        assert rank_of("b", seen(members=members)) == 0

    def test_equals_go_by_their_names(self):
        members = (Announced("c", 40), Announced("b", 40))
        assert (rank_of("b", seen(members=members)), rank_of("c", seen(members=members))) == (0, 1)

    def test_one_that_was_named_need_not_wait(self):
        assert watch(*steadily(100.0, 101.0, successor="b"))[0] == 100.0

    def test_others_leave_the_named_one_its_time(self):
        assert watch(*steadily(100.0, 104.0, successor="c"))[0] == 103.0

    def test_where_any_may_they_go_by_rank(self):
        members = (Announced("c", 50), Announced("b", 40))
        assert watch(*steadily(100.0, 104.0, successor="", members=members))[0] == 100.5

    def test_the_first_of_all_need_not_wait(self):
        assert watch((100.0, seen(term=-1, owner="", heard_s=NAN)))[0] == 100.0

    @pytest.mark.parametrize(
        "given",
        [
            {"end_offset": 51},
            {"is_whole": False},
        ],
    )
    def test_not_one_that_could_not_own(self, given):
        assert watch(*steadily(100.0, 120.0, **given)) == []
        assert watch(*steadily(100.0, 120.0, successor="b", **given)) == []

    def test_an_obstacle_is_told(self):
        vigil = Vigil(SESSION, "b")
        assert vigil.obstacle(seen()) == ""
        assert "cache" in vigil.obstacle(seen(is_whole=False))
        assert "3600 s ahead of" in vigil.obstacle(seen(clock_ahead_s=3600.0))
        assert "60 s behind" in vigil.obstacle(seen(clock_ahead_s=-60.0))

    def test_silence_of_kafka_deposes_nobody(self):
        """Reads failed from 101 to 110: the owner has had no chance to be heard."""
        looks = steadily(100.0, 101.0)
        looks += [(now, seen(fetched_s=101.0)) for now in range(102, 110)]
        looks += steadily(110.0, 116.0)
        assert watch(*looks)[0] == 113.0

    def test_a_pause_of_the_standby_itself_is_no_silence(self):
        """It was stopped from 101 to 130, while the owner renewed; its reads are behind."""
        looks = [*steadily(100.0, 101.0), (130.0, seen(fetched_s=101.0))]
        looks += steadily(130.5, 132.5, heard_s=100.0)
        assert watch(*looks) == []
        assert watch(*looks, (133.5, seen(fetched_s=133.5)))[0] == 133.5

    def test_a_read_from_before_a_pause_says_nothing(self):
        """The loop stood still while the reader went on, or did not: nobody knows."""
        assert watch((100.0, seen()), (104.0, seen(fetched_s=103.9))) == []


class TestHearing:
    @pytest.mark.parametrize(
        ("known", "now", "expected"),
        [
            ({}, 102.9, True),
            ({}, 103.0, False),
            ({"term": -1, "owner": ""}, 100.5, False),
            ({"successor": "b"}, 100.5, False),
        ],
    )
    def test_whether_somebody_owns(self, known, now, expected):
        vigil = Vigil(SESSION, "b")
        for at in (now - 1.0, now):
            vigil.look(seen(fetched_s=at, **known), at)
        assert vigil.is_owner_heard(seen(fetched_s=now, **known), now) == expected

    def test_one_that_cannot_read_knows_of_no_other(self):
        vigil = Vigil(SESSION, "b")
        vigil.look(seen(), 100.0)
        vigil.look(seen(), 110.0)
        assert vigil.is_owner_heard(seen(), 110.0)
