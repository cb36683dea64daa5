"""Permissions, and the roles that bundle them.

Permissions of Pub/Sub have Google's names; those of what Google has no words for begin with
`fanlog.`. A role is granted on a resource, on a project or on the server, and reaches everything
below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown

_TAGS = "createTagBinding deleteTagBinding listEffectiveTags listTagBindings"
_EVERY = "create delete get getIamPolicy list setIamPolicy"
#: The actions on a resource, by the collection it lives in.
_ACTIONS = {
    "topics": f"{_EVERY} {_TAGS} update attachSubscription detachSubscription publish updateTag",
    "subscriptions": f"{_EVERY} {_TAGS} update consume",
    "snapshots": f"{_EVERY} {_TAGS} update seek",
    "schemas": f"{_EVERY} attach commit listRevisions rollback validate",
}
#: Permissions of Pub/Sub, by the collection of the resources that they are about.
PERMISSIONS: Final = {
    collection: frozenset(f"pubsub.{collection}.{action}" for action in actions.split())
    for collection, actions in _ACTIONS.items()
}
_PUBSUB: Final = frozenset().union(*PERMISSIONS.values())

#: Permissions of our own, each with its meaning.
OWN: Final[Mapping[str, str]] = {
    "fanlog.accounts.create": "make a service account",
    "fanlog.accounts.delete": "delete a service account, with its keys and tokens",
    "fanlog.accounts.get": "see a service account",
    "fanlog.accounts.list": "see all service accounts",
    "fanlog.accounts.update": "add and revoke keys and tokens",
    "fanlog.alerts.create": "make an alert in a project",
    "fanlog.alerts.delete": "delete an alert of a project",
    "fanlog.alerts.get": "see an alert of a project",
    "fanlog.alerts.list": "see all alerts of a project",
    "fanlog.alerts.update": "change an alert of a project",
    "fanlog.cluster.get": "see the nodes of a cluster",
    "fanlog.cluster.move": "have another node of a cluster own the log",
    "fanlog.exports.run": "take the batches of export subscriptions, and report on them",
    "fanlog.files.import": "have the pipeline publish files that it can read",
    "fanlog.jobs.cancel": "cancel a job of a project",
    "fanlog.jobs.create": "ask for a job in a project",
    "fanlog.jobs.delete": "forget a job of a project",
    "fanlog.jobs.get": "see a job of a project",
    "fanlog.jobs.list": "see all jobs of a project",
    "fanlog.jobs.work": "take jobs and report on them",
    "fanlog.lake.acceptLoss": "accept that messages of the lake are lost",
    "fanlog.lake.get": "see the state of the lake",
    "fanlog.lake.maintain": "have files of the lake merged, and old messages let go of",
    "fanlog.log.reportArchived": "report how far the archive has come",
    "fanlog.metrics.get": "read the metrics",
    "fanlog.pipelines.list": "see the pipelines that work for the server",
    "fanlog.policies.get": "see the policy of a project or of the server",
    "fanlog.policies.set": "change the policy of a project or of the server",
    "fanlog.schedules.create": "make a schedule in a project",
    "fanlog.schedules.delete": "delete a schedule of a project",
    "fanlog.schedules.get": "see a schedule of a project",
    "fanlog.schedules.list": "see all schedules of a project",
    "fanlog.schedules.run": "have a schedule of a project publish now",
    "fanlog.schedules.update": "change, pause and resume a schedule of a project",
    "fanlog.sinks.write": "commit and abort the epochs of a sink",
    "fanlog.topics.read": "read the log of a topic without a subscription",
}
ALL: Final = _PUBSUB | OWN.keys()

_READING: Final = frozenset(
    one
    for one in ALL
    if one.endswith((".get", ".list", ".listRevisions", ".listEffectiveTags", ".listTagBindings"))
    and not one.startswith("fanlog.accounts.")
    and one not in ("fanlog.metrics.get", "fanlog.policies.get")
)
_IAM: Final = frozenset(one for one in ALL if one.endswith("IamPolicy"))
_VALIDATE: Final = frozenset({"pubsub.schemas.validate"})
_JOBS: Final = frozenset(
    f"fanlog.jobs.{action}" for action in ("cancel", "create", "delete", "get", "list")
)
_SCHEDULES: Final = frozenset(one for one in OWN if one.startswith("fanlog.schedules."))
_ALERTS: Final = frozenset(one for one in OWN if one.startswith("fanlog.alerts."))
_VIEWER: Final = _READING | _VALIDATE
_EDITOR: Final = (_PUBSUB - _IAM) | _VIEWER | _JOBS | _SCHEDULES | _ALERTS
_ADMIN: Final = _PUBSUB | _EDITOR | {"fanlog.policies.get", "fanlog.policies.set"}
_PUBLISHER: Final = frozenset({"pubsub.topics.publish"})
_SUBSCRIBER: Final = frozenset(
    {
        "pubsub.snapshots.seek",
        "pubsub.subscriptions.consume",
        "pubsub.topics.attachSubscription",
    }
)
_OPERATOR: Final = (
    _VIEWER
    | _JOBS
    | _ALERTS
    | {
        "fanlog.accounts.get",
        "fanlog.accounts.list",
        "fanlog.cluster.move",
        "fanlog.lake.acceptLoss",
        "fanlog.lake.maintain",
        "fanlog.metrics.get",
        "fanlog.policies.get",
    }
)
_SPARK: Final = (
    _READING
    | _PUBLISHER
    | {"fanlog.sinks.write", "fanlog.topics.read", "pubsub.subscriptions.consume"}
)
_PIPELINE: Final = _SPARK | {
    "fanlog.exports.run",
    "fanlog.jobs.work",
    "fanlog.log.reportArchived",
    "pubsub.snapshots.seek",
    "pubsub.schemas.validate",
}

#: The role that may do everything.
OWNER: Final = "roles/owner"
#: Basic roles, those of Pub/Sub, and our own.
ROLES: Final[Mapping[str, frozenset[str]]] = {
    OWNER: ALL,
    "roles/editor": _EDITOR,
    "roles/viewer": _VIEWER,
    "roles/pubsub.admin": _ADMIN,
    "roles/pubsub.editor": _EDITOR,
    "roles/pubsub.publisher": _PUBLISHER,
    "roles/pubsub.subscriber": _SUBSCRIBER,
    "roles/pubsub.viewer": _VIEWER,
    "roles/pubsub.serviceAgent": _PUBLISHER | _SUBSCRIBER,
    "roles/fanlog.operator": _OPERATOR,
    "roles/fanlog.pipeline": _PIPELINE,
    "roles/fanlog.spark": _SPARK,
}

_CUSTOM: Final = re.compile(r"roles/custom\.[A-Za-z][A-Za-z0-9_.]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomRole:
    """A role of an operator's own, from the resources file."""

    #: Such as `roles/custom.auditor`.
    name: str
    permissions: tuple[str, ...]


