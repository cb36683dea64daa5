"""JSON values into protobuf messages, by the rules of protobuf's own JSON, strictly.

Field names are taken in camelCase and in snake_case. A value that cannot be taken whole is refused
with its path: an unknown field, one given in both spellings, base64 with anything else in it.
`null` is a field that is not set.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.json_value import JsonObject
from fanlog.wire.jobs import check_nesting
from fanlog.wire.publish import check_count
from fanlog.wire.schemas import JSON_TYPE

_DURATION = re.compile(r"-?[0-9]{1,12}(\.[0-9]{1,9})?s", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])",
    re.ASCII,
)
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_UPPER = re.compile(r"[A-Z]")
_URL_SAFE = str.maketrans("-_", "+/")

#: Names of values that are ours in enums of Google's.
OWN_VALUES: dict[str, dict[str, int]] = {"google.pubsub.v1.Schema.Type": {"JSON": JSON_TYPE}}

_INT32 = range(-(1 << 31), 1 << 31)
_INT64 = range(-(1 << 63), 1 << 63)
_UINT32 = range(1 << 32)
_UINT64 = range(1 << 64)
INTEGERS = {
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_SINT32: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _INT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SINT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}

_MESSAGES = "google.pubsub.v1.PublishRequest.messages"
#: Entries of lists and maps that have a limit of their own; ours are in `limits`.
_MOST = {
    _MESSAGES: limits.PUBLISH_MESSAGES_MAX,
    "google.pubsub.v1.PubsubMessage.attributes": limits.ATTRIBUTES_MAX,
    "google.pubsub.v1.PushConfig.attributes": limits.ATTRIBUTES_MAX,
    "google.pubsub.v1.Topic.labels": limits.LABELS_MAX,
    "google.pubsub.v1.Subscription.labels": limits.LABELS_MAX,
    "google.pubsub.v1.Snapshot.labels": limits.LABELS_MAX,
    "google.pubsub.v1.CreateSnapshotRequest.labels": limits.LABELS_MAX,
    "google.iam.v1.Policy.bindings": limits.IAM_BINDINGS_MAX,
    "google.iam.v1.Binding.members": limits.IAM_MEMBERS_MAX,
    "google.iam.v1.TestIamPermissionsRequest.permissions": limits.IAM_PERMISSIONS_MAX,
}
#: Names in a mask, and letters of one; there are fewer fields, and shorter ones.
_MASK_LENGTH_MAX = 10_000

#: Messages that JSON writes as a string.
_TEXTS = frozenset(
    {"google.protobuf.Duration", "google.protobuf.Timestamp", "google.protobuf.FieldMask"}
)


def fill(message: Message, value: object, where: str = "") -> None:
    """Set the fields of `message` that a JSON object names.

    Raises:
        InvalidArgument: Names the value by its path, as the caller spelled it.
    """
    if not isinstance(value, dict):
        raise InvalidArgument(f"{where or 'the body'}: must be a JSON object, not {kind(value)}")
    fields = fields_of(message.DESCRIPTOR)
    given: dict[str, str] = {}
    for key, item in value.items():
        path = f"{where}.{key}" if where else key
        field = fields.get(key)
        if field is None:
            raise unknown_field(path, message.DESCRIPTOR.name, fields)
        if field.name in given:
            raise InvalidArgument(f"{names.shown(path)}: given twice, also as {given[field.name]}")
        given[field.name] = key
        if item is not None:
            _refuse_second_of_oneof(message, field, path)
            _set(message, field, item, path)


def fill_query(
    message: Message, parameters: Iterable[tuple[str, str]], allowed: frozenset[str] | None = None
) -> None:
    """Set fields from query parameters; a dot leads into a message, a repeated field may repeat.

    Args:
        allowed: Names of the fields that may be set; None allows all.

    Raises:
        InvalidArgument: A parameter is no field, is given twice, or its value does not fit.
    """
    seen: set[tuple[str, ...]] = set()
    for key, text in parameters:
        *outer, last = key.split(".")
        target, fields = message, _query_fields(message, allowed)
        for part in outer:
            if part not in fields or not _is_plain_message(fields[part]):
                raise unknown_parameter(key, fields)
            target = getattr(target, fields[part].name)
            fields = fields_of(target.DESCRIPTOR)
        field = fields.get(last)
        if field is None or _is_plain_message(field):
            raise unknown_parameter(key, fields)
        if field.is_repeated:
            getattr(target, field.name).append(_single(field, _query_value(field, text), key))
        elif (*outer, field.name) in seen:
            raise InvalidArgument(f"{names.shown(key)}: given twice in the query")
        else:
            _refuse_second_of_oneof(target, field, key)
            _set(target, field, _query_value(field, text), key)
        seen.add((*outer, field.name))


def decode_base64(text: object, path: str) -> bytes:
    """Decode base64, of either alphabet, padded or not.

    Raises:
        InvalidArgument: Anything else is in it; no character is passed over.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"{path}: must be base64 in a JSON string, not {kind(text)}")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        pass
    plain = text.rstrip("=").translate(_URL_SAFE)
    try:
        return binascii.a2b_base64(plain + "=" * (-len(plain) % 4), strict_mode=True)
    except ValueError as error:
        raise InvalidArgument(f"{path}: {names.shown(text)} is not base64") from error


