"""Who is meant by the members of a policy."""

from __future__ import annotations

import pytest

from fanlog.core.authority import ANONYMOUS, Grants
from fanlog.core.hard_state import HardState
from fanlog.core.iam import Binding, Policy
from fanlog.core.records import ScopePolicy, ScopePolicyRecord
from fanlog.model.identity import Principal

PROJECT = "projects/shop"
PUBLISH = "pubsub.topics.publish"
ANN = Principal(member="user:ann@example.com", groups=frozenset({"group:ops@example.com"}))
ROBOT = Principal(member="serviceAccount:robot@example.com")


def may(principal: Principal, member: str) -> bool:
    hard = HardState()
    binding = Binding(role="roles/pubsub.publisher", members=(member,))
    policy = Policy().replace([binding], b"")
    hard.apply(ScopePolicyRecord(PROJECT, ScopePolicy(scope=PROJECT, policy=policy)))
    return Grants(principal).allow(hard, PUBLISH, f"{PROJECT}/topics/orders")


@pytest.mark.parametrize(
    ("member", "meant"),
    [
        ("user:ann@example.com", [ANN]),
        ("user:bob@example.com", []),
        ("serviceAccount:robot@example.com", [ROBOT]),
        ("group:ops@example.com", [ANN]),
        ("group:dev@example.com", []),
        # As Google has it: the people of a domain, not the programs.
        ("domain:example.com", [ANN]),
        ("domain:le.com", []),
        ("allAuthenticatedUsers", [ANN, ROBOT]),
        ("allUsers", [ANN, ROBOT, ANONYMOUS]),
    ],
)
def test_members(member: str, meant: list[Principal]):
    assert [one for one in (ANN, ROBOT, ANONYMOUS) if may(one, member)] == meant


def test_names_of_a_megabyte_are_not_remembered():
    grants = Grants(ROBOT)
    for number in range(20):
        assert not grants.allow(HardState(), PUBLISH, f"{PROJECT}/topics/{number:01000000d}")
    assert not grants._known
    grants.allow(HardState(), PUBLISH, f"{PROJECT}/topics/orders")
    assert len(grants._known) == 1
