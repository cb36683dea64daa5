"""Export subscriptions: set up with the official client, and what the pipeline gets of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import google.pubsub_v1 as gapic
import grpc
import pytest
from google.api_core.exceptions import (
    FailedPrecondition,
    InvalidArgument,
    MethodNotImplemented,
    NotFound,
)
from pyroaring import BitMap64

from fanlog.v1 import export_pb2 as pb
from server.conftest import PATIENCE_S, RunningServer
from server.registry import JSON, JSON_TYPE, ORDER_JSON, Registry
from server.unique import unique

TABLE = {"table": "shop.orders", "write_metadata": True}
FILES = {"bucket": "box", "filename_prefix": "a/", "avro_config": {"write_metadata": True}}
ACTIVE = 1


class ExportsClient:
    """fanlog.v1.Exports of one server."""

    def __init__(self, server: RunningServer) -> None:
        self._channel = server.channel()

    def close(self) -> None:
        self._channel.close()

    def call(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self._channel.unary_unary(f"/fanlog.v1.Exports/{method}")
        return answer.FromString(call(request.SerializeToString(), timeout=PATIENCE_S))

    def names(self) -> dict[str, int]:
        answer = self.call("ListExports", pb.ListExportsRequest(), pb.ListExportsResponse)
        return {one.subscription: one.id for one in answer.exports}

    def answer(self, subscription: str) -> Any:
        return self.call(
            "GetBatch", pb.GetBatchRequest(subscription=subscription), pb.GetBatchResponse
        )

    def batch(self, subscription: str) -> tuple[int, list[int]] | None:
        """Number and offsets of the batch under way, of all partitions."""
        answer = self.answer(subscription)
        if not answer.HasField("batch"):
            return None
        offsets = [BitMap64.deserialize(one.set.bitmap) for one in answer.batch.offsets]
        return answer.batch.number, [offset for some in offsets for offset in some]

    def advance(self, subscription: str, number: int) -> int:
        request = pb.AdvanceRequest(subscription=subscription, number=number)
        return int(self.call("Advance", request, pb.AdvanceResponse).acknowledged)

    def report(self, subscription: str, state: str, reason: str = "") -> None:
        request = pb.ReportExportRequest(subscription=subscription, state=state, reason=reason)
        self.call("ReportExport", request, pb.ReportExportResponse)


@pytest.fixture
def exports(server) -> Iterator[ExportsClient]:
    client = ExportsClient(server)
    yield client
    client.close()


def update(server: RunningServer, subscription: str, *paths: str, **fields: Any) -> Any:
    return server.subscriber.update_subscription(
        request={
            "subscription": {"name": subscription} | fields,
            "update_mask": {"paths": paths or list(fields)},
        }
    )


# Settings.


def test_a_table_is_asked_for_and_shown(server):
    name = server.subscription(server.topic(), bigquery_config=TABLE)
    found = server.subscriber.get_subscription(subscription=name)
    assert found.bigquery_config == gapic.BigQueryConfig(**TABLE, state=ACTIVE)
    assert found.state == gapic.Subscription.State.ACTIVE
    assert not found.push_config.push_endpoint
    listed = server.subscriber.list_subscriptions(project="/".join(name.split("/")[:2]))
    assert [one.bigquery_config for one in listed if one.name == name] == [found.bigquery_config]


def test_files_are_asked_for_and_shown(server):
    name = server.subscription(server.topic(), cloud_storage_config=FILES)
    found = server.subscriber.get_subscription(subscription=name).cloud_storage_config
    assert found == gapic.CloudStorageConfig(**FILES, state=ACTIVE, max_duration={"seconds": 300})
    # What was shown can be sent back.
    again = server.subscription(server.topic(), cloud_storage_config=found)
    assert server.subscriber.get_subscription(subscription=again).cloud_storage_config == found


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"bigquery_config": {"write_metadata": True}}, InvalidArgument, "table: empty"),
        ({"cloud_storage_config": {"filename_prefix": "a"}}, InvalidArgument, "bucket: empty"),
        (
            {"bigquery_config": TABLE | {"use_table_schema": True}},
            MethodNotImplemented,
            "use_table_schema: tables are made here",
        ),
        (
            {"bigquery_config": TABLE | {"service_account_email": "a@b"}},
            MethodNotImplemented,
            "service_account_email: a setting of Google's cloud",
        ),
        ({"bigquery_config": TABLE, "cloud_storage_config": FILES}, InvalidArgument, "only one"),
        (
            {"bigquery_config": TABLE, "push_config": {"push_endpoint": "http://127.0.0.1:9"}},
            InvalidArgument,
            "only one",
        ),
        (
            {"bigquery_config": TABLE | {"use_topic_schema": True}},
            FailedPrecondition,
            "use_topic_schema: topic .* has no schema",
        ),
    ],
)
def test_what_cannot_be_is_refused(server, fields, error, sentence):
    with pytest.raises(error, match=sentence):
        server.subscription(server.topic(), **fields)


def test_avro_files_need_an_avro_schema(server):
    schema = Registry(server).create(ORDER_JSON, JSON_TYPE)
    topic = server.topic(schema_settings={"schema": schema.name, "encoding": JSON})
    server.subscription(topic, bigquery_config=TABLE | {"use_topic_schema": True})
    files = {"bucket": "box", "avro_config": {"use_topic_schema": True}}
    with pytest.raises(FailedPrecondition, match="is of type JSON"):
        server.subscription(topic, cloud_storage_config=files)


def test_from_pull_to_table_to_files_and_back(server, exports):
    topic = server.topic()
    name = server.subscription(topic)
    server.publish(topic, b"one", b"two")
    [held] = server.pull(name, max_messages=1)
    update(server, name, bigquery_config=TABLE)
    with pytest.raises(FailedPrecondition, match="exports its messages and cannot be pulled from"):
        server.pull(name)
    with pytest.raises(FailedPrecondition, match="exports its messages"):
        next(
            iter(
                server.subscriber.streaming_pull(
                    iter([{"subscription": name, "stream_ack_deadline_seconds": 10}])
                )
            )
        )
    with pytest.raises(InvalidArgument, match="only one of them can be set"):
        update(server, name, cloud_storage_config=FILES)
    assert exports.batch(name) == (1, [0, 1])
    found = update(
        server, name, "bigquery_config", "cloud_storage_config", cloud_storage_config=FILES
    )
    assert not found.bigquery_config.table
    assert found.cloud_storage_config.bucket == "box"
    # A batch is for what was asked for when it was made.
    assert exports.answer(name).batch.WhichOneof("target") == "table"
    update(server, name, "cloud_storage_config")
    with pytest.raises(grpc.RpcError, match="there is nothing to export"):
        exports.batch(name)
    server.ack(name, [held])
    assert sorted(one.message.data for one in server.drain(name, 1)) == [b"two"]
    update(server, name, bigquery_config=TABLE)
    assert exports.batch(name) is None
    server.publish(topic, b"three")
    assert exports.batch(name) == (2, [2])


# What the pipeline gets.


def test_a_batch_stays_until_it_is_advanced_past(server, exports):
    topic, name = server.topic_and_subscription(bigquery_config=TABLE)
    assert exports.names()[name] == exports.answer(name).id
    assert exports.batch(name) is None
    server.publish(topic, b"0", b"1")
    assert exports.batch(name) == (1, [0, 1])
    server.publish(topic, b"2")
    assert exports.batch(name) == (1, [0, 1])
    with pytest.raises(grpc.RpcError, match="has no batch 2 under way; the last one was 1"):
        exports.advance(name, 2)
    assert exports.advance(name, 1) == 2
    assert exports.advance(name, 1) == 0
    assert exports.answer(name).advanced == 1
    assert exports.batch(name) == (2, [2])
    assert exports.advance(name, 2) == 1
    assert exports.batch(name) is None
    server.await_drained(name)


def test_a_batch_survives_a_restart(start_server):
    server = start_server()
    topic, name = server.topic_and_subscription(bigquery_config=TABLE)
    server.publish(topic, b"0", b"1")
    client = ExportsClient(server)
    assert client.batch(name) == (1, [0, 1])
    time = client.answer(name).batch.time
    client.close()
    server.publish(topic, b"2")
    server.restart()
    client = ExportsClient(server)
    assert client.batch(name) == (1, [0, 1])
    assert client.answer(name).batch.time == time
    assert client.advance(name, 1) == 2
    client.close()
    server.restart()
    client = ExportsClient(server)
    assert client.advance(name, 1) == 0
    assert client.batch(name) == (2, [2])
    client.close()


def test_filters_and_patterns_are_honoured(server, exports):
    word = unique("word")
    name = server.subscription(
        _pattern(server, word),
        bigquery_config=TABLE,
        filter='attributes.kind = "a"',
    )
    topics = [server.topic(name=_topic(name, f"{word}.{n}")) for n in "xy"]
    for topic in topics:
        for kind in "abab":
            server.publish(topic, b"", kind=kind)
    answer = exports.answer(name)
    found = {one.topic: list(BitMap64.deserialize(one.set.bitmap)) for one in answer.batch.offsets}
    assert found == {topic: [0, 2] for topic in topics}
    assert exports.advance(name, 1) == 4
    server.await_drained(name)


def _pattern(server: RunningServer, word: str) -> str:
    topic = server.topic()
    return f"{topic.rpartition('/')[0]}/{word}.*"


def _topic(subscription: str, topic_id: str) -> str:
    return f"{'/'.join(subscription.split('/')[:2])}/topics/{topic_id}"


def test_a_seek_back_is_exported_again(server, exports):
    topic = server.topic(message_retention_duration={"seconds": 3600})
    name = server.subscription(topic, bigquery_config=TABLE)
    server.publish(topic, b"0", b"1")
    assert exports.batch(name) == (1, [0, 1])
    exports.advance(name, 1)
    server.subscriber.seek(request={"subscription": name, "time": {"seconds": 1}})
    assert exports.batch(name) == (2, [0, 1])


def test_files_wait_until_they_are_full_or_old(start_server):
    from fanlog.broker.clock import ManualClock

    server = start_server("memory", ManualClock())
    topic, name = server.topic_and_subscription(
        cloud_storage_config={"bucket": "box", "max_messages": 1_000, "max_bytes": 50_000}
    )
    client = ExportsClient(server)
    server.publish(topic, *[b"x"] * 999)
    assert client.batch(name) is None
    server.publish(topic, *[b"x"] * 600)
    assert client.batch(name) == (1, list(range(1_000)))
    client.advance(name, 1)
    assert client.batch(name) is None
    server.advance(299)
    assert client.batch(name) is None
    server.advance(1)
    assert client.batch(name) == (2, list(range(1_000, 1_599)))
    client.advance(name, 2)
    server.publish(topic, b"x" * 60_000)
    assert client.batch(name) == (3, [1_599])
    client.close()


@pytest.mark.parametrize("reason", ["two\nlines\n", "µ: größer als 1", "bell\x07", "\u2028", ""])
def test_any_reason_can_be_shown(server, exports, reason):
    """What others say of their errors is not always a line of ASCII, as metadata has to be."""
    name = server.subscription(server.topic(), bigquery_config={"table": unique("t")})
    exports.report(name, "NOT_FOUND", reason)
    shown = server.subscriber.get_subscription(subscription=name, retry=None)
    assert shown.bigquery_config.state.name == "NOT_FOUND"


def test_trouble_is_shown_until_it_is_over(server, exports):
    topic, name = server.topic_and_subscription(bigquery_config=TABLE)
    exports.report(name, "SCHEMA_MISMATCH", "a column of another type")
    found = server.subscriber.get_subscription(subscription=name)
    assert found.state == gapic.Subscription.State.RESOURCE_ERROR
    assert found.bigquery_config.state == gapic.BigQueryConfig.State.SCHEMA_MISMATCH
    with pytest.raises(grpc.RpcError, match="is not one of ACTIVE"):
        exports.report(name, "SAD")
    server.publish(topic, b"0")
    exports.batch(name)
    exports.advance(name, 1)
    found = server.subscriber.get_subscription(subscription=name)
    assert found.bigquery_config.state == gapic.BigQueryConfig.State.ACTIVE


def test_one_that_is_deleted_or_detached_is_no_export(server, exports):
    topic, name = server.topic_and_subscription(bigquery_config=TABLE)
    server.publish(topic, b"0")
    exports.batch(name)
    server.publisher.detach_subscription(request={"subscription": name})
    assert name not in exports.names()
    with pytest.raises(grpc.RpcError, match="detached"):
        exports.advance(name, 1)
    server.subscriber.delete_subscription(subscription=name)
    with pytest.raises(NotFound):
        server.subscriber.get_subscription(subscription=name)
    server.subscriber.create_subscription(
        request={"name": name, "topic": topic, "bigquery_config": TABLE}
    )
    server.publish(topic, b"1")
    assert exports.batch(name) == (1, [1])
