"""fanlog.v1 StageRequest: rows to bodies, each row checked as a message of a publish is.

The rows for a topic are, on the wire, a PublishRequest: they take the same road, which mostly leads
past protobuf. Only where a row is refused are they looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fanlog import limits
from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.log.batch import Body
from fanlog.model.attributes import SEQUENCE
from fanlog.v1 import sink_pb2 as pb
from fanlog.wire import fields, parts
from fanlog.wire.encode import TAG_MESSAGES, field
from fanlog.wire.publish import Publish, parse_publish

_TAG_KEY, _TAG_ROWS = 0x0A, 0x12
_TAG_TOPIC = b"\x0a"
_TOPIC_NUMBER, _MESSAGES_NUMBER = (
    pb.StagedRows.DESCRIPTOR.fields_by_name[name].number for name in ("topic", "messages")
)


@dataclass(frozen=True, slots=True)
class AcceptedRows:
    """Rows for one topic that can be published, and their numbers in the call."""

    topic: str
    body: Body
    numbers: range | list[int]


def split_request(raw: bytes) -> tuple[pb.StageKey | None, list[bytes]]:
    """The key of a request, if it has one, and the rows for each topic as they came.

    Raises:
        InvalidArgument: Malformed, or rows for too many topics.
        Unimplemented: It has a field that is not known.
    """
    try:
        return _split(raw)
    except IndexError:
        if parts.is_counted(raw):
            raise InvalidArgument(
                "the request is not a valid StageRequest: malformed, or with a field that is not "
                "known"
            ) from None
        # Left to protobuf to judge.
        request = fields.parse(pb.StageRequest, raw)
        key = request.key if request.HasField("key") else None
        return key, [rows.SerializeToString() for rows in request.rows]


def parse_rows(
    raw: bytes,
    first: int,
    refuse: Callable[[int, str], None],
    message_bytes_max: int = limits.MESSAGE_BYTES_MAX,
) -> tuple[list[AcceptedRows], int]:
    """Check the rows for one topic, of which the first has a number; give those that are fine.

    The second answer is how many there are, with those that were refused.

    Raises:
        InvalidArgument: Malformed.
    """
    try:
        publish = parse_publish(raw, message_bytes_max)
        _check_numbers(publish)
    except InvalidArgument:
        return _one_by_one(raw, first, refuse, message_bytes_max)
    numbers = range(first, first + publish.body.count)
    return [AcceptedRows(publish.topic, publish.body, numbers)], len(numbers)


def _one_by_one(
    raw: bytes, first: int, refuse: Callable[[int, str], None], message_bytes_max: int
) -> tuple[list[AcceptedRows], int]:
    name = b""
    messages: list[bytes] = []
    for tag, begin, end in parts.fields_of(raw):
        if tag == _TOPIC_NUMBER:
            name = raw[begin:end]
        elif tag != _MESSAGES_NUMBER:
            raise Unimplemented(
                f"StagedRows: field number {tag} is not known to this version; leave it unset"
            )
        elif len(messages) == limits.STAGE_ROWS_MAX:
            raise InvalidArgument(
                f"rows: more than {limits.STAGE_ROWS_MAX} for one topic in a request; send fewer "
                "at a time"
            )
        else:
            messages.append(field(TAG_MESSAGES, raw[begin:end]))
    topic = field(_TAG_TOPIC, name)
    fine: list[tuple[int, bytes]] = []
    for number, message in enumerate(messages, start=first):
        try:
            _check_numbers(parse_publish(topic + message, message_bytes_max))
            fine.append((number, message))
        except InvalidArgument as error:
            refuse(number, error.message.removeprefix("messages[0]").lstrip(".: "))
    found: list[AcceptedRows] = []
    for run in _runs(fine, limits.PUBLISH_BYTES_MAX - len(topic)):
        publish = parse_publish(topic + b"".join(message for _, message in run))
        found.append(AcceptedRows(publish.topic, publish.body, [number for number, _ in run]))
    return found, len(messages)


def _check_numbers(publish: Publish) -> None:
    """Refuse numbers of publishers: a row is published once by its query and epoch.

    Raises:
        InvalidArgument: There is one.
    """
    if publish.numbers is not None:
        raise InvalidArgument(
            f"attributes: {SEQUENCE} numbers what a publisher publishes itself; rows of a sink are "
            "published once by their query and epoch, in no order: leave it out"
        )


def _runs(rows: list[tuple[int, bytes]], max_bytes: int) -> Iterator[list[tuple[int, bytes]]]:
    """Cut rows into runs, each within the limits of one publish."""
    run: list[tuple[int, bytes]] = []
    size_bytes = 0
    for row in rows:
        size_bytes += len(row[1])
        if run and (size_bytes > max_bytes or len(run) == limits.PUBLISH_MESSAGES_MAX):
            yield run
            run, size_bytes = [], len(row[1])
        run.append(row)
    if run:
        yield run


def _split(raw: bytes) -> tuple[pb.StageKey | None, list[bytes]]:
    """Walk the fields of a request; IndexError for one that is not plain."""
    key: pb.StageKey | None = None
    rows: list[bytes] = []
    position, end = 0, len(raw)
    while position < end:
        tag = raw[position]
        size, begin = parts.varint(raw, position + 1)
        position = begin + size
        if position > end:
            raise IndexError
        if tag == _TAG_ROWS:
            if len(rows) == limits.STAGE_RUNS_MAX:
                raise InvalidArgument(
                    f"rows: for more than {limits.STAGE_RUNS_MAX} topics in a request; send fewer "
                    "at a time"
                )
            rows.append(raw[begin:position])
        elif tag == _TAG_KEY and key is None:
            key = fields.parse(pb.StageKey, raw[begin:position])
        else:
            raise IndexError
    return key, rows
