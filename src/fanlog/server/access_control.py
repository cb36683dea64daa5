"""Access to a server that authenticates: its first accounts, its gate, its audit log."""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress
from pathlib import Path

from fanlog.auth.audit_log import AuditLog, AuditSettings
from fanlog.auth.authenticator import Authenticator, AuthSettings
from fanlog.auth.certificates import CertificateRule
from fanlog.auth.exchange import Exchange
from fanlog.broker import bootstrap
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.config import Config
from fanlog.core.authority import Grants
from fanlog.core.hard_state import HardState
from fanlog.core.roles import OWNER
from fanlog.errors import ConfigError, FanlogError
from fanlog.model import names
from fanlog.model.identity import TOKEN_PREFIX, Principal, account_email
from fanlog.model.rates import Allowance
from fanlog.server.directory import AccountDirectory
from fanlog.server.gate import Gate
from fanlog.server.permissions import PUBLISH
from fanlog.wire.publish import build_body

log = logging.getLogger("fanlog.auth")

#: Entries of the audit log are messages of this topic, where the server's project has it.
AUDIT_TOPIC = "fanlog.audit"
#: Messages of entries that may be under way; the file has those beyond, too.
_TELLING_MAX = 1_000


async def ensure_accounts(broker: Broker, clock: Clock, folder: Path) -> None:
    """Make the accounts that are missing, with their tokens in files.

    Raises:
        ConfigError: A file cannot be written.
    """
    for name, role in list(bootstrap.missing_accounts(broker.hard)):
        path = token = None
        if name != bootstrap.FORWARDING:
            path = bootstrap.token_path(folder, name)
            made = TOKEN_PREFIX + secrets.token_urlsafe(32)
            token = await asyncio.to_thread(bootstrap.keep_token, path, made)
        records = bootstrap.grant_records(
            *(broker.hard, broker.accounts.server_id, name, role, token),
            now_s=clock.wall_ns() / 1e9,
        )
        await broker.ledger.commit(records)
        where = "no token" if path is None else f"token_file={path}"
        log.info("action=account_created account=%s role=%s %s", name, role, where)
    await _recover_administrator(broker, clock, folder)


async def _recover_administrator(broker: Broker, clock: Clock, folder: Path) -> None:
    """Make a token known that `fanlog auth init` has left for this node."""
    token = await asyncio.to_thread(bootstrap.recovery_token, folder)
    if not token:
        return
    records = bootstrap.grant_records(
        *(broker.hard, broker.accounts.server_id, bootstrap.ADMINISTRATOR, OWNER, token),
        now_s=clock.wall_ns() / 1e9,
    )
    await broker.ledger.commit(records)
    path = await asyncio.to_thread(bootstrap.settle_recovery, folder, token)
    log.info("action=administrator_recovered token_file=%s", path)


class ForwardingAccount:
    """The rights of the account that forwards and dead letters are published with.

    See `ports.ForwardDenial`. They are checked at each of them, whoever set the forward up.
    """

    def __init__(self, server_id: str) -> None:
        self._email = account_email(bootstrap.FORWARDING, server_id)
        self._grants = Grants(Principal(member=f"serviceAccount:{self._email}"))

    def __call__(self, hard: HardState, topic: str) -> str:
        """Why messages may not be moved on to a topic just now; empty when they may."""
        if hard.identities.by_email(self._email) is None:
            return (
                f"the account {self._email}, which publishes forwards and dead letters, does not "
                "exist; the next start makes it"
            )
        if self._grants.allow(hard, PUBLISH, topic):
            return ""
        return f"{self._grants.principal.member} lacks the permission {PUBLISH} on {topic!r}"


class AccessControl:
    """The gate of a server, and what belongs to it. `close()` it with the server."""

    def __init__(self, config: Config, broker: Broker, clock: Clock) -> None:
        """Raises ConfigError: The audit log cannot be written."""
        self._broker = broker
        self._topic = names.topic_name(config.project, AUDIT_TOPIC)
        self._telling: set[asyncio.Task[None]] = set()
        self.authenticator = Authenticator(
            AccountDirectory(broker),
            AuthSettings(
                issuers=config.issuers,
                certificates=CertificateRule(config.mtls_name, config.mtls_domain),
                hosts=frozenset(config.http_hosts),
            ),
            clock,
            broker.secrets.access_tokens,
        )
        self.exchange = Exchange(self.authenticator, clock, broker.secrets.access_tokens)
        self.allowance = Allowance(config.rates) if config.rates else None
        settings = AuditSettings(path=_audit_path(config), data_access=config.audit_data_access)
        self.audit = AuditLog(settings, clock, self._tell)
        self.gate = Gate(
            broker, self.authenticator, clock, allowance=self.allowance, record=self.audit
        )

    def close(self) -> None:
        self.gate.stop()
        self.audit.close()

    def _tell(self, entry: bytes) -> None:
        """Publish an entry where there is a topic for it."""
        if (
            len(self._telling) < _TELLING_MAX
            and self._broker.hard.catalog.find_topic(self._topic) is not None
        ):
            task = asyncio.create_task(self._publish(entry))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _publish(self, entry: bytes) -> None:
        # The file has it, whatever becomes of the message.
        with suppress(FanlogError):
            await self._broker.publish(self._topic, build_body([(entry, {}, "")]))


def _audit_path(config: Config) -> Path:
    """The file that was named, or one in the folder of the first accounts."""
    if config.audit_log is not None:
        return config.audit_log
    folder = config.auth_folder
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"auth_dir {str(folder)!r}: {error.strerror}") from error
    return folder / "audit.log"
