"""A body for a topic of several partitions is split; for one, it is left as it is."""

from __future__ import annotations

from fanlog.broker.parts import parts_of
from fanlog.core.partitioning import choose
from fanlog.model.resources import PartitionId
from fanlog.wire.publish import build_body, key_hash

ONE, TWO = PartitionId(1), PartitionId(2)
KEYS = ["a", "b", "c", "a", ""]


def test_one_partition_takes_the_body_as_it_is():
    body = build_body([(b"x", {}, key) for key in KEYS])
    assert parts_of([ONE], body) == [(ONE, body, None)]
    assert parts_of([ONE], body)[0][1] is body


def test_messages_go_by_their_keys_and_stay_in_order():
    body = build_body([(str(number).encode(), {}, key) for number, key in enumerate(KEYS)])
    parts = parts_of([ONE, TWO], body)
    assert sorted(index for *_, indexes in parts for index in indexes or ()) == [0, 1, 2, 3, 4]
    for partition, part, indexes in parts:
        assert list(indexes) == sorted(indexes)
        assert part.key_hashes == [body.key_hashes[index] for index in indexes]
        for place, index in enumerate(indexes):
            wanted = choose([ONE, TWO], key_hash=key_hash(KEYS[index]) if KEYS[index] else 0)
            assert partition == wanted
            assert str(index).encode() in part.content[part.starts[place] : part.starts[place + 1]]


def test_a_body_of_one_key_is_not_copied():
    body = build_body([(b"x", {}, "a"), (b"y", {}, "a")])
    [(_, part, indexes)] = parts_of([ONE, TWO], body)
    assert part is body
    assert indexes is None


def test_repetitions_meet_in_one_partition():
    body = build_body([(b"x", {}, "")] * 4)
    ids = ["one", "two", "one", "three"]
    found = {
        index: part
        for part, _, indexes in parts_of([ONE, TWO], body, ids)
        for index in indexes or range(4)
    }
    assert found[0] == found[2]
