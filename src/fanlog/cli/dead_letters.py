"""`fanlog dead-letter`: list, redrive, discard."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Self

import typer

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import note, printable, resource
from fanlog.errors import InvalidArgument
from fanlog.v1 import replay_pb2

if TYPE_CHECKING:
    from fanlog.client.reopening import LetterCriteria, ReopenClient

app = typer.Typer(
    no_args_is_help=True,
    help="List dead letters, bring them back to where they failed, or discard them.",
)

LetterSubscription = Annotated[
    str,
    typer.Argument(
        metavar="SUB",
        help="The subscription on the dead letter topic: short or full name.",
    ),
]
MessageIds = Annotated[
    list[str] | None,
    typer.Option("--message-id", metavar="ID", help="This letter; may be given many times."),
]
AllLetters = Annotated[bool, typer.Option("--all", help="All that nobody has leased.")]


@dataclass(frozen=True, slots=True)
class LetterOptions:
    """The options that say which letters are meant."""

    source: Annotated[
        str | None, typer.Option(metavar="SUB", help="Only what failed on this subscription.")
    ] = None
    reason: Annotated[
        str | None, typer.Option(help="Only letters whose reason has this in it, in any case.")
    ] = None
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Dead-lettered from then on; 2h: two hours ago."
        ),
    ] = None
    end: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Dead-lettered before then.")
    ] = None
    matching: Annotated[
        str | None,
        typer.Option("--filter", metavar="EXPR", help="Only letters that this filter matches."),
    ] = None

    def criteria(self, remote: Remote) -> LetterCriteria:
        """The fields of a request that select these letters."""
        found: LetterCriteria = {}
        if self.source is not None:
            found["source_subscription"] = remote.subscription(self.source)
        if self.reason is not None:
            if not self.reason:
                raise InvalidArgument("--reason: is empty; leave it out for any")
            found["reason"] = self.reason
        if self.start is not None:
            found["start_time"] = options.moment(self.start, "--from")
        if self.end is not None:
            found["end_time"] = options.moment(self.end, "--to")
        if self.matching is not None:
            if not self.matching.strip():
                raise InvalidArgument("--filter: is empty; leave it out for any")
            found["filter"] = self.matching
        return found


LetterCount = Annotated[int, typer.Option("--max", min=0, help="At most so many; 0 for no bound.")]


@add_command(app, "list")
def list_(
    *,
    subscription: LetterSubscription,
    which: LetterOptions,
    most: LetterCount = 100,
    remote: Remote,
) -> None:
    """List dead letters that are not acknowledged; nothing is leased by looking."""
    from itertools import islice

    from fanlog.client.reopening import ReopenClient

    name = remote.subscription(subscription)
    criteria = which.criteria(remote)
    with remote.connect() as client:
        page_size = min(most, limits.PAGE_SIZE_MAX)
        letters = ReopenClient(client).list_letters(name, page_size=page_size, **criteria)
        rows = [_row(letter) for letter in islice(letters, most or None)]
    head = ("message_id", "source_subscription", "attempts", "leased", "reason")
    remote.output.rows(head, rows)


@add_command(app)
def count(*, subscription: LetterSubscription, which: LetterOptions, remote: Remote) -> None:
    """Count dead letters by where and why they failed, without taking them."""
    from fanlog.client.reopening import ReopenClient

    name, criteria = remote.subscription(subscription), which.criteria(remote)
    with remote.connect() as client:
        groups = ReopenClient(client).count_letters(name, **criteria)
    rows = [resource(one) | {"letters": one.letters} for one in groups]
    remote.output.rows(
        ("letters", "source_subscription", "reason", "first_time", "last_time"), rows
    )


@add_command(app)
def redrive(
    *,
    subscription: LetterSubscription,
    message_id: MessageIds = None,
    all_: AllLetters = False,
    which: LetterOptions,
    most: LetterCount = 0,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies",
            help="Where the original is gone, publish a copy for the subscription that failed.",
        ),
    ] = False,
    remote: Remote,
) -> None:
    """Reopen the originals of dead letters where they failed, and acknowledge the letters."""
    from fanlog.client.reopening import ReopenClient

    name = remote.subscription(subscription)
    criteria = which.criteria(remote)
    _check(message_id, all_ or bool(criteria), most)
    counts = {"reopened": 0, "copied": 0, "skipped": 0}
    with remote.connect() as client:
        replays = ReopenClient(client)
        if message_id:
            answers = iter([replays.redrive(name, message_id, copies=copies)])
        else:
            answers = replays.redrive_all(name, max_messages=_step(most), copies=copies, **criteria)
        _sum_up(counts, answers, _Progress.of(remote, replays, name, message_id, most, criteria))
    remote.output.done(
        f"redrove {counts['reopened'] + counts['copied']} dead letters of {name}: "
        f"{counts['reopened']} reopened, {counts['copied']} as copies; {counts['skipped']} skipped",
        {"name": name, **counts},
    )


@add_command(app)
def discard(
    *,
    subscription: LetterSubscription,
    message_id: MessageIds = None,
    all_: AllLetters = False,
    which: LetterOptions,
    most: LetterCount = 0,
    remote: Remote,
) -> None:
    """Acknowledge dead letters: nobody will get them any more."""
    from fanlog.client.reopening import ReopenClient

    name = remote.subscription(subscription)
    criteria = which.criteria(remote)
    _check(message_id, all_ or bool(criteria), most)
    counts = {"discarded": 0, "skipped": 0}
    with remote.connect() as client:
        replays = ReopenClient(client)
        if message_id:
            answers = iter([replays.discard(name, message_id)])
        else:
            answers = replays.discard_all(name, max_messages=_step(most), **criteria)
        _sum_up(counts, answers, _Progress.of(remote, replays, name, message_id, most, criteria))
    remote.output.done(
        f"discarded {counts['discarded']} dead letters of {name}; {counts['skipped']} skipped",
        {"name": name, **counts},
    )


def _check(message_ids: list[str] | None, is_selected: bool, most: int) -> None:
    if bool(message_ids) == is_selected:
        raise InvalidArgument(
            "say which letters: --message-id, or --all, or some of --source, --reason, --from, "
            "--to and --filter"
        )
    if message_ids and most:
        raise InvalidArgument("--max: goes with a selection, not with --message-id")


def _step(most: int) -> int:
    if most > limits.LETTERS_MAX:
        raise InvalidArgument(f"--max: at most {limits.LETTERS_MAX}; or 0 for all there are")
    return most


def _sum_up(
    counts: dict[str, int],
    answers: Iterable[replay_pb2.RedriveResponse | replay_pb2.DiscardResponse],
    progress: _Progress,
) -> None:
    for answer in answers:
        for name in counts:
            counts[name] += getattr(answer, name)
        progress.clear()
        for letter in answer.skipped_letters:
            note(f"skipped {letter.message_id}: {printable(letter.reason)}")
        progress.show(sum(counts.values()))
    progress.clear()


@dataclass(frozen=True, slots=True)
class _Progress:
    """How many of the selected letters are done; a line on a terminal, and nothing elsewhere."""

    #: None away from a terminal.
    total: int | None

    @classmethod
    def of(
        cls,
        remote: Remote,
        replays: ReopenClient,
        name: str,
        message_ids: list[str] | None,
        most: int,
        criteria: LetterCriteria,
    ) -> Self:
        if message_ids or remote.json or not sys.stderr.isatty():
            return cls(None)
        total = sum(one.letters for one in replays.count_letters(name, **criteria))
        return cls(min(total, most) if most else total)

    def show(self, done: int) -> None:
        if self.total is not None:
            sys.stderr.write(f"{done:,} of {self.total:,} dead letters")
            sys.stderr.flush()

    def clear(self) -> None:
        if self.total is not None:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _row(letter: replay_pb2.DeadLetter) -> dict[str, object]:
    return {
        "message_id": letter.message.message_id,
        "source_subscription": letter.source_subscription,
        "source_topic": letter.source_topic,
        "source_message_id": letter.source_message_id,
        "attempts": letter.delivery_attempts,
        "leased": letter.leased,
        "reason": letter.reason,
    }
