"""`fanlog sub` against a server of a few lines."""

from __future__ import annotations

from datetime import UTC, datetime

import grpc
import pytest

from fanlog.cli.output import resource
from fanlog.v1 import replay_pb2
from fanlog.wire import types


@pytest.fixture
def orders(shell):
    shell.run("topic", "create", "orders")
    return "orders"


def test_create_says_only_what_was_said(shell, server, orders):
    output = shell.run("sub", "create", "billing", "--topic", orders)
    assert output.startswith("created subscription projects/fanlog/subscriptions/billing")
    assert server.last(types.Subscription) == types.Subscription(
        name="projects/fanlog/subscriptions/billing", topic="projects/fanlog/topics/orders"
    )


def test_create_with_everything(shell, server, orders):
    shell.run(
        "sub", "create", "billing", "--topic", orders,
        "--filter", "event=order.*",
        "--ack-deadline", "1m",
        "--retention", "2d",
        "--retain-acked",
        "--ordering",
        "--exactly-once",
        "--dead-letter", "failed",
        "--max-attempts", "7",
        "--min-backoff", "1.5s",
        "--max-backoff", "600",
        "--expiration", "30d",
        "--label", "team=shop",
        "--start", "earliest",
    )  # fmt: skip
    sent = server.last(types.Subscription)
    assert sent.filter == "event=order.*"
    assert sent.ack_deadline_seconds == 60
    assert sent.message_retention_duration.seconds == 172_800
    assert sent.retain_acked_messages
    assert sent.enable_message_ordering
    assert sent.enable_exactly_once_delivery
    assert sent.dead_letter_policy.dead_letter_topic == "projects/fanlog/topics/failed"
    assert sent.dead_letter_policy.max_delivery_attempts == 7
    assert sent.retry_policy.minimum_backoff.ToMilliseconds() == 1500
    assert sent.retry_policy.maximum_backoff.seconds == 600
    assert sent.expiration_policy.ttl.seconds == 30 * 86_400
    assert dict(sent.labels) == {"team": "shop", "fanlog-start": "earliest"}


MODES = ["push_config", "bigquery_config", "cloud_storage_config"]


def test_export_to_a_table(shell, server, orders):
    shell.run("sub", "create", "rows", "--topic", orders, "--table", "shop.orders", "--metadata")
    assert (
        server.last(types.Subscription).bigquery_config
        == types.Subscription(
            bigquery_config={"table": "shop.orders", "write_metadata": True}
        ).bigquery_config
    )
    shell.run("sub", "update", "rows", "--table", "t", "--topic-schema", "--drop-unknown")
    update = server.last(types.UpdateSubscriptionRequest)
    config = update.subscription.bigquery_config
    assert (config.table, config.use_topic_schema, config.drop_unknown_fields) == ("t", True, True)
    assert list(update.update_mask.paths) == MODES
    shell.run("sub", "update", "rows", "--no-export")
    update = server.last(types.UpdateSubscriptionRequest)
    assert list(update.update_mask.paths) == MODES[1:]


def test_export_to_files(shell, server, orders):
    shell.run(
        *("sub", "create", "lines", "--topic", orders, "--bucket", "box", "--prefix", "a/"),
        *("--suffix", ".txt", "--datetime-format", "YYYYMMDDhhmmss", "--max-duration", "2m"),
        *("--max-bytes", "5000", "--max-messages", "2000"),
    )
    config = server.last(types.Subscription).cloud_storage_config
    assert config.WhichOneof("output_format") == "text_config"
    assert (config.bucket, config.filename_prefix, config.filename_suffix) == ("box", "a/", ".txt")
    assert config.filename_datetime_format == "YYYYMMDDhhmmss"
    assert (config.max_duration.seconds, config.max_bytes, config.max_messages) == (120, 5000, 2000)
    shell.run("sub", "update", "lines", "--bucket", "box", "--format", "avro", "--metadata")
    config = server.last(types.UpdateSubscriptionRequest).subscription.cloud_storage_config
    assert config.avro_config.write_metadata


@pytest.mark.parametrize(
    "words",
    [
        ("--table", "t", "--bucket", "box"),
        ("--prefix", "a"),
        ("--metadata",),
        ("--drop-unknown",),
        ("--bucket", "box", "--metadata"),
    ],
)
def test_options_of_exports_that_mean_nothing(shell, orders, words):
    shell.refusal("sub", "create", "x", "--topic", orders, *words)


