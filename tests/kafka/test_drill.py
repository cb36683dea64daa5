"""The scripted hour, and the same script in two minutes: see `hour.py`."""

from __future__ import annotations

import logging

import pytest
from bench.kafka import Kafka

from kafka.hour import Outcome, play

DRILL_S = 100.0
HOUR_S = 3_600.0
#: For the start and the end, on a busy machine.
SPARE_S = 1_200


def _played(three: Kafka, cluster: str, place, seconds: float) -> Outcome:
    said: list[str] = []
    outcome = play(three, cluster, place, seconds, said.append)
    assert outcome.wrong == [], "\n".join(said)
    return outcome


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.CRITICAL, "google.cloud.pubsub_v1")


@pytest.mark.slow
@pytest.mark.timeout(DRILL_S + SPARE_S)
def test_all_that_there_is_dies_once_in_two_minutes(three: Kafka, cluster: str, tmp_path):
    outcome = _played(three, cluster, tmp_path, DRILL_S)
    assert len(outcome.waits_s) == 9
    assert outcome.attempts.answered > 1_000


@pytest.mark.nightly
@pytest.mark.timeout(HOUR_S + SPARE_S)
def test_all_that_there_is_dies_once_in_an_hour(three: Kafka, cluster: str, tmp_path):
    outcome = _played(three, cluster, tmp_path, HOUR_S)
    assert outcome.attempts.answered > 100_000
