"""Topics that keep messages for years, in the lake."""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition, InvalidArgument
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.lake import rewrites
from fanlog.lake.location import Location
from fanlog.server.resource_file import ensure_resources, read_resources
from server.conftest import PATIENCE_S, PROJECT, RunningServer
from server.tiered import DAY, data, numbered
from server.unique import unique

YEAR = 365 * DAY
CENTURY = 100 * YEAR
A_LAKE = r"31 days\) are allowed, and up to 3153600000 s \(100 years\) where the broker has a lake"


def topic_name(topic_id: str) -> str:
    return f"projects/{PROJECT}/topics/{topic_id}"


def lasting(seconds: float) -> Any:
    return Duration(seconds=int(seconds))


def update(server: RunningServer, name: str, path: str, **fields: Any) -> Any:
    request = {"topic": {"name": name, **fields}, "update_mask": {"paths": [path]}}
    return server.publisher.update_topic(request=request)


def rest(server: RunningServer, verb: str, path: str, body: Any) -> tuple[int, Any]:
    request = urllib.request.Request(server.http(path), json.dumps(body).encode(), method=verb)
    request.add_header("content-type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def without_lake(server: RunningServer) -> None:
    server.stop()
    server._config = replace(server._config, lake="")
    server.start()


class TestWithALake:
    @pytest.mark.parametrize("seconds", [31 * DAY + 1, 10 * YEAR, CENTURY])
    def test_created_and_updated(self, tiered, seconds):
        server = tiered.server
        name = server.topic(message_retention_duration=lasting(seconds))
        other = server.topic()
        update(
            server, other, "message_retention_duration", message_retention_duration=lasting(seconds)
        )
        server.restart()
        for one in (name, other):
            shown = server.publisher.get_topic(topic=one).message_retention_duration
            assert shown.total_seconds() == seconds

    def test_over_rest(self, tiered):
        server = tiered.server
        name = topic_name(unique("years"))
        text = f"{int(10 * YEAR)}s"
        status, made = rest(server, "PUT", f"/v1/{name}", {"messageRetentionDuration": text})
        assert (status, made["messageRetentionDuration"]) == (200, text)
        short = unique("years")
        status, _ = rest(server, "POST", "/v1/topics", {"name": short})
        assert status == 201
        fields = {"message_retention_duration": text}
        status, made = rest(server, "PATCH", f"/v1/topics/{short}", fields)
        assert (status, made["message_retention_duration"]) == (200, text)

    def test_of_a_resources_file(self, tiered, tmp_path):
        path = tmp_path / "resources.toml"
        path.write_text(f'[topics.years]\nmessage_retention_duration = "{int(YEAR)}s"\n')
        wanted = read_resources(path, "test")
        tiered.server.run(ensure_resources(tiered.server.broker, wanted))
        made = tiered.server.publisher.get_topic(topic=topic_name("years"))
        assert made.message_retention_duration.total_seconds() == YEAR

    @pytest.mark.parametrize("seconds", [CENTURY + 1, 599])
    def test_a_hundred_years_at_most(self, tiered, seconds):
        with pytest.raises(InvalidArgument, match=A_LAKE):
            tiered.server.topic(message_retention_duration=lasting(seconds))

    def test_subscriptions_are_as_ever(self, tiered):
        server = tiered.server
        with pytest.raises(InvalidArgument, match=r"\(31 days\) are allowed \["):
            server.subscription(server.topic(), message_retention_duration=lasting(31 * DAY + 1))

    def test_a_topic_kept_out_of_the_lake_is_as_without_one(self, tiered):
        server = tiered.server
        long, off = lasting(YEAR), {"fanlog-archive": "off"}
        with pytest.raises(InvalidArgument, match="fanlog-archive keeps this topic out of it"):
            server.topic(message_retention_duration=long, labels=off)
        name = server.topic(message_retention_duration=long)
        with pytest.raises(InvalidArgument, match="fanlog-archive keeps this topic out of it"):
            update(server, name, "labels", labels=off)
        kept_out = server.topic(labels=off)
        with pytest.raises(InvalidArgument, match="fanlog-archive keeps this topic out of it"):
            update(
                server,
                kept_out,
                "message_retention_duration",
                message_retention_duration=long,
            )

    def test_messages_are_kept_sought_and_let_go_of(self, tiered):
        server = tiered.server
        topic = server.topic(message_retention_duration=lasting(10 * YEAR))
        name = server.subscription(
            topic, message_retention_duration=lasting(600), expiration_policy={}
        )
        for year in range(5):
            server.publish(topic, b"%d" % year)
            tiered.archive()
            server.advance(YEAR)
        server.drain(name, 5)
        tiered.pass_time(DAY)
        assert tiered.tiers(topic) == (0, 5, 5, 5)
        server.restart()
        tiered.server.await_lake()
        # As old as they are, a seek brings them back, and sweeps leave them alone.
        time = Timestamp(seconds=1_000_000 + int(1.5 * YEAR))
        server.subscriber.seek(request={"subscription": name, "time": time})
        tiered.pass_time(DAY)
        assert data(server.drain(name, 3)) == numbered(2, 5)
        # The first two are older than ten years one day, and the expire job finds their files.
        tiered.pass_time(6.5 * YEAR)
        assert tiered.tiers(topic) == (2, 5, 5, 5)
        starts = {tiered.partition(topic): 2}
        _, files = rewrites.files_of(Location.parse(str(tiered.lake)))
        assert len(rewrites.plan_expiry(files, starts)) >= 2

    def test_a_snapshot_of_an_old_backlog_is_refused(self, tiered):
        """As everywhere: it would live for seven days from its oldest message on."""
        server = tiered.server
        topic = server.topic(message_retention_duration=lasting(10 * YEAR))
        name = server.subscription(topic, expiration_policy={})
        server.publish(topic, *numbered(0, 3))
        tiered.archive()
        tiered.pass_time(YEAR)
        request = {"name": "projects/test/snapshots/old", "subscription": name}
        with pytest.raises(FailedPrecondition, match="is too old: the snapshot would expire"):
            server.subscriber.create_snapshot(request=request)
        server.drain(name, 3)
        server.subscriber.create_snapshot(request=request)
        # What is published from then on is in it.
        server.publish(topic, b"3")
        server.drain(name, 1)
        server.subscriber.seek(request={"subscription": name, "snapshot": request["name"]})
        assert data(server.drain(name, 1)) == [b"3"]


class TestWithoutOne:
    def test_the_refusal_says_that_a_lake_allows_more(self, start_server):
        server = start_server("memory")
        with pytest.raises(InvalidArgument, match=A_LAKE):
            server.topic(message_retention_duration=lasting(31 * DAY + 1))
        name = server.topic()
        with pytest.raises(InvalidArgument, match=A_LAKE):
            update(
                server, name, "message_retention_duration", message_retention_duration=lasting(YEAR)
            )
        status, answer = rest(
            server,
            "PUT",
            f"/v1/{topic_name(unique('years'))}",
            {"messageRetentionDuration": f"{int(YEAR)}s"},
        )
        assert status == 400
        assert "where the broker has a lake (--lake)" in answer["error"]["message"]

    def test_a_topic_of_years_is_kept_and_said(self, tiered, caplog):
        server = tiered.server
        topic = server.topic(message_retention_duration=lasting(10 * YEAR))
        server.publish(topic, *numbered(0, 3))
        tiered.archive()
        with caplog.at_level(logging.WARNING, logger="fanlog.server"):
            without_lake(server)
        [said] = [one for one in caplog.messages if "action=kept_long" in one]
        assert f"topics=1 first={topic}" in said
        server.advance(YEAR)
        server.sweep()
        assert server.store.bounds(tiered.partition(topic)).start == 0
        name = server.subscription(topic, labels={"fanlog-start": "earliest"})
        assert data(server.drain(name, 3)) == numbered(0, 3)
        # It may be changed otherwise, or be made to keep less; not to keep more.
        assert update(server, topic, "labels", labels={"a": "b"}).labels == {"a": "b"}
        with pytest.raises(InvalidArgument, match=A_LAKE):
            update(
                server,
                topic,
                "message_retention_duration",
                message_retention_duration=lasting(11 * YEAR),
            )
        update(server, topic, "message_retention_duration", message_retention_duration=lasting(DAY))
