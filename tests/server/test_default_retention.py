"""A topic keeps its messages for 7 days unless it says otherwise, on a server with its defaults."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

import pytest
from google.api_core.exceptions import ResourceExhausted
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.catalog import CatalogClient
from fanlog.log.api import LogStats
from fanlog.wire import types
from server.conftest import RunningServer, StartServer
from server.registry import JSON, JSON_TYPE, Registry
from server.replaying import face_of
from server.unique import unique

MINUTE_S = 60
DAY_S = 86_400
EARLIEST = {"labels": {"fanlog-start": "earliest"}}


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def ids(received: list[Any]) -> list[str]:
    return [one.message.message_id for one in received]


def take(server: RunningServer, subscription: str) -> list[bytes]:
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def start_of(server: RunningServer, topic: str) -> int:
    [partition] = server.broker.hard.catalog.topic(topic).partitions
    return int(server.store.bounds(partition).start)


def pass_time(server: RunningServer, seconds: float) -> None:
    server.advance(seconds)
    server.sweep()


def seek(server: RunningServer, subscription: str, seconds_ago: float) -> None:
    assert server.clock is not None
    time = Timestamp(seconds=int(server.clock.now() - seconds_ago))
    server.subscriber.seek(request={"subscription": subscription, "time": time})


def kept(server: RunningServer, topic: str) -> tuple[float | None, str]:
    """How long a topic keeps its messages, and who says so, as fanlog.v1 tells it."""
    with Client(server.endpoint) as client:
        told = CatalogClient(client).describe_topics([topic])[topic]
    has_time = told.HasField("effective_retention")
    return told.effective_retention.ToSeconds() if has_time else None, told.retention_by


class TestKept:
    def test_a_late_subscription_gets_everything(self, still_server):
        server = still_server
        topic = server.topic()
        server.publish(topic, b"0", b"1")
        pass_time(server, 6 * DAY_S)
        server.publish(topic, b"2")
        assert take(server, server.subscription(topic, **EARLIEST)) == [b"0", b"1", b"2"]
        # Acknowledged or not: the next one has them, too.
        pass_time(server, 1)
        assert take(server, server.subscription(topic, **EARLIEST)) == [b"0", b"1", b"2"]
        assert take(server, server.subscription(topic)) == []

    def test_for_seven_days(self, still_server):
        server = still_server
        topic = server.topic()
        server.publish(topic, b"0")
        pass_time(server, DAY_S)
        server.publish(topic, b"1")
        pass_time(server, 6 * DAY_S)
        assert start_of(server, topic) == 0
        pass_time(server, 1)
        assert start_of(server, topic) == 1
        assert take(server, server.subscription(topic, **EARLIEST)) == [b"1"]

    def test_a_restart_changes_nothing(self, start_server):
        server = start_server(clock=ManualClock())
        topic = server.topic()
        server.publish(topic, b"0", b"1")
        server.restart()
        pass_time(server, 7 * DAY_S)
        assert take(server, server.subscription(topic, **EARLIEST)) == [b"0", b"1"]
        pass_time(server, 1)
        assert start_of(server, topic) == 2

    def test_zero_is_googles_way(self, start_server):
        server = start_server("memory", ManualClock(), topic_retention=0.0)
        topic = server.topic()
        server.publish(topic, b"0")
        pass_time(server, 1)
        assert start_of(server, topic) == 1
        assert take(server, server.subscription(topic, **EARLIEST)) == []

    def test_a_topic_that_says_otherwise_has_its_way(self, still_server):
        server = still_server
        topic = server.topic(message_retention_duration=Duration(seconds=10 * MINUTE_S))
        server.publish(topic, b"0")
        pass_time(server, 10 * MINUTE_S + 1)
        assert start_of(server, topic) == 1

    def test_a_deleted_topic_keeps_nothing(self, still_server):
        server = still_server
        topic = server.topic()
        server.publish(topic, b"0")
        [partition] = server.broker.hard.catalog.topic(topic).partitions
        server.publisher.delete_topic(topic=topic)
        server.sweep()
        assert partition not in server.store.partitions()

    def test_dead_letters_wait_for_somebody_to_subscribe(self, still_server):
        server = still_server
        topic, dead = server.topic(), server.topic()
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        subscription = server.subscription(topic, dead_letter_policy=policy)
        server.publish(topic, b"x")
        for _ in range(5):
            server.nack(subscription, server.pull(subscription))
        server.run(server.broker.ledger.sync())
        pass_time(server, DAY_S)
        [letter] = server.pull(server.subscription(dead, **EARLIEST))
        assert letter.message.data == b"x"

    def test_a_redrive_reopens_the_originals_where_they_failed(self, still_server):
        server = still_server
        topic, dead = server.topic(), server.topic()
        policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
        failing = server.subscription(topic, dead_letter_policy=policy)
        other, reader = server.subscription(topic), server.subscription(dead)
        published = server.publish(topic, b"x", b"y")
        assert take(server, other) == [b"x", b"y"]
        for _ in range(5):
            server.nack(failing, server.pull(failing))
        server.run(server.broker.ledger.sync())
        pass_time(server, DAY_S)
        face = face_of(server, "grpc")
        answer = face.redrive(reader, all=True)
        face.close()
        assert (answer["reopened"], answer["copied"]) == (2, 0)
        assert ids(server.pull(failing)) == published
        assert server.pull(other) == server.pull(reader) == []


class TestSubscriptions:
    def test_what_is_not_acknowledged_waits_no_longer_than_its_subscription_says(
        self, still_server
    ):
        server = still_server
        topic, subscription = server.topic_and_subscription(
            message_retention_duration=Duration(seconds=10 * MINUTE_S)
        )
        server.publish(topic, b"0")
        pass_time(server, 10 * MINUTE_S + 1)
        assert server.pull(subscription) == []
        assert start_of(server, topic) == 0

    def test_a_seek_brings_back_what_is_acknowledged(self, still_server):
        server = still_server
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"0")
        pass_time(server, DAY_S)
        server.publish(topic, b"1")
        assert take(server, subscription) == [b"0", b"1"]
        pass_time(server, DAY_S)
        seek(server, subscription, 1.5 * DAY_S)
        assert take(server, subscription) == [b"1"]
        seek(server, subscription, 3 * DAY_S)
        assert take(server, subscription) == [b"0", b"1"]

    def test_a_seek_does_not_bring_back_what_would_expire_at_once(self, still_server):
        server = still_server
        topic, subscription = server.topic_and_subscription(
            message_retention_duration=Duration(seconds=10 * MINUTE_S)
        )
        server.publish(topic, b"0")
        pass_time(server, 9 * MINUTE_S)
        server.publish(topic, b"1")
        assert take(server, subscription) == [b"0", b"1"]
        pass_time(server, 2 * MINUTE_S)
        seek(server, subscription, DAY_S)
        server.sweep()
        assert take(server, subscription) == [b"1"]


class TestShown:
    def test_not_in_the_topics_own_field(self, server):
        topic = server.topic()
        found = server.publisher.get_topic(topic=topic)
        assert not found._pb.HasField("message_retention_duration")
        subscription = server.subscription(topic)
        shown = server.subscriber.get_subscription(subscription=subscription)
        assert not shown._pb.HasField("topic_message_retention_duration")

    def test_beside_it(self, server):
        assert kept(server, server.topic()) == (7.0 * DAY_S, "server")
        own = server.topic(message_retention_duration=Duration(seconds=600))
        assert kept(server, own) == (600.0, "topic")

    def test_by_nobody_and_in_the_lake(self, start_server, tiered):
        google = start_server("memory", topic_retention=0.0)
        assert kept(google, google.topic()) == (0.0, "nobody")
        assert kept(tiered.server, tiered.server.topic()) == (None, "lake")


class TestBounded:
    """Spare messages have at most so many bytes; the oldest go first, in all topics alike."""

    SPARE_BYTES = 400_000

    @pytest.fixture(params=["memory", "embedded"])
    def server(self, start_server: StartServer, request: pytest.FixtureRequest) -> RunningServer:
        return start_server(request.param, ManualClock(), topic_retention_bytes=self.SPARE_BYTES)

    def fill(self, server: RunningServer, *topics: str, rounds: int) -> None:
        """A kilobyte to each topic, every minute."""
        for number in range(rounds):
            for topic in topics:
                server.publish(topic, b"%4d" % number + bytes(1_000))
            server.advance(MINUTE_S)

    def test_the_oldest_go_first(self, server, caplog):
        # Each has less than the bound, and both together more.
        old, young = server.topic(), server.topic()
        with caplog.at_level(logging.WARNING, "fanlog.retention"):
            self.fill(server, old, rounds=300)
            self.fill(server, young, rounds=200)
            server.sweep()
        gone = start_of(server, old)
        assert 100 <= gone <= 200
        assert start_of(server, young) == 0
        assert server.metric("fanlog_default_retention_trimmed_messages_total") == gone
        trimmed_bytes = server.metric("fanlog_default_retention_trimmed_bytes_total")
        assert trimmed_bytes == pytest.approx(gone * 1_080, rel=0.1)
        told = re.findall(
            rf"action=default_retention_trimmed topic={old} messages=(\d+) before=1970-01-12T",
            caplog.text,
        )
        assert sum(map(int, told)) == gone
        assert young not in caplog.text
        server.sweep()
        assert server.metric("fanlog_default_retention_bytes") <= self.SPARE_BYTES
        assert start_of(server, old) == gone

    def test_in_all_topics_alike(self, server):
        topics = [server.topic() for _ in range(5)]
        self.fill(server, *topics, rounds=100)
        server.sweep()
        starts = {start_of(server, topic) for topic in topics}
        assert max(starts) - min(starts) <= 1
        assert 20 <= min(starts) <= 45

    def test_a_slow_topic_keeps_nothing_that_is_older_than_what_a_fast_one_lost(self, server):
        slow, fast = server.topic(), server.topic()
        for number in range(100):
            server.publish(slow, b"%4d" % number)
            self.fill(server, fast, rounds=5)
        server.sweep()
        assert start_of(server, fast) > 50
        assert start_of(server, slow) == pytest.approx(start_of(server, fast) / 5, abs=1)

    def test_also_of_what_was_there_at_the_start(self, start_server):
        server = start_server(clock=ManualClock())
        topic = server.topic()
        self.fill(server, topic, rounds=500)
        server.sweep()
        assert start_of(server, topic) == 0
        server.restart(topic_retention_bytes=self.SPARE_BYTES)
        server.sweep()
        assert 100 <= start_of(server, topic) <= 250

    def test_a_burst_does_not_wait_for_the_next_sweep(self, server):
        topic = server.topic()
        for _ in range(4):
            before = start_of(server, topic)
            for _ in range(100):
                server.publish(topic, bytes(5_000))
                server.advance(0.001)
            # Less than the five seconds between two sweeps, all of it.
            server.advance(0.5)
            server.await_that(lambda before=before: start_of(server, topic) > before)

    def test_what_a_subscription_needs_stays(self, server):
        topic, subscription = server.topic_and_subscription()
        self.fill(server, topic, rounds=500)
        server.sweep()
        assert start_of(server, topic) == 0
        assert server.metric("fanlog_default_retention_bytes") == 0
        # What it has acknowledged is spare.
        received = server.pull(subscription, max_messages=450)
        server.ack(subscription, received)
        server.sweep()
        assert 40 <= start_of(server, topic) <= 200
        assert len(take(server, subscription)) == 500 - len(received)

    def test_what_a_snapshot_needs_stays(self, server):
        topic, subscription = server.topic_and_subscription()
        server.publish(topic, b"first")
        name = f"projects/test/snapshots/{unique('snap')}"
        server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
        self.fill(server, topic, rounds=500)
        server.drain(subscription, 501)
        server.sweep()
        assert start_of(server, topic) == 0
        server.subscriber.delete_snapshot(snapshot=name)
        server.sweep()
        assert start_of(server, topic) > 100

    def test_what_a_topic_itself_retains_stays(self, server):
        kept = server.topic(message_retention_duration=Duration(seconds=DAY_S))
        other = server.topic()
        self.fill(server, kept, other, rounds=500)
        server.sweep()
        assert start_of(server, kept) == 0
        assert start_of(server, other) > 100

    def test_attributes_of_the_broker_count(self, server):
        schema = Registry(server).create("{}", JSON_TYPE)
        topic = server.topic(schema_settings={"schema": schema.name, "encoding": JSON})
        for _ in range(2_000):
            server.publish(topic, b"{}")
            server.advance(MINUTE_S)
        server.sweep()
        assert start_of(server, topic) > 0
        stored_bytes = sum(one.size_bytes for one in server.store.positions(0, limit=10_000))
        assert self.SPARE_BYTES * 0.8 <= stored_bytes <= self.SPARE_BYTES

    def test_a_bound_of_nothing_keeps_nothing(self, start_server):
        server = start_server("memory", ManualClock(), topic_retention_bytes=0)
        topic = server.topic()
        server.publish(topic, b"0")
        server.advance(1)
        server.sweep()
        assert start_of(server, topic) == 1


class TestRoom:
    """What only the default keeps goes before any publish is refused."""

    DISK_BYTES = 4_000_000

    @pytest.fixture
    def server(self, start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> RunningServer:
        server = start_server(clock=ManualClock())
        stats = server.store.stats

        def small() -> LogStats:
            found = stats()
            used = found.file_bytes - found.free_bytes
            room_bytes = self.DISK_BYTES - used
            return LogStats(
                file_bytes=found.file_bytes, free_bytes=found.free_bytes, room_bytes=room_bytes
            )

        monkeypatch.setattr(server.store, "stats", small)
        return server

    def publish(self, server: RunningServer, topic: str, count: int = 1) -> None:
        for _ in range(count):
            server.publish(topic, bytes(50_000))
            server.advance(1.0)

    def test_no_publish_is_refused(self, server, caplog):
        topic = server.topic()
        with caplog.at_level(logging.WARNING, "fanlog.retention"):
            self.publish(server, topic, 300)
        assert start_of(server, topic) > 200
        assert "action=default_retention_trimmed" in caplog.text
        # No more than had to: the log is well filled.
        assert 300 - start_of(server, topic) > 30

    def test_nor_are_many_at_once(self, server):
        topic = server.topic()
        self.publish(server, topic, 60)
        failures: list[Exception] = []

        def publish() -> None:
            try:
                for _ in range(30):
                    server.publish(topic, bytes(20_000))
            except ResourceExhausted as error:
                failures.append(error)

        threads = [threading.Thread(target=publish) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []

    def test_many_small_ones_go_for_a_large_one(self, server):
        topic = server.topic()
        while server.broker.ledger.shortage(2_000_000) == 0:
            server.publish(topic, bytes(1_000))
            server.advance(1.0)
        server.publish(topic, bytes(2_000_000))

    def test_it_is_refused_when_nothing_spare_is_left(self, server):
        topic, subscription = server.topic_and_subscription()
        with pytest.raises(ResourceExhausted, match="publishing resumes"):
            self.publish(server, topic, 300)
        assert start_of(server, topic) == 0
        # What is acknowledged makes room for what is published.
        server.ack(subscription, server.pull(subscription, 20))
        self.publish(server, topic, 5)

    def test_the_oldest_go_first(self, server):
        old, young = server.topic(), server.topic()
        self.publish(server, old, 30)
        self.publish(server, young, 100)
        assert start_of(server, old) == 30
        assert 0 < start_of(server, young) < 90


class TestHints:
    """A dead letter policy whose topic keeps nothing is answered with a warning."""

    @pytest.fixture
    def google(self, start_server: StartServer) -> RunningServer:
        return start_server("memory", topic_retention=0.0)

    def policy(self, topic: str) -> dict[str, Any]:
        return {"dead_letter_topic": topic, "max_delivery_attempts": 5}

    def created(self, server: RunningServer, topic: str, dead: str) -> list[str]:
        request = types.Subscription(
            name=f"projects/test/subscriptions/{unique('sub')}",
            topic=topic,
            dead_letter_policy=types.DeadLetterPolicy(
                dead_letter_topic=dead, max_delivery_attempts=5
            ),
        )
        hints: list[str] = []
        with Client(server.endpoint, on_hint=hints.append) as client:
            client.create_subscription(request)
        return hints

    def test_when_it_is_made(self, google):
        dead = google.topic()
        [hint] = self.created(google, google.topic(), dead)
        assert hint.startswith(f"dead letter topic '{dead}' has no subscription and no retention")

    def test_when_it_is_changed(self, google):
        subscription, dead = google.subscription(google.topic()), google.topic()
        hints: list[str] = []
        with Client(google.endpoint, on_hint=hints.append) as client:
            policy = types.DeadLetterPolicy(dead_letter_topic=dead, max_delivery_attempts=5)
            changed = types.Subscription(name=subscription, dead_letter_policy=policy)
            client.update_subscription(changed, ["dead_letter_policy"])
            assert len(hints) == 1
            client.update_subscription(
                types.Subscription(name=subscription, ack_deadline_seconds=20),
                ["ack_deadline_seconds"],
            )
            assert len(hints) == 1

    def test_not_where_the_letters_are_kept(self, google, server):
        read = google.topic()
        google.subscription(read)
        assert self.created(google, google.topic(), read) == []
        retained = google.topic(message_retention_duration=Duration(seconds=600))
        assert self.created(google, google.topic(), retained) == []
        assert self.created(server, server.topic(), server.topic()) == []

    def test_several_of_one_call(self, google):
        google.topic(name="projects/test/topics/OrderPlaced")
        pattern, dead = "projects/test/topics/Order.*", google.topic()
        about_pattern, about_letters = self.created(google, pattern, dead)
        assert "Order*" in about_pattern
        assert dead in about_letters
