"""`--resources FILE`: schemas, topics and subscriptions that are there when the server starts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import google.pubsub_v1 as gapic
import pytest

from fanlog.errors import ConfigError
from fanlog.push.senders import host_resolver
from fanlog.server.resource_file import ensure_resources, read_resources
from server.conftest import RunningServer
from server.registry import ONE, TWO, Registry
from server.unique import unique

TOML = """
[schemas.order]
type = "AVRO"
definition = '"string"'
compatibility = "backward"

[topics.orders]
labels = { team = "shop" }
message_retention_duration = "86400s"
schema_settings = { schema = "order", encoding = "BINARY" }

[topics.orders-dead]

[topics."projects/elsewhere/topics/far"]

[subscriptions.billing]
topic = "orders"
ack_deadline_seconds = 30
retain_acked_messages = true
enable_message_ordering = true
enable_exactly_once_delivery = true
expiration_policy = {}
dead_letter_policy = { dead_letter_topic = "orders-dead", max_delivery_attempts = 7 }
retry_policy = { minimum_backoff = "1.5s", maximum_backoff = "60s" }
labels = { fanlog-start = "earliest" }

[subscriptions.far]
topic = "projects/elsewhere/topics/far"

[subscriptions.large]
topic = "order*.#"
filter = 'payload.amount >= 1000'
"""

YAML = """
schemas:
  order:
    type: AVRO
    definition: '"string"'
    compatibility: BACKWARD
topics:
  orders:
    labels: {team: shop}
    messageRetentionDuration: 86400s
    schemaSettings: {schema: order, encoding: BINARY}
  orders-dead:
  projects/elsewhere/topics/far:
subscriptions:
  billing:
    topic: orders
    ackDeadlineSeconds: 30
    retainAckedMessages: true
    enableMessageOrdering: true
    enableExactlyOnceDelivery: true
    expirationPolicy: {}
    deadLetterPolicy:
      deadLetterTopic: orders-dead
      maxDeliveryAttempts: 7
    retryPolicy:
      minimumBackoff: 1.5s
      maximumBackoff: 60s
    labels:
      fanlog-start: earliest
  far:
    topic: projects/elsewhere/topics/far
  large:
    topic: "order*.#"
    filter: payload.amount >= 1000