def test_push(shell, server, orders):
    shell.run("sub", "create", "hook", "--topic", orders, "--push", "grpc://example.com:9000")
    sent = server.last(types.Subscription)
    assert sent.push_config.push_endpoint == "grpc://example.com:9000"
    shell.run("sub", "update", "hook", "--push", "https://example.com/hook")
    update = server.last(types.UpdateSubscriptionRequest)
    assert update.subscription.push_config.push_endpoint == "https://example.com/hook"
    assert list(update.update_mask.paths) == MODES
    shell.run("sub", "update", "hook", "--no-push")
    update = server.last(types.UpdateSubscriptionRequest)
    assert not update.subscription.HasField("push_config")
    assert list(update.update_mask.paths) == ["push_config"]


def test_settings_that_are_labels(shell, server, orders):
    shell.run(
        "sub", "create", "hook", "--topic", orders, "--push", "https://example.com/hook",
        "--push-body", "event", "--push-timeout", "1m", "--retry", "first-immediate",
    )  # fmt: skip
    assert dict(server.last(types.Subscription).labels) == {
        "fanlog-push-body": "event",
        "fanlog-push-timeout": "60",
        "fanlog-retry": "first-immediate",
    }
    shell.run("sub", "update", "hook", "--push-body", "plain", "--push-timeout", "5")
    update = server.last(types.UpdateSubscriptionRequest)
    assert dict(update.subscription.labels) == {
        "fanlog-push-body": "plain",
        "fanlog-push-timeout": "5",
    }
    assert list(update.update_mask.paths) == [
        "labels.fanlog-push-body",
        "labels.fanlog-push-timeout",
    ]
    shell.run("sub", "update", "hook", "--retry", "first-immediate")
    update = server.last(types.UpdateSubscriptionRequest)
    assert dict(update.subscription.labels) == {"fanlog-retry": "first-immediate"}
    shell.run("sub", "update", "hook", "--retry", "default")
    update = server.last(types.UpdateSubscriptionRequest)
    assert dict(update.subscription.labels) == {}
    assert list(update.update_mask.paths) == ["labels.fanlog-retry"]


def test_strict_order_is_order_and_a_label(shell, server, orders):
    shell.run("sub", "create", "billing", "--topic", orders, "--strict-order")
    sent = server.last(types.Subscription)
    assert sent.enable_message_ordering
    assert dict(sent.labels) == {"fanlog-ordering": "strict"}


def test_a_schema_revision_is_a_label(shell, server, orders):
    shell.run("sub", "create", "billing", "--topic", orders, "--schema-revision", "5b1c22a9")
    assert dict(server.last(types.Subscription).labels) == {"fanlog-schema-revision": "5b1c22a9"}


def test_dead_letter_auto_is_a_label(shell, server, orders):
    shell.run("sub", "create", "billing", "--topic", orders, "--dead-letter", "auto")
    sent = server.last(types.Subscription)
    assert dict(sent.labels) == {"fanlog-dead-letter": "auto"}
    assert not sent.HasField("dead_letter_policy")


def test_never_expires(shell, server, orders):
    shell.run("sub", "create", "billing", "--topic", orders, "--expiration", "never")
    sent = server.last(types.Subscription)
    assert sent.HasField("expiration_policy")
    assert not sent.expiration_policy.HasField("ttl")
    assert "never" in shell.run("sub", "describe", "billing")
    assert shell.lines("sub", "describe", "billing")[0]["expiration_policy"] == {}


def test_a_pattern_stands_where_a_topic_does(shell, server):
    shell.run("sub", "create", "billing", "--topic", "orders.*.#", "--filter", "-a=1")
    sent = server.last(types.Subscription)
    assert sent.topic == "projects/fanlog/topics/orders.*.#"
    assert sent.filter == "-a=1"
    for command in (["list"], ["describe", "billing"]):
        [shown] = shell.lines("sub", *command)
        assert (shown["topic"], shown["filter"]) == (sent.topic, sent.filter)
        assert "orders.*.#  " in shell.run("sub", *command).replace("\n", "  ")
        assert "-a=1" in shell.run("sub", *command)


