"""fanlog.v1.Schedules: ticks are published on time and once, whatever happens to the server."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.broker.verbs import ticking
from fanlog.client import CallFailed, Client
from fanlog.client.schedules import ScheduleClient
from fanlog.errors import CommitFailed, DiskFull
from fanlog.model.quotas import Quotas
from fanlog.v1.schedules_pb2 import Schedule
from server.conftest import PATIENCE_S

PARENT = "projects/test"
NAME = f"{PARENT}/schedules/report"
#: A full hour, on a day in May 2026.
START_S = 1_780_002_000.0 - 1_780_002_000.0 % 3600


class SteppedClock(ManualClock):
    """A clock whose time of the day can be set, as a machine's can."""

    def __init__(self, start: float = START_S) -> None:
        super().__init__(start)
        self.ahead_s = 0.0

    def wall_ns(self) -> int:
        return int((self.now() + self.ahead_s) * 1e9)


@pytest.fixture
def clock():
    return SteppedClock()


@pytest.fixture
def server(start_server, clock):
    return start_server(clock=clock)


@pytest.fixture
def asking(server):
    with Client(server.endpoint) as client:
        yield ScheduleClient(client)


@pytest.fixture
def topic_and_subscription(server):
    return server.topic_and_subscription()


@pytest.fixture
def topic(topic_and_subscription):
    return topic_and_subscription[0]


@pytest.fixture
def subscription(topic_and_subscription):
    return topic_and_subscription[1]


def make(asking, topic, cron="* * * * *", **fields):
    return asking.create(Schedule(name=NAME, topic=topic, cron=cron, data=b"go", **fields))


def ask(server):
    """A client of the server as it runs now."""
    return ScheduleClient(Client(server.endpoint))


def minutes(server, subscription):
    """The minutes since the start whose ticks were published, as they came."""
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    ticks = [one.message.attributes["fanlog-tick"] for one in received]
    return [(datetime.fromisoformat(one).timestamp() - START_S) / 60 for one in ticks]


def settled(server):
    """Let ticks that are due be published; those that a timer has asked for."""
    server.run(server.broker.ticking.tick())


def advance(server, seconds):
    server.advance(seconds)
    settled(server)