"""


class Started:
    """A project of its own on a server, and resources files for it."""

    def __init__(self, server: RunningServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self.project = unique("resources")
        self.publisher = server.publisher
        self.subscriber = server.subscriber

    def file(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text)
        return path

    def ensure(self, name: str, text: str) -> None:
        wanted = read_resources(self.file(name, text), self.project)
        self._server.run(ensure_resources(self._server.broker, wanted))

    def topic(self, name: str) -> Any:
        return self.publisher.get_topic(topic=f"projects/{self.project}/topics/{name}")

    def subscription(self, name: str) -> Any:
        full = f"projects/{self.project}/subscriptions/{name}"
        return self.subscriber.get_subscription(subscription=full)

    def schema(self, name: str) -> Any:
        full = f"projects/{self.project}/schemas/{name}"
        return Registry(self._server).get(full)

    def compatibility(self, name: str) -> str:
        full = f"projects/{self.project}/schemas/{name}"
        return self._server.broker.hard.catalog.schemas.schema(full).compatibility


@pytest.fixture
def started(server: RunningServer, tmp_path: Path) -> Started:
    return Started(server, tmp_path)


@pytest.mark.parametrize(("name", "text"), [("r.toml", TOML), ("r.yaml", YAML), ("r.yml", YAML)])
def test_everything_it_names_is_made(started, name, text):
    started.ensure(name, text)
    topic = started.topic("orders")
    assert topic.labels == {"team": "shop"}
    assert topic.message_retention_duration.total_seconds() == 86400
    billing = started.subscription("billing")
    project = started.project
    assert topic.schema_settings.schema == f"projects/{project}/schemas/order"
    assert topic.schema_settings.encoding == gapic.Encoding.BINARY
    schema = started.schema("order")
    assert (schema.type_, schema.definition) == (gapic.Schema.Type.AVRO, '"string"')
    assert started.compatibility("order") == "BACKWARD"
    assert billing.topic == topic.name
    assert billing.ack_deadline_seconds == 30
    assert billing.retain_acked_messages
    assert billing.enable_message_ordering
    assert billing.enable_exactly_once_delivery
    assert "ttl" not in billing.expiration_policy
    assert billing.dead_letter_policy.dead_letter_topic == f"projects/{project}/topics/orders-dead"
    assert billing.dead_letter_policy.max_delivery_attempts == 7
    assert billing.retry_policy.minimum_backoff.total_seconds() == 1.5
    assert started.subscription("far").topic == "projects/elsewhere/topics/far"
    large = started.subscription("large")
    assert large.topic == f"projects/{project}/topics/order*.#"
    assert large.filter == "payload.amount >= 1000"


def test_a_second_start_changes_nothing_and_says_nothing(started, caplog):
    started.ensure("r.toml", TOML)
    before = started.subscription("billing")
    caplog.set_level(logging.INFO, "fanlog.resources")
    caplog.clear()
    started.ensure("r.toml", TOML)
    assert started.subscription("billing") == before
    assert caplog.messages == []


def test_another_filter_or_pattern_is_said_and_left_as_it_is(started, caplog):
    started.ensure("r.toml", TOML)
    before = started.subscription("large")
    caplog.clear()
    started.ensure("r.toml", TOML.replace(">= 1000", ">= 2000").replace("order*.#", "orders.#"))
    assert started.subscription("large") == before
    said = [record.getMessage() for record in caplog.records]
    assert [message.partition("field=")[2].split()[0] for message in said] == ["topic", "filter"]
    assert said[1].endswith("wanted='payload.amount >= 2000' present='payload.amount >= 1000'")


def test_a_filter_that_says_nothing_is_none(started, caplog):
    text = '[topics.orders]\n[subscriptions.audit]\ntopic = "orders"\nfilter = "{}"\n'
    for blank in ("", "  "):
        started.ensure("r.toml", text.replace("{}", blank))
        assert started.subscription("audit").filter == ""
    assert "differs" not in caplog.text


def test_a_pattern_that_looks_as_if_it_matched_is_said(started, caplog):
    topics = "[topics.OrderPlaced]\n[topics.OrderSent]\n"
    started.ensure("r.toml", f'{topics}[subscriptions.audit]\ntopic = "Order.*"\n')
    assert "'Order.*' matches no topic yet" in caplog.text
    assert "'Order*' would match 'OrderPlaced', 'OrderSent'" in caplog.text


def test_settings_of_push_and_a_name_that_does_not_resolve(started, caplog, monkeypatch):
    async def nowhere(_: str) -> list[str]:
        raise OSError(-2, "Name or service not known")

    monkeypatch.setattr(host_resolver, "lookup", nowhere)
    text = """
