"""Fields of requests: nothing unknown passes, durations and times, update masks.

**Never accept and ignore.** A field that this version does not honour is refused by name, and a
field it does not know by number. The tables of honoured fields live with each resource; any other
field is refused, so that a field a later API adds cannot slip through.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import DecodeError, Message
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.unknown_fields import UnknownFieldSet

from fanlog import limits
from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.model import names

Request = TypeVar("Request", bound=Message)

_NANOS = 1_000_000_000
#: Bounds of protobuf's own types: about ten thousand years.
_DURATION_S_MAX = 315_576_000_000
_TIMESTAMP_S_MIN = -62_135_596_800
_TIMESTAMP_S_MAX = 253_402_300_799

#: Comes with a later version of Fanlog.
_LATER = {
    "message_transforms": "message transforms are",
    "bigtable_config": "export to Bigtable is",
}
#: Nothing inside of these is updated by itself.
_WHOLE = frozenset({"push_config", "bigquery_config", "cloud_storage_config"})
#: Settings of Google's cloud.
_MEANINGLESS = frozenset(
    {
        "kms_key_name",
        "ingestion_data_source_settings",
        "analytics_hub_subscription_info",
        "tags",
    }
)


def parse(message_class: type[Request], raw: bytes) -> Request:
    """Parse a request and refuse unknown fields in it.

    Raises:
        InvalidArgument: Malformed, or text that is not UTF-8.
        Unimplemented: It has a field that this version's API does not know.
    """
    try:
        message = message_class.FromString(raw)
    except DecodeError as error:
        raise InvalidArgument(
            f"the request is not a valid {message_class.DESCRIPTOR.name}: malformed protobuf, or "
            "text that is not UTF-8"
        ) from error
    # Cheaper than to look everywhere, where there are thousands of parts.
    size_bytes = message.ByteSize()
    message.DiscardUnknownFields()
    unknown_bytes = size_bytes - message.ByteSize()
    if unknown_bytes > limits.UNKNOWN_BYTES_MAX:
        # To name one of them, protobuf would list them all.
        raise _not_known(message)
    if unknown_bytes:
        refuse_unknown(message_class.FromString(raw))
    return message


def descriptor_of(message: Message | type[Message]) -> Descriptor:
    """The descriptor of a message, of which protobuf's stubs leave open which class it has."""
    descriptor = message.DESCRIPTOR
    assert isinstance(descriptor, Descriptor)
    return descriptor


def refuse_unknown(message: Message, where: str = "") -> None:
    """Refuse fields known only by number, at any depth.

    Raises:
        Unimplemented: Names the message and the number; of a message with very many parts, only
            the message.
    """
    waiting = [(message, where)]
    looked = 0
    while waiting:
        part, path = waiting.pop()
        looked += 1
        if looked > limits.UNKNOWN_PARTS_MAX:
            raise _not_known(message)
        unknown = UnknownFieldSet(part)
        if len(unknown):
            number = unknown[0].field_number
            raise Unimplemented(
                f"{path or part.DESCRIPTOR.name}: field number {number} is not known to this "
                "version; leave it unset"
            )
        waiting += islice(_inner(part, path), limits.UNKNOWN_PARTS_MAX)


def _not_known(message: Message) -> Unimplemented:
    return Unimplemented(
        f"{message.DESCRIPTOR.name}: a field that is not known to this version is set; "
        "leave it unset"
    )


