"""Schemas over gRPC with the official client: the registry, and topics that have one."""

from __future__ import annotations

import json
from typing import Any

import google.pubsub_v1 as gapic
import pytest
from google.api_core import exceptions

from server.conftest import PATIENCE_S, RunningServer, StartServer
from server.registry import (
    AVRO,
    BASIC,
    BINARY,
    FULL,
    JSON,
    JSON_TYPE,
    ONE,
    ORDER_JSON,
    ORDER_PROTO,
    OTHER,
    PARENT,
    PROTO,
    TWO,
    Registry,
    record,
)
from server.unique import unique

pytestmark = pytest.mark.filterwarnings("ignore:Unrecognized Type enum value")


@pytest.fixture(scope="module")
def registry(server: RunningServer) -> Registry:
    return Registry(server)


def test_a_schema_is_made_and_found(registry):
    made = registry.create(ONE)
    assert made.definition == ONE
    assert made.type_ == AVRO
    assert len(made.revision_id) == 8
    assert made.revision_create_time is not None
    assert registry.get(made.name) == made
    assert registry.get(f"{made.name}@{made.revision_id}") == made
    basic = registry.get(made.name, BASIC)
    assert (basic.definition, basic.revision_id) == ("", made.revision_id)
    assert registry.client.get_schema(name=made.name).definition == ONE


def test_json_schema_is_a_type_of_ours(registry):
    made = registry.create(ORDER_JSON, JSON_TYPE)
    assert registry.get(made.name).type_ == JSON_TYPE
    topic = registry.topic(made.name)
    subscription = registry.server.subscription(topic)
    registry.server.publish(topic, b'{"id": 1}')
    assert [one.message.data for one in registry.server.pull(subscription)] == [b'{"id": 1}']
    with pytest.raises(exceptions.InvalidArgument, match="have the encoding JSON only"):
        registry.topic(made.name, BINARY)


def test_lists_are_in_pages(start_server: StartServer):
    registry = Registry(start_server("memory"))
    names = sorted(registry.create().name for _ in range(5))
    request = {"parent": PARENT, "page_size": 2}
    pages = list(registry.client.list_schemas(request=request).pages)
    assert [len(page.schemas) for page in pages] == [2, 2, 1]
    assert [one.name for page in pages for one in page.schemas] == names
    assert {one.definition for page in pages for one in page.schemas} == {""}
    full = registry.client.list_schemas(request={"parent": PARENT, "view": FULL})
    assert {one.definition for one in full} == {ONE}


def test_revisions_come_and_go(registry):
    made = registry.create(ONE)
    second = registry.commit(made.name, TWO)
    third = registry.commit(made.name, ONE)
    ids = [third.revision_id, second.revision_id, made.revision_id]
    assert len(set(ids)) == 3
    assert registry.revision_ids(made.name) == ids
    request = {"name": made.name, "page_size": 2, "view": FULL}
    pages = list(registry.client.list_schema_revisions(request=request).pages)
    assert [[one.definition for one in page.schemas] for page in pages] == [[ONE, TWO], [ONE]]
    back = registry.client.rollback_schema(name=made.name, revision_id=second.revision_id)
    assert back.definition == TWO
    assert back.revision_id not in ids
    assert registry.get(made.name) == back
    left = registry.client.delete_schema_revision(
        request={"name": f"{made.name}@{back.revision_id}"}
    )
    assert left.revision_id == third.revision_id
    with pytest.raises(exceptions.NotFound, match="has no revision"):
        registry.get(f"{made.name}@{back.revision_id}")
    registry.client.delete_schema(name=made.name)
    with pytest.raises(exceptions.NotFound, match="does not exist"):
        registry.get(made.name)


def test_the_only_revision_stays(registry):
    made = registry.create()
    with pytest.raises(exceptions.FailedPrecondition, match="is the only revision"):
        registry.client.delete_schema_revision(request={"name": f"{made.name}@{made.revision_id}"})


def test_there_are_at_most_twenty_revisions(registry):
    made = registry.create()
    for _ in range(19):
        registry.commit(made.name, ONE)
    with pytest.raises(exceptions.ResourceExhausted, match="has 20 revisions"):
        registry.commit(made.name, ONE)


