"""`fanlog lake`: show the state of the broker's lake, and give up a part that is lost."""

from __future__ import annotations

from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.output import Output, resource
from fanlog.v1 import lake_pb2

#: All footers of the lake may have to be read.
TIMEOUT_S = 600.0

app = typer.Typer(
    no_args_is_help=True, help="Look at the broker's lake, and accept that some of it is lost."
)


@app.command()
def describe(endpoint: options.Endpoint = None, json: options.AsJson = False) -> None:
    """Show where the lake is, how far the archive is, and what is wrong with it."""
    with options.connect(endpoint) as client:
        found = client.call(
            "fanlog.v1.Lake/GetLake", lake_pb2.GetLakeRequest(), lake_pb2.LakeStatus
        )
    Output(is_json=json).fields(resource(found))


@app.command()
def tables(endpoint: options.Endpoint = None, json: options.AsJson = False) -> None:
    """Show the tables of the lake, and how many files they have and how large."""
    with options.connect(endpoint) as client:
        found = client.call(
            "fanlog.v1.Lake/ListTables",
            lake_pb2.ListTablesRequest(),
            lake_pb2.ListTablesResponse,
            timeout_s=TIMEOUT_S,
        )
    output = Output(is_json=json)
    if json:
        for one in found.tables:
            output.line(resource(one))
        return
    rows = [
        {
            "table": one.name,
            "rows": one.rows,
            "files": one.files,
            "small": one.small_files,
            "bytes": one.bytes,
            "largest": max((file.bytes for file in one.largest), default=0),
            "trouble": one.trouble,
        }
        for one in found.tables
    ]
    output.rows(list(rows[0]), rows)


@app.command()
def accept(
    yes: Annotated[
        bool, typer.Option("--yes", help="Give it up. Without this, only say what would be lost.")
    ] = False,
    endpoint: options.Endpoint = None,
    json: options.AsJson = False,
) -> None:
    """Accept that what the lake does not have any more is lost, and go on with what there is.

    For a lake that was lost, or replaced by an older copy or an empty one, and for files of it that
    are damaged, when they cannot be brought back.
    """
    request = lake_pb2.AcceptLossRequest(confirm=yes)
    with options.connect(endpoint) as client:
        answer = client.call(
            "fanlog.v1.Lake/AcceptLoss",
            request,
            lake_pb2.AcceptLossResponse,
            timeout_s=TIMEOUT_S,
        )
    output = Output(is_json=json)
    if json:
        output.line(resource(answer))
        return
    if answer.losses:
        rows = [
            {
                "topic": one.topic,
                "lost": one.messages,
                "leaving": one.leaving,
                "begins at": one.start,
                "offsets": " ".join(f"{each.start}-{each.end - 1}" for each in one.ranges[:5]),
            }
            for one in answer.losses
        ]
        output.rows(list(rows[0]), rows)
    output.text(_sentence(answer))


def _sentence(answer: lake_pb2.AcceptLossResponse) -> str:
    topics = len(answer.losses)
    if answer.accepted:
        return (
            f"given up: {answer.messages} messages of {topics} topics; the archive goes on behind "
            f"commit {answer.sequence}, in lake {answer.lake_id}"
        )
    lost = (
        f"{answer.messages} messages of {topics} topics are lost" if topics else "nothing is lost"
    )
    if answer.leaving:
        lost += f", and {answer.leaving} more once they leave the hot log"
    if answer.lake_id == answer.known_lake_id:
        there = f"it is still lake {answer.lake_id}"
    else:
        there = f"there is {f'lake {answer.lake_id}' if answer.lake_id else 'no lake'}"
        there += f", where lake {answer.known_lake_id} was"
    return f"{lost}; {there}: --yes goes on with what there is"
