"""Accounts and policies, `fanlog.v1.Auth` and `google.iam.v1`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from google.iam.v1 import iam_policy_pb2, policy_pb2

from fanlog.client.connection import Connection
from fanlog.client.failures import CallFailed
from fanlog.v1 import auth_pb2

SERVER: Final = "server"

_SERVICE: Final = "fanlog.v1.Auth"
_IAM: Final = "google.iam.v1.IAMPolicy"
_PAGE_SIZE: Final = 1_000
#: How often a policy that others change at the same time is read again.
_ATTEMPTS: Final = 5


class AuthClient:
    """Administers who may call a server, and what they may do. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    # Accounts.

    def create_account(self, name: str) -> auth_pb2.Account:
        request = auth_pb2.CreateAccountRequest(name=name)
        return self._connection.call(f"{_SERVICE}/CreateAccount", request, auth_pb2.Account)

    def get_account(self, name: str) -> auth_pb2.Account:
        request = auth_pb2.GetAccountRequest(name=name)
        return self._connection.call(f"{_SERVICE}/GetAccount", request, auth_pb2.Account)

    def list_accounts(self) -> Iterator[auth_pb2.Account]:
        request = auth_pb2.ListAccountsRequest(page_size=_PAGE_SIZE)
        for page in self._connection.pages(
            f"{_SERVICE}/ListAccounts", request, auth_pb2.ListAccountsResponse
        ):
            yield from page.accounts

    def delete_account(self, name: str) -> None:
        """With its keys and tokens."""
        request = auth_pb2.DeleteAccountRequest(name=name)
        self._connection.call(f"{_SERVICE}/DeleteAccount", request, auth_pb2.DeleteAccountResponse)

    # Their keys and tokens. Those without an `end` do not end.

    def add_key(self, account: str, public_pem: str, end: datetime | None) -> auth_pb2.Account:
        request = auth_pb2.AddKeyRequest(account=account, public_key=public_pem)
        if end is not None:
            request.expire_time.FromDatetime(end)
        return self._connection.call(f"{_SERVICE}/AddKey", request, auth_pb2.Account)

    def revoke_key(self, account: str, key_id: str) -> auth_pb2.Account:
        request = auth_pb2.RevokeKeyRequest(account=account, key_id=key_id)
        return self._connection.call(f"{_SERVICE}/RevokeKey", request, auth_pb2.Account)

    def create_token(self, account: str, end: datetime | None) -> auth_pb2.CreateTokenResponse:
        """A token, and the account if there is none; the reply alone has the token itself."""
        request = auth_pb2.CreateTokenRequest(account=account)
        if end is not None:
            request.expire_time.FromDatetime(end)
        return self._connection.call(
            f"{_SERVICE}/CreateToken", request, auth_pb2.CreateTokenResponse
        )

    def revoke_token(self, account: str, token_id: str) -> auth_pb2.Account:
        request = auth_pb2.RevokeTokenRequest(account=account, token_id=token_id)
        return self._connection.call(f"{_SERVICE}/RevokeToken", request, auth_pb2.Account)

    # Policies: of the server, of projects, and of the resources that Google's API has one for.

    def get_policy(self, resource: str) -> auth_pb2.AccessPolicy:
        """The policy of `server`, of `projects/p`, or of a resource by its full name."""
        if _is_scope(resource):
            asked = auth_pb2.GetPolicyRequest(resource=resource)
            return self._connection.call(f"{_SERVICE}/GetPolicy", asked, auth_pb2.AccessPolicy)
        request = iam_policy_pb2.GetIamPolicyRequest(resource=resource)
        return _of_google(self._connection.call(f"{_IAM}/GetIamPolicy", request, policy_pb2.Policy))

    def set_policy(self, resource: str, policy: auth_pb2.AccessPolicy) -> auth_pb2.AccessPolicy:
        """Replace a policy. One with an etag is refused, ABORTED, if that is not the present."""
        if _is_scope(resource):
            asked = auth_pb2.SetPolicyRequest(resource=resource, policy=policy)
            return self._connection.call(f"{_SERVICE}/SetPolicy", asked, auth_pb2.AccessPolicy)
        request = iam_policy_pb2.SetIamPolicyRequest(resource=resource, policy=_to_google(policy))
        return _of_google(self._connection.call(f"{_IAM}/SetIamPolicy", request, policy_pb2.Policy))

    def add_members(
        self, resource: str, role: str, members: Sequence[str]
    ) -> auth_pb2.AccessPolicy:
        """Give members a role on a resource; those who have it keep it."""

        def add(policy: auth_pb2.AccessPolicy) -> None:
            present = _members(policy, role)
            missing = [one for one in dict.fromkeys(members) if one not in present]
            if missing:
                policy.bindings.add(role=role, members=missing)

        return self._change(resource, add)

    def remove_members(
        self, resource: str, role: str, members: Sequence[str]
    ) -> auth_pb2.AccessPolicy:
        """Take a role on a resource from members; those who do not have it are passed over."""

        def remove(policy: auth_pb2.AccessPolicy) -> None:
            kept = []
            for binding in policy.bindings:
                if binding.role == role:
                    left = [one for one in binding.members if one not in members]
                    binding = auth_pb2.AccessBinding(role=role, members=left)
                if binding.members:
                    kept.append(binding)
            del policy.bindings[:]
            policy.bindings.extend(kept)

        return self._change(resource, remove)

    # The server.

    def list_roles(self) -> list[auth_pb2.Role]:
        reply = self._connection.call(
            f"{_SERVICE}/ListRoles", auth_pb2.ListRolesRequest(), auth_pb2.ListRolesResponse
        )
        return list(reply.roles)

    def who_am_i(self) -> auth_pb2.WhoAmIResponse:
        return self._connection.call(
            f"{_SERVICE}/WhoAmI", auth_pb2.WhoAmIRequest(), auth_pb2.WhoAmIResponse
        )

    def check_access(
        self, resources: Iterable[str], permissions: Iterable[str] = ()
    ) -> list[auth_pb2.Granted]:
        """Give what the caller may do on resources, of some permissions or of all there are."""
        request = auth_pb2.CheckAccessRequest(resources=resources, permissions=permissions)
        reply = self._connection.call(
            f"{_SERVICE}/CheckAccess", request, auth_pb2.CheckAccessResponse
        )
        return list(reply.granted)

    def _change(
        self, resource: str, change: Callable[[auth_pb2.AccessPolicy], None]
    ) -> auth_pb2.AccessPolicy:
        """Read a policy, change it and write it, again if another came between."""
        for attempt in range(1, _ATTEMPTS + 1):
            policy = self.get_policy(resource)
            before = auth_pb2.AccessPolicy.FromString(policy.SerializeToString())
            change(policy)
            if policy == before:
                break
            try:
                return self.set_policy(resource, policy)
            except CallFailed as failure:
                if failure.status != "ABORTED" or attempt == _ATTEMPTS:
                    raise
        return policy


def _is_scope(resource: str) -> bool:
    return resource == SERVER or resource.count("/") == 1


def _members(policy: auth_pb2.AccessPolicy, role: str) -> set[str]:
    return {one for each in policy.bindings if each.role == role for one in each.members}


def _of_google(policy: policy_pb2.Policy) -> auth_pb2.AccessPolicy:
    found = auth_pb2.AccessPolicy(etag=policy.etag)
    for binding in policy.bindings:
        found.bindings.add(role=binding.role, members=binding.members)
    return found


def _to_google(policy: auth_pb2.AccessPolicy) -> policy_pb2.Policy:
    made = policy_pb2.Policy(etag=policy.etag)
    for binding in policy.bindings:
        made.bindings.add(role=binding.role, members=binding.members)
    return made
