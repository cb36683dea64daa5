"""Commits are bounded by messages and state together, before anything is applied."""

from __future__ import annotations

import asyncio

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.metrics import Metrics
from fanlog.broker.transaction import Ledger
from fanlog.core.records import CursorChunk, DedupEntry, Record
from fanlog.core.records.sizes import bitmap_bytes_max, state_bytes
from fanlog.errors import CommitTooLarge
from fanlog.log.api import Commit, Features, Log
from fanlog.log.batch import Body, stored_bytes, stored_bytes_max
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.encoded import encode_commit
from fanlog.log.memory import MemoryLog
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.model.resources import PartitionId, TopicId
from fanlog.testing.kafka_partition import KafkaTopic
from fanlog.wire.publish import build_body
from record_samples import REMOVED, STORED
from replica_nodes import ReplicaNodes

TOPIC, ONE = TopicId(1), PartitionId(1)
#: Every second offset of a chunk: it takes 8 KiB.
SPARSE = BitMap64(range(0, limits.CURSOR_CHUNK_OFFSETS, 2))


class Recorder(MemoryLog):
    """Remembers how large its commits were."""

    features = Features(durable=False, total_order=True, commit_bytes_max=64 * 1024)

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.sizes.append(size_of(commit))


def size_of(commit: Commit) -> int:
    encoded = encode_commit(commit)
    batches = sum(len(batch.value) for batch in encoded.batches)
    return batches + sum(len(key) + len(value or b"") for key, value in encoded.state)


def ledger_on(log: Log) -> Ledger:
    return Ledger(log, InlineCommitter(log), ManualClock(), Metrics(), disk_reserve_bytes=0)


def chunks(first: int, count: int) -> list[Record]:
    return [CursorChunk(7, ONE, number, SPARSE) for number in range(first, first + count)]


async def test_state_counts_as_messages_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMIT_BYTES_MAX", 64 * 1024)
    log = Recorder()
    ledger = ledger_on(log)
    done = [ledger.commit(chunks(2 * number, 2)) for number in range(20)]
    await asyncio.gather(*done)
    assert len(log.sizes) > 5
    assert max(log.sizes) <= 64 * 1024
    assert len(list(log.state())) == 40


async def test_slots_of_small_messages_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "COMMIT_BYTES_MAX", 64 * 1024)
    log = Recorder()
    ledger = ledger_on(log)
    body = build_body([(b"", {}, "k")] * 500)
    done = []
    for _ in range(20):
        transaction = ledger.begin()
        transaction.append(TOPIC, ONE, body)
        done.append(transaction.commit())
    await asyncio.gather(*done)
    assert max(log.sizes) <= 64 * 1024
    assert log.bounds(ONE).end == 10_000


async def test_records_that_were_promised_a_commit_are_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "COMMIT_BYTES_MAX", 32 * 1024)
    log = Recorder()
    ledger = ledger_on(log)
    first = ledger.commit(chunks(0, 3))
    promised = ledger.upcoming_sequence()
    second = ledger.commit(chunks(3, 3))
    other = ledger.commit(chunks(6, 3))
    await asyncio.gather(first, second, other)
    assert promised == 1
    # The third goes into a commit of its own.
    assert len(log.sizes) == 2


async def test_what_is_too_large_is_refused_before_it_is_applied() -> None:
    log = Recorder()
    ledger = ledger_on(log)
    records: list[Record] = [DedupEntry(ONE, b"%016d" % number, 1, 9.0) for number in range(2_000)]
    with pytest.raises(CommitTooLarge, match="the log of a cluster takes 65536; nothing changed"):
        ledger.commit(records)
    with pytest.raises(CommitTooLarge):
        ledger.begin().apply(records)
    with pytest.raises(CommitTooLarge):
        ledger.begin().append(TOPIC, ONE, build_body([(bytes(70_000), {}, "")]))
    assert len(ledger.hard.dedup_on(ONE)) == 0
    # What is smaller passes, as if nothing had been.
    await ledger.commit(records[:100])
    assert log.last_sequence == 1
    assert len(ledger.hard.dedup_on(ONE)) == 100


async def test_a_replicated_log_takes_a_crowd_of_large_state(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = ReplicaNodes(tmp_path, KafkaTopic("here"))
    try:
        log = nodes.owner("north")
        ledger = ledger_on(log)
        done = [ledger.commit(chunks(100 * number, 100)) for number in range(45)]
        await asyncio.gather(*done)
        # 36 MiB, which no single commit may have.
        assert sum(len(value) for _, value in log.state()) > limits.REPLICATED_COMMIT_BYTES_MAX
        assert log.last_sequence > 1
    finally:
        nodes.close()


def test_only_a_replicated_log_bounds_a_commit() -> None:
    assert ReplicatedLog.features.commit_bytes_max == limits.REPLICATED_COMMIT_BYTES_MAX
    assert EmbeddedLog.features.commit_bytes_max is None


@pytest.mark.parametrize("record", [*STORED, *REMOVED], ids=lambda one: type(one).__name__)
def test_a_bound_is_never_below_what_is_stored(record: Record) -> None:
    commit = Commit(sequence=1, publish_time_ns=1, state={record.key(): record.value()})
    assert state_bytes([record], type(record).value) >= size_of(commit)


@pytest.mark.parametrize(
    "bits",
    [
        BitMap64(),
        BitMap64([5]),
        SPARSE,
        BitMap64(range(100_000)),
        BitMap64(range(0, 1 << 40, 1 << 33)),
        BitMap64(range(0, 5_000_000, 1_000)),
    ],
    ids=["none", "one", "every second", "a run", "far apart", "some in each part"],
)
def test_a_bound_of_a_set_is_never_below_its_bytes(bits: BitMap64) -> None:
    if bits:
        assert bitmap_bytes_max(bits) >= len(bits.serialize())


@pytest.mark.parametrize(
    "body",
    [
        build_body([(b"", {}, "")]),
        build_body([(b"", {}, "key")] * 1_000),
        build_body([(bytes(3_000), {"a": "b"}, "key")] * 1_000),
        build_body([(bytes(300_000), {}, "")] * 3),
        build_body([(b"x", {"fanlog-delay": "5s", "fanlog-priority": "3"}, "")] * 200),
    ],
    ids=["empty", "small", "cut", "large", "asking"],
)
def test_a_bound_of_a_body_is_never_below_what_is_stored(body: Body) -> None:
    assert stored_bytes_max(body) >= stored_bytes([body])
