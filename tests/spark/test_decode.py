"""Stored batches as Arrow batches: both roads give what protobuf reads."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanlog.model.ids import message_id
from fanlog.spark import slices
from fanlog.spark.decode import RowBuilder, message_ids
from fanlog.spark.schemas import arrow_schema
from fanlog.wire import types
from fanlog.wire.encode import field
from spark.stored import TIME_NS, batch_of

TOPIC = "projects/p/topics/t"

texts = st.text(max_size=5) | st.text(min_size=130, max_size=140)
messages = st.tuples(
    st.binary(max_size=5) | st.binary(min_size=126, max_size=130) | st.just(b"x" * 20_000),
    st.dictionaries(texts.filter(bool), texts, max_size=4),
    texts,
)


def rows_of(*batches, with_sequence=True):
    rows = RowBuilder(arrow_schema(with_sequence=with_sequence))
    for batch in batches:
        rows.add(batch, 0, batch.count, TOPIC)
    return rows.finish()


@settings(max_examples=80, deadline=None)
@given(st.lists(messages, min_size=1, max_size=12))
def test_the_columns_are_the_messages(given_messages):
    batch = batch_of(given_messages)
    found = rows_of(batch)
    assert slices.cut(batch.content, np.asarray(batch.starts, np.int64)) is not None
    assert found.column("data").to_pylist() == [data for data, _, _ in given_messages]
    assert found.column("ordering_key").to_pylist() == [key for _, _, key in given_messages]
    attributes = [dict(each) for each in found.column("attributes").to_pylist()]
    assert attributes == [dict(each) for _, each, _ in given_messages]
    assert found.column("offset").to_pylist() == list(range(1_000, 1_000 + len(given_messages)))
    found.validate(full=True)


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_any_bytes_are_understood_as_protobuf_does_or_not_at_all(content, places):
    starts = np.array(sorted({0, len(content), *(p for p in places if p <= len(content))}))
    found = slices.cut(content, starts.astype(np.int64))
    if found is None:
        return
    # Cut at the right places, so each piece is one `messages` field.
    for index, (begin, end) in enumerate(pairwise(starts)):
        try:
            read = types.PublishRequest.FromString(b"\x12" + content[begin + 1 : end])
        except Exception:
            continue  # Not UTF-8, which publishing refuses.
        assert read.messages[0].data == found.data[index].as_py()


def test_what_a_batch_has_in_common_is_in_every_row():
    found = rows_of(
        batch_of([(b"a", {}, "")] * 2), batch_of([(b"b", {}, "")], partition=13, sequence=8)
    )
    assert found.schema == arrow_schema(with_sequence=True)
    assert found.column("topic").to_pylist() == [TOPIC] * 3
    assert found.column("partition").to_pylist() == [12, 12, 13]
    assert found.column("sequence").to_pylist() == [7, 7, 8]
    assert found.column("publish_time")[0].as_py() == datetime.fromtimestamp(
        TIME_NS // 1_000 / 1_000_000, UTC
    )
    assert found.column("message_id").to_pylist() == [
        message_id(12, 1_000), message_id(12, 1_001), message_id(13, 1_000)
    ]  # fmt: skip


def test_attributes_of_a_batch_win_over_those_of_its_messages():
    batch = batch_of([(b"x", {"a": "1", "b": "2"}, ""), (b"", {}, "k")], attributes={"b": "3"})
    found = rows_of(batch)
    assert [dict(each) for each in found.column("attributes").to_pylist()] == [
        {"a": "1", "b": "3"},
        {"b": "3"},
    ]
    assert found.column("ordering_key").to_pylist() == ["", "k"]


def test_parts_of_a_batch():
    batch = batch_of([(b"%d" % number, {"n": str(number)}, "") for number in range(10)])
    rows = RowBuilder(arrow_schema(with_sequence=False))
    rows.add(batch, 2, 4, TOPIC)
    rows.add_some(batch, [5, 9], "projects/p/topics/u")
    found = rows.finish()
    assert found.column("data").to_pylist() == [b"2", b"3", b"5", b"9"]
    assert found.column("offset").to_pylist() == [1_002, 1_003, 1_005, 1_009]
    assert [topic[-1] for topic in found.column("topic").to_pylist()] == ["t", "t", "u", "u"]
    assert "sequence" not in found.schema.names


def test_what_is_not_canonical_is_left_to_protobuf():
    """A value before its key, and a field that should not be there."""
    entry = field(b"\x12", b"v") + field(b"\x0a", b"k")
    for message in (field(b"\x12", entry), field(b"\x0a", b"d") + field(b"\x1a", b"id")):
        content = field(b"\x12", message)
        batch = replace(batch_of([(b"", {}, "")]), content=content, starts=[0, len(content)])
        assert slices.cut(content, np.array([0, len(content)])) is None
        assert rows_of(batch).num_rows == 1


def test_an_arrow_batch_is_bounded_by_rows_and_bytes():
    rows = RowBuilder(arrow_schema(with_sequence=False), rows=3, size_bytes=100)
    rows.add(batch_of([(b"x", {}, "")] * 2), 0, 2, TOPIC)
    assert not rows.is_full
    rows.add(batch_of([(b"x", {}, "")]), 0, 1, TOPIC)
    assert rows.is_full
    rows.finish()
    assert not rows.is_full
    rows.add(batch_of([(b"x" * 100, {}, "")]), 0, 1, TOPIC)
    assert rows.is_full


@pytest.mark.parametrize("partition", [1, 9_223_370, 9_223_372, 2**32 - 1])
def test_message_ids_of_any_partition(partition):
    offsets = np.array([0, 7, 999_999_999_999])
    found = message_ids(np.full(3, partition), offsets).to_pylist()
    assert found == [message_id(partition, offset) for offset in offsets.tolist()]
