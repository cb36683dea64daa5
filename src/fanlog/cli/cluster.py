"""`fanlog cluster`: show the nodes of a cluster, and have another one own the log."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.output import Output, note, resource
from fanlog.client.client import Client
from fanlog.client.failures import CallFailed
from fanlog.errors import Unavailable
from fanlog.v1 import cluster_pb2 as pb

_SERVICE = "fanlog.v1.Cluster"
#: How long a node has to own once it was told to, and how often it is asked.
MOVE_S = 15.0
LOOK_S = 0.1

app = typer.Typer(
    no_args_is_help=True, help="Look at the nodes of a cluster, and choose which one owns the log."
)


@app.command()
def describe(endpoint: options.Endpoint = None, json: options.AsJson = False) -> None:
    """Show the nodes, which one owns the log, how far the others are, and how Kafka is."""
    with options.connect(endpoint) as client:
        found = _describe(client)
    output = Output(is_json=json)
    if json:
        output.line(resource(found))
        return
    output.fields(_facts(found))
    rows = [_row(node) for node in found.nodes]
    if rows:
        output.rows(list(rows[0]), rows)


@app.command()
def move(
    node: Annotated[
        str, typer.Argument(help="The node that is to own; the one furthest on when not given.")
    ] = "",
    endpoint: options.Endpoint = None,
    json: options.AsJson = False,
) -> None:
    """Have another node own the log, and wait until it does. Calls wait for a moment meanwhile."""
    with options.connect(endpoint) as client:
        answer = client.call(
            f"{_SERVICE}/MoveCluster", pb.MoveClusterRequest(node=node), pb.MoveClusterResponse
        )
        _await_owner(client, answer.to)
    output = Output(is_json=json)
    if json:
        output.line(resource(answer))
    else:
        output.text(f"{answer.to} owns the log, which {getattr(answer, 'from')} had")


def _describe(client: Client) -> pb.ClusterState:
    return client.call(f"{_SERVICE}/DescribeCluster", pb.DescribeClusterRequest(), pb.ClusterState)


def _await_owner(client: Client, name: str) -> None:
    """Raises Unavailable: Another node owns, or none does, after some time."""
    until_s = time.monotonic() + MOVE_S
    owner = ""
    while time.monotonic() < until_s:
        try:
            owner = _describe(client).owner
        except CallFailed as error:
            # In between nobody owns.
            if error.status != "UNAVAILABLE":
                raise
            note(f"waiting for {name}: {error.message}")
        if owner == name:
            return
        time.sleep(LOOK_S)
    raise Unavailable(
        f"{name} was told to own the log and does not after {MOVE_S:.0f} s; "
        f"{f'{owner} does' if owner else 'no node does'}"
    )


def _facts(found: pb.ClusterState) -> dict[str, object]:
    kafka = found.kafka
    health = "reachable" if kafka.reachable else f"silent for {_seconds(kafka.silent)}"
    facts: dict[str, object] = {
        "cluster": found.cluster,
        "owner": found.owner or "none",
        "term": found.term,
        "told by": found.told_by,
        "session": _seconds(found.session),
        "log": f"topic {found.topic}, end {found.end_offset}, commit {found.sequence}",
        "kafka": f"{' '.join(kafka.servers)}: {health}",
    }
    if kafka.troubles:
        facts["kafka troubles"] = "; ".join(kafka.troubles)
    return facts


def _row(node: pb.ClusterNode) -> dict[str, object]:
    return {
        "node": node.name,
        "role": pb.ClusterNode.Role.Name(node.role).lower(),
        "address": node.api_address,
        "link": node.link_address,
        "applied": node.applied_offset,
        "lag": f"{node.lag_records} records, {_seconds(node.lag)}",
        "heard": f"{_seconds(node.silent)} ago",
        "trouble": node.trouble,
    }


def _seconds(duration: object) -> str:
    seconds = duration.ToMilliseconds() / 1e3  # type: ignore[attr-defined]
    return f"{seconds:g} s"
