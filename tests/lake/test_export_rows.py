"""Messages as typed rows: tables of schemas, and what is rejected."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from fanlog import limits
from fanlog.lake.tables import MESSAGES
from fanlog.model.resources import TableExport
from fanlog.pipeline.export.rules.decoders import make_decoder
from fanlog.pipeline.export.rules.table_rows import TableMismatch, export_rows, export_table
from fanlog.pipeline.export.rules.topic_schema import TopicSchema

NOW = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
SUBSCRIPTION = "projects/p/subscriptions/rows"


def messages(*data: bytes, revision: str | None = "r1", encoding: str = "JSON") -> pa.Table:
    """Messages as the data source has them."""
    attributes = {"k": "v"}
    if revision is not None:
        attributes |= {
            "googclient_schemarevisionid": revision,
            "googclient_schemaencoding": encoding,
        }
    rows = [
        {
            "topic": "projects/p/topics/t",
            "partition": 7,
            "offset": offset,
            "message_id": f"70{offset}",
            "publish_time": NOW,
            "ordering_key": "key",
            "attributes": list(attributes.items()),
            "data": one,
            "sequence": 1,
        }
        for offset, one in enumerate(data)
    ]
    schema = pa.schema([field for field in MESSAGES.schema if field.name != "date"])
    return pa.Table.from_pylist(rows, schema=schema)


def exported(rows: pa.Table, revisions: TopicSchema | None, **settings: Any) -> Any:
    export = TableExport(table="t", use_topic_schema=revisions is not None, **settings)
    columns = export_table(export, revisions).schema
    return export_rows(
        rows, columns, export, subscription=SUBSCRIPTION, number=3, topic_schema=revisions
    )


def avro(*fields: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


LONG = "long"
AVRO_CASES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -5, pa.int32(), -5),
    (LONG, 2**62, pa.int64(), 2**62),
    ("float", 0.5, pa.float32(), 0.5),
    ("double", 0.25, pa.float64(), 0.25),
    ("string", "é", pa.string(), "é"),
    ("bytes", b"\x00\xff", pa.binary(), b"\x00\xff"),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(), b"ab"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    (["null", "string"], None, pa.string(), None),
    (["null", "string"], "x", pa.string(), "x"),
    (["null", "string", "int"], 5, pa.string(), "5"),
    (["string", "int"], "x", pa.string(), '"x"'),
    (
        {"type": "array", "items": "int"},
        [1, 2],
        pa.list_(pa.field("element", pa.int32())),
        [1, 2],
    ),
    (
        {"type": "map", "values": LONG},
        {"a": 1},
        pa.map_(pa.string(), pa.field("value", pa.int64())),
        [("a", 1)],
    ),
    (
        {"type": "record", "name": "I", "fields": [field("x", "int")]},
        {"x": 1},
        pa.struct([("x", pa.int32())]),
        {"x": 1},
    ),
    ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), pa.date32(), date(2026, 1, 2)),
    ({"type": LONG, "logicalType": "timestamp-micros"}, NOW, pa.timestamp("us", "UTC"), NOW),
    (
        {"type": LONG, "logicalType": "timestamp-millis"},
        NOW,
        pa.timestamp("us", "UTC"),
        NOW,
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
        Decimal("12.50"),
        pa.decimal128(6, 2),
        Decimal("12.50"),
    ),
    ({"type": "string", "logicalType": "uuid"}, None, pa.string(), None),
]


@pytest.mark.parametrize(("kind", "value", "column", "wanted"), AVRO_CASES)
@pytest.mark.parametrize("encoding", ["BINARY", "JSON"])
def test_avro(kind, value, column, wanted, encoding):
    if value is None and kind != ["null", "string"]:
        import uuid

        value = uuid.UUID(int=7)
        wanted = str(value)
    definition = avro(field("f", kind))
    schema = fastavro.parse_schema(json.loads(definition))
    if encoding == "BINARY":
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, schema, {"f": value})
        data = stream.getvalue()
    else:
        text = io.StringIO()
        fastavro.json_writer(text, schema, [{"f": value}])
        data = text.getvalue().encode()
    found = exported(
        messages(data, encoding=encoding), TopicSchema("AVRO", "r1", {"r1": definition})
    )
    assert found.rejected.to_pylist() == []
    assert found.rows.schema.field("f").type == column
    assert found.rows["f"].to_pylist() == [wanted]


def test_avro_that_contains_itself_is_json():
    node = {
        "type": "record",
        "name": "Node",
        "fields": [field("value", "int"), field("next", ["null", "Node"])],
    }
    schema = fastavro.parse_schema(node)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, {"value": 1, "next": {"value": 2, "next": None}})
    rows = messages(stream.getvalue(), encoding="BINARY")
    found = exported(rows, TopicSchema("AVRO", "r1", {"r1": json.dumps(node)}))
    assert found.rows.to_pylist() == [{"value": 1, "next": '{"value":2,"next":null}'}]


PROTO = """
syntax = "proto3";
message Order {
  enum State { OPEN = 0; DONE = 1; }
  message Item { string name = 1; uint64 count = 2; }
  int32 i = 1; uint32 u = 2; double d = 3; string s = 4; bytes b = 5; State state = 6;
  repeated Item items = 7; map<string, int64> counts = 8; optional int64 maybe = 9;
  Order again = 10;
}
"""


def test_protobuf():
    data = {
        "i": 1,
        "u": 2**32 - 1,
        "d": 0.5,
        "s": "x",
        "b": "AP8=",
        "state": "DONE",
        "items": [{"name": "n", "count": str(2**64 - 1)}],
        "counts": {"a": "5"},
        "again": {"i": 2},
    }
    found = exported(
        messages(json.dumps(data).encode(), b"{}"),
        TopicSchema("PROTOCOL_BUFFER", "r1", {"r1": PROTO}),
    )
    assert found.rejected.num_rows == 0
    first, second = found.rows.to_pylist()
    assert json.loads(first.pop("again"))["i"] == 2
    assert first == {
        "i": 1,
        "u": 2**32 - 1,
        "d": 0.5,
        "s": "x",
        "b": b"\x00\xff",
        "state": "DONE",
        "items": [{"name": "n", "count": Decimal(2**64 - 1)}],
        "counts": [("a", 5)],
        "maybe": None,
    }
    assert (second["i"], second["state"], second["items"], second["again"]) == (0, "OPEN", [], None)
    assert found.rows.schema.field("u").type == pa.int64()


def test_json_schema():
    definition = json.dumps(
        {
            "type": "object",
            "properties": {
                "id": {"type": "integer"},
                "amount": {"type": ["number", "null"]},
                "at": {"type": "string", "format": "date-time"},
                "day": {"type": "string", "format": "date"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "inner": {"$ref": "#/$defs/inner"},
                "free": {"type": "object"},
                "any": {},
            },
            "$defs": {"inner": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
        }
    )
    data = {
        "id": 1.0,
        "amount": 2,
        "at": "2026-01-02T04:04:05.6+01:00",
        "day": "2026-01-02",
        "tags": ["a"],
        "inner": {"ok": True},
        "free": {"x": [1]},
        "any": "text",
    }
    rows = messages(json.dumps(data).encode(), b'{"at": "2026-01-02T00:00:00"}', b'{"id": 1e30}')
    found = exported(rows, TopicSchema("JSON", "r1", {"r1": definition}))
    assert found.rows.to_pylist() == [
        {
            "id": 1,
            "amount": 2.0,
            "at": NOW,
            "day": date(2026, 1, 2),
            "tags": ["a"],
            "inner": {"ok": True},
            "free": '{"x":[1]}',
            "any": '"text"',
        }
    ]
    assert found.rejected["offset"].to_pylist() == [1, 2]


NEWER = avro(field("id", "string"), field("extra", ["null", "string"]))
OLDER = avro(field("id", "string"))
BOTH = TopicSchema("AVRO", "r2", {"r1": OLDER, "r2": NEWER})


def test_fields_the_table_does_not_have_reject_or_are_dropped():
    columns = export_table(TableExport(table="t", use_topic_schema=True), _only(OLDER)).schema
    rows = pa.concat_tables(
        [
            messages(b'{"id": "a", "extra": {"string": "x"}}', revision="r2"),
            messages(b'{"id": "b", "extra": null}', revision="r2"),
            messages(b'{"id": "c"}', revision="r1"),
        ]
    )
    for drop, wanted in ((False, ["b", "c"]), (True, ["a", "b", "c"])):
        export = TableExport(table="t", use_topic_schema=True, drop_unknown_fields=drop)
        found = export_rows(
            rows, columns, export, subscription=SUBSCRIPTION, number=3, topic_schema=BOTH
        )
        assert found.rows["id"].to_pylist() == wanted
        reasons = found.rejected["reason"].to_pylist()
        assert reasons == ([] if drop else ["$.extra: the table has no such column"])


def _only(definition: str) -> TopicSchema:
    return TopicSchema("AVRO", "r1", {"r1": definition})


def test_an_older_message_has_nulls_for_what_is_new():
    found = exported(messages(b'{"id": "a"}', revision="r1"), BOTH)
    assert found.rows.to_pylist() == [{"id": "a", "extra": None}]


@pytest.mark.parametrize(
    ("data", "revision", "reason"),
    [
        (b'{"id": 5}', "r1", "$.id: "),
        (b"\xff", "r1", "expected JSON"),
        (b'{"id": "a"}', "r9", "revision r9 of the schema is gone"),
        (b'{"id": "a"}', None, "names no revision"),
    ],
)
def test_what_is_rejected_says_why(data, revision, reason):
    found = exported(messages(data, revision=revision), BOTH)
    assert found.rows.num_rows == 0
    [row] = found.rejected.to_pylist()
    assert reason in row.pop("reason")
    assert dict(row.pop("attributes"))["k"] == "v"
    assert row == {
        "subscription_name": SUBSCRIPTION,
        "batch": 3,
        "topic": "projects/p/topics/t",
        "partition": 7,
        "offset": 0,
        "message_id": "700",
        "publish_time": NOW,
        "ordering_key": "key",
        "data": data,
    }


def test_a_column_of_another_type_rejects():
    columns = pa.schema([("id", pa.int32())])
    export = TableExport(table="t", use_topic_schema=True)
    found = export_rows(
        messages(b'{"id": "a"}'),
        columns,
        export,
        subscription=SUBSCRIPTION,
        number=1,
        topic_schema=_only(OLDER),
    )
    assert found.rejected["reason"].to_pylist() == [
        "$.id: the column takes a whole number, not a string"
    ]


def test_without_a_schema_there_is_the_data():
    found = exported(messages(b"\x00", b"x", revision=None), None)
    assert found.rows.to_pylist() == [{"data": b"\x00"}, {"data": b"x"}]
    assert found.rejected.num_rows == 0


def test_metadata():
    found = exported(messages(b"x", revision=None), None, write_metadata=True)
    assert found.rows.to_pylist() == [
        {
            "data": b"x",
            "subscription_name": SUBSCRIPTION,
            "message_id": "700",
            "publish_time": NOW,
            "attributes": '{"k": "v"}',
            "ordering_key": "key",
        }
    ]


def test_metadata_and_a_field_of_the_same_name():
    revisions = _only(avro(field("message_id", "string")))
    with pytest.raises(TableMismatch, match="'message_id' of the schema has the name of a column"):
        exported(messages(), revisions, write_metadata=True)


def test_a_table_that_lost_its_column():
    with pytest.raises(TableMismatch, match="the table has no column 'data'"):
        export_rows(
            messages(b"x", revision=None),
            pa.schema([("other", pa.string())]),
            TableExport(table="t"),
            subscription=SUBSCRIPTION,
            number=1,
        )


def test_a_schema_that_is_no_record_has_one_column():
    assert make_decoder("AVRO", '"string"').value(b'"x"', "JSON") == {"value": "x"}


def twice(levels: int) -> Any:
    """Records that each use the one below twice."""
    made: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "int"}]}
    for level in range(1, levels + 1):
        fields = [{"name": "a", "type": made}, {"name": "b", "type": f"R{level - 1}"}]
        made = {"type": "record", "name": f"R{level}", "fields": fields}
    return made


def columns(kind: pa.DataType) -> int:
    return 1 + sum(columns(kind.field(at).type) for at in range(kind.num_fields))


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        ("AVRO", json.dumps(twice(18))),
        (
            "PROTOCOL_BUFFER",
            "message M { message M0 { optional int32 a = 1; } "
            + "".join(
                f"message M{n} {{ optional M{n - 1} a = 1; optional M{n - 1} b = 2; }} "
                for n in range(1, 19)
            )
            + "optional M18 m = 1; }",
        ),
        (
            "JSON",
            json.dumps(
                {
                    "$ref": "#/$defs/d0",
                    "$defs": {
                        f"d{n}": {"properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "ab"}}
                        for n in range(18)
                    }
                    | {"d18": {"type": "string"}},
                }
            ),
        ),
    ],
    ids=["avro", "protobuf", "json"],
)
def test_a_schema_makes_so_many_columns_and_the_rest_is_text(kind, definition):
    shape = make_decoder(kind, definition).shape
    assert 1_000 < columns(shape.type) <= 2 * limits.EXPORT_COLUMNS_MAX
