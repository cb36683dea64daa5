"""A window of history as a table, and the sets of offsets in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyroaring import BitMap64

from fanlog.client.log import LogClient
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import table
from fanlog.pipeline.jobs.work import Arguments
from fanlog.routing import filter_parse
from fanlog.spark import column
from fanlog.spark.broker import connect
from fanlog.spark.options import read_options
from fanlog.spark.selection import selection_pb
from fanlog.v1 import log_pb2

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SETS = "partition long, offsets binary"


def window(context: Context, arguments: Arguments) -> DataFrame:
    """The messages that the arguments of a job are about: which topics, from when to when."""
    options = _options(context, arguments)
    for argument, option in (
        ("start_time", "startingTimestamp"),
        ("end_time", "endingTimestamp"),
    ):
        if argument in arguments:
            options[option] = arguments[argument]
    return table.messages(context.spark, options)


def places(context: Context, arguments: Arguments) -> Sequence[log_pb2.PartitionPlaces]:
    """The places of messages that came behind gaps, in the topics that the arguments name."""
    selection = selection_pb(read_options(_options(context, arguments), is_streaming=False))
    with connect(context.endpoint) as connection:
        return LogClient(connection).get_places(selection)


def _options(context: Context, arguments: Arguments) -> dict[str, str]:
    """The options of a read of the topics that the arguments name."""
    options = {
        "endpoint": context.endpoint,
        "minPartitions": str(context.parallelism),
    }
    if "topics" in arguments:
        options["topics"] = ",".join(arguments["topics"])
    elif "topic" in arguments:
        options["topic"] = arguments["topic"]
    elif "subscription" in arguments:
        options["subscription"] = arguments["subscription"]
    else:
        options["topicPattern"] = arguments["pattern"]
    return options


def where_matching(messages: DataFrame, text: str) -> DataFrame:
    """Those that a filter matches."""
    tree = filter_parse.parse(text)
    return messages if tree is None else messages.where(column(tree))


def offset_sets(messages: DataFrame) -> dict[int, BitMap64]:
    """The offsets of some messages, by partition.

    Tasks make sets, and only these come to the driver: a hundred million offsets are a few MiB.
    """
    sets = messages.select("partition", "offset").mapInArrow(_pack, _SETS)
    found: dict[int, BitMap64] = {}
    for row in sets.toLocalIterator():
        found.setdefault(row.partition, BitMap64())
        found[row.partition] |= BitMap64.deserialize(bytes(row.offsets))
    return found


def _pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found: dict[int, BitMap64] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        for partition in table["partition"].unique().to_pylist():
            mine = table.filter(pa.compute.equal(table["partition"], partition))
            found.setdefault(partition, BitMap64()).update(mine["offset"].to_numpy())
    yield pa.RecordBatch.from_pydict(
        {
            "partition": pa.array(found.keys(), pa.int64()),
            "offsets": pa.array([one.serialize() for one in found.values()], pa.binary()),
        }
    )
