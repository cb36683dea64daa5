"""Protobuf: sources that are refused, messages that are, and where the sentences point."""

from __future__ import annotations

import pytest
from google.protobuf import json_format, message_factory

from fanlog.errors import InvalidArgument
from fanlog.schema.compiled import Mismatch
from fanlog.schema.compiler import compile_schema
from fanlog.schema.proto_file import descriptor

ORDER = """
// An order.
syntax = "proto3";
package shop.v1;
option java_package = "com.example";

message Order {
  string id = 1;
  optional int32 count = 2 [deprecated = true];
  repeated Line lines = 3;
  map<string, Kind> kinds = 4;
  enum Kind { option allow_alias = true; UNKNOWN = 0; PAID = 1; SETTLED = 1; reserved 5 to 7; }
  message Line { string sku = 1; Order parent = 2; .shop.v1.Order.Kind kind = 3; }
  oneof what { string text = 5; Line line = 6; }
  repeated sint64 numbers = 7 [packed = false];
  reserved 10 to 12, 20;
  reserved "old", 'older';
  bytes blob = 100; ;
}
"""


def test_a_source_becomes_descriptors():
    order = descriptor(ORDER)
    assert order.full_name == "shop.v1.Order"
    assert [(field.name, field.number) for field in order.fields] == [
        ("id", 1), ("count", 2), ("lines", 3), ("kinds", 4), ("text", 5), ("line", 6),
        ("numbers", 7), ("blob", 100),
    ]  # fmt: skip
    by_name = order.fields_by_name
    assert by_name["count"].has_presence
    assert not by_name["id"].has_presence
    assert by_name["lines"].message_type.full_name == "shop.v1.Order.Line"
    assert by_name["kinds"].message_type.GetOptions().map_entry
    assert by_name["text"].containing_oneof.name == "what"
    assert not by_name["numbers"].is_packed
    assert by_name["lines"].message_type.fields_by_name["parent"].message_type is order


