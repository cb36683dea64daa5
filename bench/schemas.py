"""Messages checked against schemas alone: the compiled schemas in a process, with no server around.

`python -m bench.schemas 200000` prints what `make bench` reads.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

import orjson

from bench import child
from bench.servers import Server
from bench.session import Sample
from fanlog.model.resources import Encoding
from fanlog.schema import avro_codec, avro_tree
from fanlog.schema.compiled import Compiled, Mismatch
from fanlog.schema.compiler import compile_schema

ROUNDS = 5
MESSAGE_BYTES = 300

JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "customer": {"type": "integer", "minimum": 0},
        "total": {"type": "number"},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "paid": {"type": "boolean"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
                "required": ["sku", "count"],
            },
        },
        "note": {"type": "string"},
    },
    "required": ["id", "customer", "total", "currency", "lines"],
    "additionalProperties": False,
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "customer", "type": "long"},
        {"name": "total", "type": "double"},
        {
            "name": "currency",
            "type": {"type": "enum", "name": "C", "symbols": ["EUR", "USD", "GBP"]},
        },
        {"name": "paid", "type": "boolean"},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": "int"}],
                },
            },
        },
        {"name": "note", "type": "string"},
    ],
}
PROTO = """
syntax = "proto3";
message Order {
  string id = 1; int64 customer = 2; double total = 3; Currency currency = 4; bool paid = 5;
  repeated Line lines = 6; string note = 7;
  enum Currency { EUR = 0; USD = 1; GBP = 2; }
  message Line { string sku = 1; int32 count = 2; }
}
"""


def measure(_server: Server, count: int) -> Sample:
    return child.measured("bench.schemas", count)


def sample(count: int) -> Sample:
    orders = [_order(number) for number in range(1_000)]
    texts = [orjson.dumps(order) for order in orders]
    avro = compile_schema("AVRO", json.dumps(AVRO))
    proto = compile_schema("PROTOCOL_BUFFER", PROTO)
    node = avro_tree.parse(json.dumps(AVRO))
    kinds: dict[str, tuple[Compiled, Encoding, list[bytes]]] = {
        "json": (compile_schema("JSON", json.dumps(JSON_SCHEMA)), "JSON", texts),
        "avro_json": (avro, "JSON", texts),
        "avro_binary": (avro, "BINARY", [avro_codec.encode(node, order) for order in orders]),
        "proto_json": (proto, "JSON", texts),
    }
    kinds["proto_binary"] = proto, "BINARY", _proto_messages(proto, texts)
    rates: dict[str, float | None] = {key: _rate(*kind, count=count) for key, kind in kinds.items()}
    problems = [
        f"{key} let a damaged message pass" for key, kind in kinds.items() if not _refuses(*kind)
    ]
    mean = statistics.mean(map(len, texts))
    return Sample(
        figures=rates,
        problems=tuple(problems),
        notes=(f"messages of {mean:.0f} bytes as JSON, seven fields and a list of two",),
    )


def _order(number: int) -> dict[str, Any]:
    order = {
        "id": f"order-{number:08}",
        "customer": number,
        "total": number / 8,
        "currency": ("EUR", "USD", "GBP")[number % 3],
        "paid": number % 2 == 0,
        "lines": [{"sku": f"sku-{number + line:012}", "count": line + 1} for line in range(2)],
        "note": "",
    }
    order["note"] = "x" * (MESSAGE_BYTES - len(orjson.dumps(order)))
    return order


def _proto_messages(proto: Compiled, texts: Sequence[bytes]) -> list[bytes]:
    from google.protobuf import json_format, message_factory

    from fanlog.schema.proto_file import descriptor

    kind: Any = message_factory.GetMessageClass(descriptor(PROTO))
    return [json_format.Parse(text, kind()).SerializeToString() for text in texts]


def _rate(schema: Compiled, encoding: Encoding, messages: list[bytes], *, count: int) -> float:
    """Give messages a second, the median of some rounds."""
    rates = []
    validate = schema.validate
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for _ in range(max(1, count // len(messages) // ROUNDS)):
            for message in messages:
                validate(message, encoding)
        rounds = max(1, count // len(messages) // ROUNDS)
        rates.append(rounds * len(messages) / (time.perf_counter() - began))
    return statistics.median(rates)


def _refuses(schema: Compiled, encoding: Encoding, messages: list[bytes]) -> bool:
    try:
        schema.validate(messages[0][:-3], encoding)
    except Mismatch:
        return True
    return False


if __name__ == "__main__":
    child.report(sample(int(sys.argv[1])))
