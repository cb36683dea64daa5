"""`fanlog top`: a live table of subscriptions or topics in the terminal."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fanlog import limits
from fanlog.cli import options, top_table
from fanlog.cli.options import Remote
from fanlog.cli.output import note, resource
from fanlog.cli.top_table import SUBSCRIPTIONS, TOPICS, Column, RowTable, View
from fanlog.errors import FanlogError, InvalidArgument
from fanlog.model import names
from fanlog.v1 import overview_pb2 as pb

if TYPE_CHECKING:
    from fanlog.cli.screen import Screen
    from fanlog.client.overview import OverviewClient

#: Rates are those since somebody looked before: after this time the server knows some.
_RATES_S: Final = 1.0
#: Before the live numbers are asked for again.
_AGAIN_S: Final = 1.0
_COUNTS: Final = (
    *("backlog", "outstanding", "consumers", "messages", "published_total", "subscriptions"),
)


@dataclass(frozen=True, slots=True)
class RowsQuestion:
    """Which rows are asked for."""

    table: RowTable
    sort: Column
    project: str
    find: str
    most: int

    def ask(self, overview: OverviewClient) -> tuple[list[Any], int]:
        """The rows, and how many there are.

        Raises:
            CallFailed: There is no answer.
        """
        if self.table is TOPICS:
            topics = overview.topic_page(
                self.project, contains=self.find, order_by=self.sort.order, page_size=self.most
            )
            return list(topics.topics), topics.total
        found = overview.subscription_page(
            self.project, contains=self.find, order_by=self.sort.order, page_size=self.most
        )
        return list(found.subscriptions), found.total


def top(
    *,
    topics: Annotated[
        bool, typer.Option("--topics", help="Begin with topics instead of subscriptions.")
    ] = False,
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help=f"Subscriptions by {', '.join(SUBSCRIPTIONS.words)}; topics by "
            f"{', '.join(TOPICS.words)}.",
        ),
    ] = None,
    contains: Annotated[
        str, typer.Option(metavar="FRAGMENT", help="Only names with this in them, in any case.")
    ] = "",
    most: Annotated[
        int, typer.Option("--max", min=1, max=limits.ROWS_MAX, help="So many rows at most.")
    ] = limits.ROWS_DEFAULT,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="How often the table is renewed.")
    ] = "2s",
    once: Annotated[
        bool, typer.Option("--once", help="Show one table and end, as away from a terminal.")
    ] = False,
    remote: Remote,
) -> None:
    """Show rates, backlogs and consumers, live: the largest first."""
    table = TOPICS if topics else SUBSCRIPTIONS
    column = table.find(table.first if sort is None else sort)
    if column is None:
        known = ", ".join(table.words)
        raise InvalidArgument(f"--sort: {names.shown(sort or '')} is not one of {known}")
    every_s = options.duration_s(every, "--every")
    if every_s < 1:
        raise InvalidArgument(f"--every {names.shown(every)} is too short; 1s is the least")
    question = RowsQuestion(table, column, remote.parent, contains, most)
    if once or remote.json or not _is_terminal():
        _show_once(remote, question)
    else:
        _show_live(remote, question, every_s)


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _show_once(remote: Remote, question: RowsQuestion) -> None:
    from fanlog.client.overview import OverviewClient

    with remote.connect() as client:
        overview = OverviewClient(client)
        rows, total = question.ask(overview)
        rated = "published" if question.table is TOPICS else "acknowledged"
        if any(not one.HasField(rated) for one in rows):
            # Rates are those since this look.
            time.sleep(_RATES_S)
            rows, total = question.ask(overview)
    if remote.json:
        for one in rows:
            fields = resource(one)
            fields |= {name: getattr(one, name) for name in _COUNTS if hasattr(one, name)}
            remote.output.line(fields)
        return
    columns = question.table.columns
    remote.output.rows(
        [one.title.lower() for one in columns],
        [{one.title.lower(): one.cell(row) for one in columns} for row in rows],
    )
    if total > len(rows):
        note(f"{len(rows)} of {total}; --max shows more, --contains fewer")


def _show_live(remote: Remote, question: RowsQuestion, every_s: float) -> None:
    from fanlog.cli.screen import Screen
    from fanlog.client.overview import OverviewClient

    with remote.connect() as client:
        overview = OverviewClient(client)
        # Before the screen is taken: a server that is not there is told of in a sentence.
        rows, total = question.ask(overview)
        view = View(question.table, question.sort, client.endpoint, question.project, rows, total)
        view.find = question.find
        try:
            with Screen() as screen:
                numbers = _Numbers(overview, screen.wake)
                answers = _Answers(overview, question, every_s, screen.wake)
                _run(screen, view, numbers, answers)
        except KeyboardInterrupt:
            # The other way to end it.
            pass


def _run(screen: Screen, view: View, numbers: _Numbers, answers: _Answers) -> None:
    numbers.start()
    answers.start()
    while True:
        view.sample = numbers.sample
        view.trouble = answers.trouble or numbers.trouble
        view.is_waiting = answers.answered != answers.question
        if not view.is_waiting:
            view.rows, view.total = answers.rows, answers.total
        screen.draw(top_table.lines(view, *screen.size()))
        for key in screen.keys(timeout_s=60.0):
            if not _press(view, key):
                return
        question = RowsQuestion(
            view.table, view.sort, view.project, view.find, answers.question.most
        )
        if question != answers.question:
            answers.ask(question)


def _press(view: View, key: str) -> bool:
    """Do what a key means; False for the one that ends it."""
    if view.typed is not None:
        _type(view, view.typed, key)
        return True
    match key:
        case "q" | "escape":
            return False
        case "left" | "<":
            view.sort = view.table.beside(view.sort, -1)
        case "right" | ">":
            view.sort = view.table.beside(view.sort, 1)
        case "up" | "k":
            view.scroll(-1)
        case "down" | "j":
            view.scroll(1)
        case "page up":
            view.scroll(-view.room)
        case "page down" | " ":
            view.scroll(view.room)
        case "home":
            view.scroll(-len(view.rows))
        case "end":
            view.scroll(len(view.rows))
        case "t":
            view.table = SUBSCRIPTIONS if view.table is TOPICS else TOPICS
            first = view.table.find(view.table.first)
            assert first is not None
            view.sort, view.rows, view.above = first, (), 0
        case "/":
            view.typed = view.find
        case _ if key in "123456789" and int(key) <= len(view.table.words):
            chosen = view.table.find(view.table.words[int(key) - 1])
            assert chosen is not None
            view.sort = chosen
    return True


def _type(view: View, typed: str, key: str) -> None:
    """A key while a fragment of names is typed."""
    match key:
        case "enter":
            view.find, view.typed, view.above = typed, None, 0
        case "escape":
            view.typed = None
        case "backspace":
            view.typed = typed[:-1]
        case _ if len(key) == 1 and len(typed) < limits.NAME_LENGTH_MAX:
            view.typed = typed + key


class _Numbers:
    """The live numbers of the server, a sample a second, in a thread of their own."""

    def __init__(self, overview: OverviewClient, wake: Callable[[], None]) -> None:
        self._overview = overview
        self._wake = wake
        self.sample: pb.LiveSample | None = None
        self.trouble = ""

    def start(self) -> None:
        # It ends with the process, and its call with the connection.
        threading.Thread(target=self._run, name="numbers", daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                for sample in self._overview.watch():
                    self.sample, self.trouble = sample, ""
                    self._wake()
            except FanlogError as error:
                self.sample = None
                self.trouble = f"no numbers of the server: {error.message}"
            except ValueError:
                # The connection is closed.
                return
            self._wake()
            time.sleep(_AGAIN_S)


class _Answers:
    """The rows, asked for every so often and whenever the question changes, in a thread."""

    def __init__(
        self,
        overview: OverviewClient,
        question: RowsQuestion,
        every_s: float,
        wake: Callable[[], None],
    ) -> None:
        self._overview = overview
        self._every_s = every_s
        self._wake = wake
        self._asked = threading.Event()
        self.question = question
        #: The question that `rows` answer.
        self.answered: RowsQuestion | None = None
        self.rows: list[Any] = []
        self.total = 0
        self.trouble = ""

    def start(self) -> None:
        threading.Thread(target=self._run, name="rows", daemon=True).start()

    def ask(self, question: RowsQuestion) -> None:
        self.question = question
        self._asked.set()

    def _run(self) -> None:
        while True:
            self._asked.clear()
            question = self.question
            try:
                rows, total = question.ask(self._overview)
                self.rows, self.total = rows, total
                self.answered, self.trouble = question, ""
            except FanlogError as error:
                self.trouble = error.message
            except ValueError:
                # The connection is closed.
                return
            self._wake()
            self._asked.wait(self._every_s)
