"""Stored batches as Arrow batches: rows are gathered until there are enough, then cut all at once.

A stored batch has at most 256 KiB and often a single message; an Arrow batch should have tens of
thousands of rows, of any number of topics. Fields that all messages of a stored batch have in
common are repeated for each row; the messages themselves are cut by `fanlog.spark.slices`, or read
by protobuf where that cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fanlog.log.batch import Batch
from fanlog.model.ids import OFFSET_DIGITS
from fanlog.spark.schemas import SEAL, SEQUENCE
from fanlog.spark.slices import Fields, cut
from fanlog.v1 import sink_pb2

#: Rows of an Arrow batch: enough that Spark is as fast as with its own Parquet reader.
ROWS: Final = 32_768
#: Stored bytes of one, so that large messages do not fill the memory.
SIZE_BYTES: Final = 16 * 2**20

#: The largest partition with message ids that are numbers of 64 bits.
_PARTITION_MAX: Final = (2**63 - 1) // 10**OFFSET_DIGITS - 1


class RowBuilder:
    """Gathers the messages of stored batches for one Arrow batch."""

    def __init__(
        self, schema: pa.Schema, *, rows: int = ROWS, size_bytes: int = SIZE_BYTES
    ) -> None:
        self._schema = schema
        self._has_seals = SEAL in schema.names
        self._rows_max = rows
        self._size_bytes_max = size_bytes
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._contents: list[bytes] = []
        self._starts: list[npt.NDArray[np.int64]] = []
        self._size_bytes = 0
        #: Of each run of messages: topic, partition, sequence, publish time, attributes, seal and
        #: count.
        self._runs: list[tuple[str, int, int, int, Mapping[str, str], str | None, int]] = []
        self._offsets: list[npt.NDArray[np.int64]] = []

    @property
    def is_full(self) -> bool:
        return self.count >= self._rows_max or self._size_bytes >= self._size_bytes_max

    def add(self, batch: Batch, first: int, end: int, topic: str) -> None:
        """Add the messages of a batch from index `first` to before `end`; at least one."""
        starts = np.asarray(batch.starts, np.int64)[first : end + 1]
        content = batch.content
        if first or end < batch.count:
            content = content[starts[0] : starts[-1]]
        base = batch.base_offset
        self._add(batch, content, starts - starts[0], np.arange(base + first, base + end), topic)

    def add_some(self, batch: Batch, indexes: Sequence[int], topic: str) -> None:
        """Add the messages of a batch at some indexes, which ascend; at least one."""
        starts = batch.starts
        pieces = [batch.content[starts[index] : starts[index + 1]] for index in indexes]
        ends = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=ends[1:])
        offsets = np.asarray(indexes, np.int64) + batch.base_offset
        self._add(batch, b"".join(pieces), ends, offsets, topic)

    def _add(
        self,
        batch: Batch,
        content: bytes,
        starts: npt.NDArray[np.int64],
        offsets: npt.NDArray[np.int64],
        topic: str,
    ) -> None:
        self._contents.append(content)
        self._starts.append(starts[:-1] + self._size_bytes)
        self._size_bytes += len(content)
        self._offsets.append(offsets)
        time_us = batch.publish_time_ns // 1_000
        count = len(offsets)
        seal = None if batch.seal is None or not self._has_seals else str(batch.seal)
        self._runs.append(
            (topic, batch.partition, batch.sequence, time_us, batch.attributes, seal, count)
        )
        self.count += count

    def finish(self) -> pa.RecordBatch:
        """Give the rows gathered so far as an Arrow batch, and begin anew."""
        assert self.count, "an Arrow batch has at least one row"
        counts = np.array([run[-1] for run in self._runs])
        partitions = np.repeat(np.array([run[1] for run in self._runs], np.int64), counts)
        offsets = np.concatenate(self._offsets)
        times = np.repeat(np.array([run[3] for run in self._runs], np.int64), counts)
        fields = self._fields()
        columns = [
            self._topics(counts),
            pa.array(partitions),
            pa.array(offsets),
            message_ids(partitions, offsets),
            pa.array(times).cast(pa.timestamp("us", "UTC")),
            fields.ordering_keys,
            fields.attributes,
            fields.data,
        ]
        if SEQUENCE in self._schema.names:
            sequences = np.array([run[2] for run in self._runs], np.int64)
            columns.append(pa.array(np.repeat(sequences, counts)))
        if self._has_seals:
            places = pa.array(np.repeat(np.arange(len(self._runs)), counts))
            columns.append(pa.array([run[5] for run in self._runs], pa.string()).take(places))
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _topics(self, counts: npt.NDArray[np.int64]) -> pa.Array:
        names = dict.fromkeys(run[0] for run in self._runs)
        if len(names) == 1:
            return pa.repeat(next(iter(names)), self.count)
        numbers = {name: number for number, name in enumerate(names)}
        indexes = np.repeat(np.array([numbers[run[0]] for run in self._runs]), counts)
        return pa.array(list(names)).take(pa.array(indexes))

    def _fields(self) -> Fields:
        content = b"".join(self._contents)
        if not any(run[4] for run in self._runs):
            end = np.array([self._size_bytes], np.int64)
            found = cut(content, np.concatenate([*self._starts, end]))
            if found is not None:
                return found
        return self._parse()

    def _parse(self) -> Fields:
        """The fields as protobuf reads them, with the attributes that a batch adds to all."""
        data: list[bytes] = []
        ordering_keys: list[str] = []
        attributes: list[list[tuple[str, str]]] = []
        for content, run in zip(self._contents, self._runs, strict=True):
            # The rows that a sink stages have the wire format of a publish.
            for message in sink_pb2.StagedRows.FromString(content).messages:
                data.append(message.data)
                ordering_keys.append(message.ordering_key)
                attributes.append(list({**message.attributes, **run[4]}.items()))
        return Fields(
            data=pa.array(data, pa.binary()),
            ordering_keys=pa.array(ordering_keys, pa.string()),
            attributes=pa.array(attributes, pa.map_(pa.string(), pa.string())),
        )


def message_ids(partitions: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> pa.Array:
    """Give the message ids, as `fanlog.model.ids.message_id` forms each of them."""
    if partitions.max(initial=0) <= _PARTITION_MAX:
        return pc.cast(pa.array(partitions * 10**OFFSET_DIGITS + offsets), pa.string())
    heads = pc.cast(pa.array(partitions), pa.string())
    tails = pc.utf8_lpad(pc.cast(pa.array(offsets), pa.string()), OFFSET_DIGITS, "0")
    return pc.binary_join_element_wise(heads, tails, "")
