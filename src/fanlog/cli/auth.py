"""`fanlog auth`: service accounts, their keys and tokens, and the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fanlog.cli import options
from fanlog.cli.groups import add_command
from fanlog.cli.options import Remote
from fanlog.cli.output import note, resource
from fanlog.cli.secret_files import new_secret_file
from fanlog.errors import InvalidArgument
from fanlog.model.identity import check_account_name

if TYPE_CHECKING:
    from fanlog.client import Client
    from fanlog.client.auth import AuthClient
    from fanlog.v1 import auth_pb2

app = typer.Typer(
    no_args_is_help=True, help="Service accounts, keys, tokens and policies of a server."
)
accounts = typer.Typer(
    no_args_is_help=True, help="Create, list, describe and delete service accounts."
)
keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke keys of service accounts.")
tokens = typer.Typer(no_args_is_help=True, help="Create, list and revoke API tokens.")
app.add_typer(accounts, name="service-account")
app.add_typer(keys, name="key")
app.add_typer(tokens, name="token")

AccountName = Annotated[str, typer.Argument(metavar="NAME", help="A service account, by name.")]
Expires = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="How long it holds, such as 90d; for good when not given."),
]


@add_command(accounts, "create")
def create_account(
    name: AccountName,
    remote: Remote,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Make a key, too, and write its key file here."),
    ] = None,
    expires: Expires = None,
) -> None:
    """Create a service account."""
    check_account_name(name)
    end = _end(expires)
    if key is None and end is not None:
        raise InvalidArgument("--expires is of a key; give --key, too: an account does not end")
    with _client(remote) as (client, auth):
        if key is None:
            account = auth.create_account(name)
        else:
            with new_secret_file(key, "--key") as write:
                account = auth.create_account(name)
                try:
                    account, _ = _add_key(client, auth, account, write, remote.project, end)
                except BaseException:
                    with suppress(Exception):
                        auth.delete_account(name)
                    raise
    written = "" if key is None else f"; its key is in {key}"
    remote.output.done(f"created service account {account.email}{written}", _account(account))


@add_command(accounts, "list")
def list_accounts(remote: Remote) -> None:
    """List the service accounts of a server."""
    with _client(remote) as (_, auth):
        rows = [_account(one) for one in auth.list_accounts()]
    if not remote.json:
        rows = [
            row | {"keys": len(row.get("keys", ())), "tokens": len(row.get("tokens", ()))}
            for row in rows
        ]
    remote.output.rows(["name", "email", "keys", "tokens", "create_time"], rows)


@add_command(accounts, "describe")
def describe_account(name: AccountName, remote: Remote) -> None:
    """Show a service account, with its keys and tokens."""
    with _client(remote) as (_, auth):
        fields = _account(auth.get_account(name))
    if not remote.json:
        for kind in ("keys", "tokens"):
            fields[kind] = [one["id"] for one in fields.get(kind, ())]
    remote.output.fields(fields)


@add_command(accounts, "delete")
def delete_account(name: AccountName, remote: Remote) -> None:
    """Delete a service account, with its keys and tokens."""
    with _client(remote) as (_, auth):
        auth.delete_account(name)
    remote.report_deleted("service account", name)


@add_command(keys, "create")
def create_key(
    name: AccountName,
    remote: Remote,
    key: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write the key file: a new file.")
    ],
    expires: Expires = None,
) -> None:
    """Make one more key of a service account, and write it in the form that Google's clients take.

    The key is made here; the server gets its public half alone.
    """
    end = _end(expires)
    with _client(remote) as (client, auth), new_secret_file(key, "--key") as write:
        account = auth.get_account(name)
        account, key_id = _add_key(client, auth, account, write, remote.project, end)
    [fields] = [one for one in _account(account)["keys"] if one["id"] == key_id]
    remote.output.done(f"created key {key_id} of {account.email} in {key}", fields)


@add_command(keys, "list")
def list_keys(name: AccountName, remote: Remote) -> None:
    """List the keys of a service account."""
    with _client(remote) as (_, auth):
        rows = _account(auth.get_account(name)).get("keys", [])
    remote.output.rows(["id", "create_time", "expire_time"], rows)


@add_command(keys, "revoke")
def revoke_key(
    name: AccountName,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="As `key list` shows it.")],
    remote: Remote,
) -> None:
    """Revoke a key: calls with it, and open streams, end."""
    with _client(remote) as (_, auth):
        auth.revoke_key(name, key_id)
    remote.output.done(f"revoked key {key_id} of {name}", {"id": key_id, "revoked": True})


@add_command(tokens, "create")
def create_token(
    name: AccountName,
    remote: Remote,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to this new file instead of showing it."),
    ] = None,
    expires: Expires = None,
) -> None:
    """Make an API token of a service account, which is made if there is none of that name.

    It is shown once: the server keeps a hash of it.
    """
    check_account_name(name)
    end = _end(expires)
    with ExitStack() as stack:
        _, auth = stack.enter_context(_client(remote))
        write = output and stack.enter_context(new_secret_file(output, "--output"))
        made = auth.create_token(name, end)
        if write:
            try:
                write(f"{made.token}\n".encode())
            except BaseException:
                with suppress(Exception):
                    auth.revoke_token(name, made.created.id)
                raise
    fields = resource(made.created) | {"account": made.account.email}
    if output is not None:
        said = f"created token {made.created.id} of {made.account.email} in {output}"
        remote.output.done(said, fields)
        return
    note(f"token {made.created.id} of {made.account.email}; it is not shown again")
    remote.output.done(made.token, fields | {"token": made.token})


@add_command(tokens, "list")
def list_tokens(name: AccountName, remote: Remote) -> None:
    """List the tokens of a service account; not the tokens themselves, which nobody has kept."""
    with _client(remote) as (_, auth):
        rows = _account(auth.get_account(name)).get("tokens", [])
    remote.output.rows(["id", "create_time", "expire_time"], rows)


@add_command(tokens, "revoke")
def revoke_token(
    name: AccountName,
    token_id: Annotated[str, typer.Argument(metavar="TOKEN_ID", help="As `token list` shows it.")],
    remote: Remote,
) -> None:
    """Revoke a token: calls with it, and open streams, end."""
    with _client(remote) as (_, auth):
        auth.revoke_token(name, token_id)
    remote.output.done(f"revoked token {token_id} of {name}", {"id": token_id, "revoked": True})


@add_command(app, "roles")
def list_roles(remote: Remote) -> None:
    """List the roles that policies may give, and the permissions of each."""
    with _client(remote) as (_, auth):
        rows = [resource(one) for one in auth.list_roles()]
    remote.output.rows(["name", "is_custom", "permissions"], rows)


@add_command(app)
def whoami(remote: Remote) -> None:
    """Show who the server takes the caller for."""
    with _client(remote) as (_, auth):
        found = auth.who_am_i()
    if not found.member:
        note("this server does not authenticate callers")
    remote.output.fields(resource(found))


@add_command(app)
def may(
    *,
    resources: Annotated[
        list[str],
        typer.Argument(
            metavar="RESOURCE...", help="server, projects/P, or full names of resources."
        ),
    ],
    permission: Annotated[
        list[str] | None,
        typer.Option(help="Only this permission; may be given many times. All there are without."),
    ] = None,
    remote: Remote,
) -> None:
    """Show what the caller may do."""
    with _client(remote) as (_, auth):
        found = auth.check_access(resources, permission or ())
    rows = [{"resource": one.resource, "permissions": list(one.permissions)} for one in found]
    remote.output.rows(("resource", "permissions"), rows)


@contextmanager
def _client(remote: Remote) -> Iterator[tuple[Client, AuthClient]]:
    from fanlog.client.auth import AuthClient

    with remote.connect() as client:
        yield client, AuthClient(client)


def _add_key(
    client: Client,
    auth: AuthClient,
    account: auth_pb2.Account,
    write: Any,
    project: str,
    end: datetime | None,
) -> tuple[auth_pb2.Account, str]:
    """Make a key, write its file and give the server its public half; the account and key's id."""
    from fanlog.client.address import ServerAddress
    from fanlog.client.key_files import key_file, make_key_pair

    private, public, key_id = make_key_pair()
    content = key_file(
        email=account.email,
        key_id=key_id,
        private_pem=private,
        token_uri=ServerAddress.parse(client.endpoint).url("/oauth2/token"),
        project=project,
    )
    # Written first: a key that the server believes is never lost.
    write(content)
    return auth.add_key(account.name, public, end), key_id


def _account(account: auth_pb2.Account) -> dict[str, Any]:
    """An account as plain values; of keys, the ids will do."""
    fields = resource(account)
    for key in fields.get("keys", ()):
        key.pop("public_key", None)
    return fields


def _end(expires: str | None) -> datetime | None:
    """Raises InvalidArgument."""
    if expires is None:
        return None
    seconds = options.duration_s(expires, "--expires")
    if not seconds:
        raise InvalidArgument(
            "--expires 0 would end at once; leave it out to have it hold for good"
        )
    try:
        return datetime.now(UTC) + timedelta(seconds=seconds)
    except OverflowError as error:
        raise InvalidArgument(f"--expires {expires} ends after the year 9999") from error