class TestTicks:
    def test_a_tick_is_a_message_that_says_which(self, server, asking, topic, subscription):
        make(asking, topic, attributes={"team": "shop"}, ordering_key="k")
        advance(server, 59)
        assert server.pull(subscription) == []
        advance(server, 1)
        [received] = server.pull(subscription)
        message = received.message
        assert (message.data, message.ordering_key) == (b"go", "k")
        tick = datetime.fromtimestamp(START_S + 60, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert dict(message.attributes) == {
            "team": "shop",
            "fanlog-schedule": NAME,
            "fanlog-tick": tick,
        }
        found = asking.get(NAME)
        assert found.last_message_id == message.message_id
        assert (found.published_ticks, found.missed_ticks) == (1, 0)
        assert found.last_tick_time.ToSeconds() == START_S + 60
        assert found.next_tick_time.ToSeconds() == START_S + 120

    def test_the_timer_wakes_by_itself(self, server, asking, topic, subscription):
        make(asking, topic, "*/2 * * * * *")
        late_s = time.monotonic() + PATIENCE_S
        while not server.pull(subscription):
            assert time.monotonic() < late_s
            server.advance(1)

    def test_the_first_tick_is_after_it_was_made(self, server, asking, topic, subscription):
        # It is made at a full minute.
        make(asking, topic)
        settled(server)
        assert minutes(server, subscription) == []
        advance(server, 60)
        assert minutes(server, subscription) == [1]

    def test_many_at_one_tick(self, server, asking, topic, subscription):
        for number in range(20):
            asking.create(
                Schedule(name=f"{NAME}-{number}", topic=topic, cron="* * * * *", data=b"x")
            )
        advance(server, 60)
        assert minutes(server, subscription) == [1] * 20
        assert server.metric("fanlog_schedules") == 20
        assert server.metric("fanlog_schedule_ticks_published_total") == 20

    def test_time_zones(self, asking, topic):
        # Noon in Berlin is 10:00 UTC in summer.
        made = make(asking, topic, "0 12 * * *", time_zone="Europe/Berlin")
        assert made.next_tick_time.ToJsonString().endswith("T10:00:00Z")


class TestMissed:
    @pytest.mark.parametrize(
        ("missed", "expected"), [("SKIP", [10]), ("LATEST", [10]), ("ALL", list(range(1, 11)))]
    )
    def test_ticks_of_a_server_that_was_down(
        self, server, asking, topic, subscription, missed, expected
    ):
        make(asking, topic, missed=missed)
        server._stop_serving()
        # The last of them is still on time.
        server.clock.advance(600 + limits.SCHEDULE_LATE_S - 1)
        server.start()
        settled(server)
        assert minutes(server, subscription) == expected
        found = ask(server).get(NAME)
        assert (found.published_ticks, found.missed_ticks) == (len(expected), 10 - len(expected))

    @pytest.mark.parametrize(("missed", "expected"), [("LATEST", [180]), ("ALL", [60, 120, 180])])
    def test_late_ticks_are_made_up(self, server, asking, topic, subscription, missed, expected):
        make(asking, topic, "0 * * * *", missed=missed)
        server._stop_serving()
        server.clock.advance(3 * 3600 + 1800)
        server.start()
        settled(server)
        assert minutes(server, subscription) == expected

    def test_a_late_tick_is_skipped(self, server, asking, topic, subscription):
        make(asking, topic, "0 * * * *")
        server._stop_serving()
        server.clock.advance(3 * 3600 + limits.SCHEDULE_LATE_S + 1)
        server.start()
        settled(server)
        assert minutes(server, subscription) == []
        found = ask(server).get(NAME)
        assert (found.missed_ticks, found.published_ticks) == (3, 0)
        assert server.metric("fanlog_schedule_ticks_missed_total") == 3

    def test_all_has_a_limit(self, server, asking, topic, subscription):
        make(asking, topic, missed="ALL")
        server._stop_serving()
        server.clock.advance(60 * (limits.SCHEDULE_CATCH_UP_MAX + 5))
        server.start()
        settled(server)
        assert minutes(server, subscription) == list(range(6, limits.SCHEDULE_CATCH_UP_MAX + 6))
        assert ask(server).get(NAME).missed_ticks == 5

    def test_very_many_are_counted_up_to_a_limit(self, server, asking, topic, subscription):
        make(asking, topic, "* * * * * *", missed="LATEST")
        server._stop_serving()
        server.clock.advance(86_400 * 365)
        server.start()
        settled(server)
        assert minutes(server, subscription) == [86_400 * 365 / 60]
        assert ask(server).get(NAME).missed_ticks == limits.SCHEDULE_COUNT_MAX - 1

    def test_a_restart_repeats_nothing(self, server, asking, topic, subscription):
        make(asking, topic, missed="ALL")
        advance(server, 120)
        for _ in range(3):
            server.restart()
            settled(server)
        assert minutes(server, subscription) == [1, 2]


class TestClocks:
    def test_a_clock_that_is_set_back_repeats_nothing(self, server, asking, topic, subscription):
        make(asking, topic)
        advance(server, 60)
        advance(server, 60)
        assert minutes(server, subscription) == [1, 2]
        server.clock.ahead_s = -90.0
        advance(server, 90)
        assert minutes(server, subscription) == []
        advance(server, 60)
        assert minutes(server, subscription) == [3]

    def test_a_clock_that_is_set_ahead_is_noticed(self, server, asking, topic, subscription):
        make(asking, topic, "0 * * * *")
        server.clock.ahead_s = 3600.0
        server.advance(ticking.CLOCK_CHECK_S)
        settled(server)
        assert minutes(server, subscription) != []

    def test_a_schedule_that_a_wrong_clock_took_far_ahead_begins_anew_when_resumed(
        self, server, asking, topic, subscription
    ):
        make(asking, topic)
        server.clock.ahead_s = 400 * 86_400.0
        advance(server, 10)
        server.clock.ahead_s = 0.0
        minutes(server, subscription)
        advance(server, 120)
        assert minutes(server, subscription) == []
        asking.pause(NAME)
        asking.resume(NAME)
        advance(server, 60)
        assert len(minutes(server, subscription)) == 1


class TestTrouble:
    def test_a_commit_that_fails_is_tried_again(self, server, asking, topic, subscription):
        make(asking, topic)
        server.store.failures.append(CommitFailed("the disk is on fire"))
        advance(server, 60)
        assert minutes(server, subscription) == []
        assert "the disk is on fire" in asking.get(NAME).last_error
        advance(server, ticking.RETRY_S)
        assert minutes(server, subscription) == [1]
        found = asking.get(NAME)
        assert (found.published_ticks, found.missed_ticks) == (1, 0)
        assert "the disk is on fire" in found.last_error
        assert server.metric("fanlog_schedule_tick_failures_total") == 1

    def test_the_retry_goes_on_until_the_next_tick(self, server, asking, topic, subscription):
        make(asking, topic, "*/10 * * * *")
        server.publisher.delete_topic(request={"topic": topic})
        advance(server, 600)
        assert f"topic '{topic}' does not exist" in asking.get(NAME).last_error
        # Long after a tick may be late.
        advance(server, 300)
        server.publisher.create_topic(request={"name": topic})
        again = server.subscription(topic)
        advance(server, ticking.RETRY_S_MAX)
        assert minutes(server, again) == [10]
        assert asking.get(NAME).missed_ticks == 0

    def test_a_tick_that_never_could_be_is_missed_at_the_next(self, server, asking, topic):
        make(asking, topic)
        server.publisher.delete_topic(request={"topic": topic})
        for _ in range(3):
            advance(server, 60)
        found = asking.get(NAME)
        assert (found.published_ticks, found.missed_ticks) == (0, 2)
        server.restart()
        assert "does not exist" in ask(server).get(NAME).last_error

    def test_no_room_on_the_disk(self, server, asking, topic, subscription):
        make(asking, topic)
        server.store.failures.append(DiskFull("no room"))
        advance(server, 60)
        assert "no room" in asking.get(NAME).last_error
        advance(server, ticking.RETRY_S)
        assert minutes(server, subscription) == [1]

    def test_one_in_trouble_does_not_hold_up_others(self, server, asking, topic, subscription):
        gone = server.topic()
        make(asking, gone)
        asking.create(Schedule(name=f"{NAME}-2", topic=topic, cron="* * * * *", data=b"x"))
        server.publisher.delete_topic(request={"topic": gone})
        advance(server, 60)
        assert minutes(server, subscription) == [1]


class TestChanges:
    def test_pause_and_resume(self, server, asking, topic, subscription):
        make(asking, topic, missed="ALL")
        assert asking.pause(NAME).paused
        assert not asking.get(NAME).HasField("next_tick_time")
        advance(server, 600)
        assert minutes(server, subscription) == []
        resumed = asking.resume(NAME)
        assert (resumed.paused, resumed.missed_ticks) == (False, 0)
        assert resumed.next_tick_time.ToSeconds() == START_S + 660
        advance(server, 60)
        assert minutes(server, subscription) == [11]

    def test_a_pause_outlives_a_restart(self, server, asking, topic, subscription):
        make(asking, topic, paused=True)
        server.restart()
        advance(server, 60)
        assert minutes(server, subscription) == []

    def test_another_time_begins_anew(self, server, asking, topic, subscription):
        make(asking, topic, "0 0 1 1 *", missed="ALL")
        advance(server, 90)
        changed = asking.update(Schedule(name=NAME, cron="* * * * *"), ["cron"])
        assert changed.next_tick_time.ToSeconds() == START_S + 120
        advance(server, 30)
        assert minutes(server, subscription) == [2]

    def test_another_message_changes_no_tick(self, server, asking, topic, subscription):
        made = make(asking, topic)
        changed = asking.update(
            Schedule(name=NAME, data=b"new", attributes={"a": "b"}), ["data", "attributes"]
        )
        assert changed.next_tick_time == made.next_tick_time
        advance(server, 60)
        [received] = server.pull(subscription)
        assert (received.message.data, received.message.attributes["a"]) == (b"new", "b")

    def test_run_now_is_besides_the_ticks(self, server, asking, topic, subscription):
        make(asking, topic, paused=True)
        message_id = asking.run(NAME)
        [received] = server.pull(subscription)
        assert received.message.message_id == message_id
        assert dict(received.message.attributes) == {"fanlog-schedule": NAME}
        assert asking.get(NAME).published_ticks == 0

    def test_delete(self, server, asking, topic, subscription):
        make(asking, topic)
        asking.delete(NAME)
        advance(server, 120)
        assert minutes(server, subscription) == []
        with pytest.raises(CallFailed, match=f"schedule '{NAME}' does not exist"):
            asking.get(NAME)
        assert list(asking.list_schedules(PARENT)) == []
        make(asking, topic)
        advance(server, 60)
        assert minutes(server, subscription) == [3]

    def test_lists_are_in_pages(self, server, asking, topic):
        for number in range(5):
            asking.create(Schedule(name=f"{NAME}-{number}", topic=topic, cron="@daily", data=b"x"))
        found = [one.name for one in asking.list_schedules(PARENT)]
        assert found == [f"{NAME}-{number}" for number in range(5)]
        assert list(asking.list_schedules("projects/other")) == []


SYSTEM = "projects/fanlog-system"


class TestBadInput:
    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"cron": "61 * * * *"}, "cron: minute, at character 1: '61' is not 0 to 59"),
            ({"cron": ""}, "cron: '' has 0 fields"),
            ({"cron": "0 0 30 2 *"}, "never ticks"),
            ({"time_zone": "Mars/Olympus"}, "time_zone: 'Mars/Olympus' is not a time zone"),
            ({"time_zone": "../../etc/passwd"}, "is not a time zone"),
            ({"time_zone": "Europe"}, "time_zone: 'Europe' is not a time zone"),
            ({"time_zone": "X" * 300}, "is not a time zone"),
            ({"topic": "orders"}, "topic: 'orders' is not of the form"),
            ({"topic": f"{PARENT}/topics/missing"}, "does not exist"),
            ({"topic": f"{PARENT}/topics/a.*"}, "ends in the id 'a.\\*'"),
            ({"topic": f"{SYSTEM}/topics/jobs"}, "which is the service's own"),
            ({"name": f"{SYSTEM}/schedules/one"}, "which is the service's own"),
            ({"name": f"{PARENT}/schedules/x"}, "ends in the id 'x'"),
            ({"data": b""}, "data: empty, and so are attributes"),
            ({"data": bytes(limits.SCHEDULE_BYTES_MAX + 1)}, "data: 262145 bytes"),
            ({"attributes": {"fanlog-tick": "x"}}, "'fanlog-tick' is set by the schedule"),
            ({"attributes": {"fanlog-schedule": "x"}}, "'fanlog-schedule' is set by the schedule"),
            ({"attributes": {"fanlog-dedup-id": "x"}}, "one tick pass for another"),
            ({"attributes": {"fanlog-nonsense": "x"}}, "fanlog-nonsense"),
            ({"attributes": {"goog-x": "x"}}, "goog"),
            ({"attributes": {str(n): "x" for n in range(99)}}, "at most 100"),
            ({"ordering_key": "k" * 2000}, "ordering_key"),
            ({"missed": 9}, "missed: 9 is not one of SKIP, LATEST, ALL"),
            ({"published_ticks": 3}, "schedule.published_ticks: is set by the server"),
            ({"last_error": "x"}, "schedule.last_error: is set by the server"),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
    )
    def test_what_cannot_be_made(self, asking, topic, fields, sentence):
        given = {"name": NAME, "topic": topic, "cron": "* * * * *", "data": b"x"} | fields
        with pytest.raises(CallFailed, match=sentence):
            asking.create(Schedule(**given))
        assert list(asking.list_schedules(PARENT)) == []

    def test_a_name_that_is_taken(self, asking, topic):
        make(asking, topic)
        with pytest.raises(CallFailed, match=f"schedule '{NAME}' exists already"):
            make(asking, topic)

    @pytest.mark.parametrize(
        ("fields", "paths", "sentence"),
        [
            ({}, [], "update_mask: empty"),
            ({}, ["name"], "'name' cannot be changed"),
            ({}, ["last_error"], "'last_error' is set by the server"),
            ({}, ["nonsense"], "'nonsense' is not a field of Schedule"),
            ({"cron": "@never"}, ["cron"], "cron: '@never'"),
            ({"topic": f"{PARENT}/topics/missing"}, ["topic"], "does not exist"),
            ({}, ["data"], "data: empty"),
        ],
    )
    def test_what_cannot_be_changed(self, asking, topic, fields, paths, sentence):
        made = make(asking, topic)
        with pytest.raises(CallFailed, match=sentence):
            asking.update(Schedule(name=NAME, **fields), paths)
        assert asking.get(NAME) == made

    @pytest.mark.parametrize("verb", ["get", "pause", "resume", "delete", "run"])
    def test_what_is_not_there(self, asking, verb):
        with pytest.raises(CallFailed, match=f"schedule '{NAME}' does not exist"):
            getattr(asking, verb)(NAME)

    def test_a_message_that_the_schema_of_the_topic_refuses(self, server, asking):
        schema = server.run(
            server.broker.schemas.create(f"{PARENT}/schemas/text", "AVRO", '"string"')
        )
        topic = server.topic(schema_settings={"schema": schema[0].name, "encoding": "JSON"})
        subscription = server.subscription(topic)
        with pytest.raises(CallFailed, match="expected a JSON value"):
            make(asking, topic)
        asking.create(Schedule(name=NAME, topic=topic, cron="* * * * *", data=b'"go"'))
        advance(server, 60)
        [received] = server.pull(subscription)
        assert received.message.attributes["googclient_schemaname"] == schema[0].name

    def test_quotas(self, start_server):
        server = start_server("memory", quotas=Quotas(schedules=1, schedule_bytes=10))
        topic = server.topic()
        asking = ask(server)
        make(asking, topic)
        with pytest.raises(CallFailed, match="1 schedules, and 1 more would pass the quota"):
            asking.create(Schedule(name=f"{NAME}-2", topic=topic, cron="@daily", data=b"x"))
        with pytest.raises(CallFailed, match="schedule bytes"):
            asking.update(Schedule(name=NAME, data=b"x" * 11), ["data"])
        asking.delete(NAME)
        make(asking, topic)
