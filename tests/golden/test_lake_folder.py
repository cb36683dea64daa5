"""A data folder and its lake as 0.1.0 left them, opened by a whole server: nothing is different.

`folder-4-lake.tar.gz` has both; `folder-4-lake.json` says what they held when they were closed, as
the build that wrote them read it: every cursor, every message, hot and cold. That is the promise to
data of before; what is new may add to answers (defaults, other columns), and takes nothing away.

The clock stands where it stood then, so that nothing expires: neither leases nor snapshots.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core.exceptions import FailedPrecondition
from google.pubsub_v1.services.schema_service.transports import SchemaServiceGrpcTransport
from pyroaring import BitMap64

from commands import invoke
from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.config import Config
from fanlog.core.cursor import Cursor, runs
from fanlog.lake.location import Location
from fanlog.lake.tables import DEAD_LETTERS, open_table
from fanlog.model import jobs as job_kinds
from server.conftest import LoopThread, RunningServer
from server.replaying import Grpc
from server.test_exports import ExportsClient
from server.v1 import LogClient, SinkClient, data_of
from spark.reading import table

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "folder-4-lake.json").read_text(encoding="utf-8"))
TOPICS, SUBSCRIPTIONS = "projects/shop/topics/", "projects/shop/subscriptions/"
SNAPSHOTS = "projects/shop/snapshots/"
#: By topic: which partition its messages are in.
PARTITIONS = {"orders": "2", "letters": "4", "events.eu": "6", "events.us": "8", "gone": "10"}
PARTITIONS |= {"private": "12", "payments": "15"}


@dataclass(frozen=True)
class Kept:
    """The folder and the lake, unpacked, and how a server on them is started."""

    data_dir: Path
    lake: Path
    loop: LoopThread

    def opened(self) -> RunningServer:
        config = Config(
            port=0,
            http_port=0,
            drain_s=2.0,
            disk_reserve_bytes=0,
            push_allow=(ip_network("127.0.0.0/8"),),
            data_dir=self.data_dir,
            lake=str(self.lake),
            outcomes="off",
        )
        server = RunningServer(self.loop, config, ManualClock(EXPECTED["closed_at_s"]))
        server.await_lake()
        return server


@pytest.fixture
def kept(tmp_path: Path, loop_thread: LoopThread) -> Kept:
    with tarfile.open(HERE / "folder-4-lake.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return Kept(tmp_path / "data", tmp_path / "lake", loop_thread)


@pytest.fixture
def server(kept: Kept) -> Iterator[RunningServer]:
    running = kept.opened()
    yield running
    running.stop()


def messages(topic: str, *offsets: int) -> list[dict[str, Any]]:
    """The messages of a topic as they were; all of them, or those at some offsets."""
    found: list[dict[str, Any]] = EXPECTED["partitions"][PARTITIONS[topic]]["messages"]
    return [one for one in found if not offsets or one["offset"] in offsets]


def shown(message: Any) -> dict[str, Any]:
    """A message of an answer, as the file says it."""
    return {
        "offset": int(message.message_id[-12:]),
        "id": message.message_id,
        "data": message.data.decode(),
        "key": message.ordering_key,
        "attributes": dict(sorted(message.attributes.items())),
        "publish_time_us": int(message.publish_time.timestamp_pb().ToMicroseconds()),
    }


def pulled(server: RunningServer, name: str, *without: str) -> list[dict[str, Any]]:
    """What a subscription delivers, by topic and offset; without attributes that it adds."""
    received = server.pull(SUBSCRIPTIONS + name)
    # An answer may have less than all: what is cold comes in one of its own.
    while more := server.pull(SUBSCRIPTIONS + name):
        received += more
    found = [shown(one.message) for one in received]
    for one in found:
        one["attributes"] = {k: v for k, v in one["attributes"].items() if k not in without}
    return sorted(found, key=lambda one: one["id"])


def place(cursor: Cursor, end: int) -> dict[str, Any]:
    acked = BitMap64(offset for offset in range(cursor.floor, end) if offset in cursor)
    return {"floor": cursor.floor, "acknowledged": [list(run) for run in runs(acked)]}


# Cursors.


def test_every_cursor_is_where_it_was(server):
    hard, ledger = server.broker.hard, server.broker.ledger
    found = {
        subscription.name: {
            str(share.partition): place(share.cursor, ledger.end(share.partition))
            for share in hard.shares_of(subscription)
        }
        for subscription in hard.catalog.subscriptions()
    }
    assert found == EXPECTED["cursors"]


def test_every_snapshot_is_what_it_was(server):
    hard, ledger = server.broker.hard, server.broker.ledger
    found = {
        name: {
            str(partition): place(hard.cursor_of(snapshot, partition), ledger.end(partition))
            for partition in snapshot.partitions
        }
        for name in hard.catalog.snapshot_names("", "")
        for snapshot in [hard.catalog.snapshot(name)]
    }
    assert found == EXPECTED["snapshots"]


def test_a_snapshot_brings_back_what_it_had(server):
    for name, snapshot in (("plain", "before"), ("events", "events")):
        server.subscriber.seek(
            request={"subscription": SUBSCRIPTIONS + name, "snapshot": SNAPSHOTS + snapshot}
        )
    assert pulled(server, "plain") == messages("orders")
    # After a seek the present filter judges all of it.
    assert pulled(server, "events", "fanlog-topic") == messages("events.eu", 3)


# Messages.


def rows(found: Any) -> list[dict[str, Any]]:
    """A table of Spark's source, as the file says it."""
    return [
        {
            "offset": row["offset"],
            "id": row["message_id"],
            "data": row["data"].decode(),
            "key": row["ordering_key"],
            "attributes": dict(sorted(row["attributes"])),
            "publish_time_us": round(row["publish_time"].timestamp() * 1e6),
        }
        for row in sorted(found.to_pylist(), key=lambda row: (row["partition"], row["offset"]))
    ]