def kind(value: object) -> str:
    """A JSON value in words, for refusals."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {names.shown(value)}"
        case list():
            return "an array"
        case _:
            return "an object"


@cache
def fields_of(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    """The fields of a message by both spellings."""
    camel_case = {field.json_name: field for field in descriptor.fields}
    return camel_case | dict(descriptor.fields_by_name)


def unknown_field(path: str, of: str, known: Iterable[str]) -> InvalidArgument:
    """Make the refusal of a field that does not exist."""
    spelled = sorted({name for name in known if "_" not in name})
    return InvalidArgument(
        f"{names.shown(path)}: {of} has no such field; it has {', '.join(spelled)}"
    )


def _refuse_second_of_oneof(message: Message, field: FieldDescriptor, path: str) -> None:
    oneof = field.containing_oneof
    if oneof is None:
        return
    other = message.WhichOneof(oneof.name)
    if other is not None and len(oneof.fields) > 1:
        raise InvalidArgument(f"{path}: excludes {other}; give one of the two")


def _set(message: Message, field: FieldDescriptor, value: object, path: str) -> None:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _set_map(getattr(message, field.name), field, value, path)
    elif field.is_repeated:
        if not isinstance(value, list):
            raise InvalidArgument(f"{path}: must be an array, not {kind(value)}")
        _set_all(getattr(message, field.name), field, value, path)
    elif field.message_type is not None:
        part = getattr(message, field.name)
        part.SetInParent()
        _set_message(part, value, path)
    else:
        setattr(message, field.name, _single(field, value, path))


def _set_map(target: Any, field: FieldDescriptor, value: object, path: str) -> None:
    if not isinstance(value, dict):
        raise InvalidArgument(f"{path}: must be a JSON object, not {kind(value)}")
    _check_count(field, len(value), path)
    assert field.message_type is not None
    of = field.message_type.fields_by_name["value"]
    for key, item in value.items():
        target[key] = _single(of, item, f"{path}.{key}")


def _set_all(target: Any, field: FieldDescriptor, values: list[object], path: str) -> None:
    _check_count(field, len(values), path)
    if field.message_type is None:
        target.extend(
            _single(field, value, f"{path}[{index}]") for index, value in enumerate(values)
        )
        return
    for index, value in enumerate(values):
        _set_message(target.add(), value, f"{path}[{index}]")


def _check_count(field: FieldDescriptor, count: int, path: str) -> None:
    """Refuse more entries than the verb would, before anything is made of them."""
    is_text = field.message_type is None
    most = _MOST.get(field.full_name, limits.JSON_TEXTS_MAX if is_text else limits.JSON_OBJECTS_MAX)
    if count <= most:
        return
    if field.full_name == _MESSAGES:
        check_count(count)
    what = field.name.rpartition("_")[2]
    raise InvalidArgument(f"{path}: {count} {what}; at most {most} are allowed in a request")


def _set_message(message: Message, value: object, path: str) -> None:
    match message:
        case Duration():
            if not (isinstance(value, str) and _DURATION.fullmatch(value)):
                raise InvalidArgument(f"{path}: must be seconds such as '600s', not {kind(value)}")
            _from_text(message, value, path)
        case Timestamp():
            if not (isinstance(value, str) and _TIMESTAMP.fullmatch(value)):
                raise InvalidArgument(
                    f"{path}: must be a time such as '2026-01-31T12:00:00Z', not {kind(value)}"
                )
            _from_text(message, value, path)
        case FieldMask():
            if not isinstance(value, str):
                raise InvalidArgument(
                    f"{path}: must be names with commas between them, not {kind(value)}"
                )
            if len(value) > _MASK_LENGTH_MAX:
                raise InvalidArgument(
                    f"{path}: {len(value)} characters; at most {_MASK_LENGTH_MAX} are allowed"
                )
            message.paths.extend(_snake_case(path) for path in value.split(",") if value)
        case Struct():
            if not isinstance(value, dict):
                raise InvalidArgument(f"{path}: must be a JSON object, not {kind(value)}")
            _from_object(message, value, path)
        case _:
            fill(message, value, path)


def _from_text(message: Duration | Timestamp, text: str, path: str) -> None:
    try:
        message.FromJsonString(text)
    except ValueError as error:
        raise InvalidArgument(f"{path}: {names.shown(text)} is out of range") from error


def _from_object(message: Struct, value: JsonObject, path: str) -> None:
    check_nesting(value, path)
    try:
        message.update(value)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(f"{path}: {error}") from error


def _snake_case(path: str) -> str:
    return _UPPER.sub(lambda upper: f"_{upper[0].lower()}", path.strip())


def _single(field: FieldDescriptor, value: object, path: str) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            if isinstance(value, str):
                return value
            raise InvalidArgument(f"{path}: must be a string, not {kind(value)}")
        case FieldDescriptor.TYPE_BYTES:
            return decode_base64(value, path)
        case FieldDescriptor.TYPE_BOOL:
            if isinstance(value, bool):
                return value
            raise InvalidArgument(f"{path}: must be true or false, not {kind(value)}")
        case FieldDescriptor.TYPE_ENUM:
            return _enum(field, value, path)
        case FieldDescriptor.TYPE_DOUBLE | FieldDescriptor.TYPE_FLOAT:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
            raise InvalidArgument(f"{path}: must be a number, not {kind(value)}")
        case _:
            return _integer(value, INTEGERS[field.type], path)


def _enum(field: FieldDescriptor, value: object, path: str) -> int:
    enum = field.enum_type
    assert enum is not None
    if isinstance(value, str) and value in enum.values_by_name:
        return int(enum.values_by_name[value].number)
    if isinstance(value, int) and not isinstance(value, bool) and value in enum.values_by_number:
        return value
    ours = OWN_VALUES.get(enum.full_name, {})
    for name, number in ours.items():
        if value in (name, number) and not isinstance(value, bool):
            return number
    known = ", ".join([*(one.name for one in enum.values), *ours])
    raise InvalidArgument(f"{path}: must be one of {known}, not {kind(value)}")


def _integer(value: object, allowed: range, path: str) -> int:
    # Protobuf's JSON writes large numbers in quotes, and JavaScript may write 1 as 1.0.
    number = value
    is_quoted = isinstance(value, str) and _INTEGER.fullmatch(value)
    if is_quoted or (isinstance(value, float) and value.is_integer()):
        number = int(value)  # type: ignore[call-overload]
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidArgument(f"{path}: must be a whole number, not {kind(value)}")
    if number not in allowed:
        raise InvalidArgument(
            f"{path}: {names.shown(str(number))} is out of range; {allowed.start} to "
            f"{allowed.stop - 1} are allowed"
        )
    return number


def _query_fields(
    message: Message, allowed: frozenset[str] | None
) -> Mapping[str, FieldDescriptor]:
    fields = fields_of(message.DESCRIPTOR)
    if allowed is None:
        return fields
    return {name: field for name, field in fields.items() if field.name in allowed}


def _is_plain_message(field: FieldDescriptor) -> bool:
    """Whether a field holds a message that JSON writes as an object."""
    return field.message_type is not None and field.message_type.full_name not in _TEXTS


def unknown_parameter(key: str, known: Iterable[str]) -> InvalidArgument:
    """Make the refusal of a query parameter that does not exist."""
    spelled = sorted({name for name in known if "_" not in name})
    rest = f"there are {', '.join(spelled)}" if spelled else "there are none"
    return InvalidArgument(f"{names.shown(key)}: no such query parameter here; {rest}")


def _query_value(field: FieldDescriptor, text: str) -> object:
    if field.type == FieldDescriptor.TYPE_BOOL:
        return {"true": True, "false": False}.get(text, text)
    if field.type == FieldDescriptor.TYPE_ENUM and _INTEGER.fullmatch(text):
        return int(text)
    return text
