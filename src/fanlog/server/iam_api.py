"""google.iam.v1.IAMPolicy, for any surface."""

from __future__ import annotations

from google.iam.v1.iam_policy_pb2 import (
    GetIamPolicyRequest,
    SetIamPolicyRequest,
    TestIamPermissionsRequest,
    TestIamPermissionsResponse,
)
from google.iam.v1.policy_pb2 import Policy

from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.server.calls import Call
from fanlog.server.methods import method, method_with_call
from fanlog.wire import iam


async def get_policy(broker: Broker, request: GetIamPolicyRequest) -> Policy:
    resource = names.parse_resource(request.resource)
    iam.check_version(request.options.requested_policy_version, "options.requested_policy_version")
    return iam.policy_pb(await broker.iam.get_policy(resource))


async def set_policy(broker: Broker, request: SetIamPolicyRequest) -> Policy:
    resource = names.parse_resource(request.resource)
    bindings = iam.bindings_of(request)
    policy = await broker.iam.set_policy(resource, bindings, request.policy.etag)
    return iam.policy_pb(policy)


async def test_permissions(
    broker: Broker, request: TestIamPermissionsRequest, call: Call
) -> TestIamPermissionsResponse:
    resource = names.parse_resource(request.resource)
    there = await broker.iam.test_permissions(resource, list(request.permissions))
    granted = [one for one in there if call.caller.may(one, str(resource))]
    return TestIamPermissionsResponse(permissions=granted)


METHODS = (
    method("GetIamPolicy", GetIamPolicyRequest, Policy, get_policy),
    method("SetIamPolicy", SetIamPolicyRequest, Policy, set_policy, "resource"),
    method_with_call(
        "TestIamPermissions",
        TestIamPermissionsRequest,
        TestIamPermissionsResponse,
        test_permissions,
    ),
)
