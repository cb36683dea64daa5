"""Messages as the table that filters are tried on: a file, so that Spark scans and pushes down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from fanlog.routing.candidate import Candidate

SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("topic", pa.string()),
        ("message_id", pa.string()),
        ("publish_time", pa.timestamp("us", tz="UTC")),
        ("ordering_key", pa.string()),
        ("attributes", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)


def write(path: Path, candidates: Sequence[Candidate]) -> None:
    rows = [
        {
            "number": number,
            "topic": f"projects/p/topics/{candidate.topic}",
            "message_id": candidate.message_id,
            "publish_time": candidate.publish_time_us,
            "ordering_key": candidate.ordering_key or (None if number % 2 else ""),
            "attributes": list(candidate.attributes.items()),
            "data": candidate.data,
        }
        for number, candidate in enumerate(candidates)
    ]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path, row_group_size=64)


def messages(spark: SparkSession, path: Path, candidates: Sequence[Candidate]) -> DataFrame:
    write(path, candidates)
    return spark.read.parquet(str(path))
