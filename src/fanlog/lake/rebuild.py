"""Rows back to batches: archived messages, as the log had them.

A batch is of one commit and has one seal, so that its header is true of every message in it.
Bodies are canonical, hence the bytes that were published, up to the order of attributes.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fanlog import limits
from fanlog.lake.tables import SEAL
from fanlog.log.batch import Batch
from fanlog.log.seal import Seal
from fanlog.model import term_attributes as terms
from fanlog.model.resources import PartitionId, TopicId
from fanlog.model.terms import Terms
from fanlog.wire.encode import (
    TAG_DATA,
    TAG_MESSAGES,
    TAG_ORDERING_KEY,
    attributes_fields,
    field,
    varint,
)
from fanlog.wire.publish import key_hash

#: The columns that make a message; its id follows from its place.
COLUMNS = (
    "partition",
    "offset",
    "publish_time",
    "ordering_key",
    "attributes",
    "data",
    "sequence",
    SEAL.name,
)


def batches_of(
    rows: pa.Table, topic_of: Callable[[PartitionId], TopicId]
) -> dict[PartitionId, list[Batch]]:
    """The batches of some rows, by partition, in the order of their offsets.

    Raises:
        ValueError: A row has a seal that is not known.
    """
    found: dict[PartitionId, list[Batch]] = {}
    if not rows.num_rows:
        return found
    rows = rows.combine_chunks()
    partitions, offsets = _numbers(rows, "partition"), _numbers(rows, "offset")
    sequences, times_us = _numbers(rows, "sequence"), _numbers(rows, "publish_time")
    fields = _fields(rows)
    keys = rows["ordering_key"].to_pylist()
    hashes = _hashes(keys) if any(keys) else None
    asked = _terms(rows, fields, keys)
    seals, seal_numbers = _seals(rows)
    is_edge = (np.diff(partitions) != 0) | (np.diff(offsets) != 1) | (np.diff(sequences) != 0)
    is_edge |= np.diff(seal_numbers) != 0
    edges = [0, *(np.flatnonzero(is_edge) + 1).tolist(), len(fields)]
    for begin, stop in pairwise(edges):
        partition = PartitionId(int(partitions[begin]))
        for first, end, starts in _cuts(fields, begin, stop):
            found.setdefault(partition, []).append(
                Batch(
                    topic=topic_of(partition),
                    partition=partition,
                    base_offset=int(offsets[first]),
                    sequence=int(sequences[first]),
                    publish_time_ns=int(times_us[first]) * 1_000,
                    starts=starts,
                    key_hashes=_some(hashes, first, end),
                    attributes={},
                    content=b"".join(fields[first:end]),
                    seal=seals[seal_numbers[first]],
                    terms=None if asked is None else asked.part(first, end),
                )
            )
    for batches in found.values():
        # Already in order, unless another program wrote the rows.
        batches.sort(key=lambda batch: batch.base_offset)
    return found


def _numbers(rows: pa.Table, name: str) -> Any:
    return rows[name].cast(pa.int64()).to_numpy()


def _seals(rows: pa.Table) -> tuple[list[Seal | None], Any]:
    """The seals there are, and which of them each row has."""
    if SEAL.name not in rows.column_names:
        return [None], np.zeros(rows.num_rows, np.int64)
    column = rows[SEAL.name].combine_chunks()
    known = pc.unique(column)
    numbers = pc.index_in(column, known).to_numpy(zero_copy_only=False)
    texts: list[str | None] = known.to_pylist()
    return [None if text is None else Seal.parse(text) for text in texts], numbers


def _fields(rows: pa.Table) -> list[bytes]:
    """Each row as the `messages` field of a PublishRequest, tag and length included."""
    contents: Sequence[bytes] = rows["data"].to_pylist()
    attributes = rows["attributes"]
    has_attributes = _has_attributes(rows)
    keys = rows["ordering_key"].to_pylist()
    if not has_attributes and not any(keys):
        heads: dict[int, bytes] = {}
        return [(heads.get(len(data)) or _head(heads, len(data))) + data for data in contents]
    made: list[bytes] = []
    for data, pairs, key in zip(contents, attributes.to_pylist(), keys, strict=True):
        message = field(TAG_DATA, data) if data else b""
        if pairs:
            message += attributes_fields({name: text or "" for name, text in pairs})
        if key:
            message += field(TAG_ORDERING_KEY, key.encode())
        made.append(field(TAG_MESSAGES, message))
    return made


def _has_attributes(rows: pa.Table) -> bool:
    lengths = pc.list_value_length(_pairs(rows["attributes"]))
    return bool(pc.any(pc.greater(lengths, 0)).as_py())


def _terms(rows: pa.Table, fields: Sequence[bytes], keys: Sequence[str]) -> Terms | None:
    """What the rows ask for, as their publish found it in the same attributes."""
    if not _has_attributes(rows) or not any(map(terms.names_in, fields)):
        return None
    found = [dict(pairs or ()) for pairs in rows["attributes"].to_pylist()]
    return terms.stored_terms_of(list(zip(found, keys, strict=True)))


def _head(heads: dict[int, bytes], size: int) -> bytes:
    inner = TAG_DATA + varint(size) if size else b""
    head = heads[size] = TAG_MESSAGES + varint(len(inner) + size) + inner
    return head


def _pairs(attributes: pa.ChunkedArray) -> pa.ChunkedArray:
    """A map as the list of pairs that it is."""
    kind = attributes.type
    pair = pa.struct([kind.key_field, kind.item_field])
    return attributes.cast(pa.list_(pa.field("entries", pair, nullable=False)))


def _hashes(keys: Sequence[str]) -> array[int]:
    known: dict[str, int] = {key: key_hash(key) for key in set(keys)}
    return array("Q", [known[key] for key in keys])


def _some(hashes: array[int] | None, first: int, end: int) -> array[int] | None:
    if hashes is None:
        return None
    part = hashes[first:end]
    return part if any(part) else None


def _cuts(fields: Sequence[bytes], begin: int, stop: int) -> Iterator[tuple[int, int, array[int]]]:
    """Cut rows where a batch would be too large: first row, end row, and the slots."""
    starts = list(accumulate(map(len, fields[begin:stop]), initial=0))
    if starts[-1] <= limits.BATCH_BYTES_MAX:
        yield begin, stop, array("I", starts)
        return
    first = 0
    for index in range(1, len(starts)):
        is_last = index == len(starts) - 1
        if is_last or starts[index + 1] - starts[first] > limits.BATCH_BYTES_MAX:
            shift = starts[first]
            slots = array("I", [start - shift for start in starts[first : index + 1]])
            yield begin + first, begin + index, slots
            first = index
