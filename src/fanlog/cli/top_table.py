"""The table of `fanlog top`: its columns, and the lines of a screen. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from fanlog.cli.output import printable
from fanlog.v1 import overview_pb2 as pb

Style = Literal["", "bold", "dim", "reverse"]
#: A line of the screen, and how it looks.
Line = tuple[str, Style]
#: What is not known, or does not apply.
NONE: Final = "-"

#: The table is cut below this width rather than made narrower.
_NAME_WIDTH_MIN: Final = 16
_GAP: Final = "  "
_HELP: Final = "← → or 1-9 sort   ↑ ↓ scroll   t topics/subscriptions   / find   q quit"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its word on the command line, its title, and the order of the API behind it."""

    word: str
    title: str
    #: Empty where rows cannot be put in order by it.
    order: str
    width: int
    cell: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class RowTable:
    """Columns of one kind of row; the first is the name, and as wide as there is room."""

    kind: str
    columns: tuple[Column, ...]
    #: Its rows are in this order unless told.
    first: str

    def find(self, word: str) -> Column | None:
        """The column of a word that rows can be put in order by."""
        return next((one for one in self.columns if one.word == word and one.order), None)

    @property
    def words(self) -> Sequence[str]:
        return [one.word for one in self.columns if one.order]

    def beside(self, column: Column, step: int) -> Column:
        """The column to sort by that is so many further right."""
        sortable = [one for one in self.columns if one.order]
        return sortable[(sortable.index(column) + step) % len(sortable)]


@dataclass(slots=True)
class View:
    """The content of one screen of `fanlog top`."""

    table: RowTable
    sort: Column
    endpoint: str = ""
    project: str = ""
    rows: Sequence[Any] = ()
    #: Rows that there are on the server.
    total: int = 0
    sample: pb.LiveSample | None = None
    #: Why there is no newer answer; empty when there is.
    trouble: str = ""
    find: str = ""
    #: The text that is being typed after `/`; None when there is none.
    typed: str | None = None
    #: The rows were asked for, and are not here yet.
    is_waiting: bool = False
    #: Rows above the first that is shown.
    above: int = 0
    #: Rows that the last screen had room for.
    room: int = field(default=1)

    def scroll(self, rows: int) -> None:
        self.above = max(0, min(self.above + rows, len(self.rows) - self.room))


def lines(view: View, width: int, height: int) -> list[Line]:
    """The screen, line by line, no wider and no longer than it is."""
    head = [*_header(view), ("", "")]
    view.room = max(1, height - len(head) - 2)
    view.scroll(0)
    shown = view.rows[view.above : view.above + view.room]
    head.append((_titles(view.table, view.sort, width), "reverse"))
    body: list[Line] = [(_row(view.table, one, width), "") for one in shown]
    if not view.rows and view.is_waiting:
        body = [("…", "dim")]
    elif not view.rows:
        body = [(f"no {view.table.kind}" + (f" with {view.find!r}" if view.find else ""), "dim")]
    found = [*head, *body][: height - 1]
    found += [("", "")] * (height - 1 - len(found))
    found.append((_footer(view, len(shown)), "dim"))
    return [(text[:width], style) for text, style in found[:height]]


def _header(view: View) -> list[Line]:
    title: Line = (f"fanlog top   {view.endpoint}   {view.project}", "bold")
    if view.trouble:
        return [title, (printable(view.trouble), "reverse"), ("", "")]
    sample = view.sample
    if sample is None:
        return [title, ("", ""), ("", "")]
    server, rates = sample.server, sample.server.rates
    backlog = server.backlog
    flow = (
        f"in {rate(rates.published)}/s   out {rate(rates.delivered)}/s   "
        f"acked {rate(rates.acknowledged)}/s   failed {rate(rates.failed)}/s   "
        f"refused {rate(rates.refused)}/s"
        if sample.has_rates
        else "measuring the rates"
    )
    waits = f"   backlog {count(backlog.messages)}"
    if backlog.oldest_subscription:
        oldest = backlog.oldest_subscription.rpartition("/")[2]
        waits += f", oldest {age(backlog.oldest_unacked_age.ToTimedelta().total_seconds())}"
        waits += f" ({oldest})"
    waits += f"   cpu {server.node.cpu:.0%}   memory {server.node.memory_bytes / 2**20:,.0f} MiB"
    wrong: Line = ("nothing is wrong", "dim")
    if sample.problem_count:
        worst = printable(sample.problems[0].sentence) if sample.problems else ""
        more = sample.problem_count - 1
        wrong = (worst + (f"   and {more} more: fanlog problems" if more else ""), "bold")
    return [title, (flow + waits, ""), wrong]