@pytest.mark.parametrize(
    ("request_fields", "sentence"),
    [
        ({"schema": {"type_": AVRO, "definition": "{"}}, "the Avro definition is not JSON"),
        ({"schema": {"type_": PROTO, "definition": "x"}}, "line 1, column 1: expected 'message'"),
        ({"schema": {"type_": AVRO}}, "definition: a schema needs one"),
        ({"schema": {"definition": ONE}}, "schema.type: 0 is not a type of schema"),
        ({"schema_id": "goog-x"}, "schema_id: "),
        ({"schema_id": "a@b"}, "schema_id: "),
        ({"parent": "nobody"}, "parent: "),
        ({"schema": {"type_": AVRO, "definition": ONE, "name": "projects/p/schemas/x"}},
         "schema.name: "),
        ({"schema": {"type_": AVRO, "definition": '"' + "x" * 300_000 + '"'}},
         "definition: 300002 bytes; at most 300000 are allowed"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused(registry, request_fields, sentence):
    request = {
        "parent": PARENT,
        "schema": {"type_": AVRO, "definition": ONE},
        "schema_id": unique("schema"),
    } | request_fields
    with pytest.raises(exceptions.InvalidArgument) as caught:
        registry.client.create_schema(request=request)
    assert sentence in caught.value.message


def test_a_name_is_taken_once(registry):
    made = registry.create()
    with pytest.raises(exceptions.AlreadyExists):
        registry.client.create_schema(
            parent=PARENT,
            schema=gapic.Schema(type_=AVRO, definition=ONE),
            schema_id=made.name.rpartition("/")[2],
        )


def test_a_revision_is_of_its_schemas_type(registry):
    made = registry.create()
    with pytest.raises(exceptions.InvalidArgument, match="is of type AVRO"):
        registry.commit(made.name, ORDER_PROTO, PROTO)


def test_definitions_and_messages_are_validated_without_being_kept(registry):
    client = registry.client
    client.validate_schema(parent=PARENT, schema=gapic.Schema(type_=AVRO, definition=ONE))
    with pytest.raises(exceptions.InvalidArgument, match="the type 'strng' is not known"):
        client.validate_schema(parent=PARENT, schema=gapic.Schema(type_=AVRO, definition='"strng"'))
    made = registry.create(ONE)
    registry.commit(made.name, OTHER)
    good = {"parent": PARENT, "encoding": JSON, "message": b'{"id": "x", "name": "y"}'}
    client.validate_message(request=good | {"name": made.name})
    old = f"{made.name}@{made.revision_id}"
    with pytest.raises(exceptions.InvalidArgument, match=r"message: \$: 'name' is no field"):
        client.validate_message(request=good | {"name": old})
    inline = {"schema": {"type_": PROTO, "definition": ORDER_PROTO}}
    client.validate_message(request=good | inline | {"message": b'{"id": "x"}'})
    client.validate_message(request=good | inline | {"message": b"\x10\x05", "encoding": BINARY})
    with pytest.raises(exceptions.InvalidArgument, match="schema_spec"):
        client.validate_message(request=good)
    with pytest.raises(exceptions.InvalidArgument, match="encoding: 0 is not an encoding"):
        client.validate_message(request=good | {"name": made.name, "encoding": 0})


# Compatibility.


def test_breaking_changes_are_listed(registry):
    made = registry.create(ONE, fanlog_compatibility="backward")
    registry.commit(made.name, TWO)
    with pytest.raises(exceptions.InvalidArgument) as caught:
        registry.commit(made.name, record(("id", "int"), ("name", "string")))
    sentence = caught.value.message
    assert f"breaks the compatibility BACKWARD of '{made.name}'" in sentence
    assert "$.id: int cannot be read from string" in sentence
    assert "$.name: the field is not written by the other, and has no default" in sentence
    assert caught.value.reason == "SCHEMA_INCOMPATIBLE"
    assert len(registry.revision_ids(made.name)) == 2


def test_compatibility_is_told_and_changed(registry):
    made = registry.create(ONE, fanlog_compatibility="FULL_TRANSITIVE")
    get = registry.client.transport.get_schema
    _, call = get.with_call(gapic.GetSchemaRequest(name=made.name), timeout=PATIENCE_S)
    assert dict(call.trailing_metadata())["fanlog-compatibility"] == "FULL_TRANSITIVE"
    with pytest.raises(exceptions.InvalidArgument, match="FULL_TRANSITIVE"):
        registry.commit(made.name, OTHER)
    registry.commit(made.name, OTHER, fanlog_compatibility="none")
    registry.commit(made.name, ONE)
    with pytest.raises(exceptions.InvalidArgument, match="'sideways' is not one of NONE"):
        registry.commit(made.name, ONE, fanlog_compatibility="sideways")


def test_a_rollback_is_held_to_it_as_well(registry):
    made = registry.create(OTHER, fanlog_compatibility="BACKWARD")
    registry.commit(made.name, ONE)
    first = {"name": made.name, "revision_id": made.revision_id}
    with pytest.raises(exceptions.InvalidArgument, match=r"\$.name: the field is not written"):
        registry.client.rollback_schema(**first)
    registry.client.rollback_schema(**first, metadata=[("fanlog-compatibility", "NONE")])


# Topics.


def test_messages_carry_what_they_conform_to(registry):
    server = registry.server
    made = registry.create(ONE)
    topic = registry.topic(made.name)
    settings = server.publisher.get_topic(topic=topic).schema_settings
    assert (settings.schema, settings.encoding) == (made.name, JSON)
    subscription = server.subscription(topic)
    server.publish(topic, b'{"id": "x"}', colour="red")
    [received] = server.pull(subscription)
    assert dict(received.message.attributes) == {
        "colour": "red",
        "googclient_schemaname": made.name,
        "googclient_schemaencoding": "JSON",
        "googclient_schemarevisionid": made.revision_id,
    }


def test_a_request_is_refused_whole(registry):
    server = registry.server
    made = registry.create(ONE)
    topic = registry.topic(made.name)
    subscription = server.subscription(topic)
    with pytest.raises(exceptions.InvalidArgument) as caught:
        server.publish(topic, b'{"id": "x"}', b'{"id": 5}')
    assert caught.value.message == (
        "messages[1].data: $.id: expected a string, found the number 5 "
        f"(revision {made.revision_id} of {made.name}, JSON)"
    )
    assert caught.value.reason == "SCHEMA_MISMATCH"
    assert server.pull(subscription) == []


@pytest.mark.parametrize(
    ("kind", "definition", "encoding", "good", "bad"),
    [
        (AVRO, TWO, BINARY, b"\x02x\x04", b"\x02x"),
        (PROTO, ORDER_PROTO, BINARY, b"\x0a\x01x", b"\x0a\x05x"),
        (PROTO, ORDER_PROTO, JSON, b'{"id": "x"}', b'{"no": "x"}'),
        (JSON_TYPE, ORDER_JSON, JSON, b'{"id": "x"}', b"{}"),
    ],
)
def test_every_type_and_encoding(registry, kind, definition, encoding, good, bad):
    topic = registry.topic(registry.create(definition, kind).name, encoding)
    subscription = registry.server.subscription(topic)
    registry.server.publish(topic, good)
    with pytest.raises(exceptions.InvalidArgument, match=r"messages\[0\].data: \$"):
        registry.server.publish(topic, bad)
    [received] = registry.server.pull(subscription)
    assert received.message.data == good
    assert received.message.attributes["googclient_schemaencoding"] == encoding.name


def test_revisions_are_accepted_side_by_side(registry):
    server = registry.server
    made = registry.create(ONE)
    topic = registry.topic(made.name)
    subscription = server.subscription(topic)
    newer = registry.commit(made.name, OTHER)
    old, new = b'{"id": "x"}', b'{"id": "x", "name": "y"}'
    server.publish(topic, new, key="k")
    server.publish(topic, old, new, old, colour="red")
    received = [one.message for one in server.pull(subscription)]
    expected = {old: made.revision_id, new: newer.revision_id}
    assert [one.data for one in received] == [new, old, new, old]
    for one in received:
        assert one.attributes["googclient_schemarevisionid"] == expected[one.data]
    assert [one.attributes.get("colour") for one in received] == [None, "red", "red", "red"]
    with pytest.raises(exceptions.InvalidArgument, match="1 older revision does not take it"):
        server.publish(topic, b"{}")


def test_a_topic_accepts_a_range_of_revisions(registry):
    server = registry.server
    made = registry.create(ONE)
    second = registry.commit(made.name, OTHER)
    third = registry.commit(made.name, TWO)
    only_second = {"first_revision_id": second.revision_id, "last_revision_id": second.revision_id}
    topic = registry.topic(made.name, **only_second)
    server.publish(topic, b'{"id": "x", "name": "y"}')
    for data in (b'{"id": "x"}', b'{"id": "x", "count": 1}'):
        with pytest.raises(exceptions.InvalidArgument, match=second.revision_id):
            server.publish(topic, data)
    with pytest.raises(exceptions.FailedPrecondition, match="is the first or last that topic"):
        registry.client.delete_schema_revision(
            request={"name": f"{made.name}@{second.revision_id}"}
        )
    settings = {"last_revision_id": third.revision_id}
    server.publisher.update_topic(
        request={
            "topic": {"name": topic, "schema_settings": settings},
            "update_mask": {"paths": ["schema_settings.last_revision_id"]},
        }
    )
    server.publish(topic, b'{"id": "x", "count": 1}')
    with pytest.raises(exceptions.InvalidArgument, match="is a later revision than"):
        registry.topic(
            made.name, first_revision_id=third.revision_id, last_revision_id=second.revision_id
        )
    with pytest.raises(exceptions.NotFound, match="has no revision '00000000'"):
        registry.topic(made.name, first_revision_id="00000000")
    with pytest.raises(exceptions.InvalidArgument, match="is not a revision; one is"):
        registry.topic(made.name, first_revision_id="newest")


def test_settings_are_updated_and_cleared(registry):
    server = registry.server
    made, other = registry.create(ONE), registry.create(OTHER)
    topic = server.topic()

    def update(paths: list[str], settings: dict[str, Any] | None) -> Any:
        changed = {"name": topic} | ({} if settings is None else {"schema_settings": settings})
        mask = {"paths": paths}
        return server.publisher.update_topic(request={"topic": changed, "update_mask": mask})

    server.publish(topic, b"anything")
    with pytest.raises(exceptions.InvalidArgument, match="the topic has no schema"):
        update(["schema_settings.encoding"], {"encoding": BINARY})
    update(["schema_settings"], {"schema": made.name, "encoding": JSON})
    with pytest.raises(exceptions.InvalidArgument, match="expected JSON"):
        server.publish(topic, b"anything")
    changed = update(["schema_settings.schema"], {"schema": other.name})
    assert (changed.schema_settings.schema, changed.schema_settings.encoding) == (other.name, JSON)
    server.publish(topic, b'{"id": "x", "name": "y"}')
    with pytest.raises(exceptions.NotFound, match="does not exist"):
        update(["schema_settings.schema"], {"schema": f"{PARENT}/schemas/nope"})
    cleared = update(["schema_settings"], None)
    assert not cleared.schema_settings.schema
    server.publish(topic, b"anything")


def test_parts_of_settings_make_them_on_a_topic_without_a_schema(registry):
    # As Go's client sends them: only the parts that are set, each by itself.
    server = registry.server
    made, other = registry.create(ONE), registry.create(OTHER)
    topic = server.topic()

    def update(**settings: Any) -> Any:
        mask = {"paths": [f"schema_settings.{part}" for part in settings]}
        changed = {"name": topic, "schema_settings": settings}
        request = {"topic": changed, "update_mask": mask}
        return server.publisher.update_topic(request=request).schema_settings

    for parts in (
        {"schema": made.name},
        {"encoding": JSON},
        {"first_revision_id": made.revision_id},
        {"encoding": JSON, "last_revision_id": made.revision_id},
    ):
        with pytest.raises(exceptions.InvalidArgument, match=r"the topic has no schema\. Name sch"):
            update(**parts)
    settings = update(schema=made.name, encoding=JSON)
    assert (settings.schema, settings.encoding) == (made.name, JSON)
    with pytest.raises(exceptions.InvalidArgument, match="expected JSON"):
        server.publish(topic, b"anything")
    # All four, over settings that are there.
    parts = {"schema": other.name, "encoding": JSON, "first_revision_id": other.revision_id}
    settings = update(**parts, last_revision_id=other.revision_id)
    assert (settings.schema, settings.first_revision_id) == (other.name, other.revision_id)
    clear = {"topic": {"name": topic}, "update_mask": {"paths": ["schema_settings"]}}
    server.publisher.update_topic(request=clear)
    settings = update(**parts, last_revision_id=other.revision_id)
    assert (settings.schema, settings.last_revision_id) == (other.name, other.revision_id)


def test_a_schema_that_is_gone(registry):
    server = registry.server
    made = registry.create(ONE)
    topic = registry.topic(made.name)
    registry.client.delete_schema(name=made.name)
    assert server.publisher.get_topic(topic=topic).schema_settings.schema == "_deleted-schema_"
    with pytest.raises(exceptions.FailedPrecondition, match="was deleted; update or clear"):
        server.publish(topic, b'{"id": "x"}')
    # Another one of that name is another one.
    registry.client.create_schema(
        parent=PARENT,
        schema=gapic.Schema(type_=AVRO, definition=ONE),
        schema_id=made.name.rpartition("/")[2],
    )
    assert server.publisher.get_topic(topic=topic).schema_settings.schema == "_deleted-schema_"


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"schema": f"{PARENT}/schemas/nope", "encoding": JSON}, exceptions.NotFound, "nope"),
        (
            {"schema": "nope", "encoding": JSON},
            exceptions.InvalidArgument,
            "schema_settings.schema",
        ),
        ({"encoding": JSON}, exceptions.InvalidArgument, "schema_settings.schema: a name is"),
        ({"schema": "_deleted-schema_", "encoding": JSON}, exceptions.InvalidArgument, "deleted"),
    ],
)
def test_settings_that_are_refused(server, settings, error, sentence):
    with pytest.raises(error, match=sentence):
        server.topic(schema_settings=settings)


