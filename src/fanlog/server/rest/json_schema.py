"""JSON Schema of protobuf messages, as `json_in` reads and `json_out` writes them.

A message is a reference to a component of its name; `components` resolves those that a document
uses. In snake_case it is another component, with `Short` before its name.
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from fanlog.model.json_value import Json, JsonObject
from fanlog.server.rest.json_in import INTEGERS, OWN_VALUES
from fanlog.wire import iam, resources

JsonSchema = JsonObject

STRING: JsonSchema = {"type": "string"}
BOOLEAN: JsonSchema = {"type": "boolean"}
BASE64: JsonSchema = {"type": "string", "contentEncoding": "base64"}
DURATION: JsonSchema = {"type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$"}
TIMESTAMP: JsonSchema = {"type": "string", "format": "date-time"}
LABELS: JsonSchema = {"type": "object", "additionalProperties": STRING}

_HONOURED = resources.HONOURED | iam.HONOURED
_PREFIX = "#/components/schemas/"
_TEXTS: dict[str, JsonSchema] = {
    "google.protobuf.Duration": DURATION,
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.FieldMask": STRING,
    "google.protobuf.Struct": {"type": "object"},
}
#: Those that `reference` has been asked for, by the name of their component.
_known: dict[str, tuple[Descriptor, bool]] = {}


def array(items: JsonSchema, **bounds: int) -> JsonSchema:
    return {"type": "array", "items": items, **bounds}


def integer(minimum: int, maximum: int, **more: Json) -> JsonSchema:
    return {"type": "integer", "minimum": minimum, "maximum": maximum, **more}


def record(properties: dict[str, JsonSchema], *required: str) -> JsonSchema:
    """An object with these fields and no others."""
    schema: JsonSchema = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return schema | {"required": list(required)} if required else schema


def reference(descriptor: Descriptor, *, snake_case: bool = False) -> JsonSchema:
    """The component of a message."""
    name = f"Short{descriptor.name}" if snake_case else str(descriptor.name)
    _known[name] = (descriptor, snake_case)
    return {"$ref": _PREFIX + name}


def properties(descriptor: Descriptor, *, snake_case: bool = False) -> dict[str, JsonSchema]:
    """The fields of a message that mean something here."""
    honoured = _HONOURED.get(descriptor.name)
    return {
        field.name if snake_case else field.json_name: _field(field, snake_case)
        for field in descriptor.fields
        if honoured is None or field.name in honoured
    }


def parameters(descriptor: Descriptor, leave_out: frozenset[str]) -> dict[str, JsonSchema]:
    """The fields of a request that may be query parameters; a dot leads into a message."""
    found: dict[str, JsonSchema] = {}
    for field in descriptor.fields:
        if field.name in leave_out:
            continue
        if field.message_type is None:
            found[field.json_name] = _field(field, False)
        elif not field.is_repeated:
            inside = parameters(field.message_type, frozenset())
            found |= {f"{field.json_name}.{name}": schema for name, schema in inside.items()}
    return found


def components(document: Json) -> dict[str, JsonSchema]:
    """Every component that a document refers to, and those that they refer to in turn."""
    found: dict[str, JsonSchema] = {}
    wanted = _references(document)
    while wanted:
        name = wanted.pop()
        if name in found or name not in _known:
            continue
        descriptor, snake_case = _known[name]
        found[name] = record(properties(descriptor, snake_case=snake_case))
        wanted |= _references(found[name])
    return dict(sorted(found.items()))


def _references(value: Json) -> set[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            return {value["$ref"].removeprefix(_PREFIX)}
        return set().union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()


def _field(field: FieldDescriptor, snake_case: bool) -> JsonSchema:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        of = field.message_type.fields_by_name["value"]
        return {"type": "object", "additionalProperties": _single(of, snake_case)}
    one = _single(field, snake_case)
    return array(one) if field.is_repeated else one


def _single(field: FieldDescriptor, snake_case: bool) -> JsonSchema:
    if field.message_type is not None:
        text = _TEXTS.get(field.message_type.full_name)
        return text or reference(field.message_type, snake_case=snake_case)
    if field.type in INTEGERS:
        numbers = INTEGERS[field.type]
        # Protobuf's JSON writes numbers of 64 bits as strings.
        if numbers.stop > 1 << 32:
            return STRING
        return integer(numbers.start, numbers.stop - 1, format="int32")
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return STRING
        case FieldDescriptor.TYPE_BYTES:
            return BASE64
        case FieldDescriptor.TYPE_BOOL:
            return BOOLEAN
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            ours = OWN_VALUES.get(field.enum_type.full_name, {})
            return {"type": "string", "enum": [*field.enum_type.values_by_name, *ours]}
        case _:
            return {"type": "number"}
