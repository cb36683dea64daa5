"""The rules of every log engine, as a suite that any engine can run.

Subclass `LogConformance` in a test module, say how to make, reopen and damage a log, and pytest
does the rest:

    class TestMyEngine(LogConformance):
        def make_log(self, place: Path) -> Log:
            return MyLog(place)

The tests are grouped by the numbered invariants of `fanlog.log.api`. Tests of a feature that an
engine declares not to have (`features`) are skipped, with the feature's name.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanlog import limits
from fanlog.log.api import Append, Bounds, Commit, Damaged, Extent, Log, Trim
from fanlog.log.batch import Batch
from fanlog.log.seal import Seal
from fanlog.model.resources import Offset, PartitionId
from fanlog.testing.author import (
    ALL_BYTES,
    ONE,
    SECOND_NS,
    START_NS,
    THREE,
    TOPIC,
    TWO,
    Author,
    make_body,
    messages_of,
)
from fanlog.testing.stored_reads import StoredReads


class LogConformance(StoredReads):
    """The suite. Each test gets a new, empty log."""

    # The methods that an engine's suite fills in; `damage` is one more of these.

    @abstractmethod
    def make_log(self, place: Path) -> Log:
        """A new, empty log; `place` is an empty folder of its own."""

    def reopen(self, log: Log, place: Path) -> Log:
        """Close a durable log and open it again. Called only if `features.durable`."""
        pytest.fail("the engine is durable, so its suite has to say how to reopen it")

    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        log = self.make_log(tmp_path)
        yield log
        log.close()

    @pytest.fixture
    def author(self, log: Log) -> Author:
        return Author(log)

    def read(
        self, log: Log, partition: PartitionId, offset: Offset, max_bytes: int = ALL_BYTES
    ) -> list[Batch | Damaged]:
        return self.run(log.read(partition, offset, max_bytes=max_bytes))

    def extents(
        self,
        log: Log,
        partition: PartitionId,
        offset: Offset,
        step_bytes: int,
        limit: int = 1_000,
    ) -> list[Extent]:
        return self.run(log.extents(partition, offset, step_bytes=step_bytes, limit=limit))

    def messages(self, log: Log, partition: PartitionId) -> list[bytes]:
        return messages_of(self.read(log, partition, 0))

    # A new log.

    def test_new_log_is_empty(self, log: Log) -> None:
        assert log.last_sequence == 0
        assert log.last_publish_time_ns == 0
        assert len(log.identity) == 16
        assert log.bounds(ONE) == Bounds(0, 0)
        assert log.partitions() == {}
        assert list(log.state()) == []
        assert log.positions(0, limit=10) == []
        assert self.read(log, ONE, 0) == []
        assert self.run(log.offset_for_time(ONE, START_NS)) == 0
        assert not log.has_garbage

    def test_identities_differ(self, log: Log, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        other = self.make_log(tmp_path / "other")
        assert other.identity != log.identity
        other.close()

    def test_close_twice(self, log: Log) -> None:
        log.close()
        log.close()

    # 1. Offsets are dense, and what went in comes out.

    def test_appends_follow_one_another(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a", b"b")
        author.publish(TWO, b"x")
        author.publish(ONE, b"c")
        assert log.bounds(ONE) == Bounds(0, 3)
        assert log.bounds(TWO) == Bounds(0, 1)
        assert log.partitions() == {ONE: Bounds(0, 3), TWO: Bounds(0, 1)}
        assert self.messages(log, ONE) == [b"a", b"b", b"c"]
        assert self.messages(log, TWO) == [b"x"]

    def test_batch_says_where_it_stands(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a", b"b")
        seal = Seal(is_letter=True, addressee=2**64 - 1)
        body = make_body(
            b"c", b"", key_hashes=[2**64 - 1, 0], attributes={"k": "v", "": "é"}, seal=seal
        )
        sequence = author.commit({ONE: [body]})
        (batch,) = self.read(log, ONE, 2)
        assert isinstance(batch, Batch)
        assert (batch.topic, batch.partition) == (TOPIC, ONE)
        assert (batch.base_offset, batch.end_offset, batch.count) == (2, 4, 2)
        assert (batch.sequence, batch.publish_time_ns) == (sequence, log.last_publish_time_ns)
        assert list(batch.starts) == [0, 1, 1]
        assert batch.key_hashes is not None
        assert list(batch.key_hashes) == [2**64 - 1, 0]
        assert batch.attributes == {"k": "v", "": "é"}
        assert batch.seal == seal
        assert batch.content == b"c"

    def test_one_commit_of_many_bodies(self, log: Log, author: Author) -> None:
        bodies = [make_body(b"%d" % i) for i in range(200)]
        author.commit({ONE: bodies, TWO: bodies[:3]})
        assert log.bounds(ONE) == Bounds(0, 200)
        assert self.messages(log, ONE) == [b"%d" % i for i in range(200)]
        assert self.messages(log, TWO) == [b"0", b"1", b"2"]

    def test_two_appends_to_one_partition(self, log: Log) -> None:
        appends = [
            Append(topic=TOPIC, partition=ONE, base_offset=0, bodies=[make_body(b"a", b"b")]),
            Append(topic=TOPIC, partition=ONE, base_offset=2, bodies=[make_body(b"c")]),
        ]
        log.commit(Commit(sequence=1, publish_time_ns=START_NS, appends=appends))
        assert self.messages(log, ONE) == [b"a", b"b", b"c"]

    def test_large_bodies_are_cut(self, log: Log, author: Author) -> None:
        messages = [bytes([i]) * (limits.BATCH_BYTES_MAX // 3) for i in range(10)]
        messages.insert(4, b"!" * limits.BATCH_BYTES_MAX * 3)
        author.publish(ONE, *messages)
        batches = self.read(log, ONE, 0)
        assert len(batches) >= 5
        assert messages_of(batches) == messages
        expected = 0
        for batch in batches:
            assert batch.base_offset == expected
            expected += batch.count

    @pytest.mark.parametrize("base_offset", [0, 1, 3])
    def test_gap_or_overlap_is_refused(self, log: Log, author: Author, base_offset: Offset) -> None:
        author.publish(ONE, b"a", b"b")
        append = Append(
            topic=TOPIC, partition=ONE, base_offset=base_offset, bodies=[make_body(b"c")]
        )
        with pytest.raises(AssertionError):
            log.commit(Commit(sequence=2, publish_time_ns=START_NS * 2, appends=[append]))
        assert log.last_sequence == 1
        assert self.messages(log, ONE) == [b"a", b"b"]

    @pytest.mark.parametrize("sequence", [0, 1, 3])
    def test_sequence_out_of_turn_is_refused(self, log: Log, author: Author, sequence: int) -> None:
        author.publish(ONE, b"a")
        with pytest.raises(AssertionError):
            log.commit(Commit(sequence=sequence, publish_time_ns=START_NS * 2))
        assert log.last_sequence == 1

    # Reading.

    def test_read_in_the_middle_of_a_batch(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a", b"b", b"c")
        author.publish(ONE, b"d")
        for offset in (0, 1, 2):
            assert [batch.base_offset for batch in self.read(log, ONE, offset)] == [0, 3]
        assert [batch.base_offset for batch in self.read(log, ONE, 3)] == [3]

    def test_read_at_and_past_the_end(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a")
        author.publish(TWO, b"b")
        assert self.read(log, ONE, 1) == []
        assert self.read(log, ONE, 10**12) == []
        assert self.read(log, PartitionId(0), 0) == []
        assert self.read(log, THREE, 0) == []

    def test_read_stops_at_max_bytes(self, log: Log, author: Author) -> None:
        for _ in range(10):
            author.publish(ONE, b"x" * 1_000)
        assert len(self.read(log, ONE, 0, max_bytes=0)) == 1
        assert len(self.read(log, ONE, 3, max_bytes=1)) == 1
        assert 2 <= len(self.read(log, ONE, 0, max_bytes=3_500)) <= 3
        # The same again, from the engine's cache, if it has one.
        assert 2 <= len(self.read(log, ONE, 0, max_bytes=3_500)) <= 3
        assert len(self.read(log, ONE, 0, max_bytes=100_000)) == 10

    def test_reading_on_from_each_answer_sees_everything_once(
        self, log: Log, author: Author
    ) -> None:
        sent = [b"%d" % i for i in range(60)]
        for i in range(0, 60, 3):
            author.publish(ONE, *sent[i : i + 3])
        seen: list[bytes] = []
        offset = 0
        while batches := self.read(log, ONE, offset, max_bytes=300):
            seen += messages_of(batches)
            offset = batches[-1].base_offset + batches[-1].count
        assert seen == sent

    # 2. Whole commits only, and only those that returned.

    def test_readers_see_whole_commits(self, log: Log, author: Author) -> None:
        done = threading.Event()

        def write() -> None:
            try:
                for i in range(150):
                    bodies = [make_body(b"%d" % i)]
                    trims = [Trim(partition=ONE, before=i - 50), Trim(partition=TWO, before=i - 50)]
                    author.commit({ONE: bodies, TWO: bodies}, trims=trims if i % 10 == 0 else [])
            finally:
                done.set()

        writer = threading.Thread(target=write)
        writer.start()
        is_last_round = False
        while not is_last_round:
            is_last_round = done.is_set()
            sequence = log.last_sequence
            ends = [log.bounds(ONE).end, log.bounds(TWO).end, log.bounds(ONE).end]
            assert sequence <= ends[0] <= ends[1] <= ends[2]
            bounds = log.bounds(TWO)
            messages = messages_of(self.read(log, TWO, bounds.start))
            start = int(messages[0]) if messages else 0
            assert messages == [b"%d" % i for i in range(start, start + len(messages))]
            assert bounds.end <= start + len(messages)
            positions = log.positions(max(0, sequence - 5), limit=1_000)
            assert {position.partition for position in positions} <= {ONE, TWO}
            assert len(positions) % 2 == 0
        writer.join()
        assert log.bounds(ONE).end == log.bounds(TWO).end == 150

    # 3. A failed commit changes nothing.

    def test_commit_that_fails_half_way_changes_nothing(self, log: Log, author: Author) -> None:
        author.commit({ONE: [make_body(b"a")]}, state={b"k": b"1"})

        class Failing(dict[bytes, bytes | None]):
            def items(self) -> Any:
                yield b"k", b"2"
                raise OSError("the test says so")

        commit = Commit(
            sequence=2,
            publish_time_ns=START_NS * 2,
            appends=[Append(topic=TOPIC, partition=ONE, base_offset=1, bodies=[make_body(b"b")])],
            state=Failing({b"k": b"2"}),
        )
        with pytest.raises(OSError, match="the test says so"):
            log.commit(commit)
        assert log.last_sequence == 1
        assert log.bounds(ONE) == Bounds(0, 1)
        assert self.messages(log, ONE) == [b"a"]
        assert dict(log.state()) == {b"k": b"1"}
        assert len(log.positions(0, limit=10)) == 1
        author.commit({ONE: [make_body(b"c")]}, state={b"k": b"3"})
        assert self.messages(log, ONE) == [b"a", b"c"]
        assert dict(log.state()) == {b"k": b"3"}

    # 4. Publish times never run backwards.

    def test_publish_time_may_stand_still_but_not_go_back(self, log: Log, author: Author) -> None:
        author.commit({ONE: [make_body(b"a")]}, publish_time_ns=START_NS)
        author.commit({ONE: [make_body(b"b")]}, publish_time_ns=START_NS)
        with pytest.raises(AssertionError):
            author.commit({ONE: [make_body(b"c")]}, publish_time_ns=START_NS - 1)
        assert log.last_publish_time_ns == START_NS
        assert log.last_sequence == 2

    def test_offset_for_time(self, log: Log, author: Author) -> None:
        times_ns = []
        for i in range(20):
            time_ns = START_NS + (i // 2) * SECOND_NS
            author.commit({ONE: [make_body(b"a", b"b", b"c")]}, publish_time_ns=time_ns)
            times_ns += [time_ns] * 3
        author.commit({TWO: [make_body(b"z")]})
        for time_ns in (START_NS - 1, *times_ns, *(t + 1 for t in times_ns), START_NS * 2):
            expected = next((i for i, t in enumerate(times_ns) if t >= time_ns), 60)
            assert self.run(log.offset_for_time(ONE, time_ns)) == expected

    def test_offset_for_time_of_a_trimmed_partition(self, log: Log, author: Author) -> None:
        for _ in range(5):
            author.publish(ONE, b"a", b"b")
        author.commit(trims=[Trim(partition=ONE, before=3)])
        assert self.run(log.offset_for_time(ONE, 0)) == 3
        assert self.run(log.offset_for_time(ONE, START_NS + 4 * SECOND_NS)) == 6
        author.commit(trims=[Trim(partition=ONE, before=10)])
        assert self.run(log.offset_for_time(ONE, 0)) == 10

    def test_extents_add_up_what_is_stored(self, log: Log, author: Author) -> None:
        for number in range(6):
            author.publish(ONE, b"%d" % number * 100)
        sizes = [position.size_bytes for position in log.positions(0, limit=10)]
        found = self.extents(log, ONE, 0, step_bytes=2 * sizes[0])
        assert [one.end_offset for one in found] == [2, 4, 6]
        assert [one.size_bytes for one in found] == [2 * sizes[0]] * 3
        assert [one.first_ns - START_NS for one in found] == [n * SECOND_NS for n in (1, 3, 5)]
        assert [one.last_ns - START_NS for one in found] == [n * SECOND_NS for n in (2, 4, 6)]
        # The rest is one more extent; a walk that stops at `limit` goes on from its last offset.
        assert [one.end_offset for one in self.extents(log, ONE, 1, step_bytes=1 << 30)] == [6]
        assert [one.end_offset for one in self.extents(log, ONE, 1, 1 << 30, limit=2)] == [3]
        assert self.extents(log, ONE, 6, step_bytes=1) == []
        assert self.extents(log, TWO, 0, step_bytes=1) == []

    def test_extents_of_a_trimmed_partition(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a", b"b", b"c")
        author.publish(ONE, b"d")
        whole = [position.size_bytes for position in log.positions(0, limit=10)]
        author.commit(trims=[Trim(partition=ONE, before=1)])
        # The batch that holds the start is there whole.
        found = self.extents(log, ONE, 0, step_bytes=1)
        assert [(one.end_offset, one.size_bytes) for one in found] == [(3, whole[0]), (4, whole[1])]
        author.commit(trims=[Trim(partition=ONE, before=3)])
        assert [one.end_offset for one in self.extents(log, ONE, 0, step_bytes=1)] == [4]

    # 5. A damaged batch is named, and its neighbours are served.

    def test_damaged_batch(self, log: Log, author: Author, tmp_path: Path) -> None:
        author.publish(ONE, b"first message", b"second message")
        author.publish(ONE, b"third message", b"fourth message", b"fifth message")
        author.publish(ONE, b"sixth message")
        log = self.damage(log, tmp_path, ONE, 2)
        before, damaged, after = self.read(log, ONE, 0)
        assert messages_of([before, after])[-1] == b"sixth message"
        assert isinstance(damaged, Damaged)
        assert (damaged.partition, damaged.base_offset, damaged.count) == (ONE, 2, 3)
        assert "checksum" in damaged.reason
        assert self.read(log, ONE, 4)[0] == damaged
        assert self.run(log.offset_for_time(ONE, START_NS + 3 * SECOND_NS)) == 5
        log.close()

    # State.

    def test_state_is_a_map_in_key_order(self, log: Log, author: Author) -> None:
        author.commit(state={b"b": b"2", b"a": b"1", b"\xff" * 511: b"long", b"c": b""})
        assert list(log.state()) == [
            (b"a", b"1"),
            (b"b", b"2"),
            (b"c", b""),
            (b"\xff" * 511, b"long"),
        ]
        author.commit(state={b"a": b"x" * 20_000, b"b": None, b"never": None})
        assert dict(log.state()) == {b"a": b"x" * 20_000, b"c": b"", b"\xff" * 511: b"long"}

    @pytest.mark.parametrize("key", [b"", b"k" * 512])
    def test_key_of_a_wrong_length_is_refused(self, log: Log, author: Author, key: bytes) -> None:
        with pytest.raises(AssertionError):
            author.commit(state={key: b"1"})
        assert log.last_sequence == 0

    # Positions.

    def test_positions_are_in_commit_order(self, log: Log, author: Author) -> None:
        if not log.features.total_order:
            pytest.skip("features.total_order is not declared")
        author.publish(TWO, b"a", b"b")
        author.commit(state={b"k": b"v"})
        author.commit({TWO: [make_body(b"c")], ONE: [make_body(b"d")]})
        found = [(p.sequence, p.partition, p.base_offset) for p in log.positions(0, limit=10)]
        assert found[0] == (1, TWO, 0)
        assert sorted(found[1:]) == [(3, ONE, 0), (3, TWO, 2)]
        assert log.positions(3, limit=10) == []

    def test_positions_page_by_whole_commits(self, log: Log, author: Author) -> None:
        if not log.features.total_order:
            pytest.skip("features.total_order is not declared")
        for i in range(10):
            bodies = [make_body(b"x")]
            author.commit(dict.fromkeys([ONE, TWO, THREE][: 1 + i % 3], bodies))
        whole = log.positions(0, limit=1_000)
        assert len(whole) == 19
        for limit in (1, 2, 3, 4, 7, 19):
            paged = []
            after = 0
            while page := log.positions(after, limit=limit):
                assert len(page) <= max(limit, 3)
                paged += page
                after = page[-1].sequence
            assert paged == whole

    # Trimming.

    def test_trim_moves_the_start_at_once(self, log: Log, author: Author) -> None:
        for i in range(4):
            author.publish(ONE, b"%da" % i, b"%db" % i)
        author.commit(trims=[Trim(partition=ONE, before=5)])
        for _ in range(2):
            assert log.bounds(ONE) == Bounds(5, 8)
            assert [batch.base_offset for batch in self.read(log, ONE, 0)] == [4, 6]
            assert [batch.base_offset for batch in self.read(log, ONE, 7)] == [6]
            assert [p.base_offset for p in log.positions(0, limit=10)] == [4, 6]
            author.collect_garbage()

    def test_trim_never_moves_back_or_past_the_end(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a", b"b")
        author.commit(trims=[Trim(partition=ONE, before=1)])
        author.commit(trims=[Trim(partition=ONE, before=0), Trim(partition=TWO, before=5)])
        assert log.bounds(ONE) == Bounds(1, 2)
        author.commit(trims=[Trim(partition=ONE, before=99)])
        assert log.bounds(ONE) == Bounds(2, 2)
        assert self.read(log, ONE, 0) == []
        author.publish(ONE, b"c")
        assert log.bounds(ONE) == Bounds(2, 3)
        assert self.messages(log, ONE) == [b"c"]

    def test_append_and_trim_in_one_commit(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"a")
        author.commit({ONE: [make_body(b"b")]}, trims=[Trim(partition=ONE, before=2)])
        assert log.bounds(ONE) == Bounds(2, 2)

    def test_trimmed_bytes_are_freed_by_later_commits(self, log: Log, author: Author) -> None:
        for i in range(300):
            author.publish(ONE, b"%d" % i)
        author.publish(TWO, b"other")
        author.commit(trims=[Trim(partition=ONE, before=299)])
        author.collect_garbage()
        assert log.bounds(ONE) == Bounds(299, 300)
        assert self.messages(log, ONE) == [b"299"]
        assert self.messages(log, TWO) == [b"other"]
        assert len(log.positions(0, limit=1_000)) == 2

    def test_many_partitions_are_trimmed_at_once(self, log: Log, author: Author) -> None:
        many = [PartitionId(i) for i in range(300)]
        author.commit({partition: [make_body(b"a", b"b")] for partition in many})
        author.commit({ONE: [make_body(b"c")]})
        author.commit(trims=[Trim(partition=partition, before=1) for partition in many])
        author.commit(trims=[Trim(partition=partition, before=2) for partition in many])
        author.collect_garbage()
        assert set(log.partitions().values()) == {Bounds(2, 2), Bounds(2, 3)}
        assert self.messages(log, ONE) == [b"c"]
        assert len(log.positions(0, limit=1_000)) == 1

    def test_dropped_partition_is_forgotten(self, log: Log, author: Author) -> None:
        for i in range(200):
            author.commit({ONE: [make_body(b"%d" % i)], TWO: [make_body(b"%d" % i)]})
        author.commit(trims=[Trim(partition=ONE, before=0, dropped=True)])
        for _ in range(2):
            assert log.partitions() == {TWO: Bounds(0, 200)}
            assert log.bounds(ONE) == Bounds(0, 0)
            assert self.read(log, ONE, 0) == []
            assert {p.partition for p in log.positions(0, limit=1_000)} == {TWO}
            author.collect_garbage()
        assert len(self.messages(log, TWO)) == 200

    def test_stats_have_room(self, log: Log, author: Author) -> None:
        author.publish(ONE, b"x" * 100_000)
        stats = log.stats()
        assert stats.room_bytes > 0
        assert stats.file_bytes >= 100_000 if log.features.durable else stats.file_bytes == 0
        assert 0 <= stats.free_bytes <= stats.file_bytes

    # Durability.

    def test_everything_survives_reopening(self, log: Log, author: Author, tmp_path: Path) -> None:
        if not log.features.durable:
            pytest.skip("features.durable is not declared")
        for i in range(100):
            author.commit(
                {ONE: [make_body(b"%d" % i)], TWO: [make_body(b"x")], THREE: [make_body(b"y")]},
                state={b"k%d" % (i % 7): b"%d" % i},
            )
        trims = [Trim(partition=ONE, before=90), Trim(partition=TWO, before=0, dropped=True)]
        author.commit(trims=trims)
        author.publish(PartitionId(2**32 - 1), b"last")

        def everything(log: Log) -> tuple[object, ...]:
            partitions = log.partitions()
            return (
                log.identity,
                log.last_sequence,
                log.last_publish_time_ns,
                partitions,
                list(log.state()),
                log.positions(0, limit=1_000),
                [self.read(log, partition, 0) for partition in partitions],
            )

        before = everything(log)
        log = self.reopen(log, tmp_path)
        assert everything(log) == before
        author = Author(log)
        author.collect_garbage()
        assert log.partitions() == before[3]
        author.publish(ONE, b"100")
        log = self.reopen(log, tmp_path)
        assert self.messages(log, ONE) == [b"%d" % i for i in range(90, 101)]
        log.close()