def _titles(table: RowTable, sort: Column, width: int) -> str:
    cells = [f"▼{one.title}" if one is sort else one.title for one in table.columns]
    return _line(table, cells, width).ljust(width)


def _row(table: RowTable, one: Any, width: int) -> str:
    return _line(table, [column.cell(one) for column in table.columns], width)


def _line(table: RowTable, cells: Sequence[str], width: int) -> str:
    """Cells side by side; the name takes the room that there is, and is cut in its middle."""
    others = [cell.rjust(one.width) for one, cell in zip(table.columns, cells, strict=True)][1:]
    rest = _GAP.join(others)
    room = max(_NAME_WIDTH_MIN, width - len(rest) - len(_GAP))
    return f"{cut(cells[0], room).ljust(room)}{_GAP}{rest}"


def _footer(view: View, shown: int) -> str:
    if view.typed is not None:
        return f"names with: {view.typed}_   (Enter: find, Esc: leave it)"
    of = f"{view.above + 1}-{view.above + shown}" if shown else "0"
    found = f" with {view.find!r}" if view.find else ""
    return f"{of} of {view.total:,} {view.table.kind}{found}   {_HELP}"


# Numbers, in as few characters as tell them.


def rate(value: float | None) -> str:
    """A number a second."""
    if value is None:
        return NONE
    if value < 0.05:
        return "0"
    return f"{value:.1f}" if value < 9.95 else count(round(value))


def count(value: int) -> str:
    """A count: 9,999, 12.3k, 4.5M."""
    if value < 100_000:
        return f"{value:,}"
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if value < size * 999.95:
            return f"{value / size:.1f}{unit}"
    return f"{value / 1e12:,.1f}T"


def age(seconds: float) -> str:
    """A time that has gone by, in its largest unit: 59s, 14m, 3h, 12d."""
    for unit, size, most in (("s", 1, 120), ("m", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // 86_400)}d"


def cut(text: str, width: int) -> str:
    """A text with its middle left out where it is too long."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def _name(row: Any) -> str:
    return str(row.name.rpartition("/")[2])


def _rate_of(field_name: str) -> Callable[[Any], str]:
    return lambda row: rate(getattr(row, field_name) if row.HasField(field_name) else None)


def _count_of(field_name: str) -> Callable[[Any], str]:
    return lambda row: count(getattr(row, field_name))


def _backlog(row: pb.SubscriptionRow) -> str:
    return ("~" if row.backlog_estimated else "") + count(row.backlog)


def _oldest(row: pb.SubscriptionRow) -> str:
    seconds = row.oldest_unacked_age.ToTimedelta().total_seconds()
    return age(seconds) if row.backlog else NONE


def _pressure(row: pb.SubscriptionRow) -> str:
    return f"{row.pressure:.0%}" if row.pressure else NONE


SUBSCRIPTIONS: Final = RowTable(
    "subscriptions",
    (
        Column("name", "SUBSCRIPTION", "name", 0, _name),
        Column("in", "IN/S", "published", 7, _rate_of("published")),
        Column("out", "OUT/S", "delivered", 7, _rate_of("delivered")),
        Column("acked", "ACKED/S", "rate", 8, _rate_of("acknowledged")),
        Column("failed", "FAILED/S", "failed", 9, _rate_of("failed")),
        Column("backlog", "BACKLOG", "backlog", 8, _backlog),
        Column("oldest", "OLDEST", "age", 7, _oldest),
        Column("outstanding", "HELD", "outstanding", 6, _count_of("outstanding")),
        Column("consumers", "CONSUMERS", "consumers", 10, _count_of("consumers")),
        Column("pressure", "PRESSURE", "pressure", 9, _pressure),
    ),
    "backlog",
)
TOPICS: Final = RowTable(
    "topics",
    (
        Column("name", "TOPIC", "name", 0, _name),
        Column("in", "IN/S", "rate", 7, _rate_of("published")),
        Column("messages", "MESSAGES", "messages", 9, _count_of("messages")),
        Column("total", "EVER", "total", 9, _count_of("published_total")),
        Column("subscriptions", "SUBSCRIPTIONS", "", 13, _count_of("subscriptions")),
    ),
    "in",
)
