"""Rows on their way to the broker: which columns they may have, and their bytes.

The rows for a topic have the wire format of a publish. They are written by hand: a protobuf object
for each row would cost more than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import pyarrow as pa
from pyspark.sql import types as T

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.spark.options import WriteOptions
from fanlog.wire.encode import TAG_MESSAGES, field, message_field

#: Attributes of a copy that is published to the dead letter topic.
REASON_ATTRIBUTE: Final = "dead_letter_reason"
TOPIC_ATTRIBUTE: Final = "dead_letter_topic"

#: Rows for one topic that are checked at once by the broker, and their bytes.
_RUN_ROWS: Final = limits.PUBLISH_MESSAGES_MAX
_RUN_BYTES: Final = 2**20
_TAG_TOPIC: Final = b"\x0a"
_TAG_KEY: Final = b"\x0a"
_TAG_ROWS: Final = b"\x12"

_WANTED: Final = {
    "data": "binary or string",
    "attributes": "map<string,string>",
    "ordering_key": "string",
    "topic": "string",
}

assert TAG_MESSAGES == _TAG_ROWS


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One row, as it is sent; the broker may refuse it."""

    #: Full name, or the text that stands in its place.
    topic: str
    data: bytes
    attributes: dict[str, str]
    ordering_key: str

    def dead_letter(self, topic: str, reason: str, *, is_bare: bool) -> Outgoing:
        """The copy for the dead letter topic; a bare one has nothing else that may be refused."""
        said = {
            REASON_ATTRIBUTE: _cut(reason),
            TOPIC_ATTRIBUTE: _cut(self.topic) or "none",
        }
        if is_bare:
            return Outgoing(topic, self.data, said, "")
        return Outgoing(topic, self.data, {**self.attributes, **said}, self.ordering_key)


def check_columns(schema: T.StructType, options: WriteOptions) -> None:
    """See that rows of these columns can be published.

    Raises:
        InvalidArgument: A column is missing, of another type, or is none that a message has.
    """
    for column in schema.fields:
        if column.name not in _WANTED:
            raise InvalidArgument(
                f"column {column.name!r} is no part of what is published; select some of "
                f"{', '.join(_WANTED)}"
            )
        if not _is_fine(column.name, column.dataType):
            raise InvalidArgument(
                f"column {column.name!r} is {column.dataType.simpleString()}; it must be "
                f"{_WANTED[column.name]}"
            )
    if "data" not in schema.names:
        raise InvalidArgument("there is no column 'data', which is what is published")
    if "topic" not in schema.names and not options.topic:
        raise InvalidArgument("there is no column 'topic', and no option topic in its place")


def _is_fine(name: str, kind: T.DataType) -> bool:
    match name, kind:
        case "data", T.BinaryType() | T.StringType():
            return True
        case "attributes", T.MapType():
            return isinstance(kind.keyType, T.StringType) and isinstance(
                kind.valueType, T.StringType
            )
        case "ordering_key" | "topic", T.StringType():
            return True
    return False


def rows_of(batch: pa.RecordBatch, full_name: Callable[[str], str], topic: str) -> list[Outgoing]:
    """The rows of an Arrow batch; a `topic` that is not empty comes before the column of it."""
    count = batch.num_rows
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))

    def texts(name: str) -> list[str]:
        found = columns.get(name)
        return [""] * count if found is None else [each or "" for each in found.to_pylist()]

    topics = [topic] * count if topic else [full_name(each) for each in texts("topic")]
    data = columns["data"].cast(pa.binary()).to_pylist()
    return [
        Outgoing(*row)
        for row in zip(
            topics,
            [each or b"" for each in data],
            _attributes(columns.get("attributes"), count),
            texts("ordering_key"),
            strict=True,
        )
    ]


def _attributes(column: pa.MapArray | None, count: int) -> Iterable[dict[str, str]]:
    if column is None:
        return [{}] * count
    # Far quicker than a list of pairs for each row. Neither of the two is cut where the column is.
    keys, values = column.keys.to_pylist(), column.items.to_pylist()
    found = (
        dict(zip(keys[begin:end], values[begin:end], strict=True))
        for begin, end in pairwise(column.offsets.to_pylist())
    )
    if column.null_count:
        found = (
            each if valid else {}
            for each, valid in zip(found, column.is_valid().to_pylist(), strict=True)
        )
    if column.items.null_count:
        # As in SQL: an attribute that is null is not there.
        return [{key: value for key, value in each.items() if value is not None} for each in found]
    return found


def requests(key: bytes, rows: Iterator[list[Outgoing]]) -> Iterator[bytes]:
    """The StageRequests of some rows, serialised; the first of them has the key."""
    head = field(_TAG_KEY, key)
    for each in rows:
        for run in _runs(each):
            yield head + field(_TAG_ROWS, run)
            head = b""


def _runs(rows: list[Outgoing]) -> Iterator[bytes]:
    """Neighbours for one topic, as StagedRows."""
    parts: list[bytes] = []
    topic = ""
    size_bytes = 0
    for row in rows:
        message = message_field(row.data, row.attributes, row.ordering_key)
        is_over = row.topic != topic or size_bytes + len(message) > _RUN_BYTES
        if parts and (is_over or len(parts) > _RUN_ROWS):
            yield b"".join(parts)
            parts = []
        if not parts:
            topic, size_bytes = row.topic, 0
            parts.append(field(_TAG_TOPIC, topic.encode()))
        parts.append(message)
        size_bytes += len(message)
    if parts:
        yield b"".join(parts)


def _cut(text: str) -> str:
    """As much of a text as an attribute may have."""
    return text.encode()[: limits.ATTRIBUTE_VALUE_BYTES_MAX].decode(errors="ignore")
