"""Levels of compatibility: who is compared with whom, in which direction."""

from __future__ import annotations

import json

import pytest

from fanlog.schema.compat import breaking_changes
from fanlog.schema.compiler import compile_schema


def schema(**fields: object) -> object:
    members = [{"name": name, "type": kind} for name, kind in fields.items()]
    return compile_schema("AVRO", json.dumps({"type": "record", "name": "R", "fields": members}))


#: Widened over time: int, long, and now double. A new one reads old ones, not the reverse.
WIDENED = [("r1", schema(a="int")), ("r2", schema(a="long"))]
NEW = schema(a="double")


@pytest.mark.parametrize(
    ("level", "breaks"),
    [
        ("NONE", []),
        ("BACKWARD", []),
        ("BACKWARD_TRANSITIVE", []),
        ("FORWARD", ["r2 reading what this writes: $.a: long cannot be read from double"]),
        (
            "FORWARD_TRANSITIVE",
            [
                "r2 reading what this writes: $.a: long cannot be read from double",
                "r1 reading what this writes: $.a: int cannot be read from double",
            ],
        ),
        ("FULL", ["r2 reading what this writes: $.a: long cannot be read from double"]),
    ],
)
def test_levels(level, breaks):
    assert breaking_changes(level, NEW, WIDENED) == breaks


def test_transitive_looks_behind_the_latest():
    earlier = [("r1", schema(a="string")), ("r2", schema(a="int"))]
    assert breaking_changes("BACKWARD", schema(a="long"), earlier) == []
    assert breaking_changes("BACKWARD_TRANSITIVE", schema(a="long"), earlier) == [
        "reading what r1 wrote: $.a: long cannot be read from string"
    ]
    assert len(breaking_changes("FULL_TRANSITIVE", schema(a="long"), earlier)) == 3


def test_the_first_revision_follows_nothing():
    assert breaking_changes("FULL_TRANSITIVE", NEW, []) == []
