"""google.iam.v1: policies from protobuf and back.

A policy without conditions has version 1, whichever its writer asked for, as Google's have.
"""

from __future__ import annotations

from google.iam.v1 import policy_pb2
from google.iam.v1.iam_policy_pb2 import SetIamPolicyRequest

from fanlog.core.iam import Binding, Policy, check_counts
from fanlog.errors import InvalidArgument
from fanlog.wire.fields import mask_paths, unsupported

#: Fields that mean something here, by message.
HONOURED = {
    "Policy": frozenset({"version", "bindings", "etag"}),
    "Binding": frozenset({"role", "members"}),
}
_VERSIONS = (0, 1, 3)


def bindings_of(request: SetIamPolicyRequest) -> list[Binding] | None:
    """The bindings that a SetIamPolicyRequest sets; None if its mask leaves them as they are.

    Raises:
        InvalidArgument: There is no policy, or its version or the mask cannot be.
        Unimplemented: It has conditions or audit configs.
    """
    if not request.HasField("policy"):
        raise InvalidArgument("policy: required; an empty one takes all roles away")
    policy = request.policy
    # Counted before anything is made of them: a few bytes may claim half a million.
    check_counts(len(policy.bindings), 0)
    check_counts(len(policy.bindings), sum(len(one.members) for one in policy.bindings))
    check_version(policy.version, "policy.version")
    _refuse_unsupported(policy, "policy")
    for index, binding in enumerate(policy.bindings):
        _refuse_unsupported(binding, f"policy.bindings[{index}]")
    if request.update_mask.paths:
        paths = mask_paths(request.update_mask, HONOURED["Policy"], {}, policy)
        if "bindings" not in paths:
            return None
    return [Binding(role=one.role, members=tuple(one.members)) for one in policy.bindings]


def check_version(version: int, field: str) -> None:
    """Accept the versions that Google accepts; no policy ever had version 2.

    Raises:
        InvalidArgument: Names the field and the versions.
    """
    if version not in _VERSIONS:
        raise InvalidArgument(f"{field}: {version} is not a version of policies; 0, 1 and 3 are")


def policy_pb(policy: Policy) -> policy_pb2.Policy:
    """A policy as it is answered; of a resource without one, an etag and nothing else."""
    return policy_pb2.Policy(
        version=1 if policy.revision else 0,
        bindings=[
            policy_pb2.Binding(role=one.role, members=one.members) for one in policy.bindings
        ],
        etag=policy.etag,
    )


def _refuse_unsupported(message: policy_pb2.Policy | policy_pb2.Binding, where: str) -> None:
    for field, _ in message.ListFields():
        if field.name not in HONOURED[message.DESCRIPTOR.name]:
            raise unsupported(f"{where}.{field.name}")
