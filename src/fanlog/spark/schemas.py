"""The columns of a table of messages, as Spark and as Arrow know them."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T

#: An offset of a stream, as Spark writes it into the checkpoint.
OffsetJson = dict[str, Any]

#: Names the commit of a row; there when it is asked for.
SEQUENCE: Final = "sequence"

#: The seal of a row's batch, for the archive alone.
SEAL: Final = "seal"

_COLUMNS: Final = (
    ("topic", T.StringType()),
    ("partition", T.LongType()),
    ("offset", T.LongType()),
    ("message_id", T.StringType()),
    ("publish_time", T.TimestampType()),
    ("ordering_key", T.StringType()),
    ("attributes", T.MapType(T.StringType(), T.StringType())),
    ("data", T.BinaryType()),
)

_ARROW_FIELDS: Final = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("message_id", pa.string()),
    pa.field("publish_time", pa.timestamp("us", "UTC")),
    pa.field("ordering_key", pa.string()),
    pa.field("attributes", pa.map_(pa.string(), pa.string())),
    pa.field("data", pa.binary()),
)


def spark_schema(*, with_sequence: bool) -> T.StructType:
    """Give the columns that the data source has."""
    fields = [T.StructField(name, kind) for name, kind in _COLUMNS]
    if with_sequence:
        fields.append(T.StructField(SEQUENCE, T.LongType()))
    return T.StructType(fields)


def arrow_schema(*, with_sequence: bool, with_seal: bool = False) -> pa.Schema:
    """Give the same columns as Arrow batches have them; Spark compares it field by field."""
    fields = list(_ARROW_FIELDS)
    if with_sequence:
        fields.append(pa.field(SEQUENCE, pa.int64()))
    if with_seal:
        fields.append(pa.field(SEAL, pa.string()))
    return pa.schema(fields)
