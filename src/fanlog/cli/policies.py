"""`fanlog auth policy`: who has which role on a resource, a project or the server."""

from __future__ import annotations

import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import resource
from fanlog.errors import InvalidArgument
from fanlog.model import names

if TYPE_CHECKING:
    from fanlog.v1 import auth_pb2

app = typer.Typer(no_args_is_help=True, help="Show and change who has which role on what.")

ResourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help="server, projects/P, or a topic, subscription, snapshot or schema: topics/T, or"
        " projects/P/topics/T.",
    ),
]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="Such as roles/pubsub.publisher.")]
Members = Annotated[
    list[str],
    typer.Argument(
        metavar="MEMBER",
        help="Such as serviceAccount:EMAIL, user:EMAIL, group:EMAIL or allUsers.",
    ),
]

_PARSERS = {
    "topics": names.parse_topic,
    "subscriptions": names.parse_subscription,
    "snapshots": names.parse_snapshot,
    "schemas": names.parse_schema,
}


@add_command(app)
def get(resource_name: ResourceArgument, remote: Remote) -> None:
    """Show a policy; with --json in the form that `policy set` reads."""
    from fanlog.client.auth import AuthClient

    name = _full_name(resource_name, remote.project)
    with remote.connect() as client:
        policy = AuthClient(client).get_policy(name)
    _show(policy, remote)


@add_command(app)
def add(resource_name: ResourceArgument, role: Role, members: Members, remote: Remote) -> None:
    """Give members a role; those who have it keep it."""
    from fanlog.client.auth import AuthClient

    name = _full_name(resource_name, remote.project)
    with remote.connect() as client:
        policy = AuthClient(client).add_members(name, role, members)
    _show(policy, remote)


@add_command(app)
def remove(resource_name: ResourceArgument, role: Role, members: Members, remote: Remote) -> None:
    """Take a role from members."""
    from fanlog.client.auth import AuthClient

    name = _full_name(resource_name, remote.project)
    with remote.connect() as client:
        policy = AuthClient(client).remove_members(name, role, members)
    _show(policy, remote)


@add_command(app, "set")
def set_(
    resource_name: ResourceArgument,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help='JSON: {"bindings": [{"role": …, "members": […]}], "etag": …}; without the etag'
            " it overwrites any policy.",
        ),
    ],
    remote: Remote,
) -> None:
    """Replace a policy by that of a file."""
    from fanlog.client.auth import AuthClient

    name = _full_name(resource_name, remote.project)
    policy = _read(file)
    with remote.connect() as client:
        policy = AuthClient(client).set_policy(name, policy)
    _show(policy, remote)


def _full_name(text: str, project: str) -> str:
    """Raises InvalidArgument."""
    if text == "server":
        return text
    parts = text.split("/")
    if parts[0] == "projects" and len(parts) == 2:
        return names.project_name(names.parse_project(text, field="RESOURCE"))
    if len(parts) == 2:
        parts = ["projects", project, *parts]
    parse = _PARSERS.get(parts[2]) if len(parts) == 4 else None
    if parse is None:
        raise InvalidArgument(
            f"RESOURCE {names.shown(text)} has no policy; server, projects/P, and topics,"
            " subscriptions, snapshots and schemas have, such as topics/T or projects/P/topics/T"
        )
    return str(parse("/".join(parts)))


def _read(path: Path) -> auth_pb2.AccessPolicy:
    """Raises InvalidArgument."""
    from fanlog.v1 import auth_pb2

    place = f"FILE {str(path)!r}"
    try:
        given: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise InvalidArgument(f"{place}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{place} is not JSON") from error
    wanted = InvalidArgument(
        f'{place} is not a policy: {{"bindings": [{{"role": "roles/…", "members": ["user:…"]}}]}}'
    )
    if not isinstance(given, dict) or not isinstance(given.get("bindings", []), list):
        raise wanted
    # Google's policies have a version, which without conditions says nothing.
    _refuse_unknown(given, {"bindings", "etag", "version"}, place)
    policy = auth_pb2.AccessPolicy()
    try:
        policy.etag = base64.b64decode(given.get("etag", ""), validate=True)
        for binding in given.get("bindings", []):
            _refuse_unknown(binding, {"role", "members"}, place)
            policy.bindings.add(role=binding["role"], members=binding["members"])
    except (TypeError, KeyError, AttributeError, binascii.Error) as error:
        raise wanted from error
    return policy


def _refuse_unknown(given: dict[str, Any], known: set[str], place: str) -> None:
    unknown = given.keys() - known
    if unknown:
        raise InvalidArgument(f"{place}: {names.shown(min(unknown))} is not known in a policy")


def _show(policy: auth_pb2.AccessPolicy, remote: Remote) -> None:
    fields = resource(policy)
    if remote.json:
        remote.output.line(fields)
    else:
        remote.output.rows(["role", "members"], fields.get("bindings", []))
