"""Service accounts, the policies of projects and of the server, custom roles, secrets.

All hard state, but for what is derived: accounts by address, tokens by their hash.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from fanlog.core.iam import Policy
from fanlog.core.records.identities import (
    AccountRecord,
    IdentityRecord,
    RoleRecord,
    ScopePolicyRecord,
    Secret,
    SecretRecord,
)
from fanlog.core.roles import CustomRole
from fanlog.errors import AccountNotFound
from fanlog.model.identity import ApiToken, ServiceAccount
from fanlog.model.names import shown


class Identities:
    """Who may call, as hard state has it. Not safe to share between threads."""

    def __init__(self) -> None:
        self._accounts: dict[int, ServiceAccount] = {}
        self._by_name: dict[str, ServiceAccount] = {}
        self._by_email: dict[str, ServiceAccount] = {}
        self._by_digest: dict[str, tuple[ServiceAccount, ApiToken]] = {}
        self._policies: dict[str, Policy] = {}
        self.roles: dict[str, CustomRole] = {}
        self.secrets: dict[str, Secret] = {}
        #: Another one after each change of an account.
        self.accounts_version = 0
        #: Another one after each change of a policy here, or of a role.
        self.grants_version = 0

    def __len__(self) -> int:
        return len(self._accounts)

    def account(self, name: str) -> ServiceAccount:
        """Raises AccountNotFound."""
        found = self._by_name.get(name)
        if found is None:
            raise AccountNotFound(f"service account {shown(name)} does not exist")
        return found

    def find(self, name: str) -> ServiceAccount | None:
        return self._by_name.get(name)

    def by_email(self, email: str) -> ServiceAccount | None:
        return self._by_email.get(email)

    def token_owner(self, digest: str) -> tuple[ServiceAccount, ApiToken] | None:
        """The account of a token, and what is kept of it, by the token's hash."""
        return self._by_digest.get(digest)

    def names_after(self, after: str) -> Iterator[str]:
        return (name for name in sorted(self._by_name) if name > after)

    def policy(self, scope: str) -> Policy:
        """The policy of a project or of the server; an empty one if it was never set."""
        return self._policies.get(scope) or Policy()

    def apply(self, record: IdentityRecord) -> None:
        match record:
            case AccountRecord(id=account_id, account=account):
                self._forget(self._accounts.pop(account_id, None))
                if account is not None:
                    self._remember(account)
                self.accounts_version += 1
            case ScopePolicyRecord(scope=scope, policy=found):
                if found is None:
                    self._policies.pop(scope, None)
                else:
                    self._policies[scope] = found.policy
                self.grants_version += 1
            case RoleRecord(name=name, role=role):
                if role is None:
                    self.roles.pop(name, None)
                else:
                    self.roles[name] = role
                self.grants_version += 1
            case SecretRecord(name=name, secret=secret):
                if secret is None:
                    self.secrets.pop(name, None)
                else:
                    self.secrets[name] = secret
            case _:
                assert_never(record)

    def _remember(self, account: ServiceAccount) -> None:
        self._accounts[account.id] = account
        self._by_name[account.name] = account
        self._by_email[account.email] = account
        self._by_digest |= {token.digest: (account, token) for token in account.tokens}

    def _forget(self, account: ServiceAccount | None) -> None:
        if account is not None:
            del self._by_name[account.name]
            del self._by_email[account.email]
            for token in account.tokens:
                del self._by_digest[token.digest]