def _inner(message: Message, where: str) -> Iterator[tuple[Message, str]]:
    """The messages that a message has in its fields, each with its path."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        path = f"{where}.{descriptor.name}" if where else descriptor.name
        for part in [value] if isinstance(value, Message) else value:
            yield part, path


def refuse_unsupported(message: Message, honoured: Collection[str]) -> None:
    """Refuse, by name, any field that is set and not in `honoured`.

    Raises:
        Unimplemented: Names the first such field.
    """
    for descriptor, _ in message.ListFields():
        if descriptor.name not in honoured:
            raise unsupported(descriptor.name)


def unsupported(path: str) -> Unimplemented:
    """Make the refusal of a field that is not honoured."""
    name = path.partition(".")[0]
    if name in _LATER:
        return Unimplemented(
            f"{path}: {_LATER[name]} not supported by this version; leave it unset"
        )
    if name in _MEANINGLESS:
        return Unimplemented(
            f"{path}: a setting of Google's cloud that has no meaning here; leave it unset"
        )
    return Unimplemented(f"{path}: not supported by this version; leave it unset")


def mask_paths(
    mask: FieldMask, updatable: Collection[str], immutable: Mapping[str, str], resource: Message
) -> list[str]:
    """Check an update mask; give its paths, those of whole fields before those inside them.

    Args:
        updatable: Paths that can be updated.
        immutable: Paths that cannot, each with the reason.
        resource: A message of the kind updated, to tell an unsupported field from an unknown one.

    Raises:
        InvalidArgument: Empty; a path that cannot be updated or does not exist.
        Unimplemented: A path that exists and is not supported.
    """
    if not mask.paths:
        raise InvalidArgument(
            "update_mask: empty; name the fields to update, of "
            f"{', '.join(sorted(path for path in updatable if '.' not in path))}"
        )
    for path in mask.paths:
        if path not in updatable:
            raise _not_updatable(path, updatable, immutable, resource)
    return sorted(dict.fromkeys(mask.paths), key=lambda path: "." in path)


def _not_updatable(
    path: str, updatable: Collection[str], immutable: Mapping[str, str], resource: Message
) -> InvalidArgument | Unimplemented:
    name, _, inside = path.partition(".")
    if name in immutable:
        return InvalidArgument(f"update_mask: {names.shown(path)} {immutable[name]}")
    if name == "labels" and inside:
        return InvalidArgument(
            f"update_mask: {names.shown(path)} names a single label; labels are updated as a whole"
        )
    if name in _WHOLE and inside:
        return InvalidArgument(
            f"update_mask: {names.shown(path)} names a part; {name} is updated as a whole"
        )
    descriptor = resource.DESCRIPTOR
    if name in _LATER or (name in descriptor.fields_by_name and name not in updatable):
        return unsupported(path)
    return InvalidArgument(f"update_mask: {names.shown(path)} is not a field of {descriptor.name}")


def seconds_of(duration: Duration, field: str) -> float:
    """Read a Duration.

    Raises:
        InvalidArgument: Outside of the range of a Duration.
    """
    seconds, nanos = duration.seconds, duration.nanos
    has_one_sign = not (seconds < 0 < nanos or nanos < 0 < seconds)
    if abs(seconds) > _DURATION_S_MAX or abs(nanos) >= _NANOS or not has_one_sign:
        raise InvalidArgument(
            f"{field}: seconds={seconds} nanos={nanos} is not a valid duration; nanos lies within "
            f"±{_NANOS - 1} with the sign of seconds, which lies within ±{_DURATION_S_MAX}"
        )
    return seconds + nanos / _NANOS


def time_ns_of(timestamp: Timestamp, field: str) -> int:
    """Read a Timestamp, as nanoseconds since the epoch.

    Raises:
        InvalidArgument: Outside of the range of a Timestamp.
    """
    seconds, nanos = timestamp.seconds, timestamp.nanos
    if not (_TIMESTAMP_S_MIN <= seconds <= _TIMESTAMP_S_MAX and 0 <= nanos < _NANOS):
        raise InvalidArgument(
            f"{field}: seconds={seconds} nanos={nanos} is not a valid time; nanos lies within 0 "
            f"and {_NANOS - 1}, seconds within the years 1 and 9999"
        )
    return seconds * _NANOS + nanos


def duration(seconds: float) -> Duration:
    whole, nanos = divmod(round(seconds * _NANOS), _NANOS)
    return Duration(seconds=whole, nanos=nanos)


def timestamp(time_s: float) -> Timestamp:
    # Via microseconds: the nanoseconds of a float of today's size are noise.
    whole, micros = divmod(round(time_s * 1_000_000), 1_000_000)
    return Timestamp(seconds=whole, nanos=micros * 1_000)
