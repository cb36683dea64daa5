"""The harness of `make soak`, for seconds instead of hours, and what it would notice."""

from __future__ import annotations

import logging

import pytest

from chaos.measure import MIB
from chaos.soak import Outcome, judge_growth, judge_history, soak
from fanlog.testing.history import History

SEED = 5
SECONDS = 9


@pytest.mark.slow
def test_a_short_soak(caplog, capsys):
    caplog.set_level(logging.CRITICAL, "google.cloud.pubsub_v1")
    said: list[str] = []
    outcome = soak(SECONDS / 60, SEED, said.append)
    assert outcome.wrong == []
    assert outcome.restarts >= 1
    assert outcome.published > 200
    assert outcome.delivered > 4 * outcome.published / 2
    assert len(outcome.memory_bytes) == outcome.rounds - 1 == 2
    assert len(said) == outcome.rounds


def test_growth_is_noticed():
    steady = [100 * MIB, 104 * MIB, 99 * MIB, 101 * MIB, 103 * MIB, 102 * MIB]
    outcome = Outcome(memory_bytes=steady, descriptors=[30] * 6, file_bytes=[MIB] * 6)
    assert judge_growth(outcome) == []
    outcome.memory_bytes = [(100 + 10 * number) * MIB for number in range(6)]
    outcome.descriptors = [30 + 5 * number for number in range(6)]
    outcome.file_bytes = [(1 + 20 * number) * MIB for number in range(6)]
    assert [sentence.split()[0] for sentence in judge_growth(outcome)] == [
        "memory",
        "descriptors",
        "file",
    ]


def test_a_lost_message_is_noticed():
    history = History()
    history.published("plain", [("1", b"lost")])
    assert any("never came" in sentence for sentence in judge_history(history))