def test_settings_need_an_encoding(registry):
    with pytest.raises(exceptions.InvalidArgument, match=r"schema_settings\.encoding: 0 is not"):
        registry.server.topic(schema_settings={"schema": registry.create().name})


def test_deduplicated_messages_conform_as_well(registry):
    server = registry.server
    made = registry.create(ONE)
    topic = registry.topic(made.name)
    subscription = server.subscription(topic)
    once = {"fanlog-dedup-id": unique("dedup")}
    with pytest.raises(exceptions.InvalidArgument):
        server.publish(topic, b"{}", **once)
    first = server.publish(topic, b'{"id": "x"}', **once)
    assert server.publish(topic, b'{"id": "x"}', **once) == first
    [received] = server.pull(subscription)
    assert received.message.attributes["googclient_schemarevisionid"] == made.revision_id


def test_dead_letters_need_not_conform(registry):
    server = registry.server
    letters = registry.topic(registry.create(OTHER).name)
    reader = server.subscription(letters)
    topic = server.topic()
    policy = {"dead_letter_topic": letters, "max_delivery_attempts": 1}
    subscription = server.subscription(topic, dead_letter_policy=policy)
    server.publish(topic, b"no JSON at all")
    server.nack(subscription, server.await_pull(subscription))
    [letter] = server.await_pull(reader)
    assert letter.message.data == b"no JSON at all"