@pytest.mark.parametrize("topic", ["orders", "letters", "events.eu", "private", "payments"])
def test_spark_reads_every_message(server, topic):
    assert rows(table(server, topic=TOPICS + topic)) == messages(topic)


def test_spark_reads_what_is_left_of_deleted_topics(server):
    assert rows(table(server, subscription=SUBSCRIPTIONS + "orphan")) == messages("gone")


@pytest.mark.parametrize("topic", ["orders", "events.eu", "private", "payments"])
def test_the_log_reads_what_is_hot_and_says_what_is_cold(server, topic):
    client = LogClient(server)
    [part] = client.offsets(TOPICS + topic).partitions
    expected = EXPECTED["partitions"][PARTITIONS[topic]]
    assert (part.start, part.hot_start) == (0, expected["hot_start"])
    hot = client.range_of(TOPICS + topic)
    hot.start = part.hot_start
    found = [data for one in client.read(hot) for data in data_of(one.batches, hot)]
    assert found == [one["data"].encode() for one in messages(topic)[part.hot_start :]]
    client.close()


@pytest.mark.parametrize(
    ("name", "topic", "offsets"),
    [
        ("plain", "orders", (1, 4, 5, 6, 7, 8, 10, 11, 12, 14, 15, 16)),
        ("ordered", "orders", tuple(range(3, 17))),
        ("once", "orders", tuple(range(3, 17))),
        ("failing", "orders", (0, *range(2, 17))),
        ("again", "orders", (3, 4, 14, 16)),
        ("letters-reader", "letters", (0,)),
        ("orphan", "gone", (0,)),
        ("kept-private", "private", (0, 1, 2)),
    ],
)
def test_what_is_pulled_is_what_was_published(server, name, topic, offsets):
    assert pulled(server, name) == messages(topic, *offsets)


