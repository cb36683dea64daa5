"""The verbs of IAM: policies of resources, of projects and of the server; and custom roles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fanlog.broker.transaction import Ledger
from fanlog.core import iam
from fanlog.core.iam import Binding, Policy
from fanlog.core.records import RoleRecord, ScopePolicy, ScopePolicyRecord
from fanlog.core.roles import OWNER, CustomRole, check_role, known_roles
from fanlog.errors import FailedPrecondition, NotFound
from fanlog.model.names import ResourceName


@dataclass(eq=False)
class Iam:
    """Policy verbs of one broker."""

    _ledger: Ledger

    async def get_policy(self, resource: ResourceName) -> Policy:
        """The policy of a resource; an empty one with an etag if it was never set.

        Raises:
            NotFound: There is no such resource.
        """
        policy = self._ledger.hard.catalog.policy(self._id_of(resource))
        await self._ledger.sync()
        return policy

    async def set_policy(
        self, resource: ResourceName, bindings: Iterable[Binding] | None, etag: bytes
    ) -> Policy:
        """Replace the policy of a resource; durable when this returns. None keeps the bindings.

        Raises:
            NotFound: There is no such resource.
            Aborted: The etag is not that of the present policy; an empty one overwrites any.
            InvalidArgument: The bindings cannot be; the sentence names the mistake.
        """
        catalog = self._ledger.hard.catalog
        policy = catalog.policy(self._id_of(resource)).replace(bindings, etag, self._roles())
        await self._ledger.commit(catalog.put_policy(policy))
        return policy

    async def get_scope(self, scope: str) -> Policy:
        """The policy of a project, `projects/p`, or of the server, `server`."""
        policy = self._ledger.hard.identities.policy(scope)
        await self._ledger.sync()
        return policy

    async def set_scope(self, scope: str, bindings: Iterable[Binding], etag: bytes) -> Policy:
        """Replace the policy of a project or of the server; durable when this returns.

        Raises:
            Aborted: The etag is not that of the present policy; an empty one overwrites any.
            InvalidArgument: The bindings cannot be; the sentence names the mistake.
            FailedPrecondition: The server would be left without an owner.
        """
        policy = self._ledger.hard.identities.policy(scope).replace(bindings, etag, self._roles())
        if scope == iam.SERVER and not any(one.role == OWNER for one in policy.bindings):
            raise FailedPrecondition(
                f"policy.bindings: nobody would have {OWNER} on the server, and so nobody could "
                "change that; leave a member of it"
            )
        await self._ledger.commit(
            [ScopePolicyRecord(scope, ScopePolicy(scope=scope, policy=policy))]
        )
        return policy

    async def put_roles(self, roles: Iterable[CustomRole]) -> None:
        """Set custom roles; durable when this returns.

        Raises:
            InvalidArgument: One is no custom role; nothing was changed.
        """
        checked = [check_role(role) for role in roles]
        known = self._ledger.hard.identities.roles
        changed = [RoleRecord(one.name, one) for one in checked if known.get(one.name) != one]
        if changed:
            await self._ledger.commit(changed)

    def _roles(self) -> Sequence[str]:
        return known_roles(self._ledger.hard.identities.roles)

    async def test_permissions(
        self, resource: ResourceName, permissions: Sequence[str]
    ) -> list[str]:
        """Which of some permissions there are to have: all, on a resource that exists.

        On one that does not exist there are none, which is no error.

        Raises:
            InvalidArgument: One is not a permission on such a resource.
        """
        asked = iam.normalize_permissions(resource.collection, permissions)
        try:
            self._id_of(resource)
        except NotFound:
            asked = []
        await self._ledger.sync()
        return asked

    def _id_of(self, resource: ResourceName) -> int:
        catalog, name = self._ledger.hard.catalog, str(resource)
        match resource.collection:
            case "topics":
                return catalog.topic(name).id
            case "subscriptions":
                return catalog.subscription(name).id
            case "snapshots":
                return catalog.snapshot(name).id
            case "schemas":
                return catalog.schemas.schema(name).id