def test_large_requests_are_checked_in_order(registry):
    server = registry.server
    topic = registry.topic(registry.create(ONE).name)
    subscription = server.subscription(topic)
    data = [json.dumps({"id": f"{number:0300}"}).encode() for number in range(1_000)]
    server.publish(topic, *data)
    assert [one.message.data for one in server.pull(subscription)] == data
    with pytest.raises(exceptions.InvalidArgument, match=r"messages\[999\].data: \$"):
        server.publish(topic, *data[:-1], b"{}")


def test_large_definitions_are_compiled_apart(registry):
    fields = [(f"field_{number}", "string") for number in range(1_000)]
    made = registry.create(record(*fields), fanlog_compatibility="BACKWARD")
    registry.commit(made.name, record(*fields[:-1]))
    with pytest.raises(exceptions.InvalidArgument, match="field_999"):
        registry.commit(made.name, record(*fields))


def test_schemas_live_through_a_restart(start_server: StartServer):
    server = start_server()
    registry = Registry(server)
    made = registry.create(ONE, fanlog_compatibility="BACKWARD")
    registry.commit(made.name, TWO)
    topic = registry.topic(made.name, first_revision_id=made.revision_id)
    gone = registry.create(ONE)
    orphan = registry.topic(gone.name)
    registry.client.delete_schema(name=gone.name)
    before = registry.revision_ids(made.name)
    server.restart()
    registry = Registry(server)
    assert registry.revision_ids(made.name) == before
    assert registry.get(made.name).definition == TWO
    settings = server.publisher.get_topic(topic=topic).schema_settings
    assert settings.first_revision_id == made.revision_id
    assert server.publisher.get_topic(topic=orphan).schema_settings.schema == "_deleted-schema_"
    server.publish(topic, b'{"id": "x"}')
    with pytest.raises(exceptions.InvalidArgument):
        server.publish(topic, b'{"id": 3}')
    with pytest.raises(exceptions.InvalidArgument, match="BACKWARD"):
        registry.commit(made.name, OTHER)


def test_a_schema_has_a_policy(registry):
    made = registry.create()
    reader = {"role": "roles/pubsub.viewer", "members": ["user:ada@example.com"]}
    set_policy = {"resource": made.name, "policy": {"bindings": [reader]}}
    stored = registry.client.set_iam_policy(request=set_policy)
    assert registry.client.get_iam_policy(request={"resource": made.name}) == stored
    asked = {"resource": made.name, "permissions": ["pubsub.schemas.commit"]}
    assert registry.client.test_iam_permissions(request=asked).permissions == asked["permissions"]
    registry.client.delete_schema(name=made.name)
    with pytest.raises(exceptions.NotFound):
        registry.client.get_iam_policy(request={"resource": made.name})
