"""Sinks: the records of queries, epochs and trims, and what follows from them."""

from __future__ import annotations

import json

import pytest

from fanlog.core.records import (
    Committing,
    CommittingRecord,
    DamagedRecord,
    EpochProgress,
    ProgressRecord,
    Query,
    QueryRecord,
    Record,
    Trimmed,
    decode,
    digest_of,
)
from fanlog.core.sinks import SinkTable, StageKey
from fanlog.errors import FailedPrecondition
from fanlog.model.resources import PartitionId

DIGEST = digest_of("q")
QUERY = Query("q", 7, 2**40, 1_700_000_000.5)
COMMITTING = Committing("q", 8, ("aa", "bb"))

STORED: list[Record] = [
    Trimmed(PartitionId(2**32 - 1), 2**63),
    QueryRecord(DIGEST, QUERY),
    CommittingRecord(DIGEST, COMMITTING),
    ProgressRecord(DIGEST, EpochProgress(2**32 - 1, 2**40, 2**41)),
]


def name(record: Record) -> str:
    return type(record).__name__


@pytest.mark.parametrize("record", STORED, ids=name)
def test_a_record_survives_its_bytes(record):
    value = record.value()
    assert value is not None
    assert decode(record.key(), value) == record


@pytest.mark.parametrize("record", STORED, ids=name)
def test_cut_bytes_are_an_error(record):
    value = record.value()
    assert value is not None
    for length in range(1, len(value)):
        with pytest.raises(DamagedRecord):
            decode(record.key(), value[:length])
    with pytest.raises(DamagedRecord):
        decode(record.key()[:-1], value)


def test_removals_have_no_value():
    removed = [
        Trimmed(PartitionId(1), None),
        QueryRecord(DIGEST, None),
        CommittingRecord(DIGEST, None),
        ProgressRecord(DIGEST, None),
    ]
    assert [record.value() for record in removed] == [None] * 4
    assert {record.key()[:1] for record in removed} == {b"B", b"W", b"K", b"G"}


def test_their_bytes():
    assert Trimmed(PartitionId(1), 2).key() == b"B\x00\x00\x00\x01"
    assert Trimmed(PartitionId(1), 2).value() == b"\x01\x02" + bytes(7)
    assert QueryRecord(DIGEST, QUERY).key() == b"W" + DIGEST
    assert QueryRecord(DIGEST, QUERY).value() == (
        b'\x01{"name":"q","epoch":7,"messages":1099511627776,"committed_s":1700000000.5}'
    )
    assert CommittingRecord(DIGEST, COMMITTING).value() == (
        b'\x01{"query":"q","epoch":8,"stages":["aa","bb"]}'
    )
    assert ProgressRecord(DIGEST, EpochProgress(1, 2, 3)).value() == (
        b"\x01\x01\x00\x00\x00\x02" + bytes(7) + b"\x03" + bytes(7)
    )


@pytest.mark.parametrize("changes", [{"name": "r"}, {"epoch": "7"}, {"more": 1}, {"name": None}])
def test_queries_that_are_none(changes):
    record = QueryRecord(DIGEST, QUERY)
    value = record.value()
    assert value is not None
    fields = json.loads(value[1:]) | changes
    with pytest.raises(DamagedRecord):
        decode(record.key(), b"\x01" + json.dumps(fields).encode())


def test_an_epoch_in_one_commit():
    table = SinkTable()
    assert table.query("q") is None
    for record in table.commit("q", 3, 10, 5.0):
        table.apply(record)
    assert table.query("q") == Query("q", 3, 10, 5.0)
    assert len(table) == 1
    table.check_epoch("q", 3)
    table.check_epoch("other", 0)
    with pytest.raises(FailedPrecondition, match="epoch 2 of query 'q' comes before 3"):
        table.check_epoch("q", 2)
    assert table.is_over(StageKey("q", 3, 0, "a"))
    assert not table.is_over(StageKey("q", 4, 0, "a"))
    assert not table.is_over(StageKey("r", 0, 0, "a"))


def test_an_epoch_in_parts():
    table = SinkTable()
    for record in table.begin(COMMITTING):
        table.apply(record)
    assert table.committing("q") == COMMITTING
    assert table.progress("q") == EpochProgress(0, 0, 0)
    for record in table.advance("q", EpochProgress(1, 5, 9)):
        table.apply(record)
    assert table.progress("q") == EpochProgress(1, 5, 9)
    assert list(table.all_committing()) == [COMMITTING]
    assert table.forget_idle(1e12, limit=10) == []
    for record in table.commit("q", 8, 12, 5.0):
        table.apply(record)
    assert table.committing("q") is None
    assert table.progress("q") == EpochProgress(0, 0, 0)
    assert table.query("q") == Query("q", 8, 12, 5.0)


def test_queries_are_forgotten():
    table = SinkTable()
    for number in range(4):
        for record in table.commit(f"q{number}", 0, 0, float(number)):
            table.apply(record)
    forgotten = table.forget_idle(3.0, limit=2)
    assert len(forgotten) == 2
    for record in forgotten:
        table.apply(record)
    assert [table.query(f"q{n}") is None for n in range(4)] == [True, True, False, False]