def test_several_hints_of_one_call(shell, server):
    shell.run("topic", "create", "orders")
    server.hint = "one thing\nanother"
    shell.run("sub", "create", "billing", "--topic", "orders")
    assert shell.stderr == "hint: one thing\nhint: another\n"


def test_a_hint_is_said_beside_the_result(shell, server):
    server.hint = "'Order.*' matches no topic yet"
    assert shell.lines("sub", "create", "billing", "--topic", "Order.*")
    assert shell.stderr == f"hint: {server.hint}\n"
    server.refusal = grpc.StatusCode.INTERNAL, "no"
    assert "hint" not in shell.refusal("sub", "create", "billing", "--topic", "Order.*")


def test_start_at_a_time_is_rfc_3339_in_utc(shell, server, orders):
    shell.run("sub", "create", "aaa", "--topic", orders, "--start", "2025-01-31T13:00:00+01:00")
    assert server.last(types.Subscription).labels["fanlog-start"] == "2025-01-31T12:00:00.000000Z"


def test_start_some_time_ago(shell, server, orders):
    shell.run("sub", "create", "aaa", "--topic", orders, "--start", "1h")
    start = datetime.fromisoformat(server.last(types.Subscription).labels["fanlog-start"])
    assert 3590 < (datetime.now(UTC) - start).total_seconds() < 3720


def test_list_and_describe(shell, orders):
    shell.run("sub", "create", "billing", "--topic", orders)
    name = "projects/fanlog/subscriptions/billing"
    assert [line["name"] for line in shell.lines("sub", "list")] == [name]
    assert shell.lines("sub", "list", "--topic", orders) == [{"name": name}]
    assert shell.lines("sub", "list", "--topic", "other") == []
    assert name in shell.run("sub", "list")
    assert shell.lines("sub", "describe", "billing")[0]["topic"] == "projects/fanlog/topics/orders"
    assert "projects/fanlog/topics/orders" in shell.run("sub", "describe", "billing")


def test_delete(shell, server):
    shell.run("sub", "delete", "billing")
    request = server.last(types.DeleteSubscriptionRequest)
    assert request.subscription == "projects/fanlog/subscriptions/billing"


class TestUpdate:
    def update(self, shell, server, *options: str) -> tuple[dict[str, object], list[str]]:
        shell.run("sub", "update", "billing", *options)
        request = server.last(types.UpdateSubscriptionRequest)
        fields = resource(request.subscription)
        assert fields.pop("name") == "projects/fanlog/subscriptions/billing"
        return fields, list(request.update_mask.paths)

    def test_only_what_is_named(self, shell, server):
        assert self.update(shell, server, "--filter", "a=1") == ({"filter": "a=1"}, ["filter"])
        assert self.update(shell, server, "--no-filter") == ({}, ["filter"])
        assert self.update(shell, server, "--no-retain-acked") == ({}, ["retain_acked_messages"])
        assert self.update(shell, server, "--no-dead-letter") == ({}, ["dead_letter_policy"])
        assert self.update(shell, server, "--no-backoff") == ({}, ["retry_policy"])

    def test_everything(self, shell, server):
        fields, paths = self.update(
            shell, server,
            "--filter", "a=1",
            "--ack-deadline", "60s",
            "--retention", "1d",
            "--retain-acked",
            "--exactly-once",
            "--dead-letter", "failed",
            "--max-attempts", "7",
            "--min-backoff", "1s",
            "--max-backoff", "1m",
            "--expiration", "never",
        )  # fmt: skip
        assert fields == {
            "filter": "a=1",
            "ack_deadline_seconds": 60,
            "message_retention_duration": "86400s",
            "retain_acked_messages": True,
            "enable_exactly_once_delivery": True,
            "dead_letter_policy": {
                "dead_letter_topic": "projects/fanlog/topics/failed",
                "max_delivery_attempts": 7,
            },
            "retry_policy": {"minimum_backoff": "1s", "maximum_backoff": "60s"},
            "expiration_policy": {},
        }
        assert paths == [
            "filter",
            "ack_deadline_seconds",
            "message_retention_duration",
            "retain_acked_messages",
            "enable_exactly_once_delivery",
            "dead_letter_policy.dead_letter_topic",
            "dead_letter_policy.max_delivery_attempts",
            "retry_policy.minimum_backoff",
            "retry_policy.maximum_backoff",
            "expiration_policy",
        ]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ([], "say what to change"),
            (["--filter", "a=1", "--no-filter"], "not both"),
            (["--no-dead-letter", "--max-attempts", "5"], "--no-dead-letter"),
            (["--no-backoff", "--min-backoff", "5s"], "--no-backoff"),
            (["--ack-deadline", "1.5s"], "whole seconds"),
        ],
    )
    def test_refuses(self, shell, server, options, words):
        assert words in shell.refusal("sub", "update", "billing", *options)
        assert server.requests == []