def test_proto2_with_everything_it_has():
    found = descriptor(
        """message M {
          required string a = 1 [default = "say \\"hi\\"\\x21" ' there'];
          optional int32 b = 2 [default = -0x10, json_name = "bee"];
          optional double c = 3 [default = 1.5e3];
          optional E e = 4 [default = Q];
          enum E { P = 1; Q = 2; }
          extensions 100 to max;
          optional string message = 5; optional int32 reserved = 6; repeated int32 option = 7;
        }"""
    )
    assert [field.default_value for field in found.fields[:4]] == ['say "hi"! there', -16, 1500, 2]
    assert found.fields_by_name["b"].json_name == "bee"
    assert found.fields_by_name["a"].is_required


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("message A { int32 x = 1; }", "line 1, column 13: a field of proto2 begins with optional"),
        ('syntax = "proto4"; message A {}', "line 1, column 10: expected 'proto2' or 'proto3'"),
        ('edition = "2023"; message A {}', "line 1, column 1: editions are not supported"),
        ('syntax = "proto3";\nmessage A {\n  Foo x = 1;\n}', "line 3, column 3: the type 'Foo' is"),
        ('syntax = "proto3"; message A { int32 x = 1 }', "column 44: expected ';', found '}'"),
        ('syntax = "proto3"; message A { int32 x = 0; }', "column 42: 0 cannot be the number"),
        ('syntax = "proto3"; message A { int32 x = 19001; }', "19001 cannot be the number"),
        ('syntax = "proto3"; message A { int32 x = 1; int32 y = 1; }',
         "'y' has the number 1, which 'x' has already"),
        ('syntax = "proto3"; message A { int32 x = 1; string x = 2; }',
         "'x' is the name of something at line 1 already"),
        ('syntax = "proto3"; message A { int32 a_b = 1; int32 aB = 2; }',
         "'aB' and 'a_b' are both 'aB' in JSON"),
        ('syntax = "proto3"; message A { reserved 1; int32 x = 1; }', "has the number 1: reserved"),
        ('syntax = "proto3"; message A { reserved "x"; int32 x = 1; }', "the name 'x' is reserved"),
        ('syntax = "proto3"; message A { required int32 x = 1; }', "proto3 has no required"),
        ('syntax = "proto3"; message A { int32 x = 1 [default = 3]; }', "proto3 has no defaults"),
        ('syntax = "proto3"; message A { enum E { X = 1; } }', "the first value of an enum is 0"),
        ('syntax = "proto3"; message A { enum E { X = 0; Y = 0; } }', "allow_alias allows it"),
        ('syntax = "proto3"; message A { enum E { } }', "the enum 'E' has no values"),
        ('syntax = "proto3"; message A { oneof o { } }', "the oneof 'o' has no fields"),
        ('syntax = "proto3"; message A { oneof o { repeated int32 x = 1; } }',
         "a field of a oneof is not repeated"),
        ('syntax = "proto3"; message A { map<double, int32> m = 1; }',
         "expected an integer type, bool or string as the type of the map's keys"),
        ('syntax = "proto3"; import "a.proto"; message A {}', "imports are not supported"),
        ('syntax = "proto3"; message A {} service S {}', "a schema has no service"),
        ('syntax = "proto3"; message A { int32 x = 1 [(mine) = 3]; }', "an option of your own"),
        ('syntax = "proto3"; message A {} message B {}', "exactly one top-level message"),
        ('syntax = "proto3"; enum E { X = 0; }', "exactly one top-level message"),
        ("message A { optional group G = 1 {} }", "group is not supported"),
        ("message A { extend A {} }", "extend is not supported"),
        ("message A { optional E e = 1 [default = Q]; enum E { P = 1; } }", "Invalid default 'Q'"),
        ("message A { optional A a = 1 [default = 3]; }", "a field that is a message has no"),
        ("message A {", "found the end"),
        ("message A { optional", "found the end"),
        ("message A { ยง }", "expected a word of a .proto"),
        ("hello", "expected 'message', found 'hello'"),
        ("message A {" + "message A {" * 40 + "}" * 41, "nested more than 32 deep"),
    ],
)  # fmt: skip
def test_sources_that_are_refused(source, sentence):
    with pytest.raises(InvalidArgument) as caught:
        compile_schema("PROTOCOL_BUFFER", source)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("the .proto definition ")


def order() -> object:
    return compile_schema("PROTOCOL_BUFFER", ORDER)


def test_good_messages_pass_in_both_encodings():
    order().validate(b"", "BINARY")
    order().validate(b"\x0a\x01x\x10\x05\x1a\x03\x0a\x01y", "BINARY")
    order().validate(b'{"id": "x", "lines": [{"sku": "y"}], "kinds": {"a": "PAID"}}', "JSON")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x0a\x05x", "$: the bytes end in the middle of field number 1"),
        (b"\x0a\x01\xff", "$.id: expected text in UTF-8, found other bytes"),
        (b"\x08\x01", "$.id: expected a length and bytes, found a varint"),
        (b"\x1a\x02\x08\x01", "$.lines.sku: expected a length and bytes, found a varint"),
        (b"\x48\x01", "$: Order has no field number 9"),
        (b"\x1a\x02\x48\x01", "$.lines: Line has no field number 9"),
        (b"\x80", "$: the bytes end, or go on too long, in a number"),
        (b"\x0b", "$: field number 1 has the wire type 3"),
    ],
)
def test_bytes_that_do_not_conform(data, sentence):
    with pytest.raises(Mismatch) as caught:
        order().validate(data, "BINARY")
    assert str(caught.value).startswith(sentence)


