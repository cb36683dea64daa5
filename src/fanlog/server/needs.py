"""How the permissions that a call needs are found in its request.

A need is a permission and the resource that the caller must have it on. `fanlog.server.permissions`
lists the needs of every method with the functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fanlog.core.hard_state import HardState
from fanlog.core.iam import SERVER
from fanlog.errors import InvalidArgument
from fanlog.model import endpoints, names

#: A permission, and the name of a resource, of a project, or `server`. The third, where there is
#: one, is how a caller is told of the resource: one that its request does not name it may not see.
Need = tuple[str, str] | tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Rule:
    """Finds needs in a request."""

    #: The permission, and where it must be held, in words; for the page of permissions.
    permission: str
    where: str
    find: Callable[[Any, HardState], Iterable[Need]]


def on(permission: str, field: str) -> Rule:
    """On the resource that a field names."""

    def find(request: Any, _: HardState) -> Iterator[Need]:
        yield permission, resource_name(_value(request, field), field)

    return Rule(permission, f"`{field}`", find)


def on_each(permission: str, field: str) -> Rule:
    """On every resource that a repeated field names; on the server when it names none."""

    def find(request: Any, _: HardState) -> Iterator[Need]:
        values = list(_value(request, field))
        if not values:
            yield permission, SERVER
        for value in values:
            yield permission, resource_name(value, field)

    return Rule(permission, f"each of `{field}`, or the server without any", find)


def on_named(permission: str, field: str) -> Rule:
    """On the resource that a field names, if it names one."""

    def find(request: Any, _: HardState) -> Iterator[Need]:
        value = _value(request, field)
        if value:
            yield permission, resource_name(value, field)

    return Rule(permission, f"`{field}`, when given", find)


def on_forward(permission: str, field: str, *owners: str) -> Rule:
    """On the topic that a push endpoint forwards to, if it is one.

    A short name is one in the project of the first of the fields `owners` that is given.
    """

    def find(request: Any, _: HardState) -> Iterator[Need]:
        value: str = _value(request, field)
        if value.startswith(endpoints.TOPIC_SCHEME):
            topic = value.removeprefix(endpoints.TOPIC_SCHEME)
            if "/" not in topic:
                topic = f"{_project_of_first(request, owners)}/topics/{topic}"
            yield permission, resource_name(topic, field)

    return Rule(permission, f"the topic of `{field}`, when it forwards", find)


def in_project(permission: str, *fields: str) -> Rule:
    """On the project of the first of some fields that is given."""

    def find(request: Any, _: HardState) -> Iterator[Need]:
        yield permission, _project_of_first(request, fields)

    return Rule(permission, f"the project of `{'` or `'.join(fields)}`", find)


def on_server(permission: str) -> Rule:
    def find(_: Any, __: HardState) -> Iterator[Need]:
        yield permission, SERVER

    return Rule(permission, "the server", find)


def custom(
    permission: str, where: str, find: Callable[[Any, HardState], Iterable[Need]]
) -> tuple[Rule, ...]:
    return (Rule(permission, where, find),)


def resource_name(name: str, field: str) -> str:
    """A name that has a project; raises InvalidArgument, so that no other passes for one."""
    parts = name.split("/")
    if len(parts) != 4 or parts[0] != "projects" or not all(parts):
        raise InvalidArgument(
            f"{field}: {names.shown(name)} is not the full name of a resource, such as "
            "projects/my-project/topics/my-topic"
        )
    return name


def project_of(name: str, field: str) -> str:
    """The project of a name, or the project itself."""
    parts = name.split("/")
    if len(parts) < 2 or parts[0] != "projects" or not parts[1]:
        raise InvalidArgument(
            f"{field}: {names.shown(name)} has no project; names begin with projects/PROJECT"
        )
    return f"projects/{parts[1]}"


def _project_of_first(request: Any, fields: Sequence[str]) -> str:
    value = next(filter(None, (_value(request, field) for field in fields)), "")
    return project_of(value, fields[0])


def _value(request: Any, field: str) -> Any:
    *outer, last = field.split(".")
    for part in outer:
        request = getattr(request, part)
    return getattr(request, last)
