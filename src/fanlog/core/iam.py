"""IAM policies: which members have which role on a resource, a project or the server. Hard state.

A policy belongs to a resource's id, which is never used twice: a topic that is deleted and made
again has no policy. Every change gives it the next revision, and the etag is made of both. A client
that read a policy, changed it and sends it back is refused if another change came between.

`fanlog.core.roles` has the roles; `fanlog.core.authority` says what a policy grants. On a server
that does not authenticate its callers a policy is kept and shown, and every permission is granted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from fanlog import limits
from fanlog.core.roles import PERMISSIONS, ROLES
from fanlog.errors import Aborted, InvalidArgument
from fanlog.model.names import shown

_EMAIL = r"[^\s@:/]+@[^\s@:/]+"
_MEMBER = re.compile(
    "allUsers|allAuthenticatedUsers"
    rf"|(?:user|group):{_EMAIL}"
    # The other form is that of accounts within Kubernetes: project.svc.id.goog[namespace/account].
    rf"|serviceAccount:(?:{_EMAIL}|[^\s@:/\[\]]+\[[^\s@:/\[\]]+/[^\s@:/\[\]]+\])"
    r"|domain:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
    r"|principal://[^\s/]+(?:/[^\s/]+)+"
)
_MEMBER_RULE = (
    "a member is user:EMAIL, serviceAccount:EMAIL, group:EMAIL, domain:NAME, principal://…, "
    "allUsers or allAuthenticatedUsers"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A role, and the members that have it."""

    role: str
    members: tuple[str, ...]


#: The scope of the server's own policy; that of a project is `projects/p`.
SERVER = "server"


def is_member(text: str) -> bool:
    """Whether a text has the form of a member of a policy."""
    return text.isprintable() and _MEMBER.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The bindings of one resource."""

    #: The resource's id; 0 for a project and for the server, which are known by their name.
    id: int = 0
    #: How often it was set; 0 for a resource that has none.
    revision: int = 0
    bindings: tuple[Binding, ...] = ()

    @property
    def etag(self) -> bytes:
        return f"{self.id:x}-{self.revision:x}".encode()

    def replace(
        self, bindings: Iterable[Binding] | None, etag: bytes, roles: Collection[str] = ROLES
    ) -> Policy:
        """The policy with other bindings; None leaves them. An empty etag fits every revision.

        Raises:
            Aborted: The etag is that of another revision.
            InvalidArgument: Names the first binding that is wrong, and why.
        """
        checked = self.bindings if bindings is None else normalize_bindings(list(bindings), roles)
        if etag and etag != self.etag:
            raise Aborted(
                "policy.etag: the policy was changed since it was read; read it again, and repeat "
                "the change"
            )
        return Policy(id=self.id, revision=self.revision + 1, bindings=checked)


def normalize_bindings(
    bindings: Sequence[Binding], roles: Collection[str] = ROLES
) -> tuple[Binding, ...]:
    """Check bindings; give one for each role, and each member once, in order.

    Raises:
        InvalidArgument: An unknown role, no member or something else than a member, or too much.
    """
    _check_sizes(bindings)
    members: dict[str, set[str]] = {}
    for index, binding in enumerate(bindings):
        where = f"policy.bindings[{index}]"
        if binding.role not in roles:
            raise InvalidArgument(
                f"{where}.role: {shown(binding.role)} is not a known role; there are "
                f"{', '.join(sorted(roles))}"
            )
        if not binding.members:
            raise InvalidArgument(
                f"{where}.members: empty; leave the binding of {binding.role} out instead"
            )
        for place, member in enumerate(binding.members):
            if not is_member(member):
                raise InvalidArgument(f"{where}.members[{place}]: {shown(member)}; {_MEMBER_RULE}")
        members.setdefault(binding.role, set()).update(binding.members)
    return tuple(Binding(role=role, members=tuple(sorted(members[role]))) for role in members)


def normalize_permissions(collection: str, permissions: Sequence[str]) -> list[str]:
    """Check permissions that a client asks for on a resource; give each once.

    Raises:
        InvalidArgument: One is not of Pub/Sub, or of another kind of resource.
    """
    if len(permissions) > limits.IAM_PERMISSIONS_MAX:
        raise InvalidArgument(
            f"permissions: {len(permissions)} of them; at most {limits.IAM_PERMISSIONS_MAX} are "
            "allowed in a request"
        )
    for index, permission in enumerate(permissions):
        if permission not in PERMISSIONS[collection]:
            known = ", ".join(sorted(PERMISSIONS[collection]))
            raise InvalidArgument(
                f"permissions[{index}]: {shown(permission)} is not a permission of {collection}; "
                f"there are {known}"
            )
    return list(dict.fromkeys(permissions))


def check_counts(bindings: int, members: int) -> None:
    """Raises InvalidArgument: A policy cannot have so many bindings or members."""
    _check_count("bindings", bindings, limits.IAM_BINDINGS_MAX)
    _check_count("members", members, limits.IAM_MEMBERS_MAX)


def _check_sizes(bindings: Sequence[Binding]) -> None:
    members = [member for binding in bindings for member in binding.members]
    check_counts(len(bindings), len(members))
    groups = sum(member.startswith("group:") for member in members)
    _check_count("groups", groups, limits.IAM_GROUPS_MAX)
    size = sum(len(binding.role.encode()) for binding in bindings)
    size += sum(len(member.encode()) for member in members)
    _check_count("bytes of roles and members", size, limits.IAM_POLICY_BYTES_MAX)


def _check_count(what: str, count: int, most: int) -> None:
    if count > most:
        raise InvalidArgument(
            f"policy.bindings: {count} {what}; at most {most} are allowed in a policy"
        )