EVERY = """syntax = "proto3";
message M {
  int32 i = 1; uint64 u = 2; float f = 3; double d = 4; bool b = 5; string s = 6; bytes y = 7;
  enum E { ZERO = 0; ONE = 1; }
  E e = 8; repeated int32 r = 9; map<int32, string> m = 10; map<bool, M> k = 11;
  oneof o { int32 x_one = 12; string x_two = 13; }
  M child = 14; optional int32 maybe = 15; map<string, bytes> t = 16;
}"""


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ('{"i": 1, "u": "18446744073709551615", "f": 1, "d": "NaN", "b": true, "s": "x"}', ""),
        ('{"i": 1.0, "d": 1e300, "f": "1.5", "y": "_-8=", "e": "ONE", "r": [1, "2"]}', ""),
        ('{"i": null, "child": {"child": {}}, "m": {"-1": "x"}, "k": {"true": {}}}', ""),
        ('{"e": 7, "y": "YQ", "xOne": 3, "x_two": null, "maybe": 0, "t": {"": ""}}', ""),
        ('{"i": 2147483648}', "$.i: expected int32, -2147483648 to 2147483647, found the number"),
        ('{"i": 1.5}', "$.i: expected int32"),
        ('{"i": true}', "$.i: expected int32"),
        ('{"i": "x"}', "$.i: expected int32"),
        ('{"i": "1.0"}', "$.i: expected int32"),
        ('{"u": -1}', "$.u: expected uint64, 0 to 18446744073709551615, found the number -1"),
        ('{"f": 1e39}', "$.f: expected a 32-bit float, found the number 1e+39"),
        ('{"d": "x"}', "$.d: expected a number, found the string 'x'"),
        ('{"d": true}', "$.d: expected a number, found true"),
        ('{"b": "true"}', "$.b: expected true or false, found the string 'true'"),
        ('{"s": 3}', "$.s: expected a string, found the number 3"),
        ('{"y": "a"}', "$.y: expected bytes in base64, found the string 'a'"),
        ('{"y": 3}', "$.y: expected bytes in base64, found the number 3"),
        ('{"e": "TWO"}', "$.e: expected a value of enum E, found the string 'TWO'"),
        ('{"e": 1.5}', "$.e: expected a value of enum E, found the number 1.5"),
        ('{"r": 1}', "$.r: expected an array, found the number 1"),
        ('{"r": [1, null]}', "$.r[1]: expected int32"),
        ('{"m": []}', "$.m: expected an object (map), found an array"),
        ('{"m": {"x": "y"}}', "$.m.x: expected int32 as the key, found the string 'x'"),
        ('{"m": {"1": null}}', "$.m['1']: expected a string, found null"),
        ('{"k": {"yes": {}}}', "$.k.yes: expected 'true' or 'false' as the key"),
        ('{"k": {"true": {"i": "x"}}}', "$.k.true.i: expected int32"),
        ('{"xOne": 1, "xTwo": "a"}', "$.xTwo: another field of the oneof 'o' is set too"),
        ('{"xOne": 1, "x_one": 1}', "$.x_one: the field is there under both of its names"),
        ('{"child": []}', "$.child: expected an object (message M), found an array"),
        ('{"child": {"nope": 1}}', "$.child: 'nope' is no field of message M"),
        ("[]", "$: expected an object (message M), found an array"),
        ("[", "$: expected JSON: "),
    ],
)
def test_json_that_passes_is_what_the_library_parses(data, sentence):
    schema = compile_schema("PROTOCOL_BUFFER", EVERY)
    message = message_factory.GetMessageClass(descriptor(EVERY))()
    if not sentence:
        schema.validate(data.encode(), "JSON")
        json_format.Parse(data, message)
        return
    with pytest.raises(Mismatch) as caught:
        schema.validate(data.encode(), "JSON")
    assert str(caught.value).startswith(sentence)


def test_required_fields_are_asked_for():
    schema = compile_schema(
        "PROTOCOL_BUFFER",
        "message A { required int32 x = 1; repeated B b = 2; message B { required int32 y = 1; } }",
    )
    for data, encoding in ((b"\x12\x00", "BINARY"), (b'{"b": [{}]}', "JSON")):
        with pytest.raises(Mismatch, match=r"required|is missing"):
            schema.validate(data, encoding)
