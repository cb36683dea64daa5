"""Protobuf definitions and messages that ask for more than they are worth."""

from __future__ import annotations

import tracemalloc

import pytest

from fanlog.errors import InvalidArgument
from fanlog.schema import Mismatch, compile_schema
from unit.schema.work import calls

PROTO3 = 'syntax = "proto3"; message M {'


def refused(source: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        compile_schema("PROTOCOL_BUFFER", source)
    assert len(str(caught.value)) < 1_000
    return str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        PROTO3 + f"int32 a = {'9' * 9_000}; }}",
        PROTO3 + f"int32 a = 0x{'9' * 9_000}; }}",
        PROTO3 + f"int32 a = 0{'7' * 9_000}; }}",
        PROTO3 + f"enum E {{ A = 0; B = -{'9' * 9_000}; }} }}",
        PROTO3 + f"reserved 1 to {'9' * 9_000}; }}",
        f"message M {{ optional int32 a = 1 [default = {'9' * 9_000}]; }}",
    ],
)
def test_a_number_of_many_digits_is_bad_input(source):
    assert "of at most 32 digits, found" in refused(source)


def test_names_are_paid_by_their_length():
    fields = "".join(f"int32 f{n} = {n + 1};" for n in range(8_000))
    source = f'syntax = "proto3"; message {"M" * 100_000} {{ {fields} }}'
    assert "compiling the definition takes more than" in refused(source)


def test_messages_that_refer_through_thousands_of_types_are_bad_input():
    types = "".join(f"message A{n} {{ A{n + 1} x = 1; }}" for n in range(3_000))
    sentence = refused(f"{PROTO3} {types} message A3000 {{}} A0 a = 1; }}")
    assert "through too many types" in sentence


def work(members: str) -> int:
    return calls(lambda: compile_schema("PROTOCOL_BUFFER", f"{PROTO3} {members} }}"), 3_000_000)


@pytest.mark.parametrize("kind", ["oneofs", "reserved", "strings"])
def test_work_grows_with_the_definition_and_not_with_its_square(kind):
    def members(count: int) -> str:
        if kind == "oneofs":
            return "".join(f"oneof o{n} {{ int32 f{n} = {n + 1}; }}" for n in range(count))
        if kind == "reserved":
            numbers = ", ".join(str(2 * n + 1) for n in range(count))
            fields = "".join(f"int32 f{n} = {2 * n + 2};" for n in range(count))
            return f"reserved {numbers}; {fields}"
        words = " ".join(['"a"'] * count)
        return f"option java_package = {words};"

    assert work(members(1_000)) < 3 * work(members(500))


def test_reserved_numbers_and_names_are_kept_free():
    ranges = "reserved 2, 10 to 20, 15, 100 to max; reserved 'gone';"
    compile_schema("PROTOCOL_BUFFER", f"{PROTO3} {ranges} int32 a = 21; int32 b = 9; }}")
    for number in (2, 10, 18, 20, 100, 5_000):
        assert "reserved" in refused(f"{PROTO3} {ranges} int32 a = {number}; }}")
    assert "the name 'gone' is reserved" in refused(f"{PROTO3} {ranges} int32 gone = 1; }}")
    enum = "enum E { reserved 2 to 4; A = 0; B = %d; }"
    assert "reserved" in refused(f"{PROTO3} {enum % 4} }}")
    compile_schema("PROTOCOL_BUFFER", f"{PROTO3} {enum % 5} }}")


def test_the_first_missing_field_is_named_and_the_rest_not_listed():
    fields = "".join(f"required int32 f{n} = {n + 1};" for n in range(60))
    source = f"message M {{ repeated N n = 1; message N {{ {fields} }} }}"
    schema = compile_schema("PROTOCOL_BUFFER", source)

    def check() -> None:
        with pytest.raises(Mismatch) as caught:
            schema.validate(b"\x0a\x00" * 100_000, "BINARY")
        assert str(caught.value) == "$.n[0]: required and missing: f0"

    assert calls(check) < 2_000


def test_a_missing_field_is_found_in_maps_and_parts():
    source = (
        "message M { optional N one = 1; map<string, N> many = 2; map<string, int32> plain = 3;"
        " message N { required int32 a = 1; } }"
    )
    schema = compile_schema("PROTOCOL_BUFFER", source)
    for data, sentence in (
        (b"\x0a\x00", "$.one: required and missing: a"),
        (
            b"\x1a\x05\x0a\x01k\x10\x01\x12\x05\x0a\x01k\x12\x00",
            "$.many.k: required and missing: a",
        ),
    ):
        with pytest.raises(Mismatch) as caught:
            schema.validate(data, "BINARY")
        assert str(caught.value) == sentence


def test_a_mistake_deep_inside_is_found_without_a_copy_for_each_level():
    schema = compile_schema("PROTOCOL_BUFFER", f"{PROTO3} M m = 1; bytes b = 2; }}")
    data = b"\x12\x80\x89\x7a" + b"x" * 2_000_000 + b"\x18\x01"
    for _ in range(50):
        size, head = len(data), bytearray(b"\x0a")
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        data = bytes([*head, size]) + data
    tracemalloc.start()
    try:
        with pytest.raises(Mismatch, match="M has no field number 3"):
            schema.validate(data, "BINARY")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * len(data)
