"""What a principal may do: the policies of a resource, of its project and of the server together.

A permission is held on a resource when a role that has it is granted to the principal, to one of
its groups, to the domain of a user's address, to all authenticated callers or to everybody, on the
resource itself, on its project or on the server. There is nothing that takes a permission away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fanlog.core.hard_state import HardState
from fanlog.core.iam import SERVER, Policy
from fanlog.core.roles import permissions_of
from fanlog.errors import NotFound
from fanlog.model.identity import Principal

#: Answers that are remembered of one principal.
_REMEMBERED_MAX: Final = 10_000
#: Of the names that answers are remembered by; those of projects and resources are shorter.
_NAME_LENGTH_MAX: Final = 1_000
_ANYBODY: Final = "allUsers"
_AUTHENTICATED: Final = "allAuthenticatedUsers"
#: A caller that shows nothing of who it is.
ANONYMOUS: Final = Principal(member=_ANYBODY)


class Grants:
    """The permissions of one principal. Answers are remembered until a policy or a role changes."""

    __slots__ = ("_hard", "_known", "_members", "_version", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self._members = {principal.member, *principal.groups, _ANYBODY}
        if principal is not ANONYMOUS:
            self._members.add(_AUTHENTICATED)
        kind, _, address = principal.member.partition(":")
        if kind == "user":
            self._members.add(f"domain:{address.rpartition('@')[2]}")
        self._known: dict[tuple[str, str], bool] = {}
        self._version = (-1, -1)
        self._hard: HardState | None = None

    def allow(self, hard: HardState, permission: str, resource: str) -> bool:
        """Whether the principal has a permission on a resource, a project or the server.

        `resource` is a full name, `projects/p` or `server`; it need not exist.
        """
        version = (hard.identities.grants_version, hard.catalog.policies_version)
        if version != self._version or hard is not self._hard:
            self._known.clear()
            self._version, self._hard = version, hard
        if len(resource) > _NAME_LENGTH_MAX:
            # Nothing has such a name, and requests may have a megabyte of it.
            return self._search(hard, permission, resource)
        key = (permission, resource)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            known = self._known[key] = self._search(hard, permission, resource)
        return known

    def _search(self, hard: HardState, permission: str, resource: str) -> bool:
        for policy in _policies(hard, resource):
            bindings = policy.bindings
            roles = [one.role for one in bindings if not self._members.isdisjoint(one.members)]
            if roles and permission in permissions_of(roles, hard.identities.roles):
                return True
        return False


def _policies(hard: HardState, resource: str) -> Iterator[Policy]:
    """The policies that speak of a resource, the nearest first."""
    if resource == SERVER:
        yield hard.identities.policy(SERVER)
        return
    parts = resource.split("/")
    if len(parts) > 2:
        resource_id = resource_id_of(hard, parts[2], resource)
        if resource_id is not None:
            yield hard.catalog.policy(resource_id)
    yield hard.identities.policy("/".join(parts[:2]))
    yield hard.identities.policy(SERVER)


def resource_id_of(hard: HardState, collection: str, name: str) -> int | None:
    """The id by which the policy of a resource is kept; None for one that has none."""
    catalog = hard.catalog
    try:
        match collection:
            case "topics":
                return catalog.topic(name).id
            case "subscriptions":
                return catalog.subscription(name).id
            case "snapshots":
                return catalog.snapshot(name).id
            case "schemas":
                return catalog.schemas.schema(name.partition("@")[0]).id
            case _:
                return None
    except NotFound:
        return None
