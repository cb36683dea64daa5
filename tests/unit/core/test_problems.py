"""What is wrong, by facts and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanlog.core import problems
from fanlog.core.problems import CODES, Problem, ServerFacts, SubscriptionFacts
from fanlog.model.jobs import Job

NOW = 1_000_000.0
STARTED = NOW - 86_400
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0

WELL = SubscriptionFacts(
    name="projects/p/subscriptions/billing",
    mode="pull",
    messages=0,
    ready=0,
    oldest_age_s=0.0,
    consumers=1,
    acked_s=NOW - 1,
    letter_s=None,
    letters=0,
    retention_s=7 * DAY,
)
WAITING = replace(WELL, messages=20_311, ready=20_311, oldest_age_s=HOUR)
SERVER = ServerFacts(
    degraded="",
    lake_alarm="",
    damaged=0,
    commits_failed=0,
    room_bytes=2**40,
    reserve_bytes=2**28,
    unarchived=0,
    archive_idle_s=0.0,
)


def of(facts: SubscriptionFacts, started_s: float = STARTED) -> list[Problem]:
    return list(problems.of_subscription(facts, NOW, started_s))


def codes(facts: SubscriptionFacts, started_s: float = STARTED) -> list[str]:
    return [one.code for one in of(facts, started_s)]


def test_a_subscription_that_does_well_has_none():
    assert of(WELL) == []
    assert of(replace(WAITING, oldest_age_s=MINUTE)) == []
    # Much waits, and it is being worked on.
    assert of(WAITING) == []


def test_one_that_has_stalled_says_since_when_and_how_many_wait():
    [found] = of(replace(WAITING, acked_s=NOW - 14 * MINUTE))
    assert found.code == "subscription_stalled"
    assert found.sentence == "billing has not acknowledged for 14 min; 20,311 messages wait"
    assert found.since_s == NOW - 14 * MINUTE
    assert (found.severity, found.kind, found.resource) == ("WARNING", "subscription", WELL.name)


@pytest.mark.parametrize(
    ("age_s", "acked_s", "started_s", "is_stalled"),
    [
        (10 * MINUTE, NOW - 10 * MINUTE, STARTED, True),
        (10 * MINUTE - 1, NOW - HOUR, STARTED, False),
        (HOUR, NOW - 10 * MINUTE + 1, STARTED, False),
        # Never since the start: it counts from there.
        (HOUR, None, NOW - 9 * MINUTE, False),
        (HOUR, None, NOW - 10 * MINUTE, True),
    ],
)
def test_ten_minutes_without_an_acknowledgement(age_s, acked_s, started_s, is_stalled):
    facts = replace(WAITING, oldest_age_s=age_s, acked_s=acked_s)
    assert codes(facts, started_s) == (["subscription_stalled"] if is_stalled else [])


def test_without_a_consumer_it_is_unattended():
    [found] = of(replace(WAITING, consumers=0, acked_s=None))
    assert found.code == "subscription_unattended"
    assert found.sentence == (
        "billing has no consumer, and no message was acknowledged for 1 h; 20,311 messages wait"
    )


def test_messages_that_are_not_due_are_no_backlog():
    assert of(replace(WAITING, ready=0, acked_s=None)) == []


def test_an_endpoint_that_fails_is_said_instead():
    failing = replace(WAITING, acked_s=None, trouble="push waits: HTTP 503", mode="push")
    assert codes(failing) == ["push_failing"]
    assert codes(replace(failing, is_push_off=True)) == ["push_off"]
    assert codes(replace(failing, mode="export")) == ["export_failing"]


@pytest.mark.parametrize(
    ("retention_s", "left_s", "is_ending"),
    [(7 * DAY, 16 * HOUR, True), (7 * DAY, 17 * HOUR, False), (10 * MINUTE, 59, True)],
)
def test_messages_that_are_about_to_be_lost(retention_s, left_s, is_ending):
    """A tenth of the retention before, and a day at most."""
    facts = replace(WAITING, retention_s=retention_s, oldest_age_s=retention_s - left_s)
    found = [one for one in of(facts) if one.code == "backlog_ending"]
    assert bool(found) == is_ending
    assert all(one.severity == "ERROR" for one in found)


def test_dead_letters_of_late():
    lately = replace(WELL, letter_s=NOW - 3 * MINUTE, letters=5)
    [found] = of(lately)
    assert found.sentence == (
        "5 messages of billing became dead letters since the server started, the last 3 min ago"
    )
    assert of(replace(lately, letter_s=NOW - 16 * MINUTE)) == []


def test_a_backlog_at_its_mark():
    assert codes(replace(WAITING, fill=0.8, high=0.8)) == ["backlog_high"]
    assert codes(replace(WAITING, fill=0.79, high=0.8)) == []


def test_a_detached_one_has_nothing_else():
    assert codes(replace(WAITING, is_detached=True, acked_s=None)) == ["subscription_detached"]
    assert codes(replace(WELL, is_topic_gone=True)) == ["topic_deleted"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"degraded": "publishing is refused: full"}, ["publishing_refused"]),
        ({"degraded": "publishing is refused: full", "room_bytes": 0}, ["publishing_refused"]),
        ({"room_bytes": 2**29}, ["disk_low"]),
        ({"room_bytes": 2**30}, []),
        ({"room_bytes": 0, "reserve_bytes": 0}, []),
        ({"lake_alarm": "another lake"}, ["lake_alarm"]),
        ({"damaged": 1, "commits_failed": 1}, ["damaged_batches", "commits_failed"]),
        ({"unarchived": 5, "archive_idle_s": 600.0}, ["archive_stalled"]),
        ({"unarchived": 5, "archive_idle_s": 599.0}, []),
        ({"unarchived": 0, "archive_idle_s": 9_000.0}, []),
    ],
)
def test_problems_of_the_server(change: dict[str, Any], expected: list[str]):
    found = list(problems.of_server(replace(SERVER, **change), NOW))
    assert [one.code for one in found] == expected


def test_jobs_that_wait_and_jobs_that_failed():
    job = Job(name="projects/p/jobs/j", kind="replay", created_s=NOW - 120)
    [found] = problems.of_job(job, NOW)
    assert found.sentence == "no worker has taken the job replay j for 2 min"
    assert list(problems.of_job(replace(job, created_s=NOW - 119), NOW)) == []
    failed = replace(job, state="FAILED", error="no such topic", ended_s=NOW - DAY)
    [found] = problems.of_job(failed, NOW)
    assert found.sentence == "the job replay j failed: no such topic"
    assert list(problems.of_job(replace(failed, ended_s=NOW - DAY - 1), NOW)) == []


def test_the_worst_come_first_and_then_the_longest():
    def one(code: str, since_s: float) -> Problem:
        return Problem(code=code, resource="r", sentence="", since_s=since_s)

    found = problems.by_rank(
        [
            one("topic_deleted", 1),
            one("push_failing", 2),
            one("push_failing", 1),
            one("push_off", 3),
        ]
    )
    assert [(p.code, p.since_s) for p in found] == [
        ("push_off", 3), ("push_failing", 1), ("push_failing", 2), ("topic_deleted", 1)
    ]  # fmt: skip


def test_every_code_says_what_to_make_of_it():
    for code, row in CODES.items():
        assert code == code.lower()
        assert row.meaning.endswith("."), code


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.9, "59 s"), (60, "1 min"), (3_599, "59 min"), (7_300, "2 h"), (2e5, "2 d")],
)
def test_times_in_words(seconds, words):
    assert problems.lasting(seconds) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1_023, "1023 bytes"), (1_536, "1.5 KiB"), (2**50, "1024.0 TiB")],
)
def test_sizes_in_words(size, words):
    assert problems.in_bytes(size) == words
