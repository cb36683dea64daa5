"""Schemas and messages of a few kilobytes that ask for work without end: nobody else waits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.api_core import exceptions

from server.conftest import RunningServer, StartServer
from server.registry import AVRO, BINARY, JSON, JSON_TYPE, PARENT, PROTO, Registry
from server.revised import CASES, LABEL, REASON, World

pytestmark = pytest.mark.filterwarnings("ignore:Unrecognized Type enum value")

#: Takes 60 us for each character that it looks at, with the interpreter held.
SLOW = "([ab]{1,50}){1,50}c"
EMPTY = json.dumps({"type": "record", "name": "Order", "fields": []})


def chain(levels: int, leaf: Any = "null", **more: Any) -> dict[str, Any]:
    """Records that each use the one below twice."""
    made = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": leaf, **more}]}
    for level in range(1, levels + 1):
        fields = [
            {"name": "a", "type": made, **more},
            {"name": "b", "type": f"R{level - 1}", **more},
        ]
        made = {"type": "record", "name": f"R{level}", "fields": fields}
    return made


def bomb(levels: int) -> str:
    """Nothing but defaults inside defaults."""
    made = chain(levels, ["null", "int"])
    return json.dumps(_with_defaults(made) | {"name": "Order"})


def _with_defaults(record: dict[str, Any]) -> dict[str, Any]:
    for field in record["fields"]:
        field["default"] = None if isinstance(field["type"], list) else {}
        if isinstance(field["type"], dict):
            _with_defaults(field["type"])
    return record


@pytest.fixture(scope="module")
def registry(server: RunningServer) -> Registry:
    return Registry(server)


@pytest.mark.parametrize(
    ("kind", "definition", "sentence"),
    [
        (AVRO, {"type": "array", "items": chain(40)}, "takes more than 40010000 steps"),
        (
            JSON_TYPE,
            {"allOf": [{"pattern": f"\\pL{{200}}{n}"} for n in range(390)]},
            "4194304 bytes",
        ),
        (JSON_TYPE, {"allOf": [{"pattern": "\\p{L}{60}"}] * 390}, "8388608 bytes together"),
        (JSON_TYPE, '{"not":' * 1_000 + "{}" + "}" * 1_000, "nested more than 250 levels deep"),
        (PROTO, f"message M {{ optional int32 a = 0x{'9' * 9_000}; }}", "of at most 32 digits"),
    ],
    ids=["records", "patterns", "many-patterns", "levels", "digits"],
)
def test_a_definition_is_refused_on_every_surface(registry, kind, definition, sentence):
    text = definition if isinstance(definition, str) else json.dumps(definition)
    held = registry.server.broker.schemas.definitions.size_bytes
    with pytest.raises(exceptions.InvalidArgument, match=sentence):
        registry.create(text, kind)
    with pytest.raises(exceptions.InvalidArgument, match=sentence):
        registry.client.validate_schema(
            parent=PARENT, schema={"type_": kind, "definition": text, "name": "x"}
        )
    assert registry.server.broker.schemas.definitions.size_bytes == held


def test_what_is_only_validated_is_not_kept(registry):
    definitions = registry.server.broker.schemas.definitions
    held = definitions.size_bytes
    registry.client.validate_schema(
        parent=PARENT, schema={"type_": AVRO, "definition": EMPTY, "name": "x"}
    )
    registry.client.validate_message(
        request={
            "parent": PARENT,
            "schema": {"type_": AVRO, "definition": EMPTY, "name": "x"},
            "message": b"{}",
            "encoding": JSON,
        }
    )
    assert definitions.size_bytes == held


def test_a_message_that_takes_too_many_steps_is_not_published(registry):
    made = registry.create('{"type":"array","items":{"type":"array","items":"null"}}')
    topic = registry.topic(made.name, BINARY)
    registry.server.publish(topic, b"\x02\x06\x00\x00")
    with pytest.raises(exceptions.InvalidArgument) as caught:
        registry.server.publish(topic, b"\x02" + b"\x80\x80\x08\x00" + b"\x00")
    assert "messages[0].data: $[0]: checking the message takes more than 10024 steps" in str(
        caught.value
    )


def test_a_message_that_may_take_long_is_checked_in_another_process(registry):
    """The library holds the interpreter for as long as it looks: elsewhere, nobody notices."""
    made = registry.create(json.dumps({"items": {"pattern": SLOW}}), JSON_TYPE)
    topic = registry.topic(made.name)
    examiner = registry.server.broker.schemas.definitions.examiner
    registry.server.publish(topic, b'["abc"]', json.dumps(["ab" * 1_000 + "c"]).encode())
    assert examiner.process_id is not None
    with pytest.raises(exceptions.InvalidArgument, match=r"messages\[0\].data: \$\[0\]: "):
        registry.server.publish(topic, json.dumps(["ab" * 1_000]).encode())


def test_a_large_message_is_checked_in_a_thread(registry):
    made = registry.create('{"type":"array","items":"int"}')
    topic = registry.topic(made.name, BINARY)
    count = 200_000
    data = b"\x80\xb5\x18" + b"\x02" * count + b"\x00"
    registry.server.publish(topic, data)
    with pytest.raises(exceptions.InvalidArgument, match="complete after 200004 of 200005"):
        registry.server.publish(topic, data + b"\x00")


def test_a_revision_of_which_the_defaults_explode_is_refused(registry):
    made = registry.create(EMPTY)
    for levels, sentence in ((14, "has more than 10000 values"), (40, "40010000 steps")):
        with pytest.raises(exceptions.InvalidArgument, match=sentence):
            registry.commit(made.name, bomb(levels))


def test_a_comparison_that_takes_too_many_steps_is_refused(registry):
    def union(namespace: str) -> str:
        parts = [{"type": "fixed", "name": f"{namespace}.F{n}", "size": 1} for n in range(2_000)]
        return json.dumps({"type": "array", "items": parts})

    made = registry.create(union("one"), fanlog_compatibility="FULL")
    with pytest.raises(exceptions.InvalidArgument, match="comparing the revisions takes more than"):
        registry.commit(made.name, union("two"))


# What is on disk already.


def stored_anyway(server: RunningServer, schema: str, definition: str) -> str:
    """A revision as a version before these budgets would have stored it."""

    async def add() -> str:
        broker = server.broker
        table = broker.hard.catalog.schemas
        revision, records = table.add_revision(table.schema(schema), definition, 1.0)
        await broker.ledger.commit(records)
        return revision.id

    return server.run(add())


@pytest.mark.parametrize("levels", [16, 40])
@pytest.mark.parametrize("has_policy", [True, False])
def test_a_poisoned_message_keeps_nobody_from_being_served(
    start_server: StartServer, levels, has_policy
):
    server = start_server()
    registry = Registry(server)
    made = registry.create(EMPTY)
    topic = registry.topic(made.name)
    other, other_subscription = server.topic_and_subscription()
    poison = stored_anyway(server, made.name, bomb(levels))
    letters, letter_subscription = server.topic_and_subscription()
    policy = {"dead_letter_policy": {"dead_letter_topic": letters, "max_delivery_attempts": 5}}
    asking = server.subscription(topic, labels={LABEL: poison}, **(policy if has_policy else {}))
    _accept_first(server, topic, made)
    server.publish(topic, b"{}")
    server.publish(other, b"hello")

    server.restart()

    assert [one.message.data for one in server.await_pull(other_subscription, 1)] == [b"hello"]
    if has_policy:
        assert server.pull(asking, return_immediately=True) == []
        [letter] = server.await_pull(letter_subscription, 1)
        reason = letter.message.attributes["fanlog-dead-letter-reason"]
    else:
        [received] = server.await_pull(asking, 1)
        assert received.message.data == b"{}"
        reason = received.message.attributes[REASON]
    assert "has more than 10000 values" in reason or "more than 40010000 steps" in reason


def _accept_first(server: RunningServer, topic: str, made: Any) -> None:
    server.publisher.update_topic(
        request={
            "topic": {
                "name": topic,
                "schema_settings": {
                    "schema": made.name,
                    "encoding": JSON,
                    "last_revision_id": made.revision_id,
                },
            },
            "update_mask": {"paths": ["schema_settings"]},
        }
    )


def test_publishing_says_which_revision_cannot_be_used(server):
    registry = Registry(server)
    made = registry.create(EMPTY)
    topic = registry.topic(made.name)
    poison = stored_anyway(server, made.name, bomb(16))
    with pytest.raises(
        exceptions.FailedPrecondition, match=f"revision {poison} of .* cannot be used"
    ):
        server.publish(topic, b"{}")


def test_a_json_message_that_may_take_long_is_transformed_elsewhere(server):
    world = World(server, CASES["json"])
    text = "ab" * 600 + "c"
    properties = {"id": {"type": "string"}, "long": {"default": text, "pattern": SLOW}}
    slow = json.dumps({"properties": properties, "required": ["id", "long"]})
    revision = world.registry.commit(world.schema, slow, JSON_TYPE).revision_id
    subscription = world.subscription(revision)
    world.publish()
    [received] = server.await_pull(subscription, 1)
    assert json.loads(received.message.data) == {"id": "a", "long": text}
    assert REASON not in received.message.attributes
