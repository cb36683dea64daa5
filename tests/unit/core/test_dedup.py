"""Dedup ids of one partition: what is new, what repeats, what is forgotten."""

from __future__ import annotations

from fanlog.core.dedup import DedupWindow
from fanlog.core.records import DedupEntry, decode, digest_of
from fanlog.model.resources import PartitionId

PARTITION = PartitionId(7)


class World:
    """A window and the log's end, as the broker keeps them."""

    def __init__(self, most: int = 1_000, window_s: float = 600.0) -> None:
        self.window = DedupWindow(PARTITION)
        self.end, self.now = 100, 1_000.0
        self.most, self.window_s = most, window_s

    def publish(self, *dedup_ids: str) -> list[int]:
        admission = self.window.admit(
            dedup_ids,
            base_offset=self.end,
            now=self.now,
            window_s=self.window_s,
            most=self.most,
        )
        for record in admission.records:
            self.window.apply(record)
        self.end += len(admission.fresh)
        return list(admission.offsets)


def test_a_repeated_id_is_the_message_that_is_there():
    world = World()
    assert world.publish("a", "b") == [100, 101]
    assert world.publish("b", "c", "a") == [101, 102, 100]
    assert world.end == 103


def test_without_an_id_every_message_is_new():
    world = World()
    assert world.publish("", "a", "", "a") == [100, 101, 102, 101]
    assert world.publish("", "") == [103, 104]


def test_messages_of_one_publish_may_repeat_each_other():
    world = World()
    assert world.publish("a", "a", "b", "a") == [100, 100, 101, 100]


def test_a_window_ends():
    world = World(window_s=10.0)
    world.publish("a")
    world.now += 9.9
    assert world.publish("a") == [100]
    world.now += 0.1
    assert world.publish("a") == [101], "the window began with the first, not with the repetition"
    assert world.publish("a") == [101]


def test_a_window_of_nothing_is_off_between_publishes():
    world = World(window_s=0.0)
    assert world.publish("a") == [100]
    assert world.publish("a") == [101]


def test_beyond_the_bound_the_oldest_are_forgotten():
    world = World(most=3)
    world.publish("a", "b", "c")
    world.publish("d")
    assert len(world.window) == 3
    assert world.publish("b", "c", "d") == [101, 102, 103]
    assert world.publish("a") == [104]


def test_what_is_over_is_forgotten_a_part_at_a_time():
    world = World(window_s=10.0)
    world.publish("a", "b", "c")
    world.now += 5
    world.publish("d")
    assert world.window.expire(world.now, limit=10) == []
    world.now += 5
    first = world.window.expire(world.now, limit=2)
    assert [entry.digest for entry in first] == [digest_of("a"), digest_of("b")]
    for entry in first:
        world.window.apply(entry)
    assert [e.digest for e in world.window.expire(world.now, limit=2)] == [digest_of("c")]
    assert len(world.window.forget(limit=10)) == 2


def test_recovery_brings_back_the_order():
    world = World(window_s=10.0)
    entries = [DedupEntry(PARTITION, digest_of(i), n, 1_000.0 - n) for n, i in enumerate("abc")]
    for entry in entries:
        world.window.apply(entry)
    world.window.sort()
    expired = world.window.expire(1_000.0, limit=2)
    assert [entry.digest for entry in expired] == [digest_of("c"), digest_of("b")]


def test_records_are_read_back():
    entry = DedupEntry(PARTITION, digest_of("a"), 12, 34.5)
    value = entry.value()
    assert value is not None
    assert decode(entry.key(), value) == entry
    assert DedupEntry(PARTITION, digest_of("a"), None, 0.0).value() is None
