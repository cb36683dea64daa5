"""Stored messages as filters see them: no further than they look."""

from __future__ import annotations

import pytest

from fanlog.log.batch import Batch
from fanlog.model.resources import PartitionId
from fanlog.routing.filter_index import FilterIndex
from fanlog.routing.filter_parse import parse
from fanlog.wire.candidates import candidates
from fanlog.wire.publish import build_body


def index_of(*filters: str) -> FilterIndex[str]:
    index: FilterIndex[str] = FilterIndex()
    for text in filters:
        tree = parse(text)
        assert tree is not None
        index.add(text, tree)
    return index


def batch_of(*messages: tuple[bytes, dict[str, str], str], damage: bytes = b"") -> Batch:
    body = build_body(messages)
    return Batch(
        topic=1,
        partition=PartitionId(2),
        base_offset=10,
        sequence=1,
        publish_time_ns=5_000,
        starts=body.starts,
        key_hashes=body.key_hashes,
        attributes={"of": "batch"},
        content=damage * len(body.content) or body.content,
    )


TWO = ((b"[1]", {"k": "a"}, "x"), (b"[2]", {"k": "b"}, ""))


def test_everything_unless_told():
    first, second = candidates(batch_of(*TWO), 0, 2, "orders")
    assert (first.attributes, first.payload) == ({"k": "a", "of": "batch"}, [1])
    assert (first.ordering_key, first.topic, first.publish_time_us) == ("x", "orders", 5)
    assert second.message_id == "2000000000011"


def test_a_part_of_a_batch():
    [second] = candidates(batch_of(*TWO), 1, 2, "orders", index_of("k=b"))
    assert (second.attributes["k"], second.message_id) == ("b", "2000000000011")


@pytest.mark.parametrize(
    "text", ['topic = "orders"', 'message_id = "7"', 'publish_time > "2026-01-01T00:00:00Z"']
)
def test_what_nobody_looks_at_is_not_parsed(text):
    index = index_of(text)
    assert not index.needs_message
    found = list(candidates(batch_of(*TWO, damage=b"\xff"), 0, 2, "orders", index))
    assert [(one.topic, one.message_id) for one in found] == [
        ("orders", "2000000000010"),
        ("orders", "2000000000011"),
    ]


@pytest.mark.parametrize(
    ("text", "attributes", "data", "key"),
    [
        ("k=a", {"k": "a", "of": "batch"}, b"", "x"),
        ("payload[0] = 1", {}, b"[1]", "x"),
        ('ordering_key = "x"', {}, b"", "x"),
        ("k=a AND payload[0] = 1", {"k": "a", "of": "batch"}, b"[1]", "x"),
    ],
)
def test_only_what_a_filter_needs(text, attributes, data, key):
    index = index_of(text)
    first, second = candidates(batch_of(*TWO), 0, 2, "orders", index)
    assert (first.attributes, first.data, first.ordering_key) == (attributes, data, key)
    assert (index.match(first), index.match(second)) == ([text], [])


def test_needs_end_with_the_filter():
    index = index_of("k=a", 'ordering_key = "x"')
    index.remove("k=a")
    assert (index.needs_message, index.needs_attributes) == (True, False)
    index.remove('ordering_key = "x"')
    assert not index.needs_message
