"""Schemas and their revisions in the catalog."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from fanlog import limits
from fanlog.core import records as codec
from fanlog.core.catalog import Catalog
from fanlog.core.records import TopicRecord
from fanlog.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    SchemaNotFound,
)
from fanlog.model.resources import SchemaSettings
from fanlog.model.specs import TopicSpec

NAME = "projects/p/schemas/orders"


def made(catalog: Catalog, *definitions: str, name: str = NAME) -> list[str]:
    """Make a schema with revisions; their ids."""
    schema, first, records = catalog.create_schema(name, "AVRO", definitions[0], "NONE", 1.0)
    apply(catalog, records)
    ids = [first.id]
    for definition in definitions[1:]:
        revision, added = catalog.schemas.add_revision(schema, definition, 2.0)
        apply(catalog, added)
        ids.append(revision.id)
    return ids


def apply(catalog: Catalog, records) -> None:
    for record in records:
        catalog.apply(record)


def settings(first: str = "", last: str = "") -> SchemaSettings:
    return SchemaSettings(
        schema=NAME, encoding="JSON", first_revision_id=first, last_revision_id=last
    )


def test_records_add_up_in_any_order():
    schema, first, records = Catalog().create_schema(NAME, "AVRO", "a", "FULL", 1.0)
    table = Catalog().schemas
    table.apply(records[-1])
    second, more = table.add_revision(schema, "b", 2.0)
    for order in itertools.permutations([*records, *more]):
        catalog = Catalog()
        apply(catalog, order)
        assert catalog.schemas.schema(NAME) == schema
        assert catalog.schemas.revisions(schema.id) == (first, second)
        assert catalog.stats().schemas == 1


def test_ids_of_revisions_are_eight_hex_digits_and_differ():
    catalog = Catalog()
    ids = made(catalog, "a", "b", "a", "a")
    assert len(set(ids)) == 4
    assert all(len(one) == 8 and int(one, 16) >= 0 for one in ids)


@pytest.mark.parametrize(
    ("first", "last", "accepted"),
    [
        (None, None, "dcba"),
        (1, None, "dcb"),
        (None, 2, "cba"),
        (1, 2, "cb"),
        (3, 3, "d"),
    ],
)
def test_a_range_of_revisions_newest_first(first, last, accepted):
    catalog = Catalog()
    ids = made(catalog, "a", "b", "c", "d")
    chosen = settings("" if first is None else ids[first], "" if last is None else ids[last])
    bound = catalog.schemas.bind(chosen)
    assert "".join(one.definition for one in catalog.schemas.accepted_revisions(bound)) == accepted


def test_settings_that_cannot_be_bound():
    catalog = Catalog()
    with pytest.raises(SchemaNotFound):
        catalog.schemas.bind(settings())
    ids = made(catalog, "a", "b")
    with pytest.raises(SchemaNotFound, match="has no revision"):
        catalog.schemas.bind(settings("00000000"))
    with pytest.raises(InvalidArgument, match="is a later revision than"):
        catalog.schemas.bind(settings(ids[1], ids[0]))


def test_a_deleted_schema_is_remembered_as_gone():
    catalog = Catalog()
    made(catalog, "a", "b")
    topic, records = catalog.create_topic(
        TopicSpec(name="projects/p/topics/t-1", schema_settings=settings()), 0.0
    )
    apply(catalog, records)
    schema = catalog.schemas.schema(NAME)
    assert topic.schema_settings.schema_shown == NAME
    apply(catalog, catalog.delete_schema(schema))
    present = catalog.topic(topic.name)
    assert present.schema_settings.schema_shown == "_deleted-schema_"
    assert catalog.schemas.revisions(schema.id) == ()
    made(catalog, "a")
    assert catalog.topic(topic.name) == present
    assert catalog.topics_with(catalog.schemas.schema(NAME)) == []


def test_limits():
    catalog = Catalog()
    made(catalog, *("a" * limits.SCHEMA_REVISIONS_MAX))
    schema = catalog.schemas.schema(NAME)
    with pytest.raises(ResourceExhausted):
        catalog.schemas.add_revision(schema, "a", 1.0)
    with pytest.raises(AlreadyExists):
        made(catalog, "a")


def test_the_last_revision_stays():
    catalog = Catalog()
    made(catalog, "a")
    schema = catalog.schemas.schema(NAME)
    [revision] = catalog.schemas.revisions(schema.id)
    with pytest.raises(FailedPrecondition):
        catalog.schemas.delete_revision(schema, revision)


def test_a_revision_is_found_by_its_number_too():
    catalog = Catalog()
    first, second = made(catalog, "a", "b")
    schema = catalog.schemas.schema(NAME)
    assert catalog.schemas.revision(schema, "1").id == first
    assert catalog.schemas.revision(schema, "2").id == second
    with pytest.raises(SchemaNotFound, match="has no revision '3'"):
        catalog.schemas.revision(schema, "3")
    bound = catalog.schemas.bind(settings("1", "2"))
    assert (bound.first_revision_id, bound.last_revision_id) == (first, second)


def test_a_number_is_given_once_whatever_is_deleted():
    catalog = Catalog()
    made(catalog, "a", "b")
    for number in (3, 4):
        schema = catalog.schemas.schema(NAME)
        latest = catalog.schemas.revision(schema, "")
        apply(catalog, catalog.schemas.delete_revision(schema, latest))
        schema = catalog.schemas.schema(NAME)
        assert schema.last_number == number - 1
        revision, added = catalog.schemas.add_revision(schema, "b", 2.0)
        apply(catalog, added)
        assert revision.number == number
    # One in the middle that goes is no reason to write anything down.
    revision, added = catalog.schemas.add_revision(schema, "c", 2.0)
    apply(catalog, added)
    [gone] = catalog.schemas.delete_revision(schema, catalog.schemas.revision(schema, "4"))
    assert gone.value() is None


def test_records_say_no_more_than_they_have_to():
    catalog = Catalog()
    made(catalog, "a", "b")
    schema = catalog.schemas.schema(NAME)
    [record] = catalog.schemas.put(schema)
    assert b"last_number" not in record.value()
    topic, _ = catalog.create_topic(TopicSpec(name="projects/p/topics/t-1"), 12.5)
    assert topic.created_s == 12.5
    for changed, is_said in ((topic, True), (replace(topic, created_s=None), False)):
        record = TopicRecord(topic.id, changed)
        assert (b"created_s" in record.value()) == is_said
        assert codec.decode(record.key(), record.value()) == record