def check_role(role: CustomRole) -> CustomRole:
    """The role with each permission once, in order.

    Raises:
        InvalidArgument: Its name is no custom role's, or a permission does not exist.
    """
    if not _CUSTOM.fullmatch(role.name):
        raise InvalidArgument(
            f"roles: {shown(role.name)} is no name of a custom role; one is roles/custom.NAME with "
            "letters, digits, dots and underscores"
        )
    if not role.permissions:
        raise InvalidArgument(f"roles: {role.name} has no permissions")
    for permission in role.permissions:
        if permission not in ALL:
            raise InvalidArgument(
                f"roles: {role.name}: {shown(permission)} is no permission; "
                "`fanlog auth roles` lists those there are"
            )
    return CustomRole(name=role.name, permissions=tuple(sorted(set(role.permissions))))


def permissions_of(names: Iterable[str], custom: Mapping[str, CustomRole]) -> frozenset[str]:
    """All permissions of some roles; a role that is gone grants nothing."""
    found: set[str] = set()
    for name in names:
        if name in ROLES:
            found |= ROLES[name]
        elif name in custom:
            found |= set(custom[name].permissions)
    return frozenset(found)


def known_roles(custom: Mapping[str, CustomRole]) -> Sequence[str]:
    return sorted((*ROLES, *custom))
