"""Resource names: parse, format, validate. `projects/{project}/topics/{id}` and its neighbours.

Resource ids follow Pub/Sub's rule to the letter. Project ids are ours to be lenient about: programs
written against an emulator call their project anything, so anything printable without a slash goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from fanlog import limits
from fanlog.errors import InvalidArgument

#: The collection a resource lives in, as it is spelled in its name.
Collection = Literal["topics", "subscriptions", "snapshots"]

#: What a subscription's own dead letter topic is called: the subscription's id and this.
DEAD_LETTER_SUFFIX = ".dead-letters"

_ID_RULE = (
    f"an id has {limits.NAME_LENGTH_MIN} to {limits.NAME_LENGTH_MAX} characters of "
    "letters, digits and -_.~+%, begins with a letter and not with 'goog'"
)
_ID = re.compile(
    r"(?!goog)[A-Za-z][A-Za-z0-9\-_.~+%]"
    rf"{{{limits.NAME_LENGTH_MIN - 1},{limits.NAME_LENGTH_MAX - 1}}}"
)
#: Longest value an error sentence repeats; a sentence travels in gRPC trailers, which are small.
_SHOWN_MAX = 120


@dataclass(frozen=True, slots=True)
class ResourceName:
    """The parts of a valid resource name."""

    project: str
    collection: Collection
    id: str

    def __str__(self) -> str:
        return f"projects/{self.project}/{self.collection}/{self.id}"


def topic_name(project: str, topic: str) -> str:
    return f"projects/{project}/topics/{topic}"


def subscription_name(project: str, subscription: str) -> str:
    return f"projects/{project}/subscriptions/{subscription}"


def snapshot_name(project: str, snapshot: str) -> str:
    return f"projects/{project}/snapshots/{snapshot}"


def project_name(project: str) -> str:
    return f"projects/{project}"


def parse_topic(name: str, *, field: str = "topic") -> ResourceName:
    """Parse a full topic name.

    Raises:
        InvalidArgument: Says which `field` holds it, what it is and what a name looks like.
    """
    return _parse(name, "topics", field)


def parse_subscription(name: str, *, field: str = "subscription") -> ResourceName:
    """Parse a full subscription name; raises as `parse_topic` does."""
    return _parse(name, "subscriptions", field)


def parse_snapshot(name: str, *, field: str = "snapshot") -> ResourceName:
    """Parse a full snapshot name; raises as `parse_topic` does."""
    return _parse(name, "snapshots", field)


def parse_project(name: str, *, field: str = "project") -> str:
    """Parse `projects/{project}` and give the project's id; raises as `parse_topic` does."""
    prefix, _, project = name.partition("/")
    if prefix != "projects" or not _is_project(project):
        raise InvalidArgument(
            f"{field}: {shown(name)} is not of the form 'projects/{{project}}'; {_PROJECT_RULE}"
        )
    return project


def project_of(name: str) -> str:
    """Give the project part of a name already known to be valid."""
    return name.split("/", 2)[1]


def dead_letter_topic_of(subscription: str) -> str:
    """Give the name of the topic that `fanlog-dead-letter: auto` makes for a subscription.

    Raises:
        InvalidArgument: The subscription's id is so long that the topic's would be too long.
    """
    parts = parse_subscription(subscription)
    made = parts.id + DEAD_LETTER_SUFFIX
    if not _ID.fullmatch(made):
        raise InvalidArgument(
            f"label fanlog-dead-letter: the topic would be called {shown(made)}; {_ID_RULE}"
        )
    return topic_name(parts.project, made)


def shown(value: str) -> str:
    """Quote a caller's value for an error sentence, cut where it is too long to be read."""
    if len(value) <= _SHOWN_MAX:
        return repr(value)
    return f"{value[:_SHOWN_MAX]!r}… ({len(value)} characters)"


_PROJECT_RULE = (
    f"a project id has 1 to {limits.PROJECT_LENGTH_MAX} printable characters and no slash"
)


def _parse(name: str, collection: Collection, field: str) -> ResourceName:
    if not name:
        raise InvalidArgument(f"{field}: a name is required, but it is empty")
    parts = name.split("/", 4)
    if len(parts) != 4 or parts[0] != "projects" or parts[2] != collection:
        raise InvalidArgument(
            f"{field}: {shown(name)} is not of the form 'projects/{{project}}/{collection}/{{id}}'"
        )
    _, project, _, resource_id = parts
    if not _is_project(project):
        raise InvalidArgument(
            f"{field}: {shown(name)} names the project {shown(project)}; {_PROJECT_RULE}"
        )
    if not _ID.fullmatch(resource_id):
        raise InvalidArgument(
            f"{field}: {shown(name)} ends in the id {shown(resource_id)}; {_ID_RULE}"
        )
    return ResourceName(project, collection, resource_id)


def _is_project(project: str) -> bool:
    return (
        0 < len(project) <= limits.PROJECT_LENGTH_MAX
        and project.isprintable()
        and "/" not in project
    )