def test_a_pattern_reads_a_topic_that_is_gone_with_the_filter_of_its_time(server):
    expected = messages("events.eu", 3) + messages("events.us", 1)
    assert pulled(server, "events", "fanlog-topic") == expected
    assert server.broker.hard.catalog.topic_name_of(8) == TOPICS + "events.us"


def test_messages_come_in_the_revision_that_was_asked_for(server):
    found = server.pull(SUBSCRIPTIONS + "checked")
    assert [json.loads(one.message.data) for one in found] == [{"id": "one"}, {"id": "two"}]


def test_a_detached_subscription_is_still_that(server):
    with pytest.raises(FailedPrecondition, match="detached"):
        server.pull(SUBSCRIPTIONS + "cut-off")


def test_the_keys_of_an_ordered_subscription_come_in_order(server):
    found = server.pull(SUBSCRIPTIONS + "ordered")
    for key in "ab":
        offsets = [int(one.message.message_id[-12:]) for one in found]
        mine = [o for o, one in zip(offsets, found, strict=True) if one.message.ordering_key == key]
        assert mine == sorted(mine)
        assert mine


# Leases, attempts, letters.


def test_leases_under_exactly_once_are_still_held(server):
    name = SUBSCRIPTIONS + "once"
    assert not {one["offset"] for one in pulled(server, "once")} & {0, 2}
    ack_ids = list(EXPECTED["held"].values())
    server.subscriber.acknowledge(request={"subscription": name, "ack_ids": ack_ids})
    server.advance(601)
    assert [one["offset"] for one in pulled(server, "once")] == list(range(3, 17))


def test_attempts_are_counted_on(server):
    found = server.pull(SUBSCRIPTIONS + "failing")
    attempts = {int(one.message.message_id[-12:]): one.delivery_attempt for one in found}
    assert attempts == {0: 4, 2: 3, 3: 3} | dict.fromkeys(range(4, 12), 2) | dict.fromkeys(
        range(12, 17), 1
    )


def test_a_dead_letter_is_redriven(server):
    face = Grpc(server)
    [letter] = face.letters(SUBSCRIPTIONS + "letters-reader")["letters"]
    answer = face.redrive(
        SUBSCRIPTIONS + "letters-reader", message_ids=[letter["message"]["message_id"]]
    )
    face.close()
    assert (answer["reopened"], answer["copied"]) == (1, 0)
    assert [one["offset"] for one in pulled(server, "failing")] == list(range(17))


def test_the_lake_has_the_dead_letter(kept):
    [row] = open_table(Location.parse(str(kept.lake)), DEAD_LETTERS).to_pyarrow_table().to_pylist()
    [letter], [original] = messages("letters"), messages("orders", 1)
    assert (row["message_id"], row["data"]) == (letter["id"], letter["data"].encode())
    assert row["original_message_id"] == original["id"]
    assert row["original_topic"] == TOPICS + "orders"
    assert row["subscription"] == SUBSCRIPTIONS + "failing"
    assert row["delivery_attempts"] == 5


# Everything else that is hard state.


def test_dedup_ids_are_still_known(server):
    again = {"data": b"once more", "attributes": {"fanlog-dedup-id": "first"}}
    fresh = {"data": b"fresh", "attributes": {"fanlog-dedup-id": "third"}}
    request = {"topic": TOPICS + "private", "messages": [again, fresh]}
    found = server.publisher.publish(request=request).message_ids
    assert found[0] == messages("private", 0)[0]["id"]
    assert found[1][-12:] == "000000000003"


def test_a_request_that_was_done_is_not_done_again(server):
    server.ack(SUBSCRIPTIONS + "again", server.pull(SUBSCRIPTIONS + "again"))
    face = Grpc(server)
    ids = [one["id"] for one in messages("orders", 3, 4, 14)]
    asked = {"message_ids": ids, "request_id": "golden-reopen"}
    answer = face.reopen(SUBSCRIPTIONS + "again", **asked)
    face.close()
    assert answer["reopened"] == 3
    assert pulled(server, "again") == []


