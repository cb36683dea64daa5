"""Resource names: parse, format, validate. `projects/{project}/topics/{id}` and its neighbours.

Resource ids follow Pub/Sub's rule to the letter. Project ids are ours to be lenient about: programs
written against an emulator call their project anything, so anything printable without a slash goes.

A topic pattern stands where a topic name does, with `*` or `#` in its id, which no topic's id has.
Matching is in `fanlog.routing.pattern`; here is how patterns are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from fanlog import limits
from fanlog.errors import InvalidArgument, PermissionDenied

#: The collection a resource lives in, as it is spelled in its name.
Collection = Literal["topics", "subscriptions", "snapshots", "schemas"]

#: The project of topics and subscriptions that the service uses itself: jobs, outcomes.
SYSTEM_PROJECT = "fanlog-system"
_SYSTEM = f"projects/{SYSTEM_PROJECT}"

#: The id of a subscription's own dead letter topic is the subscription's id and this.
DEAD_LETTER_SUFFIX = ".dead-letters"

_ID_RULE = (
    f"an id has {limits.NAME_LENGTH_MIN} to {limits.NAME_LENGTH_MAX} characters of "
    "letters, digits and -_.~+%, begins with a letter and not with 'goog'"
)
_ID = re.compile(
    r"(?!goog)[A-Za-z][A-Za-z0-9\-_.~+%]"
    rf"{{{limits.NAME_LENGTH_MIN - 1},{limits.NAME_LENGTH_MAX - 1}}}"
)
#: The rule of wildcards, for refusals.
_PATTERN_RULE = (
    "'*' is one whole segment, or any run of characters within one; "
    "'#' alone between dots is any number of segments"
)
_NOT_IN_PATTERNS = re.compile(r"[^A-Za-z0-9\-_.~+%*#]")
#: Topics that a hint names one by one.
_HINTED_TOPICS = 3
#: Longest value an error sentence repeats; a sentence travels in gRPC trailers, which are small.
_SHOWN_MAX = 120


#: An id, or a number: ids have eight digits, and a number has fewer.
_REVISION = re.compile(r"[0-9a-f]{8}|[1-9][0-9]{0,6}", re.ASCII)
#: Such as `europe-west1`, or an operator's own name of a place.
_REGION = re.compile(r"[A-Za-z0-9][A-Za-z0-9\-_.]{0,62}", re.ASCII)


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


def schema_name(project: str, schema: str) -> str:
    return f"projects/{project}/schemas/{schema}"


def job_name(project: str, job: str) -> str:
    return f"projects/{project}/jobs/{job}"


def schedule_name(project: str, schedule: str) -> str:
    return f"projects/{project}/schedules/{schedule}"


def alert_name(project: str, alert: str) -> str:
    return f"projects/{project}/alerts/{alert}"


def project_name(project: str) -> str:
    return f"projects/{project}"


def refuse_system(name: str, *, field: str = "topic") -> None:
    """Refuse to change anything in the service's own project.

    Raises:
        PermissionDenied: The name is of the system project.
    """
    if name.startswith(_SYSTEM) and (len(name) == len(_SYSTEM) or name[len(_SYSTEM)] == "/"):
        raise PermissionDenied(
            f"{field}: {shown(name)} is in the project {SYSTEM_PROJECT!r}, which is the service's "
            "own; it can be read and not be changed"
        )


def parse_topic(name: str, *, field: str = "topic") -> ResourceName:
    """Parse a full topic name.

    Raises:
        InvalidArgument: Names the `field` that holds it, its value and the form of a name.
    """
    return _parse(name, "topics", field)


def is_pattern(topic: str) -> bool:
    """Whether a topic name, or an id alone, is a pattern. Says nothing about its being valid."""
    topic_id = topic.rpartition("/")[2]  # A project's id may have any character but a slash.
    return "*" in topic_id or "#" in topic_id


def parse_topic_or_pattern(name: str, *, field: str = "topic") -> ResourceName:
    """Parse a full topic name whose id may be a pattern.

    Raises:
        InvalidArgument: As `parse_topic` does; of a pattern it names the problem and its place.
    """
    return _parse(name, "topics", field, may_be_pattern=True)


def undotted_hint(pattern: str, topic_ids: Iterable[str]) -> str | None:
    """Hint at a pattern like `Order.*` where all there is are topics like `OrderPlaced`.

    Args:
        pattern: A valid pattern's id.
        topic_ids: The ids of the project's topics.

    Returns:
        A sentence, or None: the pattern is not of that kind, or it matches, or nothing is near.
    """
    stem, dot, wildcard = pattern.rpartition(".")
    if not dot or wildcard not in ("*", "#") or is_pattern(stem):
        return None
    near = []
    for topic_id in topic_ids:
        if not topic_id.startswith(stem):
            continue
        rest = topic_id[len(stem) :]
        if rest.startswith(".") or (not rest and wildcard == "#"):
            return None
        if rest and "." not in rest:
            near.append(topic_id)
    if not near:
        return None
    near.sort()
    named = ", ".join(map(shown, near[:_HINTED_TOPICS]))
    more = f" and {len(near) - _HINTED_TOPICS:,} more" if len(near) > _HINTED_TOPICS else ""
    return (
        f"{shown(pattern)} matches no topic yet: its last dot begins a segment; "
        f"{shown(stem + '*')} would match {named}{more}"
    )


def parse_subscription(name: str, *, field: str = "subscription") -> ResourceName:
    """Parse a full subscription name; raises as `parse_topic` does."""
    return _parse(name, "subscriptions", field)


def parse_snapshot(name: str, *, field: str = "snapshot") -> ResourceName:
    """Parse a full snapshot name; raises as `parse_topic` does."""
    return _parse(name, "snapshots", field)


def parse_resource(name: str, *, field: str = "resource") -> ResourceName:
    """Parse the full name of anything that has one; raises as `parse_topic` does."""
    parts = name.split("/", 4)
    known: tuple[Collection, ...] = get_args(Collection)
    for collection in known:
        if len(parts) == 4 and parts[2] == collection:
            return _parse(name, collection, field)
    raise InvalidArgument(
        f"{field}: {shown(name)} is not of the form 'projects/{{project}}/{{collection}}/{{id}}', "
        f"where the collection is one of {', '.join(known)}"
    )


def parse_schema(name: str, *, field: str = "schema") -> ResourceName:
    """Parse a full schema name; raises as `parse_topic` does."""
    return _parse(name, "schemas", field)


def parse_job(name: str, *, field: str = "name") -> str:
    """Check the full name of a job; raises as `parse_topic` does."""
    _parts(name, "jobs", field, may_be_pattern=False)
    return name


def parse_schedule(name: str, *, field: str = "name") -> str:
    """Check the full name of a schedule; raises as `parse_topic` does."""
    _parts(name, "schedules", field, may_be_pattern=False)
    return name


def parse_alert(name: str, *, field: str = "name") -> str:
    """Check the full name of an alert; raises as `parse_topic` does."""
    _parts(name, "alerts", field, may_be_pattern=False)
    return name


def parse_schema_revision(name: str, *, field: str = "name") -> tuple[str, str]:
    """Parse a schema name that may end in `@` and a revision, by id or number; empty for none.

    Raises:
        InvalidArgument: Not a schema name, or not a revision id.
    """
    schema, at, revision = name.partition("@")
    if at:
        check_revision_id(revision, field=field)
    return str(parse_schema(schema, field=field)), revision


def check_revision_id(revision: str, *, field: str) -> None:
    """Raises InvalidArgument."""
    if not _REVISION.fullmatch(revision):
        raise InvalidArgument(
            f"{field}: {shown(revision)} is not a revision; one is named by its id, eight digits "
            "of 0 to 9 and a to f, or by its number"
        )


def check_region(region: str, *, field: str) -> None:
    """Raises InvalidArgument."""
    if not _REGION.fullmatch(region):
        raise InvalidArgument(
            f"{field}: {shown(region)} is not the name of a region; one has 1 to 63 letters, "
            "digits and -_., a letter or digit first"
        )


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


# Every call names something, and mostly the same things.
@lru_cache(maxsize=4096)
def _parse(
    name: str, collection: Collection, field: str, *, may_be_pattern: bool = False
) -> ResourceName:
    project, resource_id = _parts(name, collection, field, may_be_pattern)
    return ResourceName(project, collection, resource_id)


def _parts(name: str, collection: str, field: str, may_be_pattern: bool) -> tuple[str, str]:
    """Project and id of a name."""
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
    if may_be_pattern and is_pattern(resource_id):
        if wrong := _wrong_with_pattern(resource_id):
            raise InvalidArgument(f"{field}: the pattern {shown(resource_id)} {wrong}")
    elif not _ID.fullmatch(resource_id):
        raise InvalidArgument(
            f"{field}: {shown(name)} ends in the id {shown(resource_id)}; {_ID_RULE}"
        )
    return project, resource_id


def _wrong_with_pattern(pattern: str) -> str | None:
    """Say why an id with a wildcard is no pattern; positions count from 1."""
    if len(pattern) > limits.PATTERN_LENGTH_MAX:
        return f"is longer than {limits.PATTERN_LENGTH_MAX} characters"
    if strange := _NOT_IN_PATTERNS.search(pattern):
        return (
            f"has {strange[0]!r} at position {strange.start() + 1}; a pattern has letters, digits, "
            "-_.~+% and the wildcards * and #"
        )
    if pattern.startswith("goog"):
        return "begins with 'goog', as no topic's id does"
    position = 1
    for number, segment in enumerate(pattern.split("."), start=1):
        if wrong := _wrong_with_segment(segment):
            return f"has {wrong} segment {number}, at position {position}; {_PATTERN_RULE}"
        position += len(segment) + 1
    if not pattern[0].isalpha() and pattern[0] not in "*#":
        return f"begins with {pattern[0]!r}; a topic's id begins with a letter"
    return None


def _wrong_with_segment(segment: str) -> str | None:
    if not segment:
        return "an empty"
    if "#" in segment and segment != "#":
        return f"{shown(segment)}, where '#' is not alone, as its"
    if "**" in segment:
        return f"{shown(segment)}, where two '*' meet, as its"
    return None


def _is_project(project: str) -> bool:
    return (
        0 < len(project) <= limits.PROJECT_LENGTH_MAX
        and project.isprintable()
        and "/" not in project
    )
