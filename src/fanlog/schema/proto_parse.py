"""A .proto source to the descriptor of its file, without a compiler at hand.

proto2 and proto3, one file, one top-level message, as Google's schemas are. What needs another file
(imports, custom options) or says nothing about messages (services) is refused by name; options
that speak to code generators are accepted, since they are not about messages either.
"""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown
from fanlog.schema.budget import StepBudget
from fanlog.schema.proto_scan import Word, refusal, scan, text_of, wrong

SCALARS = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64",
        "fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes",
    )
}  # fmt: skip
_KEY_TYPES = SCALARS.keys() - {"double", "float", "bytes"}
_LABELS = {
    name: FieldDescriptorProto.Label.Value(f"LABEL_{name.upper()}")
    for name in ("optional", "required", "repeated")
}
#: Past the largest number of a field.
_NUMBER_END = 2**29
_NESTING_MAX = 32
#: Digits of a number: the largest has 64 bits, here in any base.
_DIGITS_MAX = 32
#: Characters of names that are written out in one step.
_NAME_BYTES_PER_STEP = 64


class Reference(NamedTuple):
    """A field whose type has a name: to be looked up from `scope` on, outwards."""

    field: FieldDescriptorProto
    scope: str
    word: Word
    #: Whether a default may be set, which is of an enum only.
    has_default: bool


class Parsed(NamedTuple):
    file: FileDescriptorProto
    references: list[Reference]
    #: Where each message, enum, field and value was named.
    places: dict[str, Word]


def parse(source: str, budget: StepBudget) -> Parsed:
    """Parse a definition; names of types are left to be resolved.

    Raises:
        InvalidArgument: With line and column, and what was expected there.
    """
    return _Parser(source, budget).file()