[topics.orders]
[subscriptions.hook]
topic = "orders"
push_config = { push_endpoint = "http://nowhere.test-e.org/" }
[subscriptions.hook.labels]
fanlog-push-body = "event"
fanlog-push-timeout = "60"
fanlog-retry = "first-immediate"
"""
    for _ in range(2):
        started.ensure("r.toml", text)
    assert dict(started.subscription("hook").labels) == {
        "fanlog-push-body": "event",
        "fanlog-push-timeout": "60",
        "fanlog-retry": "first-immediate",
    }
    assert caplog.text.count("'nowhere.test-e.org', does not resolve") == 1
    assert "differs" not in caplog.text


def test_what_differs_is_said_and_left_as_it_is(started, caplog):
    started.ensure("r.toml", TOML)
    before = started.topic("orders"), started.subscription("billing")
    caplog.clear()
    started.ensure(
        "r.toml",
        """
        [topics.orders]
        labels = { team = "sales" }
        message_retention_duration = "86400s"
        schema_settings = { schema = "order", encoding = "BINARY" }
        [topics.new]
        [subscriptions.billing]
        topic = "new"
        ack_deadline_seconds = 31
        retain_acked_messages = true
        enable_message_ordering = true
        enable_exactly_once_delivery = true
        expiration_policy = {}
        retry_policy = { minimum_backoff = "1.5s", maximum_backoff = "60s" }
        labels = { fanlog-start = "earliest" }
        """,
    )
    assert (started.topic("orders"), started.subscription("billing")) == before
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    said = {record.getMessage() for record in warnings}
    fields = {message.partition("field=")[2].split()[0] for message in said}
    assert fields == {"labels", "topic", "ack_deadline_s", "dead_letter"}
    assert any("'sales'" in message and "'shop'" in message for message in said)
    assert any("wanted=31 present=30" in message for message in said)
    # What is new was made.
    assert started.topic("new")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.toml", "[topics", ["bad.toml", "malformed"]),
        ("bad.yaml", "topics: [", ["bad.yaml", "malformed"]),
        ("list.yaml", "- a\n- b\n", ["list.yaml", "table"]),
        ("empty.yaml", "", ["empty.yaml", "table"]),
        ("names.yaml", "topics: [orders]\n", ["names.yaml", "topics", "table of names"]),
        ("section.toml", "[topic.orders]\n", ["section.toml", "'topic'"]),
        ("value.yaml", "topics: {orders: 7}\n", ["value.yaml", "topic 'orders'", "table"]),
        ("name.toml", "[topics.1st]\n", ["name.toml", "topic '1st'", "1st"]),
        ("field.toml", "[topics.orders]\ncolour = 1\n", ["topic 'orders'", "colour"]),
        (
            "type.toml",
            '[subscriptions.s-1]\ntopic = "t-1"\nack_deadline_seconds = "soon"\n',
            ["type.toml", "subscription 's-1'", "ack_deadline_seconds"],
        ),
        (
            "range.toml",
            '[subscriptions.s-1]\ntopic = "t-1"\nack_deadline_seconds = 5\n',
            ["range.toml", "subscription 's-1'", "ack_deadline_seconds: 5"],
        ),
        (
            "filter.toml",
            '[subscriptions.s-1]\ntopic = "t-1"\nfilter = "a == 1"\n',
            ["subscription 's-1'", "filter: expected", "at column 3"],
        ),
        (
            "pattern.toml",
            '[subscriptions.s-1]\ntopic = "t.**"\n',
            ["subscription 's-1'", "topic: the pattern 't.**'"],
        ),
        ("topic.toml", "[subscriptions.s-1]\n", ["topic.toml", "subscription 's-1'", "topic"]),
        (
            "retention.yaml",
            "topics: {orders: {message_retention_duration: 5s}}\n",
            ["topic 'orders'", "message_retention_duration: 5 s"],
        ),
        (
            "named.toml",
            '[topics.orders]\nname = "projects/p/topics/other"\n',
            ["topic 'orders'", "name"],
        ),
        (
            "number.yaml",
            "subscriptions: {s-1: {topic: 7}}\n",
            ["number.yaml", "subscription 's-1'", "topic"],
        ),
        ("label.yaml", "topics: {orders: {labels: {a: 1}}}\n", ["topic 'orders'", "labels"]),
        ("schema.toml", "[schemas.order]\n", ["schema 'order'", "type: '' is not one of AVRO"]),
        ("schema.yaml", "schemas: {order: }\n", ["schema 'order' must be a table"]),
        (
            "xml.toml",
            '[schemas.order]\ntype = "XML"\ndefinition = "x"\n',
            ["schema 'order'", "type: 'XML' is not one of AVRO, PROTOCOL_BUFFER, JSON"],
        ),
        (
            "wrong.toml",
            '[schemas.order]\ntype = "AVRO"\ndefinition = "{"\n',
            ["schema 'order'", "the Avro definition is not JSON"],
        ),
        (
            "missing.toml",
            '[schemas.order]\ntype = "AVRO"\n',
            ["schema 'order'", "either this or definition_file is needed"],
        ),
        (
            "nowhere.toml",
            '[schemas.order]\ntype = "AVRO"\ndefinition_file = "none.avsc"\n',
            ["schema 'order'", "definition_file: ", "none.avsc cannot be read: No such file"],
        ),
        (
            "both.toml",
            '[schemas.order]\ntype = "AVRO"\ndefinition = "x"\ndefinition_file = "y"\n',
            ["schema 'order'", "either this or definition_file is needed"],
        ),
        (
            "twice.toml",
            '[schemas.order]\ntype = "AVRO"\ndefinition_file = "x"\ndefinitionFile = "y"\n',
            ["schema 'order'", "definitionFile: is given twice"],
        ),
        (
            "level.toml",
            '[schemas.order]\ntype = "AVRO"\ndefinition = \'"int"\'\ncompatibility = "HALF"\n',
            ["schema 'order'", "compatibility: 'HALF' is not one of NONE"],
        ),
        ("field.yaml", "schemas: {order: {colour: red}}\n", ["colour: no such field of a schema"]),
        ("number.toml", "[schemas.order]\ntype = 2\n", ["schema 'order'", "type: must be a text"]),
        (
            "other.toml",
            '[schemas.order]\nname = "projects/p/schemas/other"\n',
            ["schema 'order'", "name"],
        ),
        (
            "encoding.toml",
            '[topics.orders]\nschema_settings = { schema = "order" }\n',
            ["topic 'orders'", "schema_settings.encoding"],
        ),
    ],
)
def test_mistakes_are_named_by_file_resource_and_field(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_resources(path, "p")
    assert str(path) in str(refused.value)
    for word in words:
        assert word in str(refused.value)


def test_a_time_that_yaml_reads_for_itself(tmp_path):
    path = tmp_path / "time.yaml"
    path.write_text(
        "subscriptions: {s-1: {topic: t-1, labels: {fanlog-start: 2026-01-31T12:00:00Z}}}"
    )
    [subscription] = read_resources(path, "p").subscriptions
    assert subscription.start == 1769860800.0


def test_bytes_that_are_not_text(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b'[topics.orders]\nlabels = {a = "\xe9"}\n')
    with pytest.raises(ConfigError, match=r"latin\.toml is malformed"):
        read_resources(path, "p")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read"):
        read_resources(tmp_path / "nowhere.toml", "p")


def test_a_subscription_whose_topic_is_nowhere(started):
    text = '[topics.orders]\n[subscriptions.lost]\ntopic = "nowhere"\n'
    with pytest.raises(
        ConfigError, match=r"lost\.toml: subscription '.*/lost': topic '.*/nowhere'"
    ):
        started.ensure("lost.toml", text)
    # Made in the order of the file: what came before it is there.
    assert started.topic("orders")


def test_a_definition_of_its_own_file(started, caplog):
    started.file("order.avsc", ONE)
    text = '[schemas.order]\ntype = "AVRO"\ndefinition_file = "order.avsc"\n'
    started.ensure("r.toml", text)
    before = started.schema("order")
    assert before.definition == ONE
    caplog.clear()
    # Another one is no revision: that is for somebody to commit.
    started.file("order.avsc", TWO)
    started.ensure("r.toml", text + 'compatibility = "FULL"\n')
    assert started.schema("order") == before
    said = [record.getMessage() for record in caplog.records]
    assert [one.partition("field=")[2].split()[0] for one in said] == [
        "definition",
        "compatibility",
    ]


def test_a_topic_whose_schema_is_nowhere(started):
    text = '[topics.orders]\nschema_settings = { schema = "none", encoding = "JSON" }\n'
    with pytest.raises(ConfigError, match=r"topic '.*/orders': schema '.*/none' does not exist"):
        started.ensure("r.toml", text)


def test_a_topic_whose_schema_was_deleted_differs(started, server, caplog):
    text = '[schemas.order]\ntype = "AVRO"\ndefinition = \'"string"\'\n'
    text += '[topics.orders]\nschema_settings = { schema = "order", encoding = "JSON" }\n'
    started.ensure("r.toml", text)
    Registry(server).client.delete_schema(name=started.schema("order").name)
    caplog.clear()
    started.ensure("r.toml", text)
    # Made again it is another one, which the topic does not have.
    [said] = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert "field=schema_settings" in said
    assert "_deleted-schema_" in said
