"""google.iam.v1 IAMPolicy, for any surface."""

from __future__ import annotations

from typing import Any

from google.iam.v1 import iam_policy_pb2

from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.wire import iam

IAM_POLICY = "google.iam.v1.IAMPolicy"


class IamApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def get_policy(self, request: Any) -> Any:
        resource = names.parse_resource(request.resource)
        iam.check_version(
            request.options.requested_policy_version, "options.requested_policy_version"
        )
        return iam.policy_pb(await self._broker.iam.get_policy(resource))

    async def set_policy(self, request: Any) -> Any:
        resource = names.parse_resource(request.resource)
        bindings = iam.bindings_of(request)
        policy = await self._broker.iam.set_policy(resource, bindings, request.policy.etag)
        return iam.policy_pb(policy)

    async def test_permissions(self, request: Any) -> Any:
        resource = names.parse_resource(request.resource)
        granted = await self._broker.iam.test_permissions(resource, list(request.permissions))
        return iam_policy_pb2.TestIamPermissionsResponse(permissions=granted)
