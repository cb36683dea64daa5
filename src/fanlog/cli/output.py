"""How commands speak: text for people, one JSON object per line for machines.

Results go to standard output and everything said about them to standard error, so that a pipe gets
results alone.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from rich.console import Console
from rich.table import Table
from rich.text import Text


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
            self._console.print(Text(sentence))

    def line(self, fields: Mapping[str, object]) -> None:
        sys.stdout.write(json.dumps(fields, ensure_ascii=False) + "\n")
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
    lines = map(printable, sentence.split("\n"))
    sys.stderr.write("\n".join(lines) + "\n")
    sys.stderr.flush()


def resource(message: Any) -> dict[str, Any]:
    """Give a resource as plain values, with the names the API uses in snake_case."""
    fields: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    return fields


def received(message: Any) -> dict[str, Any]:
    """Give a received message as plain values; data that is no text comes as `data_base64`."""
    inner = message.message
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
    if message.delivery_attempt:
        fields["delivery_attempt"] = message.delivery_attempt
    fields["ack_id"] = message.ack_id
    return fields


def shown(value: object) -> str:
    """Give a value as a person reads it."""
    if isinstance(value, Mapping):
        return " ".join(f"{name}={shown(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ",".join(map(shown, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def printable(text: str) -> str:
    """Escape what would move the cursor or change colours: messages are strangers' words."""
    return "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def _as_text(part: str | Text) -> Text:
    return part if isinstance(part, Text) else Text(part)
