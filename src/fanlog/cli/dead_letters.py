"""`fanlog dead-letter`: list, redrive, discard."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fanlog import limits
from fanlog.cli import options
from fanlog.cli.output import Output, note, printable
from fanlog.errors import InvalidArgument

app = typer.Typer(
    no_args_is_help=True,
    help="List dead letters, bring them back to where they failed, or discard them.",
)

Subscription = Annotated[
    str,
    typer.Argument(
        metavar="SUB", help="The subscription on the dead letter topic: short or full name."
    ),
]
Source = Annotated[
    str | None, typer.Option(metavar="SUB", help="Only what failed on this subscription.")
]
Reason = Annotated[
    str | None, typer.Option(help="Only letters whose reason has this in it, in any case.")
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Dead-lettered from then on; 2h: two hours ago."),
]
To = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Dead-lettered before then.")]
MessageIds = Annotated[
    list[str] | None,
    typer.Option("--message-id", metavar="ID", help="This letter; may be given many times."),
]
All = Annotated[bool, typer.Option("--all", help="All that nobody has leased.")]
Most = Annotated[int, typer.Option("--max", min=0, help="At most so many; 0 for no bound.")]


@app.command("list")
def list_(
    subscription: Subscription,
    source: Source = None,
    reason: Reason = None,
    start: From = None,
    end: To = None,
    most: Most = 100,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """List dead letters that are not acknowledged; nothing is leased by looking."""
    from itertools import islice

    from fanlog.client.reopening import ReopenClient

    name = options.subscription(subscription, project)
    selection = _selection(source, reason, start, end, project)
    with options.connect(endpoint) as client:
        page_size = min(most, limits.PAGE_SIZE_MAX)
        letters = ReopenClient(client).list_letters(name, page_size=page_size, **selection)
        rows = [_row(letter) for letter in islice(letters, most or None)]
    head = ("message_id", "source_subscription", "attempts", "leased", "reason")
    Output(is_json=json).rows(head, rows)


@app.command()
def redrive(
    subscription: Subscription,
    message_id: MessageIds = None,
    all_: All = False,
    source: Source = None,
    reason: Reason = None,
    start: From = None,
    end: To = None,
    most: Most = 0,
    copies: Annotated[
        bool,
        typer.Option(
            "--copies",
            help="Where the original is gone, publish a copy for the subscription that failed.",
        ),
    ] = False,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Reopen the originals of dead letters where they failed, and acknowledge the letters."""
    from fanlog.client.reopening import ReopenClient

    name = options.subscription(subscription, project)
    selection = _selection(source, reason, start, end, project)
    _check(message_id, all_ or bool(selection), most)
    counts = {"reopened": 0, "copied": 0, "skipped": 0}
    with options.connect(endpoint) as client:
        replays = ReopenClient(client)
        if message_id:
            answers = iter([replays.redrive(name, message_id, copies=copies)])
        else:
            answers = replays.redrive_all(
                name, max_messages=_step(most), copies=copies, **selection
            )
        _sum_up(counts, answers)
    Output(is_json=json).done(
        f"redrove {counts['reopened'] + counts['copied']} dead letters of {name}: "
        f"{counts['reopened']} reopened, {counts['copied']} as copies; {counts['skipped']} skipped",
        {"name": name, **counts},
    )


@app.command()
def discard(
    subscription: Subscription,
    message_id: MessageIds = None,
    all_: All = False,
    source: Source = None,
    reason: Reason = None,
    start: From = None,
    end: To = None,
    most: Most = 0,
    project: options.Project = options.PROJECT,
    endpoint: options.Endpoint = None,
    json: options.Json = False,
) -> None:
    """Acknowledge dead letters: nobody will get them any more."""
    from fanlog.client.reopening import ReopenClient

    name = options.subscription(subscription, project)
    selection = _selection(source, reason, start, end, project)
    _check(message_id, all_ or bool(selection), most)
    counts = {"discarded": 0, "skipped": 0}
    with options.connect(endpoint) as client:
        replays = ReopenClient(client)
        if message_id:
            answers = iter([replays.discard(name, message_id)])
        else:
            answers = replays.discard_all(name, max_messages=_step(most), **selection)
        _sum_up(counts, answers)
    Output(is_json=json).done(
        f"discarded {counts['discarded']} dead letters of {name}; {counts['skipped']} skipped",
        {"name": name, **counts},
    )


def _selection(
    source: str | None, reason: str | None, start: str | None, end: str | None, project: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if source is not None:
        found["source_subscription"] = options.subscription(source, project)
    if reason is not None:
        if not reason:
            raise InvalidArgument("--reason: is empty; leave it out for any")
        found["reason"] = reason
    for field, text, option in (("start_time", start, "--from"), ("end_time", end, "--to")):
        if text is not None:
            found[field] = options.moment(text, option)
    return found


def _check(message_ids: list[str] | None, is_selected: bool, most: int) -> None:
    if bool(message_ids) == is_selected:
        raise InvalidArgument(
            "say which letters: --message-id, or --all, or some of --source, --reason, --from, --to"
        )
    if message_ids and most:
        raise InvalidArgument("--max: goes with a selection, not with --message-id")


def _step(most: int) -> int:
    if most > limits.LETTERS_MAX:
        raise InvalidArgument(f"--max: at most {limits.LETTERS_MAX}; or 0 for all there are")
    return most


def _sum_up(counts: dict[str, int], answers: Any) -> None:
    for answer in answers:
        for name in counts:
            counts[name] += getattr(answer, name)
        for letter in answer.skipped_letters:
            note(f"skipped {letter.message_id}: {printable(letter.reason)}")


def _row(letter: Any) -> dict[str, object]:
    return {
        "message_id": letter.message.message_id,
        "source_subscription": letter.source_subscription,
        "source_topic": letter.source_topic,
        "source_message_id": letter.source_message_id,
        "attempts": letter.delivery_attempts,
        "leased": letter.leased,
        "reason": letter.reason,
    }
