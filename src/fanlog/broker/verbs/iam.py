"""The verbs of IAM: a policy of each resource is kept and shown; nothing is enforced yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fanlog.broker.transaction import Ledger
from fanlog.core import iam
from fanlog.core.iam import Binding, Policy
from fanlog.errors import NotFound
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
        policy = catalog.policy(self._id_of(resource)).replace(bindings, etag)
        await self._ledger.commit(catalog.put_policy(policy))
        return policy

    async def test_permissions(
        self, resource: ResourceName, permissions: Sequence[str]
    ) -> list[str]:
        """Which of some permissions the caller has: all, on a resource that exists.

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
