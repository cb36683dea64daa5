"""`fanlog filter`: try a filter without a server."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.cells import cell_len

from fanlog.cli import options
from fanlog.cli.output import Output, note, printable
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_parse import FilterError, parse
from fanlog.routing.filter_print import to_text

#: Where a refusal says it is; in a key of the JSON form columns count within that key.
_COLUMN = re.compile(r" at column (\d+)\b(?! of )")
#: As much of a long filter as is shown before and after the place.
_SHOWN_BEFORE, _SHOWN_AFTER = 50, 25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def check(
    expression: Annotated[
        str, typer.Argument(metavar="EXPR", help="The filter, as text or in its JSON form.")
    ],
    attr: options.Attributes = None,
    data: Annotated[
        str | None,
        typer.Option(help="The message's data; JSON where payload fields are asked for."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="The ordering key.")] = None,
    topic: Annotated[
        str | None, typer.Option(help="The topic it is published to: short or full name.")
    ] = None,
    publish_time: Annotated[
        str | None,
        typer.Option(help="2025-01-31T12:00:00Z, or 10m for ten minutes ago; now if not given."),
    ] = None,
    message_id: Annotated[str | None, typer.Option(help="The message id.")] = None,
    json: options.AsJson = False,
) -> None:
    """Check a filter, and whether a message matches it. Needs no server."""
    is_message = any(
        given is not None for given in (attr, data, key, topic, publish_time, message_id)
    )
    now = datetime.now(UTC)
    candidate = Candidate(
        options.pairs(attr, "--attr"),
        (data or "").encode("utf-8", "surrogateescape"),
        ordering_key=key or "",
        publish_time_us=_microseconds(
            now if publish_time is None else options.moment(publish_time, "--publish-time")
        ),
        topic="" if topic is None else options.topic(topic, options.PROJECT).rpartition("/")[2],
        message_id=message_id or "",
    )
    try:
        tree = parse(expression)
    except FilterError as error:
        _refuse(expression, error, is_json=json)
        raise typer.Exit(1) from error
    text = "" if tree is None else to_text(tree)
    matches = tree is None or compile_filter(tree)(candidate)
    output = Output(is_json=json)
    if json:
        output.line(
            {"is_valid": True, "filter": text} | ({"matches": matches} if is_message else {})
        )
        return
    output.text(printable(text) if text else "no filter: every message matches")
    if is_message and text:
        output.text("matches" if matches else "does not match")


def _refuse(expression: str, error: FilterError, *, is_json: bool) -> None:
    found = _COLUMN.search(error.message)
    column = int(found[1]) if found else None
    if is_json:
        place = {} if column is None else {"column": column}
        Output(is_json=True).line({"is_valid": False, "error": error.message, **place})
        return
    if column is not None:
        for line in _marked(expression, column - 1):
            note(line)
    note(f"fanlog: {error.message}")


def _marked(text: str, position: int) -> tuple[str, str]:
    """The text around a place, on one line, and a caret to stand under it."""
    first, last = max(0, position - _SHOWN_BEFORE), position + _SHOWN_AFTER
    before = ("…" if first else "") + _on_one_line(text[first:position])
    after = _on_one_line(text[position:last]) + ("…" if last < len(text) else "")
    return before + after, " " * cell_len(before) + "^"


def _on_one_line(text: str) -> str:
    return printable(text.replace("\t", " "))


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
