"""The source without Spark: its steps are called as Spark calls them, in this process."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
from google.protobuf.duration_pb2 import Duration
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

from fanlog.spark.reader import BatchReader
from fanlog.spark.schemas import arrow_schema
from fanlog.spark.source import Source
from fanlog.spark.stream import StreamReader
from server.conftest import RunningServer


def source(server: RunningServer, **options: Any) -> Source:
    given = {"endpoint": server.endpoint, "project": "test"} | options
    return Source(CaseInsensitiveDict({name: str(value) for name, value in given.items()}))


def batch_reader(server: RunningServer, **options: Any) -> BatchReader:
    made = source(server, **options)
    return made.reader(made.schema())


def stream_reader(server: RunningServer, **options: Any) -> StreamReader:
    made = source(server, **options)
    return made.streamReader(made.schema())


def table(server: RunningServer, **options: Any) -> pa.Table:
    """What a batch query gives."""
    reader = batch_reader(server, **options)
    return rows(reader, reader.partitions())


def rows(reader: BatchReader | StreamReader, portions: list[InputPartition]) -> pa.Table:
    """Read portions as tasks do: everything has travelled."""
    reader, portions = pickle.loads(pickle.dumps((reader, list(portions))))
    found = [batch for portion in portions for batch in reader.read(portion)]
    if not found:
        return arrow_schema(with_sequence=False).empty_table()
    return pa.Table.from_batches(found)


def payloads(found: pa.Table) -> list[bytes]:
    return found["data"].to_pylist()


def kept_topic(server: RunningServer, name: str = "", hours: int = 24) -> str:
    """A topic that keeps its messages though nobody subscribes to it."""
    retention = Duration(seconds=hours * 3600)
    fields: dict[str, Any] = {"message_retention_duration": retention}
    if name:
        fields["name"] = name if "/" in name else f"projects/test/topics/{name}"
    return server.topic(**fields)
