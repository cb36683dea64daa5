"""The verbs of service accounts, keys and tokens. Each change is durable when it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.transaction import Ledger
from fanlog.core.records import AccountRecord
from fanlog.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from fanlog.model.identity import (
    TOKEN_PREFIX,
    AccountKey,
    ApiToken,
    ServiceAccount,
    account_email,
    check_account_name,
    token_digest,
)
from fanlog.model.names import shown


@dataclass(eq=False)
class Accounts:
    """Account verbs of one broker."""

    _ledger: Ledger
    _clock: Clock
    #: The id that addresses of this server's accounts contain.
    server_id: str
    #: A text of 256 bits of chance.
    _new_token: Callable[[], str]

    async def create(self, name: str) -> ServiceAccount:
        """Make an account.

        Raises:
            InvalidArgument: Not a name that an account can have.
            AlreadyExists: There is one.
            ResourceExhausted: There are too many.
        """
        check_account_name(name)
        identities = self._ledger.hard.identities
        if identities.find(name) is not None:
            raise AlreadyExists(f"service account {name!r} exists already")
        if len(identities) >= limits.ACCOUNTS_MAX:
            raise ResourceExhausted(
                f"there are {len(identities)} service accounts, and no more are allowed; delete "
                "those that are not needed"
            )
        account_id, counted = self._ledger.hard.catalog.take_id()
        account = ServiceAccount(
            id=account_id,
            name=name,
            email=account_email(name, self.server_id),
            created_s=self._now_s(),
        )
        await self._ledger.commit([counted, AccountRecord(account.id, account)])
        return account

    async def get(self, name: str) -> ServiceAccount:
        """Raises AccountNotFound."""
        account = self._ledger.hard.identities.account(name)
        await self._ledger.sync()
        return account

    async def list_all(self, after: str, count: int) -> list[ServiceAccount]:
        identities = self._ledger.hard.identities
        found = [identities.account(n) for n in islice(identities.names_after(after), count)]
        await self._ledger.sync()
        return found

    async def delete(self, name: str) -> None:
        """Delete an account with its keys and tokens.

        Raises:
            AccountNotFound: There is none.
        """
        account = self._ledger.hard.identities.account(name)
        await self._ledger.commit([AccountRecord(account.id, None)])

    async def add_key(
        self, name: str, key_id: str, public: str, expires_s: float | None
    ) -> ServiceAccount:
        """Let an account sign with one more key.

        Raises:
            AccountNotFound: There is no such account.
            InvalidArgument: The key ends in the past.
            AlreadyExists: An account has that key.
            ResourceExhausted: It has too many.
        """
        account = self._ledger.hard.identities.account(name)
        if any(key.id == key_id for key in account.keys):
            raise AlreadyExists(f"service account {name!r} has the key {key_id!r} already")
        self._check_count(account, "keys", len(account.keys), limits.ACCOUNT_KEYS_MAX)
        key = AccountKey(
            id=key_id,
            public=public,
            created_s=self._now_s(),
            expires_s=self._check_expiry(expires_s),
        )
        return await self._put(replace(account, keys=(*account.keys, key)))

    async def revoke_key(self, name: str, key_id: str) -> ServiceAccount:
        """Take a key away: nothing that it signed, or that was had for it, is believed any more.

        Raises:
            NotFound: There is no such account, or no such key.
        """
        account = self._ledger.hard.identities.account(name)
        left = tuple(key for key in account.keys if key.id != key_id)
        if left == account.keys:
            raise NotFound(f"service account {name!r} has no key {shown(key_id)}")
        return await self._put(replace(account, keys=left))

    async def create_token(
        self, name: str, expires_s: float | None
    ) -> tuple[str, ApiToken, ServiceAccount]:
        """Make a token of an account, and the account if there is none; the token is kept nowhere.

        Raises:
            InvalidArgument: The token ends in the past, or that is no name of an account.
            ResourceExhausted: There are too many.
        """
        expires_s = self._check_expiry(expires_s)
        account = self._ledger.hard.identities.find(name) or await self.create(name)
        # It may have been changed meanwhile.
        account = self._ledger.hard.identities.account(name)
        self._check_count(account, "tokens", len(account.tokens), limits.ACCOUNT_TOKENS_MAX)
        text = TOKEN_PREFIX + self._new_token()
        digest = token_digest(text)
        token = ApiToken(
            id=digest[:12], digest=digest, created_s=self._now_s(), expires_s=expires_s
        )
        account = await self._put(replace(account, tokens=(*account.tokens, token)))
        return text, token, account

    async def revoke_token(self, name: str, token_id: str) -> ServiceAccount:
        """Raises NotFound: There is no such account, or no such token."""
        account = self._ledger.hard.identities.account(name)
        left = tuple(token for token in account.tokens if token.id != token_id)
        if left == account.tokens:
            raise NotFound(f"service account {name!r} has no token {shown(token_id)}")
        return await self._put(replace(account, tokens=left))

    async def _put(self, account: ServiceAccount) -> ServiceAccount:
        await self._ledger.commit([AccountRecord(account.id, account)])
        return account

    def _check_expiry(self, expires_s: float | None) -> float | None:
        if expires_s is not None and expires_s <= self._now_s():
            raise InvalidArgument("expire_time: is in the past")
        return expires_s

    def _check_count(self, account: ServiceAccount, what: str, count: int, most: int) -> None:
        if count >= most:
            raise ResourceExhausted(
                f"service account {account.name!r} has {count} {what}, and no more are allowed; "
                "revoke those that are not needed"
            )

    def _now_s(self) -> float:
        return self._clock.wall_ns() / 1e9
