"""Outcomes: latencies in buckets, and the messages that tell a minute."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import orjson
import pytest

from fanlog.model.outcomes import (
    Latencies,
    Outcomes,
    SubscriptionOutcome,
    TopicOutcome,
    UnknownVersion,
)

MINUTE = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)


def outcome(name: str = "s", **counts: int) -> SubscriptionOutcome:
    return SubscriptionOutcome(subscription=f"projects/p/subscriptions/{name}", **counts)


class TestLatencies:
    def test_nothing_has_no_percentiles(self):
        assert Latencies().percentile_ms(0.5) is None

    @pytest.mark.parametrize("seconds", [0.0002, 0.001, 0.0123, 1.0, 59.9, 3600.0, 80_000.0])
    def test_within_a_few_percent(self, seconds):
        latencies = Latencies()
        latencies.observe(seconds)
        assert latencies.percentile_ms(0.5) == pytest.approx(seconds * 1_000, rel=0.05)

    @pytest.mark.parametrize("seconds", [0.0, -1.0, 1e-9, 0.0001])
    def test_the_smallest_are_one_bucket(self, seconds):
        latencies = Latencies()
        latencies.observe(seconds)
        assert latencies.buckets == {0: 1}

    def test_the_longest_are_one_bucket(self):
        latencies = Latencies()
        latencies.observe(1e6)
        latencies.observe(1e12)
        assert latencies.buckets == {240: 2}

    def test_a_lease_that_outlived_a_restart_is_not_counted(self):
        latencies = Latencies()
        latencies.observe(math.nan, 5)
        assert latencies.buckets == {}

    def test_percentiles_are_by_rank(self):
        latencies = Latencies()
        latencies.observe(0.010, 98)
        latencies.observe(1.0, 1)
        latencies.observe(10.0, 1)
        assert latencies.percentile_ms(0.5) == pytest.approx(10, rel=0.05)
        assert latencies.percentile_ms(0.98) == pytest.approx(10, rel=0.05)
        assert latencies.percentile_ms(0.99) == pytest.approx(1_000, rel=0.05)
        assert latencies.percentile_ms(1.0) == pytest.approx(10_000, rel=0.05)

    def test_they_add_up(self):
        one, other, both = Latencies(), Latencies(), Latencies()
        for number in range(1, 500):
            one.observe(number / 1_000)
            other.observe(number / 7)
            both.observe(number / 1_000)
            both.observe(number / 7)
        one.add(other)
        assert one.buckets == both.buckets


class TestAdding:
    def test_counts_add_up_and_the_later_backlog_counts(self):
        first = outcome(delivered=3, acknowledged=1, backlog=7)
        later = outcome(delivered=2, nacked=1, backlog=4, latencies=Latencies([(3, 1)]))
        first.add(later)
        assert (first.delivered, first.acknowledged, first.nacked) == (5, 1, 1)
        assert first.backlog == 4
        assert first.latencies.buckets == {3: 1}

    def test_topics(self):
        first = TopicOutcome(topic="t", messages=1, bytes=10)
        first.add(TopicOutcome(topic="t", messages=2, bytes=5))
        assert (first.messages, first.bytes) == (3, 15)


class TestMessages:
    def test_nothing_is_told_of_nothing(self):
        assert Outcomes(minute=MINUTE).to_messages() == []

    def test_there_and_back(self):
        told = Outcomes(
            minute=MINUTE,
            topics=[TopicOutcome(topic="projects/p/topics/t", messages=3, bytes=120)],
            subscriptions=[
                outcome(delivered=4, acknowledged=3, redelivered=1, nacked=1, expired=0, backlog=2)
            ],
        )
        told.subscriptions[0].latencies.observe(0.25, 3)
        [data] = told.to_messages()
        said = orjson.loads(data)
        assert said["minute"] == "2026-11-16T09:30:00Z"
        assert said["subscriptions"][0]["ack_latency_p50_ms"] == pytest.approx(250, rel=0.05)
        found = Outcomes.from_message(data)
        assert found.to_messages() == [data]
        assert found.minute == MINUTE

    def test_a_large_one_is_split_between_rows(self):
        told = Outcomes(
            minute=MINUTE,
            topics=[TopicOutcome(topic=f"projects/p/topics/t{n}") for n in range(100)],
            subscriptions=[outcome(f"s{n}", delivered=n) for n in range(100)],
        )
        parts = told.to_messages(size_bytes=2_000)
        assert len(parts) > 5
        assert max(map(len, parts)) < 2_200
        found = [Outcomes.from_message(part) for part in parts]
        assert {part.minute for part in found} == {MINUTE}
        assert [one for part in found for one in part.topics] == told.topics
        names = [one.subscription for part in found for one in part.subscriptions]
        assert names == [one.subscription for one in told.subscriptions]

    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"no json",
            b"[]",
            b"{}",
            b'{"version": 1}',
            b'{"version": 1, "minute": "now", "topics": [], "subscriptions": []}',
            b'{"version": 1, "minute": 5, "topics": [], "subscriptions": []}',
            b'{"version": 1, "minute": "2026-11-16T09:30:00Z", "topics": [1], "subscriptions": []}',
        ],
    )
    def test_what_is_none_is_refused(self, data):
        with pytest.raises(ValueError, match="not outcomes"):
            Outcomes.from_message(data)

    def test_a_newer_one_is_told_apart(self):
        with pytest.raises(UnknownVersion, match="version 2"):
            Outcomes.from_message(b'{"version": 2}')