def test_settings_are_what_they_were(server):
    topic = server.publisher.get_topic(topic=TOPICS + "orders")
    assert (dict(topic.labels), topic.message_retention_duration.days) == ({"team": "till"}, 7)
    policy = server.publisher.get_iam_policy(request={"resource": TOPICS + "orders"})
    [binding] = policy.bindings
    assert (binding.role, list(binding.members)) == (
        "roles/pubsub.viewer",
        ["user:ada@example.com"],
    )
    plain = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "plain")
    assert dict(plain.labels) == {"owner": "ada"}
    assert plain.retain_acked_messages
    assert not plain.expiration_policy.ttl
    failing = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "failing")
    assert failing.dead_letter_policy.max_delivery_attempts == 5
    assert failing.dead_letter_policy.dead_letter_topic == TOPICS + "letters"
    events = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "events")
    assert events.filter == 'attributes.colour = "blue"'
    orphan = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "orphan")
    assert orphan.topic == "_deleted-topic_"
    once = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "once")
    assert (once.enable_exactly_once_delivery, once.ack_deadline_seconds) == (True, 600)


def test_the_push_config_is_what_it_was(server):
    found = server.subscriber.get_subscription(subscription=SUBSCRIPTIONS + "push").push_config
    assert found.push_endpoint == "http://127.0.0.1:9/orders"
    assert found.oidc_token.service_account_email == "push@example.com"
    assert found.oidc_token.audience == "till"
    push = server.broker.hard.catalog.subscription(SUBSCRIPTIONS + "push").push
    assert push.webhook_secrets == ("whsec_Z29sZGVuIGdvbGRlbiBnb2xkZW4gZ29sZGVu",)


def test_schemas_have_their_revisions(server):
    transport = SchemaServiceGrpcTransport(channel=server.channel())
    client = gapic.SchemaServiceClient(transport=transport)
    found = client.list_schema_revisions(name="projects/shop/schemas/payment")
    assert sorted(one.revision_id for one in found) == sorted(EXPECTED["revisions"])
    transport.close()


def test_exports_jobs_and_sinks_go_on(server):
    exports, sink = ExportsClient(server), SinkClient(server, "import")
    export = EXPECTED["export"]
    assert exports.batch(SUBSCRIPTIONS + "table") == (export["number"], export["offsets"])
    assert exports.advance(SUBSCRIPTIONS + "table", export["number"]) == 1
    assert sink.last_epoch() == 7
    exports.close()
    sink.close()
    with Client(server.endpoint) as client:
        found = {
            one.name.rpartition("/")[2]: one for one in JobClient(client).list_jobs("projects/shop")
        }
    states = {name: state_of(job) for name, job in found.items()}
    assert states == {"waiting": "WAITING", "running": "RUNNING", "done": "DONE"}
    assert dict(found["done"].result) == {"files": 3}
    assert len(server.pull(job_kinds.SUBSCRIPTION)) == 3


def test_what_comes_after_is_kept_beside_it(kept):
    """Written on, closed and opened once more: what was there is there, and what came too."""
    server = kept.opened()
    [fresh] = server.publish(TOPICS + "orders", b"order-17", key="b")
    server.ack(SUBSCRIPTIONS + "plain", server.pull(SUBSCRIPTIONS + "plain", 5))
    server.sweep()
    server.stop()
    server = kept.opened()
    try:
        found = pulled(server, "plain")
        assert found[:-1] == messages("orders", 8, 10, 11, 12, 14, 15, 16)
        assert (found[-1]["id"], found[-1]["data"]) == (fresh, "order-17")
        assert rows(table(server, topic=TOPICS + "orders"))[:-1] == messages("orders")
    finally:
        server.stop()


def test_the_doctor_finds_it_sound(kept):
    server = kept.opened()
    server.pull(SUBSCRIPTIONS + "plain")
    server.stop()
    answer = invoke(["doctor", "--data-dir", str(kept.data_dir), "--json"])
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.output)["findings"] == []
