"""Nodes that are killed, paused and deposed, on a Kafka that is, too: nothing answered is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.kafka import Kafka

from kafka.race import Findings, Race

#: Seconds of faults; the short race is in every run, the long one at night.
SHORT_S, LONG_S = 12, 180


def check(found: Findings) -> None:
    assert found.failed == []
    assert found.lost == []
    assert found.late == []
    assert found.counted >= found.answered


@pytest.mark.slow
def test_nothing_that_was_answered_is_lost(three: Kafka, tmp_path: Path, cluster: str):
    race = Race(three, tmp_path, cluster, seed=1)
    race.run(SHORT_S, ("rival", "kill", "pause", "kafka-kill", "kafka-pause"), terms=3)
    found = race.check()
    check(found)
    assert found.terms >= 3


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(2, 5))
def test_nothing_that_was_answered_is_lost_in_a_long_race(
    three: Kafka, tmp_path: Path, cluster: str, seed: int
):
    race = Race(three, tmp_path, cluster, seed=seed)
    faults = ("rival", "kill", "pause", "pause", "kafka-kill", "kafka-pause")
    race.run(LONG_S, faults, terms=10)
    found = race.check()
    check(found)
    assert found.terms >= 10
    assert found.void > 0


@pytest.mark.slow
def test_a_race_finds_owners_that_trust_acknowledgements(
    three: Kafka, tmp_path: Path, cluster: str
):
    """The planted bug: it answers for commits that are void."""
    race = Race(three, tmp_path, cluster, seed=1, trusting=True)
    race.run(3, ("rival",), terms=3)
    found = race.check()
    assert found.lost or found.late
