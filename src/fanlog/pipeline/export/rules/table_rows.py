"""Messages as rows of an export's table; those that do not fit, as rows of the rejected table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from fanlog.errors import FailedPrecondition
from fanlog.lake.tables import ATTRIBUTES, EXPORTS, TIME, Table
from fanlog.model import exports
from fanlog.model.resources import TableExport
from fanlog.pipeline.export.rules.shapes import Misfit, fit_struct
from fanlog.pipeline.export.rules.topic_schema import TopicSchema

_METADATA = [
    pa.field("subscription_name", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("publish_time", TIME),
    # As Google has it: JSON text.
    pa.field("attributes", pa.string()),
    pa.field("ordering_key", pa.string()),
]
_DATA = pa.field("data", pa.binary())

#: The columns of a table of rejected messages.
REJECTED = pa.schema(
    [
        pa.field("reason", pa.string()),
        pa.field("subscription_name", pa.string()),
        #: Of the export: messages rejected together are redriven together.
        pa.field("batch", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("publish_time", TIME),
        pa.field("ordering_key", pa.string()),
        pa.field("attributes", ATTRIBUTES),
        pa.field("data", pa.binary()),
    ]
)


#: Why nothing of a topic fits that had a schema once.
NO_SCHEMA = "the topic has no schema any more"


class TableMismatch(FailedPrecondition):
    """The table cannot take the rows of the export at all: it has other columns, or types."""

    code = "TABLE_MISMATCH"


@dataclass(frozen=True, slots=True)
class ConvertedMessages:
    """Messages as rows: those of the table, and those of the rejected table."""

    rows: pa.Table
    rejected: pa.Table


def export_table(export: TableExport, topic_schema: TopicSchema | None) -> Table:
    """The table of an export, as it is made; one that is there has the columns it has.

    Raises:
        TableMismatch: The schema has fields that cannot be columns beside the metadata.
    """
    fields = [_DATA]
    if export.use_topic_schema:
        if topic_schema is None:
            raise TableMismatch(NO_SCHEMA)
        fields = list(topic_schema.newest_decoder().shape.type)
        taken = {one.name for one in fields} & {one.name for one in _METADATA}
        if taken and export.write_metadata:
            raise TableMismatch(
                f"the field {min(taken)!r} of the schema has the name of a column of metadata; "
                "rename it, or leave write_metadata unset"
            )
    if export.write_metadata:
        fields = [*fields, *_METADATA]
    if not fields:
        raise TableMismatch("the schema has no fields, and a table needs columns")
    return Table(name=f"{EXPORTS}/{export.table}", schema=pa.schema(fields))


def rejected_table(name: str) -> Table:
    """The table of messages that did not fit another; `name` is of that one, without the folder."""
    return Table(name=f"{EXPORTS}/{name}{exports.REJECTED}", schema=REJECTED)


def export_rows(
    messages: pa.Table,
    columns: pa.Schema,
    export: TableExport,
    *,
    subscription: str,
    number: int,
    topic_schema: TopicSchema | None = None,
) -> ConvertedMessages:
    """Make rows of messages, which have the columns of the data source, in the same order.

    Args:
        columns: Of the table as it is.
        number: Of the batch, for rejected messages.

    Raises:
        TableMismatch: No message at all can have a place.
    """
    reasons: list[str | None]
    if not export.use_topic_schema:
        made = {"data": messages["data"]}
        kept, reasons = messages, [None] * messages.num_rows
    else:
        values, reasons = _fit_messages(messages, columns, export, topic_schema)
        mask = pa.array([reason is None for reason in reasons], pa.bool_())
        kept = messages.filter(mask)
        fields = [f for f in columns if not _is_metadata(f.name, export)]
        made = {
            field.name: pa.array([value[field.name] for value in values], field.type)
            for field in fields
        }
    if export.write_metadata and kept.num_rows:
        made |= _metadata(kept, subscription)
    return ConvertedMessages(
        rows=_as_table(made, columns, kept.num_rows),
        rejected=rejected_rows(messages, reasons, subscription=subscription, number=number),
    )


def rejected_rows(
    messages: pa.Table, reasons: Sequence[str | None], *, subscription: str, number: int
) -> pa.Table:
    """The rows of messages that have a reason not to be elsewhere."""
    mask = pa.array([reason is not None for reason in reasons], pa.bool_())
    found = messages.filter(mask)
    count = found.num_rows
    made = {
        "reason": pa.array([reason for reason in reasons if reason is not None], pa.string()),
        "subscription_name": pa.repeat(pa.scalar(subscription), count),
        "batch": pa.repeat(pa.scalar(number, pa.int64()), count),
    } | {name: found[name] for name in REJECTED.names if name in found.column_names}
    return pa.table([made[name] for name in REJECTED.names], names=REJECTED.names).cast(REJECTED)


def attributes_of(messages: pa.Table) -> list[dict[str, str]]:
    return [dict(pairs) for pairs in messages["attributes"].to_pylist()]


def _fit_messages(
    messages: pa.Table, columns: pa.Schema, export: TableExport, topic_schema: TopicSchema | None
) -> tuple[list[dict[str, object]], list[str | None]]:
    """The values that fit, and of every message why it does not, or None."""
    if topic_schema is None:
        return [], [NO_SCHEMA] * messages.num_rows
    kind = pa.struct([field for field in columns if not _is_metadata(field.name, export)])
    values: list[dict[str, object]] = []
    reasons: list[str | None] = []
    data = messages["data"].to_pylist()
    for content, attributes in zip(data, attributes_of(messages), strict=True):
        try:
            reader, encoding = topic_schema.decoder_of(attributes)
            value = reader.value(content, encoding)
            values.append(fit_struct(value, kind, drop_unknown=export.drop_unknown_fields))
            reasons.append(None)
        except Misfit as error:
            reasons.append(str(error))
    return values, reasons


def _is_metadata(name: str, export: TableExport) -> bool:
    return export.write_metadata and any(name == one.name for one in _METADATA)


def _metadata(messages: pa.Table, subscription: str) -> dict[str, pa.Array]:
    texts = [json.dumps(one, ensure_ascii=False) for one in attributes_of(messages)]
    return {
        "subscription_name": pa.repeat(pa.scalar(subscription), messages.num_rows),
        "message_id": messages["message_id"],
        "publish_time": messages["publish_time"],
        "attributes": pa.array(texts, pa.string()),
        "ordering_key": messages["ordering_key"],
    }


def _as_table(made: Mapping[str, pa.Array], columns: pa.Schema, count: int) -> pa.Table:
    missing = made.keys() - set(columns.names)
    if missing:
        raise TableMismatch(f"the table has no column {min(missing)!r}, which the export writes")
    arrays = []
    for field in columns:
        found = made.get(field.name)
        if found is None:
            found = pa.nulls(count, field.type)
        try:
            arrays.append(found.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TableMismatch(
                f"the table's column {field.name!r} is of type {field.type}, which the export does "
                f"not write: {error}"
            ) from error
    return pa.table(arrays, schema=columns)
