"""The accounts of this server, as authentication looks them up."""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.core.hard_state import HardState
from fanlog.model.identity import ApiToken, ServiceAccount


class AccountDirectory:
    """Reads hard state as it is now."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.server_id = broker.accounts.server_id
        self._loads = 0
        broker.ledger.on_load.listen(self._count_load)

    @property
    def version(self) -> int:
        """Another one after each change of an account, and after each load of hard state."""
        return self._loads << 48 | self._broker.hard.identities.accounts_version

    def account(self, email: str) -> ServiceAccount | None:
        return self._broker.hard.identities.by_email(email)

    def token_owner(self, digest: str) -> tuple[ServiceAccount, ApiToken] | None:
        return self._broker.hard.identities.token_owner(digest)

    def _count_load(self, _: HardState) -> None:
        self._loads += 1