class TestSeek:
    @pytest.mark.parametrize(
        ("place", "field", "value"),
        [
            (["--snapshot", "before"], "snapshot", "projects/fanlog/snapshots/before"),
            (["--position", "2000000000000"], "position", "2000000000000"),
            (["--message-id", "2000000000007"], "message_id", "2000000000007"),
            (["--begin"], "position", "earliest"),
            (["--end"], "position", "now"),
        ],
    )
    def test_where_to(self, shell, server, place, field, value):
        shell.run("sub", "seek", "billing", *place)
        request = server.last(replay_pb2.SeekSubscriptionRequest)
        assert request.subscription == "projects/fanlog/subscriptions/billing"
        assert request.WhichOneof("target") == field
        assert getattr(request, field) == value

    def test_time(self, shell, server):
        shell.run("sub", "seek", "billing", "--time", "2025-01-31T12:00:00Z")
        request = server.last(replay_pb2.SeekSubscriptionRequest)
        assert request.time.ToJsonString() == "2025-01-31T12:00:00Z"

    def test_what_it_did(self, shell, server):
        name = "projects/fanlog/subscriptions/billing"
        server.moved.acknowledged, server.moved.hint = 4, "nothing was reopened: so it is"
        said = shell.run("sub", "seek", "billing", "--end")
        assert said == (
            f"moved {name} to the end: 0 reopened, 4 acknowledged; nothing was reopened: so it is\n"
        )
        server.moved.reopened, server.moved.hint = 3, ""
        server.moved.reopened_from.FromJsonString("2025-01-31T12:00:00Z")
        said = shell.run("sub", "seek", "billing", "--message-id", "2000000000007")
        assert said == (
            f"moved {name} to message 2000000000007: 3 reopened from 2025-01-31T12:00:00Z on, "
            "4 acknowledged\n"
        )
        assert shell.lines("sub", "seek", "billing", "--begin") == [
            {
                "name": name,
                "place": "the beginning",
                "reopened": 3,
                "acknowledged": 4,
                "reopened_from": "2025-01-31T12:00:00Z",
            }
        ]

    @pytest.mark.parametrize(
        "places",
        [
            [],
            ["--begin", "--end"],
            ["--end", "--time", "1h"],
            ["--position", "x", "--message-id", "y"],
        ],
    )
    def test_one_place_exactly(self, shell, server, places):
        assert "one of --time" in shell.refusal("sub", "seek", "billing", *places)
        assert server.requests == []

    @pytest.mark.parametrize("time", ["yesterday", "2025-01-31T12:00:00", "12:00"])
    def test_bad_time(self, shell, time):
        assert "--time" in shell.refusal("sub", "seek", "billing", "--time", time)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--max-attempts", "5"], "--dead-letter"),
        (["--ack-deadline", "1.5s"], "whole seconds"),
        (["--ack-deadline", "soon"], "not a duration"),
        (["--expiration", "always"], "--expiration"),
        (["--start", "later"], "--start"),
        (["--dead-letter", "a/b"], "projects/{project}/topics/{id}"),
        (["--topic", "orders.**"], "'orders.**'"),
        (["--push-timeout", "20s"], "need --push"),
        (["--push-body", "event"], "need --push"),
        (["--push", "http://a.example", "--push-timeout", "1.5s"], "whole seconds"),
        (
            ["--retry", "first-immediate", "--label", "fanlog-retry=x"],
            "--label fanlog-retry says otherwise",
        ),
    ],
)
def test_create_refuses(shell, server, options, words):
    assert words in shell.refusal("sub", "create", "billing", "--topic", "orders", *options)
    assert server.requests == []
