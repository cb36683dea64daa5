"""Records: to bytes and back, and what this build refuses to read."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroaring import BitMap64

from fanlog.core import records as package
from fanlog.core.hard_state import HardState
from fanlog.core.records import (
    KINDS,
    AttemptsChunk,
    CommittingRecord,
    Counters,
    CursorChunk,
    CursorHead,
    DamagedRecord,
    EpochProgress,
    JobRecord,
    LakeRecord,
    PolicyRecord,
    QueryRecord,
    ScheduleRecord,
    SchemaRecord,
    SchemaRevisionRecord,
    SubscriptionRecord,
    TopicRecord,
    UnknownRecord,
    decode,
)
from fanlog.core.records.codec import Registry, Stored, numbers, record
from fanlog.core.records.schedules import tick_record
from fanlog.errors import DataLoss
from record_samples import (
    BIG,
    FULL,
    JOB,
    PLAIN,
    POLICY,
    PROGRESS,
    PUSHED,
    REMOVED,
    REVISION,
    ROUTED,
    SCHEDULE,
    SCHEMA,
    STORED,
    TOPIC,
    P,
)

ROOT = Path(__file__).parents[3]


class TestSchedules:
    def test_data_that_is_not_base64_is_damage(self):
        record = ScheduleRecord(SCHEDULE.name, SCHEDULE)
        value = (record.value() or b"").replace(b'"AP8="', b'"?"')
        with pytest.raises(DamagedRecord, match="data: is not base64"):
            decode(record.key(), value)

    @pytest.mark.parametrize(
        "one", [ScheduleRecord(SCHEDULE.name, SCHEDULE), tick_record(SCHEDULE.name, PROGRESS)]
    )
    def test_one_record_without_the_other_is_damage(self, one):
        with pytest.raises(DataLoss, match="only one of two records is there"):
            HardState.load([(one.key(), one.value())])


class TestTheRegistry:
    def test_every_kind_is_tried(self):
        assert {type(one) for one in STORED} == set(KINDS)
        never_removed = {Counters, LakeRecord}
        assert {type(one) for one in REMOVED} == set(KINDS) - never_removed

    def test_every_class_is_of_the_union(self):
        modules = [
            importlib.import_module(f"{package.__name__}.{found.name}")
            for found in pkgutil.iter_modules(package.__path__)
        ]
        classes = {
            value
            for module in modules
            for value in vars(module).values()
            if isinstance(value, type) and issubclass(value, Stored) and value is not Stored
        }
        assert classes == set(KINDS)

    def test_every_letter_is_unique_and_in_the_document(self):
        letters = [kind.KIND.decode() for kind in KINDS]
        assert len(set(letters)) == len(letters)
        text = (ROOT / "docs" / "internals" / "data_files.md").read_text()
        table = text.partition("## State records")[2].partition("\n## ")[0]
        assert sorted(letters) == sorted(re.findall(r"^\| `([A-Za-z])` \|", table, re.MULTILINE))

    def test_a_letter_cannot_be_given_twice(self):
        @record("H", key=numbers(">Q"), value=numbers("<Q"))
        @dataclass(frozen=True, slots=True)
        class Other(Stored):
            owner: int
            count: int | None

        with pytest.raises(AssertionError, match="the letter of Other"):
            Registry[Stored]([CursorHead, Other])

    def test_the_forms_take_all_fields(self):
        with pytest.raises(AssertionError, match="Odd has other fields"):

            @record("?", key=numbers(">Q"), value=numbers("<Q"))
            @dataclass(frozen=True, slots=True)
            class Odd(Stored):
                owner: int

    @pytest.mark.parametrize("one", [*STORED, *REMOVED], ids=lambda one: type(one).__name__)
    def test_hard_state_applies_every_kind(self, one):
        HardState().apply(one)

    def test_hard_state_is_rebuilt_from_all_of_them(self):
        hard = HardState.load((one.key(), one.value() or b"") for one in STORED)
        assert hard.jobs == {JOB.name: JOB}
        assert hard.sinks.progress("q") == EpochProgress(1, 2, BIG)
        for one in REMOVED:
            hard.apply(one)
        assert (hard.jobs, hard.trimmed, hard.lost, hard.activity) == ({}, {}, {}, {})

    def test_hard_state_refuses_another(self):
        with pytest.raises(AssertionError):
            HardState().apply("no record")  # type: ignore[arg-type]


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_a_record_survives_its_bytes(record):
    value = record.value()
    assert value is not None
    assert decode(record.key(), value) == record


@pytest.mark.parametrize("record", REMOVED, ids=lambda record: type(record).__name__)
def test_a_removal_has_a_key_and_no_value(record):
    assert record.key()[:1] == record.KIND
    assert record.value() is None


def test_keys_are_distinct_and_ordered_by_number():
    # Two of them are the same subscription.
    keys = [record.key() for record in STORED if record != SubscriptionRecord(PLAIN.id, PLAIN)]
    assert len(set(keys)) == len(keys)
    assert CursorChunk(3, P, 255, None).key() < CursorChunk(3, P, 256, None).key()
    assert all(len(key) <= 511 for key in keys), "LMDB's bound"


def test_encoding_leaves_the_bitmap_alone():
    bits = BitMap64(range(1_000))
    before = bits.serialize()
    CursorChunk(3, P, 0, bits).value()
    assert bits.serialize() == before


def test_unknown_versions_and_kinds_are_named():
    key, value = CursorHead(3, P, 0).key(), CursorHead(3, P, 0).value()
    assert value is not None
    with pytest.raises(UnknownRecord, match=r"version b'\\x02'; this build reads version 1"):
        decode(key, b"\x02" + value[1:])
    with pytest.raises(UnknownRecord, match="has version b''"):
        decode(key, b"")
    with pytest.raises(UnknownRecord, match="of a kind this build does not know"):
        decode(b"?" + key[1:], value)


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_cut_bytes_are_an_error_and_never_another_record(record):
    value = record.value()
    assert value is not None
    for length in range(1, len(value)):
        try:
            found = decode(record.key(), value[:length])
        except DamagedRecord:
            continue
        assert isinstance(found, AttemptsChunk), "its entries are all of one length"


@pytest.mark.parametrize("record", STORED, ids=lambda record: type(record).__name__)
def test_a_key_of_another_length_is_an_error(record):
    for key in (record.key() + b"\0", record.key()[:-1]):
        if key:
            with pytest.raises((DamagedRecord, UnknownRecord)):
                decode(key, record.value())


@pytest.mark.parametrize("missing", ["dead_letter", "retry"])
def test_a_subscription_without_its_policies_is_damaged(missing):
    stored = SubscriptionRecord(FULL.id, FULL)
    fields = json.loads((stored.value() or b"")[1:])
    del fields[missing]
    with pytest.raises(DamagedRecord, match=missing):
        decode(stored.key(), b"\x01" + json.dumps(fields).encode())


@pytest.mark.parametrize(
    "changes", [{"id": 1}, {"table_version": True}, {"sequence": "7"}, {"more": 1}]
)
def test_a_lake_that_is_none_is_refused(changes):
    stored = LakeRecord("0b6c", 7, 8)
    fields = json.loads((stored.value() or b"")[1:]) | changes
    with pytest.raises(DamagedRecord):
        decode(stored.key(), b"\x01" + json.dumps(fields).encode())


@pytest.mark.parametrize(
    "stored",
    [one for one in STORED if type(one) in (TopicRecord, JobRecord, QueryRecord, CommittingRecord)],
    ids=lambda one: type(one).__name__,
)
def test_a_value_under_the_key_of_another_is_refused(stored):
    other = stored.key()[:-1] + bytes([stored.key()[-1] ^ 1])
    with pytest.raises(DamagedRecord, match="than its key says"):
        decode(other, stored.value())


def test_the_bytes_of_a_policy():
    assert PolicyRecord(1, POLICY).key() == b"P" + bytes(7) + b"\x01"
    assert PolicyRecord(1, POLICY).value() == (
        b'\x01{"id":1,"revision":2,"bindings":[{"role":"roles/pubsub.viewer",'
        b'"members":["allUsers","user:a@example.com"]}]}'
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 2},
        {"revision": "2"},
        {"bindings": [{"role": "r"}]},
        {"bindings": [{"role": 1, "members": ["m"]}]},
        {"bindings": [{"role": "r", "members": [1]}]},
        {"bindings": None},
    ],
)
def test_policies_that_are_none(changes):
    stored = PolicyRecord(1, POLICY).value()
    assert stored is not None
    fields = json.loads(stored[1:]) | changes
    with pytest.raises(DamagedRecord):
        decode(PolicyRecord(1, POLICY).key(), stored[:1] + json.dumps(fields).encode())


def test_a_subscription_from_before_there_were_filters_has_none():
    stored = SubscriptionRecord(PLAIN.id, PLAIN).value()
    assert stored is not None
    fields = json.loads(stored[1:])
    del fields["filter"], fields["filter_changes"]
    value = stored[:1] + json.dumps(fields).encode()
    assert decode(SubscriptionRecord(PLAIN.id, PLAIN).key(), value) == SubscriptionRecord(
        PLAIN.id, PLAIN
    )


def test_a_subscription_without_push_is_written_as_ever():
    stored = SubscriptionRecord(FULL.id, FULL).value()
    assert stored is not None
    assert b"push" not in stored


@pytest.mark.parametrize("push", [{}, "x", [1], {"endpoint": "http://x"}, {"endpoint": 1}])
def test_a_push_config_that_is_none_is_refused(push):
    stored = SubscriptionRecord(PUSHED.id, PUSHED).value()
    assert stored is not None
    push = push or {"webhook_secrets": []}
    fields = json.loads(stored[1:]) | {"push": push}
    with pytest.raises(DamagedRecord):
        decode(
            SubscriptionRecord(PUSHED.id, PUSHED).key(), stored[:1] + json.dumps(fields).encode()
        )


def test_secrets_are_in_no_text():
    assert "whsec_one" not in repr(PUSHED)


@pytest.mark.parametrize("changes", [[{}], [{"filter": 1, "before_sequence": 2}], "x", [[]]])
def test_filter_changes_that_are_none(changes):
    stored = SubscriptionRecord(ROUTED.id, ROUTED).value()
    assert stored is not None
    fields = json.loads(stored[1:]) | {"filter_changes": changes}
    with pytest.raises(DamagedRecord):
        decode(
            SubscriptionRecord(ROUTED.id, ROUTED).key(), stored[:1] + json.dumps(fields).encode()
        )


def test_a_topic_without_a_schema_is_written_as_ever():
    assert b"schema" not in (TopicRecord(TOPIC.id, TOPIC).value() or b"schema")


@pytest.mark.parametrize(
    ("record", "before", "after"),
    [
        (SchemaRecord(SCHEMA.id, SCHEMA), b'"JSON"', b'"XML"'),
        (SchemaRecord(SCHEMA.id, SCHEMA), b'"id":6', b'"id":7'),
        (SchemaRevisionRecord(SCHEMA.id, 2**32 - 1, REVISION), b'"schema_id":6', b'"schema_id":7'),
        (SchemaRevisionRecord(SCHEMA.id, 2**32 - 1, REVISION), b"1.5", b'"x"'),
    ],
)
def test_a_schema_that_is_none_is_refused(record, before, after):
    value = record.value()
    assert before in value
    with pytest.raises(DamagedRecord):
        decode(record.key(), value.replace(before, after))
