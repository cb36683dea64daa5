"""Messages in the order in which subscribers get them, for jobs that publish copies.

That is the order of offsets, but for messages that came behind a gap in their publisher's numbers:
these stand behind a later message, or, while they are held back, behind all there are. Only the
broker knows which (`fanlog.v1.Log.GetPlaces`); numbers in attributes do not say when a gap was
given up, nor when a publisher that was forgotten began again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ENDS = pa.schema([("ended_partition", pa.int64()), ("ended", pa.int64())])
_MOVED = pa.schema(
    [
        ("moved_partition", pa.int64()),
        ("moved_offset", pa.int64()),
        ("anchor", pa.int64()),
        ("place", pa.int64()),
    ]
)


def in_order(messages: DataFrame, places: Sequence[log_pb2.PartitionPlaces]) -> DataFrame:
    """Messages in the order of their places; those of several partitions one after another.

    Of partitions that have places, messages that were published since the broker was asked are left
    out: one of them may fill a gap, and stand before messages that it was not known to.
    """
    if places:
        messages = _until_asked(messages, places)
    if not any(one.offsets for one in places):
        # Not the order in which they are read: Spark begins with the largest file of a lake.
        return messages.orderBy("partition", "offset")
    columns = messages.columns
    moved = messages.sparkSession.createDataFrame(_moved(places))
    is_it = (F.col("partition") == F.col("moved_partition")) & (
        F.col("offset") == F.col("moved_offset")
    )
    return (
        messages.join(moved, is_it, "left")
        .orderBy("partition", F.coalesce("anchor", "offset"), F.coalesce("place", F.lit(-1)))
        .select(*columns)
    )


def _until_asked(messages: DataFrame, places: Sequence[log_pb2.PartitionPlaces]) -> DataFrame:
    columns = messages.columns
    ends = pa.Table.from_arrays(
        [
            pa.array([one.partition for one in places], pa.int64()),
            pa.array([one.end for one in places], pa.int64()),
        ],
        schema=_ENDS,
    )
    known = F.broadcast(messages.sparkSession.createDataFrame(ends))
    was_there = F.col("ended").isNull() | (F.col("offset") < F.col("ended"))
    return (
        messages.join(known, F.col("partition") == F.col("ended_partition"), "left")
        .where(was_there)
        .select(*columns)
    )


def _moved(places: Sequence[log_pb2.PartitionPlaces]) -> pa.Table:
    tables = [
        pa.Table.from_arrays(
            [
                pa.array([one.partition] * len(one.offsets), pa.int64()),
                pa.array(one.offsets, pa.int64()),
                pa.array(one.anchors, pa.int64()),
                pa.array(range(len(one.offsets)), pa.int64()),
            ],
            schema=_MOVED,
        )
        for one in places
    ]
    return pa.concat_tables(tables)
