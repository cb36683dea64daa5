"""The outbox: what is committed is published, once, keys in order, by any number of relays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fanlog import CallFailed, Client
from fanlog.consumers import once
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.outbox import Outbox, OutboxRow, Relay
from fanlog.outbox.outbox import _lane
from fanlog.outbox.publisher import SinkPublisher
from server.conftest import PATIENCE_S
from server.databases.conftest import Database

DAY_S = 86_400


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Shop:
    """A program with an outbox, its topic, and relays."""

    def __init__(self, server: Any, database: Database, lanes: int = 4) -> None:
        self.server = server
        self.database = database
        self.clock = Clock()
        self.topic, self.subscription = server.topic_and_subscription(enable_message_ordering=True)
        self.connection = database.connect()
        self.outbox = Outbox(clock=self.clock)
        self.outbox.create(self.connection, lanes=lanes)
        self.connection.commit()
        self.client = Client(server.endpoint)

    def add(self, *data: str, key: str = "", topic: str = "", **attributes: str) -> None:
        for one in data:
            self.outbox.add(self.connection, topic or self.topic, one.encode(), attributes, key=key)
        self.connection.commit()

    def relay(self, publisher: Any = None, **options: Any) -> Relay:
        return Relay(
            self.database.connect,
            publisher or self.client,
            clock=self.clock,
            **{"chance": lambda: 0.0, **options},
        )

    def received(self) -> list[str]:
        found = self.server.pull(self.subscription)
        if found:
            self.server.ack(self.subscription, found)
        return [one.message.data.decode() for one in found]

    @property
    def rows(self) -> int:
        [[count]] = self.database.run("SELECT COUNT(*) FROM fanlog_outbox")
        return int(count)


@pytest.fixture
def shop(still_server: Any, database: Database) -> Any:
    shop = Shop(still_server, database)
    yield shop
    shop.client.close()


class Meddling(SinkPublisher):
    """A publisher that has something happen before or after a call."""

    def __init__(self, client: Client, **meddling: Callable[[], object]) -> None:
        super().__init__(client)
        self._meddling = meddling

    def _meddle(self, word: str) -> None:
        self._meddling.pop(word, lambda: None)()

    def stage(
        self, query: str, epoch: int, attempt: str, rows: Sequence[OutboxRow]
    ) -> dict[int, str]:
        self._meddle("before_stage")
        refused = super().stage(query, epoch, attempt, rows)
        self._meddle("after_stage")
        return refused

    def commit(self, query: str, epoch: int, attempt: str) -> None:
        self._meddle("before_commit")
        super().commit(query, epoch, attempt)
        self._meddle("after_commit")


def away() -> None:
    raise CallFailed("no server answers", "UNAVAILABLE")


# What is published.


def test_a_message_is_published_as_it_was_added(shop):
    dedup_id = shop.outbox.add(
        shop.connection, shop.topic, b"\x00two chairs", {"region": "eu"}, key="anna"
    )
    shop.connection.commit()
    counts = shop.relay().drain()
    assert (counts.published, counts.epochs, shop.rows) == (1, 1, 0)
    [received] = shop.server.pull(shop.subscription)
    assert received.message.data == b"\x00two chairs"
    assert received.message.ordering_key == "anna"
    assert dict(received.message.attributes) == {"region": "eu", "fanlog-dedup-id": dedup_id}


def test_a_dedup_id_of_the_programs_own(shop):
    for _ in range(2):
        shop.add("once", **{"fanlog-dedup-id": "order 7"})
    shop.relay().drain()
    assert shop.received() == ["once"]
    assert shop.rows == 0


def test_what_is_rolled_back_is_never_published(shop):
    shop.outbox.add(shop.connection, shop.topic, b"never")
    shop.connection.rollback()
    shop.add("kept")
    shop.outbox.add(shop.connection, shop.topic, b"not yet")
    if shop.database.kind == "postgresql":
        # SQLite has one writer: the relay waits until the program has committed.
        shop.relay().drain()
        assert shop.received() == ["kept"]
        shop.connection.commit()
        shop.relay().drain()
        assert shop.received() == ["not yet"]
    else:
        shop.connection.commit()
        shop.relay().drain()
        assert sorted(shop.received()) == ["kept", "not yet"]


@pytest.mark.xdist_group("pg")
def test_rows_that_are_committed_later_than_their_neighbours_are_not_forgotten(
    still_server, postgres
):
    """A relay that remembers how far it is would pass over them."""
    database = Database("postgresql", postgres)
    database.run("DROP TABLE IF EXISTS fanlog_outbox, fanlog_outbox_lanes")
    shop = Shop(still_server, database, lanes=1)
    late = database.connect()
    shop.outbox.add(late, shop.topic, b"early number, late commit")
    shop.add("second")
    shop.relay().drain()
    late.commit()
    shop.relay().drain()
    assert shop.received() == ["second", "early number, late commit"]
    shop.client.close()
    database.close()


def test_epochs_are_bounded_by_rows_and_by_bytes(shop):
    shop.add(*(f"{number}" for number in range(10)), key="k")
    assert shop.relay(rows_max=3).drain().epochs == 4
    shop.add(*("x" * 1_000 for _ in range(10)), "y" * 100_000, key="k")
    assert shop.relay(bytes_max=5_000).drain().epochs == 4
    assert shop.rows == 0


def test_many_relays_at_once(shop):
    """Each message once, and keys in order, while a program adds."""
    keys = [f"key {number}" for number in range(12)]

    def add() -> None:
        for number in range(30):
            for key in keys:
                shop.outbox.add(shop.connection, shop.topic, b"%d" % number, key=key)
            shop.connection.commit()

    relays = [shop.relay(rows_max=7, poll_s=0.01) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(relay.run) for relay in relays]
        add()
        received = shop.server.drain(shop.subscription, 30 * len(keys))
        for relay in relays:
            relay.stop()
        counts = [one.result(PATIENCE_S) for one in running]
    assert sum(one.published for one in counts) == 30 * len(keys)
    assert shop.rows == 0
    assert shop.server.pull(shop.subscription) == []
    for key in keys:
        found = [int(one.message.data) for one in received if one.message.ordering_key == key]
        assert found == list(range(30)), key


# Relays that fail, are slow, or were away.


def test_a_relay_that_was_away_for_longer_than_the_dedup_window(shop):
    shop.add("1", "2", key="k")
    with pytest.raises(CallFailed):
        shop.relay(Meddling(shop.client, after_commit=away)).drain()
    assert shop.received() == ["1", "2"]
    # A day is the longest window there is; this is the default one of ten minutes.
    shop.server.advance(DAY_S + 1)
    shop.clock.now += DAY_S + 1
    counts = shop.relay().drain()
    assert (counts.recovered, counts.published, shop.rows) == (1, 2, 0)
    assert shop.received() == []


@pytest.mark.parametrize("moment", ["before_stage", "after_stage", "before_commit", "after_commit"])
def test_a_relay_that_was_slow_and_lost_its_lane(shop, moment):
    """Whenever another relay takes over, and however late the slow one goes on."""
    shop.add("1", "2", key="k")

    def overtake() -> None:
        shop.clock.now += 61
        shop.relay().drain()
        shop.add("3", key="k")
        shop.server.advance(DAY_S + 1)
        shop.relay().drain()

    slow = shop.relay(Meddling(shop.client, **{moment: overtake}))
    assert slow.drain().lost == 1
    shop.relay().drain()
    received = shop.server.pull(shop.subscription)
    assert [one.message.data for one in received] == [b"1", b"2", b"3"]
    assert shop.rows == 0


def test_a_slow_relay_publishes_nothing_when_the_next_one_fails_as_well(shop):
    """The rows are staged twice then, and the epoch that the slow one opened is not published."""
    shop.add("1", "2", key="k")

    def overtake() -> None:
        shop.clock.now += 61
        with pytest.raises(CallFailed, match="no server answers"):
            shop.relay(Meddling(shop.client, before_stage=away)).drain()

    assert shop.relay(Meddling(shop.client, before_commit=overtake)).drain().lost == 1
    assert shop.received() == []
    shop.server.advance(DAY_S + 1)
    shop.relay().drain()
    assert shop.received() == ["1", "2"]
    assert shop.rows == 0


def test_a_style_of_parameters_that_is_not_that_of_the_module(still_server, database):
    style = "named" if database.kind == "sqlite" else "format"
    topic, subscription = still_server.topic_and_subscription()
    connection, outbox = database.connect(), Outbox(paramstyle=style)
    outbox.create(connection)
    outbox.add(connection, topic, b"1")
    assert once(connection, paramstyle=style).add("a")
    connection.commit()
    with Client(still_server.endpoint) as client:
        Relay(database.connect, client, paramstyle=style).drain()
    assert [one.message.data for one in still_server.pull(subscription)] == [b"1"]


@pytest.mark.parametrize("moment", ["before_commit", "after_commit"])
def test_a_server_that_is_started_again_knows_what_it_published(start_server, database, moment):
    server = start_server("embedded")
    shop = Shop(server, database, lanes=1)
    shop.add("1", "2", key="k")
    with pytest.raises(CallFailed):
        shop.relay(Meddling(shop.client, **{moment: away})).drain()
    shop.client.close()
    server.restart()
    with Client(server.endpoint) as client:
        counts = shop.relay(client).drain()
    assert (counts.published, counts.recovered) == (2, 1)
    assert shop.received() == ["1", "2"]
    assert shop.rows == 0


def test_an_answer_that_is_lost_is_asked_for_again(shop):
    shop.add("1")
    counts = shop.relay(Meddling(shop.client, after_commit=away))
    with pytest.raises(CallFailed):
        counts.drain()
    assert shop.rows == 1
    assert counts.drain().published == 1
    assert shop.received() == ["1"]


def test_a_relay_goes_on_after_failures_and_stops_when_told(shop):
    shop.add("1")
    publisher = Meddling(shop.client, before_stage=away, before_commit=away, after_commit=away)
    relay = shop.relay(publisher, poll_s=0.01)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(relay.run)
        assert [one.message.data for one in shop.server.drain(shop.subscription, 1)] == [b"1"]
        shop.server.await_that(lambda: relay.counts.published == 1)
        relay.stop()
        counts = running.result(PATIENCE_S)
    assert counts.failures == 3
    assert shop.rows == 0


def test_pauses_grow_to_a_bound(shop):
    pauses = []
    relay = shop.relay(chance=lambda: 1.0)

    class Waiting(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            if len(pauses) == 12:
                self.set()
            return self.is_set()

    shop.add("1")
    relay._stopping = Waiting()
    relay._pass = away
    relay.run()
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert pauses[-1] == 30.0


# What is refused.


def test_a_refused_row_holds_up_its_key_alone_and_is_tried_again(shop):
    missing = shop.topic + "-later"
    shop.add("waits 1", "waits 2", key="k", topic=missing)
    shop.add("same key elsewhere", key="k")
    shop.add("no key")
    counts = shop.relay().drain()
    assert sorted(shop.received()) == ["no key", "same key elsewhere"]
    assert counts.refused == 1
    status = shop.outbox.status(shop.connection)
    assert (status.rows, status.lanes, status.held_lanes, status.open_epochs) == (2, 4, 0, 0)
    [refused] = status.refused
    assert refused.reason == f"topic '{missing}' does not exist"
    assert (refused.refusals, refused.ordering_key) == (1, "k")
    shop.server.publisher.create_topic(name=missing)
    late = shop.server.subscription(missing, enable_message_ordering=True)
    assert shop.relay().drain().published == 0
    shop.clock.now += 1.1
    assert shop.relay().drain().published == 2
    assert [one.message.data for one in shop.server.pull(late)] == [b"waits 1", b"waits 2"]


def test_a_refused_row_is_retried_at_once_or_discarded(shop):
    missing = shop.topic + "-never"
    shop.add("1", "2", key="k", topic=missing)
    shop.relay().drain()
    assert shop.outbox.retry(shop.connection) == 1
    shop.connection.commit()
    assert shop.relay().drain().refused == 1
    [refused] = shop.outbox.status(shop.connection).refused
    assert refused.refusals == 2
    with pytest.raises(FailedPrecondition, match=f"row {refused.id + 1} is not there"):
        shop.outbox.discard(shop.connection, [refused.id, refused.id + 1])
    shop.connection.rollback()
    assert shop.outbox.discard(shop.connection, [refused.id]) == 1
    shop.connection.commit()
    assert shop.rows == 1


def test_a_message_that_fails_its_request_is_found_among_others(shop):
    class Strict(SinkPublisher):
        def stage(
            self, query: str, epoch: int, attempt: str, rows: Sequence[OutboxRow]
        ) -> dict[int, str]:
            if any(row.data == b"bad" for row in rows):
                raise CallFailed("a bad one", "INVALID_ARGUMENT")
            return super().stage(query, epoch, attempt, rows)

    shop.add("1", "2", "bad", "4", key="a")
    shop.add("5", "6", key="b")
    shop.relay(Strict(shop.client)).drain()
    assert sorted(shop.received()) == ["1", "2", "5", "6"]
    [refused] = shop.outbox.status(shop.connection).refused
    assert refused.reason == "a bad one"
    assert shop.rows == 2


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"topic": "orders"}, "topic"),
        ({"data": "text"}, "the message is none"),
        ({"attributes": {"fanlog-priority": "99"}}, "fanlog-priority"),
        ({"attributes": {"a": 1}}, "the message is none"),
        ({"key": "x" * 1_025}, "ordering"),
    ],
)
def test_what_could_not_be_published_is_refused_when_it_is_added(shop, fields, words):
    with pytest.raises(InvalidArgument, match=words):
        shop.outbox.add(
            **{"connection": shop.connection, "topic": shop.topic, "data": b"x", **fields}
        )


def test_a_connection_that_commits_each_statement_is_refused(shop):
    if shop.database.kind == "sqlite":
        shop.connection.isolation_level = None
    else:
        shop.connection.commit()
        shop.connection.autocommit = True
    with pytest.raises(FailedPrecondition, match="commits each statement"):
        shop.outbox.add(shop.connection, shop.topic, b"x")


def test_a_database_that_was_set_back_stands_still_and_says_so(shop):
    """As after a restore of a backup: the numbers of epochs would be used again, and rows lost."""
    shop.add("1", key="k")
    shop.relay().drain()
    shop.database.run("UPDATE fanlog_outbox_lanes SET epoch = 0")
    shop.add("2", key="k")
    with pytest.raises(FailedPrecondition, match="epoch 0, and the broker has published 1"):
        shop.relay().drain()
    assert shop.received() == ["1"]
    assert shop.outbox.renew(shop.connection) == 1
    shop.connection.commit()
    shop.relay().drain()
    assert shop.received() == ["2"]


@pytest.mark.parametrize(("days", "is_in_doubt"), [(29, False), (31, True)])
def test_an_epoch_that_was_left_open_for_a_month_is_in_doubt(shop, days, is_in_doubt):
    shop.add("1", key="k")
    with pytest.raises(CallFailed):
        shop.relay(Meddling(shop.client, before_commit=away)).drain()
    shop.clock.now += days * DAY_S
    if not is_in_doubt:
        assert shop.relay().drain().published == 1
        return
    lanes = {_lane(shop.topic, key, 4): key for key in map(str, range(100))}
    del lanes[_lane(shop.topic, "k", 4)]
    shop.add("of another lane", key=lanes.popitem()[1])
    with pytest.raises(FailedPrecondition, match="no longer knows whether epoch 1 was published"):
        shop.relay().drain()
    assert shop.received() == ["of another lane"]
    shop.outbox.renew(shop.connection)
    shop.connection.commit()
    shop.relay().drain()
    assert shop.received() == ["1"]


def test_other_tables_are_refused(still_server, database):
    with Client(still_server.endpoint) as client:
        with pytest.raises(FailedPrecondition, match="table fanlog_outbox does not exist; make it"):
            Relay(database.connect, client).run()
        database.run("CREATE TABLE fanlog_outbox (id INTEGER, payload TEXT)")
        with pytest.raises(
            FailedPrecondition, match=r"it lacks lane, .*; nothing is known of payload"
        ):
            Relay(database.connect, client).drain()
    with pytest.raises(FailedPrecondition, match="another table"):
        Outbox().create(database.connect())


def test_an_outbox_is_made_once(database):
    connection, outbox = database.connect(), Outbox("Own_outbox")
    assert outbox.create(connection, lanes=3)
    assert not outbox.create(connection)
    connection.commit()
    assert outbox.status(connection).lanes == 3


@pytest.mark.parametrize("lanes", [0, 1_001])
def test_a_number_of_lanes_that_is_none(database, lanes):
    with pytest.raises(InvalidArgument, match="lanes: "):
        Outbox().create(database.connect(), lanes=lanes)


def test_a_publisher_that_could_publish_twice_is_refused(database):
    with pytest.raises(InvalidArgument, match="has no stage, commit, abort, last_epoch"):
        Relay(database.connect, object())


@pytest.mark.parametrize(
    "options", [{"rows_max": 0}, {"bytes_max": 0}, {"hold_s": 0}, {"poll_s": -1}]
)
def test_settings_that_are_none(database, options):
    with pytest.raises(InvalidArgument):
        Relay(database.connect, Client("127.0.0.1:1"), **options)
