"""Many filters at once give what each gives by itself."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fanlog.errors import InvalidArgument
from fanlog.pipeline.jobs import filter_join
from fanlog.pipeline.jobs.fan_out import messages_of
from fanlog.pipeline.jobs.filter_join import FanOut, OffsetSets
from fanlog.pipeline.jobs.terms import Term, cover
from fanlog.pipeline.jobs.work import Work
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_parse import parse

KEYS = ["a", "b", "c"]
VALUES = ["", "x", "xy", "xyz", "ü", "5"]


def batch_of(messages):
    count = len(messages)
    return pa.RecordBatch.from_pydict(
        {
            "partition": pa.array([1] * count, pa.int64()),
            "offset": pa.array(range(count), pa.int64()),
            "attributes": pa.array(
                [list(one.items()) for one in messages], pa.map_(pa.string(), pa.string())
            ),
            "data": pa.array([b'{"n": 1}'] * count, pa.binary()),
            "ordering_key": pa.array([""] * count),
            "topic": pa.array(["projects/p/topics/orders"] * count),
            "message_id": pa.array([f"1{number:012d}" for number in range(count)]),
            "publish_time": pa.array([0] * count, pa.timestamp("us", "UTC")),
        }
    )


def found(filters, batch):
    rows, numbers = FanOut(filters).pairs(batch)
    return set(zip(rows.tolist(), numbers.tolist(), strict=True))


def one_by_one(filters, messages):
    tests = [(number, parse(text)) for number, text in enumerate(filters)]
    return {
        (row, number)
        for row, attributes in enumerate(messages)
        for number, tree in tests
        if tree is None
        or compile_filter(tree)(
            Candidate(
                dict(attributes),
                b'{"n": 1}',
                ordering_key="",
                publish_time_us=0,
                topic="orders",
                message_id=f"1{row:012d}",
            )
        )
    }


predicates = st.one_of(
    st.builds('attributes.{} = "{}"'.format, st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.builds('attributes.{} != "{}"'.format, st.sampled_from(KEYS), st.sampled_from(VALUES)),
    st.builds(
        'hasPrefix(attributes.{}, "{}")'.format, st.sampled_from(KEYS), st.sampled_from(VALUES[1:])
    ),
    st.builds("attributes:{}".format, st.sampled_from(KEYS)),
    st.builds('attributes.{} IN ("x", "ü")'.format, st.sampled_from(KEYS)),
    st.builds('attributes.{} = "x*z"'.format, st.sampled_from(KEYS)),
    st.builds("attributes.{} > 3".format, st.sampled_from(KEYS)),
    st.just("payload.n = 1"),
    st.just('topic = "orders"'),
)
filters = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)
messages = st.lists(
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1, max_size=6
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(st.just(""), filters), min_size=1, max_size=6), messages)
def test_the_same_as_one_by_one(texts, rows):
    assert found(texts, batch_of(rows)) == one_by_one(texts, rows)


def test_a_slice_of_a_batch():
    rows = [{"a": str(number % 3)} for number in range(10)]
    texts = ['attributes.a = "1" AND attributes:a', 'attributes.a = "2"']
    assert found(texts, batch_of(rows).slice(4, 3)) == one_by_one(texts, rows[4:7])


@pytest.mark.parametrize(
    ("text", "terms", "is_exact"),
    [
        ('attributes.a = "x"', {Term("a", "x")}, True),
        ('attributes.a IN ("x", "y")', {Term("a", "x"), Term("a", "y")}, True),
        ('attributes:a AND attributes.b = "x"', {Term("b", "x")}, False),
        ('attributes:a OR attributes.b = "x"', {Term("a"), Term("b", "x")}, True),
        ('attributes.a = "us-*"', {Term("a", "us-", is_prefix=True)}, None),
        ("attributes.a > 3", {Term("a")}, False),
    ],
)
def test_covers(text, terms, is_exact):
    found = cover(parse(text))
    assert set(found.terms) == terms
    assert is_exact is None or found.is_exact == is_exact


@pytest.mark.parametrize("text", ["NOT attributes:a", "payload.n = 1", 'attributes.a != "x"'])
def test_some_have_no_cover(text):
    assert cover(parse(text)) is None


def test_sets_are_gathered_a_part_at_a_time(monkeypatch):
    monkeypatch.setattr(filter_join, "PAIRS_MAX", 3)
    sets = OffsetSets()
    for start in range(0, 10, 2):
        sets.add(np.array([0, 70_000]), np.array([1, 2]), np.array([start, start + 1]))
    sets.flush()
    assert {key: list(one) for key, one in sets.sets.items()} == {
        (0, 1): [0, 2, 4, 6, 8],
        (70_000, 2): [1, 3, 5, 7, 9],
    }


@pytest.mark.parametrize("message_id", ["", "x", "²" * 13, "0" * 13, "9" * 5_000])
def test_a_job_about_a_message_wants_its_id(message_id):
    arguments = {"topic": "projects/p/topics/orders", "message_id": message_id}
    with pytest.raises(InvalidArgument, match="is not an id of this service"):
        messages_of(None, Work("projects/p/jobs/j", "fan-out", arguments))
