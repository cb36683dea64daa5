"""Policies: what may be in one, what becomes of it, and when it is refused."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.core.iam import (
    PERMISSIONS,
    ROLES,
    Binding,
    Policy,
    normalize_bindings,
    normalize_permissions,
)
from fanlog.errors import Aborted, InvalidArgument

VIEWER, EDITOR = "roles/pubsub.viewer", "roles/pubsub.editor"


def bound(role: str, *members: str) -> Binding:
    return Binding(role=role, members=members)


class TestEtags:
    def test_every_change_has_another_also_of_another_resource(self):
        none = Policy(id=7)
        first = none.replace([bound(VIEWER, "allUsers")], b"")
        second = first.replace([], b"")
        etags = {policy.etag for policy in (none, first, second, Policy(id=8))}
        assert len(etags) == 4
        assert first.bindings == (bound(VIEWER, "allUsers"),)
        assert second.bindings == ()

    def test_the_present_one_and_none_are_taken(self):
        policy = Policy(id=7, revision=3)
        for etag in (policy.etag, b""):
            assert policy.replace([], etag).revision == 4

    @pytest.mark.parametrize("etag", [Policy(id=7, revision=2).etag, b"x", b"\xff\x00"])
    def test_any_other_is_refused(self, etag):
        with pytest.raises(Aborted, match=r"policy\.etag"):
            Policy(id=7, revision=3).replace([], etag)

    def test_bindings_may_be_left_as_they_are(self):
        policy = Policy(id=7, revision=1, bindings=(bound(VIEWER, "allUsers"),))
        assert policy.replace(None, b"").bindings == policy.bindings


class TestBindings:
    @pytest.mark.parametrize("role", sorted(ROLES))
    def test_known_roles(self, role):
        assert normalize_bindings([bound(role, "allUsers")]) == (bound(role, "allUsers"),)

    def test_one_binding_for_each_role_and_each_member_once(self):
        given = [
            bound(VIEWER, "user:b@example.com", "user:a@example.com"),
            bound(EDITOR, "allUsers"),
            bound(VIEWER, "user:a@example.com", "domain:example.com"),
        ]
        assert normalize_bindings(given) == (
            bound(VIEWER, "domain:example.com", "user:a@example.com", "user:b@example.com"),
            bound(EDITOR, "allUsers"),
        )

    @pytest.mark.parametrize(
        "role", ["", "viewer", "roles/pubsub.reader", "projects/p/roles/mine", "roles/Owner"]
    )
    def test_unknown_roles_are_named(self, role):
        with pytest.raises(InvalidArgument) as refused:
            normalize_bindings([bound(VIEWER, "allUsers"), bound(role, "allUsers")])
        assert refused.value.message.startswith(f"policy.bindings[1].role: {role!r}")

    def test_a_role_without_members(self):
        with pytest.raises(InvalidArgument, match=r"policy\.bindings\[0\]\.members: empty"):
            normalize_bindings([bound(VIEWER)])

    @pytest.mark.parametrize(
        "member",
        [
            "allUsers",
            "allAuthenticatedUsers",
            "user:ada@example.com",
            "user:ada+lovelace@localhost",
            "group:admins@example.com",
            "serviceAccount:robot@project.iam.gserviceaccount.com",
            "serviceAccount:project.svc.id.goog[space/robot]",
            "domain:example.com",
            "domain:a",
            "principal://iam.googleapis.com/locations/global/workforcePools/p/subject/s",
            "principal://issuer.example/ada@example.com",
        ],
    )
    def test_members(self, member):
        assert normalize_bindings([bound(VIEWER, member)]) == (bound(VIEWER, member),)

    @pytest.mark.parametrize(
        "member",
        [
            "",
            "ada@example.com",
            "allusers",
            "allUsers ",
            "user:",
            "user:ada",
            "user:@example.com",
            "user:ada@",
            "user:ada@b@c",
            "user:ada @example.com",
            "user:ada@example.com\n",
            "user:a\u200bb@example.com",
            "User:ada@example.com",
            "domain:",
            "domain:-example.com",
            "domain:example.com/x",
            "serviceAccount:project.svc.id.goog[space]",
            "principal://",
            "principal://issuer",
            "principal:issuer/x",
            "projectOwner:p",
            "deleted:user:ada@example.com?uid=1",
            # No caller would be one of it.
            "principalSet://iam.googleapis.com/pools/p/group/g",
        ],
    )
    def test_what_is_no_member_is_named(self, member):
        with pytest.raises(InvalidArgument) as refused:
            normalize_bindings([bound(VIEWER, "allUsers", member)])
        assert refused.value.message.startswith(f"policy.bindings[0].members[1]: {member!r}")

    @pytest.mark.parametrize(
        ("bindings", "what"),
        [
            ([bound(VIEWER, "allUsers")] * (limits.IAM_BINDINGS_MAX + 1), "bindings"),
            ([bound(VIEWER, *["allUsers"] * (limits.IAM_MEMBERS_MAX + 1))], "members"),
            ([bound(VIEWER, *["group:a@b.c"] * (limits.IAM_GROUPS_MAX + 1))], "groups"),
            ([bound(VIEWER, f"user:{'a' * limits.IAM_POLICY_BYTES_MAX}@b.c")], "bytes"),
        ],
    )
    def test_too_much_is_refused_with_the_limit(self, bindings, what):
        with pytest.raises(InvalidArgument, match=rf"policy\.bindings: \d+ {what}.*; at most \d+"):
            normalize_bindings(bindings)

    def test_as_much_as_is_allowed(self):
        members = [f"user:{n}@example.com" for n in range(limits.IAM_MEMBERS_MAX)]
        [binding] = normalize_bindings([bound(VIEWER, *members)])
        assert len(binding.members) == limits.IAM_MEMBERS_MAX


class TestPermissions:
    @pytest.mark.parametrize("collection", PERMISSIONS)
    def test_those_of_the_kind(self, collection):
        permissions = sorted(PERMISSIONS[collection])
        assert normalize_permissions(collection, permissions * 2) == permissions
        assert f"pubsub.{collection}.getIamPolicy" in permissions

    @pytest.mark.parametrize(
        "permission",
        [
            "",
            "*",
            "pubsub.*",
            "pubsub.topics.*",
            "pubsub.topics.fly",
            "storage.objects.get",
            "pubsub.subscriptions.consume",
            "PUBSUB.topics.get",
        ],
    )
    def test_others_are_named(self, permission):
        with pytest.raises(InvalidArgument) as refused:
            normalize_permissions("topics", ["pubsub.topics.get", permission])
        assert refused.value.message.startswith(f"permissions[1]: {permission!r}")

    def test_too_many(self):
        with pytest.raises(InvalidArgument, match="at most 100"):
            normalize_permissions("topics", ["pubsub.topics.get"] * 101)