class _Parser:
    def __init__(self, source: str, budget: StepBudget) -> None:
        self._budget = budget
        words = list(scan(source))
        budget.spend(len(words) // 4)
        # Looking ahead never passes the end.
        self._words = [*words, words[-1], words[-1]]
        self._at = 0
        self._file = FileDescriptorProto(name="schema.proto")
        self._references: list[Reference] = []
        self._places: dict[str, Word] = {}
        self._is_proto3 = False

    # Words.

    @property
    def _next(self) -> Word:
        return self._words[self._at]

    def _take(self) -> Word:
        word = self._words[self._at]
        if word.kind != "end":
            self._at += 1
        return word

    def _has(self, text: str) -> bool:
        if self._next.kind != "string" and self._next.text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> Word:
        word = self._take()
        if word.kind == "string" or word.text != text:
            raise wrong(word, shown(text))
        return word

    def _name(self, what: str) -> Word:
        word = self._take()
        if word.kind != "name":
            raise wrong(word, what)
        return word

    def _string(self, what: str) -> tuple[Word, str]:
        word = self._take()
        if word.kind != "string":
            raise wrong(word, what)
        parts = [text_of(word)]
        while self._next.kind == "string":
            parts.append(text_of(self._take()))
        return word, "".join(parts)

    def _dotted(self, what: str) -> tuple[Word, str]:
        word = self._next
        start = "." if self._has(".") else ""
        parts = [self._name(what).text]
        while self._has("."):
            parts.append(self._name(what).text)
        return word, start + ".".join(parts)

    def _integer(self, what: str) -> tuple[Word, int]:
        word = self._next
        sign = -1 if self._has("-") else 1
        number = self._take()
        if number.kind != "int":
            raise wrong(number, what)
        return word, sign * _number(number, what)

    # The file.

    def file(self) -> Parsed:
        self._syntax()
        while self._next.kind != "end":
            self._top()
        if len(self._file.message_type) != 1 or self._file.enum_type:
            raise InvalidArgument(
                f"the .proto definition has {len(self._file.message_type)} messages and "
                f"{len(self._file.enum_type)} enums at its top; a schema has exactly one "
                "top-level message, and all other types stand inside it"
            )
        return Parsed(self._file, self._references, self._places)

    def _syntax(self) -> None:
        if self._next.text == "edition":
            raise refusal(self._next, "editions are not supported; use proto2 or proto3")
        # A file that does not say is proto2.
        if self._has("syntax"):
            self._expect("=")
            word, text = self._string("'proto2' or 'proto3'")
            if text not in ("proto2", "proto3"):
                raise wrong(word, "'proto2' or 'proto3'")
            self._expect(";")
            self._is_proto3 = text == "proto3"
        self._file.syntax = "proto3" if self._is_proto3 else "proto2"

    def _top(self) -> None:
        word = self._take()
        match word.text:
            case ";":
                pass
            case "package":
                self._file.package = self._dotted("the name of a package")[1]
                self._expect(";")
            case "option":
                self._option_line(None)
            case "message":
                self._message(self._file.message_type.add(), self._file.package, 0)
            case "enum":
                self._enum(self._file.enum_type.add(), self._file.package)
            case "import":
                raise refusal(
                    word, "imports are not supported; write the types into the one message"
                )
            case "service" | "extend":
                raise refusal(word, f"a schema has no {word.text}; it defines one message")
            case _:
                raise wrong(word, "'message'")

    def _message(self, message: DescriptorProto, scope: str, depth: int) -> None:
        name = self._name("the name of a message")
        if depth > _NESTING_MAX:
            raise refusal(name, f"messages are nested more than {_NESTING_MAX} deep")
        full = _joined(scope, name.text)
        message.name = name.text
        self._place(full, name)
        self._expect("{")
        while not self._has("}"):
            self._member(message, full, depth)
        # Fields that are `optional` in proto3 stand in oneofs of their own, after all others.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _member(self, message: DescriptorProto, scope: str, depth: int) -> None:
        word = self._next
        after = self._words[self._at + 1]
        # A field may be of a type that is called as one of the words below.
        is_statement = after.kind not in ("sign", "end") or after.text in ("{", "(", "-", "<")
        match word.text if is_statement or word.text == ";" else "":
            case ";":
                self._take()
            case "message" if self._words[self._at + 2].text == "{":
                self._take()
                self._message(message.nested_type.add(), scope, depth + 1)
            case "enum" if self._words[self._at + 2].text == "{":
                self._take()
                self._enum(message.enum_type.add(), scope)
            case "oneof":
                self._take()
                self._oneof(message, scope)
            case "option":
                self._take()
                self._option_line(None)
            case "reserved":
                self._take()
                self._reserved(message, _NUMBER_END)
            case "extensions":
                self._take()
                for start, end in self._ranges(_NUMBER_END):
                    message.extension_range.add(start=start, end=end)
                if self._next.text == "[":
                    self._options(None)
                self._expect(";")
            case "extend" | "group":
                raise refusal(word, f"{word.text} is not supported in a schema")
            case _:
                self._field(message, scope, oneof=None)

    def _oneof(self, message: DescriptorProto, scope: str) -> None:
        name = self._name("the name of a oneof")
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=name.text)
        self._place(_joined(scope, name.text), name)
        before = len(message.field)
        self._expect("{")
        while not self._has("}"):
            if self._has("option"):
                self._option_line(None)
            elif not self._has(";"):
                self._field(message, scope, oneof=index)
        if len(message.field) == before:
            raise refusal(name, f"the oneof {shown(name.text)} has no fields")

    # Fields.

    def _field(self, message: DescriptorProto, scope: str, *, oneof: int | None) -> None:
        label_word = self._next
        label = self._label(oneof)
        kind_word, kind = self._dotted("the type of a field")
        if kind == "group":
            raise refusal(kind_word, "group is not supported in a schema")
        if kind == "map" and self._next.text == "<":
            if label is not None or oneof is not None:
                raise refusal(label_word, "a map has no label, and stands in no oneof")
            self._map(message, scope)
            return
        field = message.field.add()
        if label is None and oneof is None and not self._is_proto3:
            raise refusal(kind_word, "a field of proto2 begins with optional, required or repeated")
        field.label = _LABELS[label or "optional"]
        if oneof is not None:
            field.oneof_index = oneof
        elif label == "optional" and self._is_proto3:
            field.proto3_optional = True
        if kind in SCALARS:
            field.type = SCALARS[kind]
        else:
            field.type_name = kind
        self._named_and_numbered(field, scope)
        has_default = self._options(field) if self._next.text == "[" else False
        self._expect(";")
        if kind not in SCALARS:
            self._references.append(Reference(field, scope, kind_word, has_default))

    def _label(self, oneof: int | None) -> str | None:
        word = self._next
        after = self._words[self._at + 1]
        if word.text not in _LABELS or (after.kind == "sign" and after.text != "."):
            return None
        if oneof is not None:
            raise refusal(word, f"a field of a oneof is not {word.text}")
        if word.text == "required" and self._is_proto3:
            raise refusal(word, "proto3 has no required fields")
        self._take()
        return word.text

    def _map(self, message: DescriptorProto, scope: str) -> None:
        self._expect("<")
        key = self._name("the type of the map's keys")
        if key.text not in _KEY_TYPES:
            raise wrong(key, "an integer type, bool or string as the type of the map's keys")
        self._expect(",")
        kind_word, kind = self._dotted("the type of the map's values")
        self._expect(">")
        field = message.field.add(label=_LABELS["repeated"], type=FieldDescriptorProto.TYPE_MESSAGE)
        self._named_and_numbered(field, scope)
        if self._next.text == "[":
            self._options(field)
        self._expect(";")
        entry = message.nested_type.add(
            name="".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        )
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_LABELS["optional"], type=SCALARS[key.text])
        value = entry.field.add(name="value", number=2, label=_LABELS["optional"])
        field.type_name = f".{_joined(scope, entry.name)}"
        if kind in SCALARS:
            value.type = SCALARS[kind]
        else:
            value.type_name = kind
            self._references.append(Reference(value, scope, kind_word, False))

    def _named_and_numbered(self, field: FieldDescriptorProto, scope: str) -> None:
        name = self._name("the name of a field")
        field.name = name.text
        self._place(_joined(scope, name.text), name)
        self._expect("=")
        word, number = self._integer("the number of a field")
        if not 1 <= number < _NUMBER_END or 19_000 <= number < 20_000:
            raise refusal(
                word,
                f"{number} cannot be the number of a field; 1 to {_NUMBER_END - 1} without "
                "19000 to 19999 can",
            )
        field.number = number

    # Enums.

    def _enum(self, enum: EnumDescriptorProto, scope: str) -> None:
        name = self._name("the name of an enum")
        enum.name = name.text
        self._place(_joined(scope, name.text), name)
        self._expect("{")
        while not self._has("}"):
            if self._has(";"):
                continue
            after = self._words[self._at + 1]
            if self._next.text == "option" and after.text != "=":
                self._take()
                self._option_line(enum)
            elif self._next.text == "reserved" and after.text != "=":
                self._take()
                self._reserved(enum, 2**31)
            else:
                self._value(enum, scope)
        if not enum.value:
            raise refusal(name, f"the enum {shown(name.text)} has no values")

    def _value(self, enum: EnumDescriptorProto, scope: str) -> None:
        name = self._name("the name of a value")
        # The values of an enum are names beside the enum, not in it.
        self._place(_joined(scope, name.text), name)
        self._expect("=")
        word, number = self._integer("the number of a value")
        if not -(2**31) <= number < 2**31:
            raise refusal(word, f"{number} is no 32-bit number")
        if self._is_proto3 and not enum.value and number:
            raise refusal(word, "the first value of an enum is 0 in proto3")
        enum.value.add(name=name.text, number=number)
        if self._next.text == "[":
            self._options(None)
        self._expect(";")

    def _reserved(self, owner: DescriptorProto | EnumDescriptorProto, end: int) -> None:
        if self._next.kind == "string":
            owner.reserved_name.append(self._string("a name")[1])
            while self._has(","):
                owner.reserved_name.append(self._string("a name")[1])
        else:
            is_enum = end == 2**31
            for start, stop in self._ranges(end):
                # Ranges of enums include their end, ranges of messages do not.
                owner.reserved_range.add(start=start, end=stop - 1 if is_enum else stop)
        self._expect(";")

    def _ranges(self, end: int) -> list[tuple[int, int]]:
        ranges = []
        while True:
            word, start = self._integer("a number")
            last = start
            if self._has("to"):
                last = end - 1 if self._has("max") else self._integer("a number or 'max'")[1]
            if not -end <= start <= last < end:
                raise refusal(word, f"{start} to {last} is not a range of numbers")
            ranges.append((start, last + 1))
            if not self._has(","):
                return ranges

    # Options.

    def _option_line(self, enum: EnumDescriptorProto | None) -> None:
        name_word, name = self._option_name()
        self._expect("=")
        value = self._constant()
        self._expect(";")
        if name == "allow_alias" and enum is not None:
            enum.options.allow_alias = value.text == "true"
        elif name == "message_set_wire_format":
            raise refusal(name_word, "message_set_wire_format is not supported in a schema")

    def _options(self, field: FieldDescriptorProto | None) -> bool:
        """Read [name = value, …]; give whether a default is among them."""
        self._expect("[")
        has_default = False
        while True:
            name_word, name = self._option_name()
            self._expect("=")
            is_negative = self._next.text == "-"
            value = self._constant()
            if field is not None and name == "default":
                has_default = True
                self._default(field, name_word, value, is_negative=is_negative)
            elif field is not None and name == "json_name":
                field.json_name = text_of(value)
            elif field is not None and name == "packed":
                field.options.packed = value.text == "true"
            if not self._has(","):
                break
        self._expect("]")
        return has_default

    def _option_name(self) -> tuple[Word, str]:
        if self._next.text == "(":
            raise refusal(self._next, "an option of your own needs an import; leave it out")
        return self._dotted("the name of an option")

    def _constant(self) -> Word:
        if self._next.text == "{":
            raise refusal(self._next, "an option of several parts is not supported; leave it out")
        if self._next.text in ("-", "+"):
            self._take()
        word = self._take()
        if word.kind not in ("name", "int", "float", "string"):
            raise wrong(word, "a value")
        if word.kind != "string":
            return word
        parts = [word.text[1:-1]]
        while self._next.kind == "string":
            parts.append(self._take().text[1:-1])
        return word._replace(text=f'"{"".join(parts)}"')

    def _default(
        self, field: FieldDescriptorProto, name: Word, value: Word, *, is_negative: bool
    ) -> None:
        if self._is_proto3:
            raise refusal(name, "proto3 has no defaults")
        if field.label == _LABELS["repeated"]:
            raise refusal(name, "a repeated field has no default")
        text = text_of(value) if value.kind == "string" else value.text
        if value.kind == "int":
            text = str(_number(value, "a number"))
        field.default_value = f"-{text}" if is_negative else text

    def _place(self, full: str, word: Word) -> None:
        # A long name stands before each of many short ones.
        self._budget.spend(1 + len(full) // _NAME_BYTES_PER_STEP)
        before = self._places.get(full)
        if before is not None:
            raise refusal(
                word, f"{shown(word.text)} is the name of something at line {before.line} already"
            )
        self._places[full] = word


def _number(word: Word, what: str) -> int:
    """Read a number; raises InvalidArgument for one that nothing in a .proto can be."""
    text = word.text
    is_octal = text.startswith("0") and text.isdigit()
    if len(text) > _DIGITS_MAX:
        raise wrong(word, f"{what} of at most {_DIGITS_MAX} digits")
    try:
        return int(text, 8 if is_octal else 0)
    except ValueError:
        raise wrong(word, what) from None


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
