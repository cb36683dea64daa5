"""How commands speak: text for people, one JSON object per line for machines.

Results go to standard output and everything said about them to standard error, so that a pipe gets
results alone.

Messages, names and errors are strangers' words: every text on its way to a terminal goes through
`printable`, and every JSON line through `escaped`, so that none of them moves the cursor, changes
colours or turns the direction of writing.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fanlog import times
from fanlog.model import term_attributes as terms


class Output:
    """Where one command writes its results."""

    def __init__(self, *, is_json: bool) -> None:
        self.is_json = is_json
        # Away from a terminal nothing may be folded or cut: the lines are data then.
        self._console = Console(
            width=None if sys.stdout.isatty() else 100_000, highlight=False, soft_wrap=True
        )

    def done(self, sentence: str, fields: Mapping[str, object]) -> None:
        """Say that something was done; machines get the fields instead."""
        if self.is_json:
            self.line(fields)
        else:
            self._console.print(Text(_lines(sentence)))

    def line(self, fields: Mapping[str, object]) -> None:
        sys.stdout.write(escaped(json.dumps(fields, ensure_ascii=False)) + "\n")
        sys.stdout.flush()

    def text(self, *parts: str | Text) -> None:
        self._console.print(Text("  ").join(_as_text(part) for part in parts))

    def rows(self, head: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
        """Write one line per resource: all its fields as JSON, or the named ones in columns."""
        if self.is_json:
            for row in rows:
                self.line(row)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in head:
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            table.add_row(*(Text(shown(row.get(name, ""))) for name in head))
        if table.row_count:
            self._console.print(table)
        else:
            note("none")

    def fields(self, values: Mapping[str, object]) -> None:
        """Write everything about one resource."""
        if self.is_json:
            self.line(values)
            return
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in values.items():
            if text := shown(value):
                table.add_row(name.replace("_", " "), Text(text))
        self._console.print(table)


def note(sentence: str) -> None:
    """Say something to the person, beside the results; some of it may be a stranger's words."""
    sys.stderr.write(_lines(sentence) + "\n")
    sys.stderr.flush()


def resource(message: Message) -> dict[str, Any]:
    """Give a resource as plain values, with the names the API uses in snake_case."""
    fields: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return fields


def with_created(fields: dict[str, Any], told: Any | None) -> dict[str, Any]:
    """Fields of a resource, and when it was made, if the server tells that."""
    if told is None or not told.HasField("created_at"):
        return fields
    return fields | {"created_at": told.created_at.ToJsonString()}


def received(message: Any, ttl_s: float | None = None) -> dict[str, Any]:
    """Give a received message as plain values; see `content`."""
    fields = content(message.message, ttl_s)
    if message.delivery_attempt:
        fields["delivery_attempt"] = message.delivery_attempt
    fields["ack_id"] = message.ack_id
    return fields


def content(inner: Any, ttl_s: float | None = None) -> dict[str, Any]:
    """Give a message as plain values; data that is no text comes as `data_base64`.

    Args:
        ttl_s: The time-to-live of messages that have none of their own.
    """
    fields: dict[str, Any] = {
        "message_id": inner.message_id,
        "publish_time": inner.publish_time.ToJsonString(),
    }
    try:
        fields["data"] = inner.data.decode("utf-8")
    except UnicodeDecodeError:
        fields["data_base64"] = base64.b64encode(inner.data).decode("ascii")
    fields["attributes"] = dict(sorted(inner.attributes.items()))
    if inner.ordering_key:
        fields["ordering_key"] = inner.ordering_key
    expires_ns = terms.expires_ns(
        fields["attributes"], inner.ordering_key, inner.publish_time.ToNanoseconds(), ttl_s
    )
    if expires_ns is not None:
        fields["expires_at"] = times.of_ns(expires_ns)
    return fields


def ranges(numbers: Sequence[int]) -> str:
    """Give ascending numbers as a person reads them: 0-15,20."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][-1] == number - 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, ends)) for ends in found)


def shown(value: object) -> str:
    """Give a value as a person reads it."""
    if isinstance(value, Mapping):
        return " ".join(f"{shown(name)}={shown(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ",".join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def printable(text: str) -> str:
    """Escape characters that would move the cursor or change colours: messages are not ours."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def escaped(line: str) -> str:
    """Escape the characters of a JSON line that a terminal acts upon; it stays the same JSON."""
    if line.isprintable():
        return line
    # Outside its strings JSON is ASCII, and inside them any character may be written as an escape.
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in line)


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


def _as_text(part: str | Text) -> Text:
    return part if isinstance(part, Text) else Text(_lines(part))
