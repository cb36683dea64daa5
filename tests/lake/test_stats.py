"""Outcomes become rows of two tables, once; without Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime

import duckdb
import pytest

from fanlog.lake.commits import CommitLost
from fanlog.lake.tables import DELIVERY_STATS, TOPIC_STATS, ensure_table, open_table
from fanlog.model.outcomes import (
    Latencies,
    Outcomes,
    SubscriptionOutcome,
    TopicOutcome,
    UnknownVersion,
)
from fanlog.pipeline.flows import stats
from fanlog.pipeline.flows.stats import Told, commit_stats

LOG = "0123456789abcdef"
ORDERS = "projects/p/topics/orders"
BILLING = "projects/p/subscriptions/billing"


def at(minute: int) -> datetime:
    return datetime(2026, 11, 16, 23, 58 + minute, tzinfo=UTC)


def told(offset: int, *some: Outcomes, partition: int = 7, size_bytes: int = 10_000) -> list[Told]:
    data = [one for each in some for one in each.to_messages(size_bytes)]
    return [Told(partition, offset + index, one) for index, one in enumerate(data)]


def minute(number: int, messages: int = 1, **counts: int) -> Outcomes:
    row = SubscriptionOutcome(subscription=BILLING, **{"delivered": messages} | counts)
    topic = TopicOutcome(topic=ORDERS, messages=messages, bytes=10 * messages)
    return Outcomes(minute=at(number), topics=[topic], subscriptions=[row])


def rows(location, table):
    found = open_table(location, table).to_pyarrow_table().to_pylist()
    return sorted(found, key=lambda row: (row["minute"], row.get("topic")))


def messages(location) -> list[tuple[datetime, int]]:
    return sorted((row["minute"], row["messages"]) for row in rows(location, TOPIC_STATS))


def test_a_minute_is_a_row_in_each_table(location):
    one = minute(0, 3, acknowledged=2, redelivered=1, nacked=1, expired=1, backlog=4)
    one.subscriptions[0].latencies.observe(0.5, 2)
    commit_stats(location, LOG, told(0, one))
    assert rows(location, TOPIC_STATS) == [
        {
            "minute": at(0),
            "topic": ORDERS,
            "messages": 3,
            "bytes": 30,
            "date": date(2026, 11, 16),
        }
    ]
    [row] = rows(location, DELIVERY_STATS)
    assert row.pop("ack_latency_p50_ms") == pytest.approx(500, rel=0.05)
    assert row.pop("ack_latency_p99_ms") == pytest.approx(500, rel=0.05)
    assert row == {
        "minute": at(0),
        "subscription": BILLING,
        "delivered": 3,
        "acknowledged": 2,
        "redelivered": 1,
        "nacked": 1,
        "expired": 1,
        "dead_lettered": 0,
        "backlog": 4,
        "date": date(2026, 11, 16),
    }


def test_without_acknowledgements_there_is_no_latency(folder):
    commit_stats(folder, LOG, told(0, minute(0)))
    [row] = rows(folder, DELIVERY_STATS)
    assert row["ack_latency_p50_ms"] is None
    assert row["ack_latency_p99_ms"] is None


def test_a_repeated_batch_adds_nothing(location):
    batch = told(0, minute(0, 1), minute(1, 2))
    commit_stats(location, LOG, batch)
    commit_stats(location, LOG, batch)
    assert messages(location) == [(at(0), 1), (at(1), 2)]
    assert len(rows(location, DELIVERY_STATS)) == 2


def test_a_lost_checkpoint_doubles_nothing_and_loses_nothing(folder):
    first, second = told(0, minute(0, 1)), told(1, minute(1, 2))
    commit_stats(folder, LOG, first)
    # Begins anew, with other batches than before.
    commit_stats(folder, LOG, [*first, *second])
    assert messages(folder) == [(at(0), 1), (at(1), 2)]


def test_a_crash_between_the_tables(folder, monkeypatch):
    batch = told(0, minute(0, 1))
    add = stats._add

    def crash(location, table, app_id, some):
        if table is DELIVERY_STATS:
            raise ZeroDivisionError
        add(location, table, app_id, some)

    monkeypatch.setattr(stats, "_add", crash)
    with pytest.raises(ZeroDivisionError):
        commit_stats(folder, LOG, batch)
    monkeypatch.setattr(stats, "_add", add)
    assert len(rows(folder, TOPIC_STATS)) == 1
    commit_stats(folder, LOG, batch)
    assert len(rows(folder, TOPIC_STATS)) == 1
    assert len(rows(folder, DELIVERY_STATS)) == 1


def test_of_two_pipelines_one_wins(folder, monkeypatch):
    ensure_table(folder, TOPIC_STATS)
    write = stats.write_rows

    def overtaken(*args, **options):
        monkeypatch.setattr(stats, "write_rows", write)
        commit_stats(folder, LOG, told(0, minute(0, 1), minute(1, 1)))
        return write(*args, **options)

    monkeypatch.setattr(stats, "write_rows", overtaken)
    with pytest.raises(CommitLost):
        commit_stats(folder, LOG, told(0, minute(0, 1)))
    assert messages(folder) == [(at(0), 1), (at(1), 1)]


def test_the_parts_of_a_minute(folder):
    large = Outcomes(
        minute=at(0),
        topics=[TopicOutcome(topic=f"projects/p/topics/t{n}", messages=n) for n in range(50)],
        subscriptions=[
            SubscriptionOutcome(subscription=f"projects/p/subscriptions/s{n}", delivered=n)
            for n in range(50)
        ],
    )
    parts = told(0, large, size_bytes=1_000)
    assert len(parts) > 5
    commit_stats(folder, LOG, parts)
    assert sorted(row["messages"] for row in rows(folder, TOPIC_STATS)) == [*range(50)]
    assert sorted(row["delivered"] for row in rows(folder, DELIVERY_STATS)) == [*range(50)]


def test_a_minute_told_twice_is_one_row_with_all_of_it(folder):
    """The broker was started anew in it."""
    first, second = minute(0, 3, backlog=5), minute(0, 2, nacked=1, backlog=1)
    first.subscriptions[0].latencies.observe(0.010, 60)
    second.subscriptions[0].latencies.observe(1.0, 40)
    commit_stats(folder, LOG, told(0, first, second))
    assert messages(folder) == [(at(0), 5)]
    [row] = rows(folder, DELIVERY_STATS)
    assert (row["delivered"], row["nacked"], row["backlog"]) == (5, 1, 1)
    assert row["ack_latency_p50_ms"] == pytest.approx(10, rel=0.05)
    assert row["ack_latency_p99_ms"] == pytest.approx(1_000, rel=0.05)


def test_minutes_of_two_days_are_in_two_partitions(folder):
    other = minute(0, 2)
    other.minute = datetime(2026, 11, 17, 0, 0, tzinfo=UTC)
    commit_stats(folder, LOG, told(0, minute(0, 1), other))
    assert [row["date"].day for row in rows(folder, TOPIC_STATS)] == [16, 17]


def test_a_topic_that_was_made_anew_begins_at_its_start(folder):
    commit_stats(folder, LOG, told(0, minute(0, 1), minute(1, 1)))
    commit_stats(folder, LOG, told(0, Outcomes(minute=at(1)), minute(1, 5), partition=9))
    assert messages(folder) == [(at(0), 1), (at(1), 1), (at(1), 5)]


def test_what_is_no_outcome_is_left_out(folder, caplog):
    batch = [Told(7, 0, b"hello"), *told(1, minute(0, 1))]
    commit_stats(folder, LOG, batch)
    assert messages(folder) == [(at(0), 1)]
    assert "action=outcomes_unreadable offset=0" in caplog.text


def test_nothing_is_no_commit(folder):
    commit_stats(folder, LOG, [])
    commit_stats(folder, LOG, [Told(7, 0, b"hello")])
    assert open_table(folder, TOPIC_STATS).version() == 0


def test_a_newer_broker_stops_it(folder):
    with pytest.raises(UnknownVersion):
        commit_stats(folder, LOG, [Told(7, 0, b'{"version": 2}')])


def test_another_reader_opens_them(folder):
    one = minute(0, 3, acknowledged=1)
    one.subscriptions[0].latencies = Latencies([(40, 1)])
    commit_stats(folder, LOG, told(0, one, minute(1, 2)))
    found = open_table(folder, TOPIC_STATS).to_pyarrow_dataset()
    deliveries = open_table(folder, DELIVERY_STATS).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("topic_stats", found)
        connection.register("delivery_stats", deliveries)
        total = connection.sql("select topic, sum(messages) from topic_stats group by all")
        assert total.fetchall() == [(ORDERS, 5)]
        acked = connection.sql(
            "select sum(acknowledged), max(ack_latency_p99_ms) from delivery_stats"
        )
        assert acked.fetchall() == [(1, 3.06)]
