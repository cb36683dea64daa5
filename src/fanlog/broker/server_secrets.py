"""Secrets of the server itself: bytes that tell its own ids and tokens from made-up ones.

Hard state: each is made once and kept, at the first start or, where few servers need it, when it is
first asked for. They are none of the log's id, which every reader of the log is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fanlog.broker.generations import GENERATIONS_PER_BOOT
from fanlog.broker.transaction import Ledger
from fanlog.core.hard_state import HardState
from fanlog.core.records import Secret, SecretRecord

ACK_IDS: Final = "ack-ids"
ACCESS_TOKENS: Final = "access-tokens"
#: The private key that signs tokens of push requests, in PEM.
PUSH_OIDC: Final = "push-oidc"
_FIRST: Final = (ACK_IDS, ACCESS_TOKENS)
SECRET_BYTES: Final = 32


class ServerSecrets:
    """The secrets as they are in hard state. `await start()` before the first is asked for."""

    def __init__(
        self,
        ledger: Ledger,
        new_secret: Callable[[], bytes],
        former: bytes,
    ) -> None:
        """`former` is the key from before there were secrets."""
        self._ledger = ledger
        self._new_secret = new_secret
        self._former = former
        self._known: dict[str, bytes] = {}
        #: The start at which each was made.
        self._boots: dict[str, int] = {}
        ledger.on_load.listen(self._load)

    async def start(self) -> None:
        """Make the secrets that there are none of."""
        made = {name: self._new_secret() for name in _FIRST if name not in self._known}
        if made:
            self._known |= made
            self._boots |= dict.fromkeys(made, self._ledger.hard.catalog.boots)
            await self._ledger.commit([self._record(name) for name in made])

    def ack_ids(self, generation: int) -> bytes:
        """The key of the tags of ack ids of a generation.

        Leases from before there was a secret had the log's id for a key, and outlive a start.
        """
        if generation < self._boots.get(ACK_IDS, 0) * GENERATIONS_PER_BOOT:
            return self._former
        return self._known[ACK_IDS]

    def access_tokens(self) -> bytes:
        """The key of the signatures of access tokens."""
        return self._known[ACCESS_TOKENS]

    def push_key(self) -> bytes | None:
        """The key that signs tokens of push requests; None when there is none yet."""
        return self._known.get(PUSH_OIDC)

    async def keep_push_key(self, pem: bytes) -> None:
        """Keep another key for tokens of push requests; durable when this returns."""
        self._known[PUSH_OIDC] = pem
        self._boots[PUSH_OIDC] = self._ledger.hard.catalog.boots
        await self._ledger.commit([self._record(PUSH_OIDC)])

    def _record(self, name: str) -> SecretRecord:
        secret = Secret(name=name, text=self._known[name].hex(), boot=self._boots[name])
        return SecretRecord(name, secret)

    def _load(self, hard: HardState) -> None:
        found = hard.identities.secrets
        self._known = {name: bytes.fromhex(one.text) for name, one in found.items()}
        self._boots = {name: one.boot for name, one in found.items()}
