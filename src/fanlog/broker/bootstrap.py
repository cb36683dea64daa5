"""The first administrator of a server, and the accounts of its own pipeline and forwarding.

A token is written to its file first, and made known to the server then: a crash between the two is
mended by the next start, which finds the file and makes its token known. A lost administrator is
recovered in the same way, on the data folder of a broker that is down. The folder of a node of a
cluster is a cache, and not to be written to: there the file waits for the node's next term.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from fanlog.core.hard_state import HardState
from fanlog.core.iam import SERVER, Binding
from fanlog.core.records import AccountRecord, Record, ScopePolicy, ScopePolicyRecord
from fanlog.core.roles import OWNER, known_roles
from fanlog.errors import ConfigError
from fanlog.log.api import Commit, Log
from fanlog.model.identity import (
    TOKEN_PREFIX,
    ApiToken,
    ServiceAccount,
    account_email,
    token_digest,
)

ADMINISTRATOR: Final = "admin"
PIPELINE: Final = "pipeline"
PIPELINE_ROLE: Final = "roles/fanlog.pipeline"
#: Forwards and dead letters are published with its rights. Nobody calls as it: it has no token.
FORWARDING: Final = "forwarding"
FORWARDING_ROLE: Final = "roles/pubsub.publisher"
_TOKEN_FILE_CHARACTERS_MAX: Final = 1_000
#: The file with the token of an administrator that a node makes known when it owns next.
RECOVERY: Final = "recovery"
#: Where the files of tokens are, in the data folder.
FOLDER_NAME: Final = "auth"


def token_path(folder: Path, account: str) -> Path:
    return folder / f"{account}.token"


def has_owner(hard: HardState) -> bool:
    """Whether somebody may administer the server."""
    return any(one.role == OWNER for one in hard.identities.policy(SERVER).bindings)


def grant_records(
    hard: HardState,
    server_id: str,
    account_name: str,
    role: str,
    token: str | None,
    now_s: float,
) -> list[Record]:
    """The records by which there is an account that has a role on the server, and a token."""
    identities = hard.identities
    records: list[Record] = []
    account = known = identities.find(account_name)
    if account is None:
        account_id, counted = hard.catalog.take_id()
        records.append(counted)
        account = ServiceAccount(
            id=account_id,
            name=account_name,
            email=account_email(account_name, server_id),
            created_s=now_s,
        )
    digest = None if token is None else token_digest(token)
    if digest is not None and identities.token_owner(digest) is None:
        kept = ApiToken(id=digest[:12], digest=digest, created_s=now_s)
        account = replace(account, tokens=(*account.tokens, kept))
    if account is not known:
        records.append(AccountRecord(account.id, account))
    policy = identities.policy(SERVER)
    granted = any(one.role == role and account.member in one.members for one in policy.bindings)
    if not granted:
        bindings = [*policy.bindings, Binding(role=role, members=(account.member,))]
        policy = policy.replace(bindings, b"", known_roles(identities.roles))
        records.append(ScopePolicyRecord(SERVER, ScopePolicy(scope=SERVER, policy=policy)))
    return records


def keep_token(path: Path, token: str) -> str:
    """Write a token to a file that its owner alone may read; the token of one that is there.

    Raises:
        ConfigError: The file cannot be written, or is none of a token.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            found = _read_token(path)
            if found:
                return found
            # A crash came before anything was written to it.
            descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise ConfigError(f"the token cannot be kept in {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
        file.flush()
        os.fsync(file.fileno())
    return token


def _read_token(path: Path) -> str:
    """The token in a file that is there; empty for a file without a byte.

    Raises:
        ConfigError: Others may read or change it, or it is none of a token.
    """
    with path.open(encoding="ascii", errors="replace") as file:
        if os.fstat(file.fileno()).st_mode & 0o077:
            # Whoever could write to it would be the administrator.
            raise ConfigError(f"{path} may be read or changed by others; say chmod 600 {path}")
        text = file.read(_TOKEN_FILE_CHARACTERS_MAX)
    found = text.strip()
    if text and not found.startswith(TOKEN_PREFIX):
        raise ConfigError(f"{path} is there and has no token in it; move it away")
    return found


def recovery_token(folder: Path) -> str:
    """The token that somebody with access to the folder has left there; empty if there is none.

    Raises:
        ConfigError: Others may read or change it, or it is none of a token.
    """
    try:
        return _read_token(token_path(folder, RECOVERY))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigError(f"the token in {folder} cannot be read: {error.strerror}") from error


def settle_recovery(folder: Path, token: str) -> Path:
    """Put the file of a token that is known now where no start takes it for a new one."""
    path = token_path(folder, f"{ADMINISTRATOR}-{token_digest(token)[:12]}")
    os.replace(token_path(folder, RECOVERY), path)
    return path


def recover_administrator(store: Log, path: Path, token: str, now_ns: int) -> str:
    """Give the administrator of a log that no broker serves one more token, in a file.

    Returns the name of the account.

    Raises:
        DataLoss: Hard state cannot be read.
        ConfigError: The file cannot be written.
    """
    hard = HardState.load(store.state())
    kept = keep_token(path, token)
    server_id = server_id_of(store)
    records = grant_records(hard, server_id, ADMINISTRATOR, OWNER, kept, now_ns / 1e9)
    if records:
        store.commit(
            Commit(
                sequence=store.last_sequence + 1,
                publish_time_ns=max(now_ns, store.last_publish_time_ns),
                state={record.key(): record.value() for record in records},
            )
        )
    return ADMINISTRATOR


def server_id_of(store: Log) -> str:
    """The id that addresses of a server's own accounts contain."""
    return store.identity.hex()[:16]


def missing_accounts(hard: HardState) -> Iterable[tuple[str, str]]:
    """The accounts that a server that authenticates needs and does not have, with their roles."""
    if not has_owner(hard):
        yield ADMINISTRATOR, OWNER
    if hard.identities.find(PIPELINE) is None:
        yield PIPELINE, PIPELINE_ROLE
    if hard.identities.find(FORWARDING) is None:
        yield FORWARDING, FORWARDING_ROLE
