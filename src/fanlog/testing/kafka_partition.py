"""A partition in memory that fails as Kafka's do; for tests of the replicated log.

`KafkaTopic` is the partition on its machines; `MemoryPartition` one process's access to it. Faults
may break these promises, and no others:

- A record may be appended though its acknowledgement never comes, or comes without an offset.
- A record may be appended twice, and the acknowledgement may name either place.
- A record, or a second copy of one, may arrive late: also after the producer was reset.
- For a while there is no leader, and nothing can be asked.

What was acknowledged stays, in its order, and offsets are dense. Readers see what was appended at
once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from enum import Enum

from fanlog.log.replicated.partition import (
    Fetched,
    OffsetGone,
    PartitionBounds,
    PartitionUnavailable,
    Produced,
    RecordTooLarge,
    Uncertain,
)

RECORD_BYTES_MAX = 32 * 1024 * 1024


class ProduceFault(Enum):
    """What becomes of one record that is produced."""

    NONE = "appended and acknowledged"
    #: Not appended, and never will be.
    LOST = "lost"
    ACK_LOST = "appended, and the acknowledgement is lost"
    NO_OFFSET = "appended, and acknowledged without an offset"
    #: Not appended before `KafkaTopic.arrive`.
    LATE = "on its way"
    #: As `ACK_LOST`, and a copy is on its way.
    COPY_LATE = "appended, the acknowledgement is lost, and a copy is on its way"
    #: Twice, one behind the other; the first place is acknowledged.
    DOUBLED = "appended twice, the first acknowledged"
    #: The same, and the second place is acknowledged.
    DOUBLED_SECOND = "appended twice, the second acknowledged"
    #: The same, and the acknowledgement is lost.
    DOUBLED_ACK_LOST = "appended twice, and the acknowledgement is lost"


class KafkaTopic:
    """The records, shared by the processes of a test. Safe to use from many threads."""

    def __init__(
        self, cluster: str = "cluster", *, wall_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self.cluster = cluster
        self._wall_ns = wall_ns
        self._start = 0
        self._records: list[Fetched] = []
        self._arriving: list[bytes] = []
        self._faults: deque[ProduceFault] = deque()
        self._refusals = 0
        self._is_down = False
        self._changed = threading.Condition()

    # The test's side.

    def script(self, *faults: ProduceFault) -> None:
        """Let the next records that anybody produces meet these faults, one each."""
        with self._changed:
            self._faults += faults

    def arrive(self) -> int:
        """Append what is on its way; how many records that were."""
        with self._changed:
            arriving, self._arriving = self._arriving, []
            for value in arriving:
                self._append(value)
            return len(arriving)

    def refuse(self, calls: int) -> None:
        """There is no leader for so many calls."""
        with self._changed:
            self._refusals = calls

    def set_down(self, is_down: bool) -> None:
        """There is no leader until further notice."""
        with self._changed:
            self._is_down = is_down
            self._changed.notify_all()

    def cut(self, end: int) -> None:
        """Forget what was appended from `end` on, as a leader that was not in sync would."""
        with self._changed:
            del self._records[end - self._start :]

    def put(self, value: bytes) -> int:
        """Append a record that some other program produced; its offset."""
        with self._changed:
            return self._append(value).offset

    def records(self) -> list[Fetched]:
        with self._changed:
            return list(self._records)

    def copy(self, end: int) -> KafkaTopic:
        """The topic as it was when it ended there."""
        copied = KafkaTopic(self.cluster, wall_ns=self._wall_ns)
        with self._changed:
            copied._start = self._start
            copied._records = self._records[: end - self._start]
        return copied

    # The partition's side.

    def produce(self, value: bytes) -> Produced | Uncertain:
        with self._changed:
            if len(value) > RECORD_BYTES_MAX:
                raise RecordTooLarge(f"{len(value)} bytes; at most {RECORD_BYTES_MAX}")
            if self._refuses():
                return Uncertain("there is no leader")
            fault = self._faults.popleft() if self._faults else ProduceFault.NONE
            return self._produce(value, fault)

    def fetch(self, offset: int, max_bytes: int, wait_s: float) -> list[Fetched]:
        deadline = time.monotonic() + wait_s
        with self._changed:
            while True:
                self._check()
                end = self._start + len(self._records)
                if not self._start <= offset <= end:
                    raise OffsetGone(f"offset {offset} is not in {self._start} to {end}")
                left_s = deadline - time.monotonic()
                if offset < end or left_s <= 0:
                    return self._some(offset, max_bytes)
                self._changed.wait(left_s)

    def bounds(self) -> PartitionBounds:
        with self._changed:
            self._check()
            return PartitionBounds(self._start, self._start + len(self._records))

    def delete_before(self, offset: int) -> None:
        with self._changed:
            self._check()
            count = min(max(0, offset - self._start), len(self._records))
            del self._records[:count]
            self._start += count

    def _produce(self, value: bytes, fault: ProduceFault) -> Produced | Uncertain:
        lost = Uncertain("the acknowledgement did not come")
        if fault is ProduceFault.LOST:
            return lost
        if fault is ProduceFault.LATE:
            self._arriving.append(value)
            return lost
        first = self._append(value)
        acknowledged = Produced(first.offset, first.append_time_ms)
        match fault:
            case ProduceFault.NONE:
                return acknowledged
            case ProduceFault.NO_OFFSET:
                return Produced(-1, -1)
            case ProduceFault.COPY_LATE:
                self._arriving.append(value)
            case ProduceFault.DOUBLED:
                self._append(value)
                return acknowledged
            case ProduceFault.DOUBLED_SECOND:
                second = self._append(value)
                return Produced(second.offset, second.append_time_ms)
            case ProduceFault.DOUBLED_ACK_LOST:
                self._append(value)
            case _:
                pass
        return lost

    def _append(self, value: bytes) -> Fetched:
        offset = self._start + len(self._records)
        record = Fetched(offset, self._wall_ns() // 1_000_000, value)
        self._records.append(record)
        self._changed.notify_all()
        return record

    def _some(self, offset: int, max_bytes: int) -> list[Fetched]:
        found: list[Fetched] = []
        for record in self._records[offset - self._start :]:
            max_bytes -= len(record.value)
            if found and max_bytes < 0:
                break
            found.append(record)
        return found

    def _refuses(self) -> bool:
        if self._refusals:
            self._refusals -= 1
            return True
        return self._is_down

    def _check(self) -> None:
        if self._refuses():
            raise PartitionUnavailable("there is no leader")


class MemoryPartition:
    """A `Partition` on a `KafkaTopic`, for one process.

    Args:
        topic: The records.
        waits: Whether `fetch` waits for records; one that does not is for tests without threads.
    """

    def __init__(self, topic: KafkaTopic, *, waits: bool = True) -> None:
        self.cluster = topic.cluster
        self._waits = waits
        self._topic = topic
        self._is_closed = False
        #: How often the producer was reset.
        self.reset_count = 0

    def produce(self, value: bytes) -> Produced | Uncertain:
        assert not self._is_closed
        return self._topic.produce(value)

    def reset_producer(self) -> None:
        self.reset_count += 1

    def fetch(self, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        assert not self._is_closed
        return self._topic.fetch(offset, max_bytes, wait_s if self._waits else 0.0)

    def bounds(self, *, wait_s: float) -> PartitionBounds:
        assert not self._is_closed
        return self._topic.bounds()

    def delete_before(self, offset: int) -> None:
        self._topic.delete_before(offset)

    def close(self) -> None:
        self._is_closed = True
