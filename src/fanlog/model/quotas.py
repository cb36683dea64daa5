"""Quotas: the most resources of each kind that a project, a principal and all of them may have.

All resources are hard state and live in memory, so a caller that creates them could fill it. The
defaults leave room for tens of thousands of each; an operator sets others by name in one setting:
`quotas = "topics=50000 all-topics=200000"`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from fanlog.errors import ResourceExhausted

#: The prefix of the quotas that hold for all projects together.
_ALL: Final = "all-"
#: The prefix of those that hold for one principal in all projects.
_PRINCIPAL: Final = "principal-"
#: When what a quota leaves no room for may be tried again: somebody has to make room.
_RETRY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """The most of each kind. Each field has a twin for all projects together."""

    #: Topics of a project.
    topics: int = 20_000
    all_topics: int = 100_000
    #: Subscriptions of a project.
    subscriptions: int = 20_000
    all_subscriptions: int = 100_000
    #: Snapshots of a project. Google allows 5,000.
    snapshots: int = 10_000
    all_snapshots: int = 20_000
    #: Schemas of a project, as Google has it.
    schemas: int = 10_000
    all_schemas: int = 20_000
    #: Revisions of all schemas of a project.
    schema_revisions: int = 20_000
    all_schema_revisions: int = 50_000
    #: Bytes of the definitions of all revisions of a project: they are kept in memory.
    schema_bytes: int = 64 * 1024 * 1024
    all_schema_bytes: int = 256 * 1024 * 1024
    #: Bytes of the keys and values of all labels in a project. In memory they take five times that.
    label_bytes: int = 8 * 1024 * 1024
    all_label_bytes: int = 32 * 1024 * 1024
    #: Subscriptions of a project that are on a pattern.
    patterns: int = 10_000
    all_patterns: int = 50_000
    #: Different lengths of the literal parts of globs (`us-*`, `*-eu-*`) in the patterns of a
    #: project: a new topic is tried against each, 60 ms for this many.
    glob_shapes: int = 1_000
    all_glob_shapes: int = 10_000
    #: Schedules of a project.
    schedules: int = 10_000
    all_schedules: int = 20_000
    #: Bytes of the messages of all schedules of a project: they are kept in memory.
    schedule_bytes: int = 16 * 1024 * 1024
    all_schedule_bytes: int = 64 * 1024 * 1024
    #: Alerts of a project: the condition of each is looked at every few seconds.
    alerts: int = 10_000
    all_alerts: int = 20_000
    #: Jobs of a project that wait for a worker.
    waiting_jobs: int = 1_000
    all_waiting_jobs: int = 5_000
    #: Topics that one principal made and that are there, in all projects.
    principal_topics: int = 100_000
    #: Subscriptions that one principal made and that are there, in all projects.
    principal_subscriptions: int = 100_000

    def check(
        self, noun: str, project: str, usage: Usage, more: int = 1, maker: str | None = None
    ) -> None:
        """Refuse `more` of a kind in a project when that is more than a quota allows.

        `maker` is the principal that makes them; None where callers are not authenticated.

        Raises:
            ResourceExhausted: Names the quota, and how much of it is used.
        """
        if more <= 0:
            return
        words = noun.replace("_", " ")
        for what, quota, used in _touched(noun, project, usage, maker):
            most = getattr(self, NAMES[quota])
            if used + more > most:
                usage.refusals[quota] += 1
                raise ResourceExhausted(
                    f"{what} {used} {words}, and {more} more would pass the quota {quota}={most}; "
                    "delete what is not needed, or have the setting `quotas` raised",
                    _RETRY_S,
                )


#: Of a server that was told of none.
DEFAULTS: Final = Quotas()
#: The kinds of resources that are counted.
NOUNS: Final = tuple(
    field.name for field in fields(Quotas) if not field.name.startswith(("all_", "principal_"))
)
OF_PRINCIPALS: Final = tuple(
    field.name for field in fields(Quotas) if field.name.startswith("principal_")
)
#: Every quota by the name that the setting has for it.
NAMES: Final = {
    field.name.replace("_", "-"): field.name
    for field in sorted(fields(Quotas), key=lambda field: field.name)
}


#: In every principal, and in the id of no project.
_MEMBER_MARK = ":"


class Usage:
    """How much of each kind there is: in each project, of each principal, and in all."""

    __slots__ = ("_all", "_owners", "refusals")

    def __init__(self) -> None:
        self._all: dict[str, int] = {}
        #: By kind, and project or principal; no project has the colon that principals have.
        self._owners: dict[tuple[str, str], int] = {}
        #: How often each quota left no room.
        self.refusals: Counter[str] = Counter()

    def of(self, noun: str, owner: str) -> int:
        """How much a project has, or a principal has made."""
        return self._owners.get((noun, owner), 0)

    def in_all(self, noun: str) -> int:
        return self._all.get(noun, 0)

    def projects(self, *nouns: str) -> set[str]:
        """The projects that have some of any of these."""
        return {
            owner for noun, owner in self._owners if noun in nouns and _MEMBER_MARK not in owner
        }

    def change(
        self, project: str, counts: Mapping[str, int], sign: int, maker: str | None = None
    ) -> None:
        """Add the counts of a resource, or with `sign` -1 take them away."""
        for noun, count in counts.items():
            self._all[noun] = self._all.get(noun, 0) + sign * count
            self._change(noun, project, sign * count)
            if maker is not None:
                self._change(noun, maker, sign * count)

    def _change(self, noun: str, owner: str, count: int) -> None:
        key = (noun, owner)
        self._owners[key] = self._owners.get(key, 0) + count
        assert self._owners[key] >= 0, key
        if not self._owners[key]:
            del self._owners[key]


def _touched(
    noun: str, project: str, usage: Usage, maker: str | None
) -> Iterator[tuple[str, str, int]]:
    """Of each quota that a resource counts for: who has some, its name, how much is used."""
    name = noun.replace("_", "-")
    if maker is not None and _PRINCIPAL + name in NAMES:
        yield f"{maker} has made", _PRINCIPAL + name, usage.of(noun, maker)
    yield f"project {project!r} has", name, usage.of(noun, project)
    yield "all projects have", _ALL + name, usage.in_all(noun)


def parse_quotas(text: str) -> Quotas:
    """Read quotas as the setting has them: `NAME=NUMBER`, with blanks or commas between.

    Raises:
        ValueError: An unknown name, or not a whole number.
    """
    found: dict[str, int] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        if name not in NAMES:
            raise ValueError(f"has no quota {name!r}; there are {', '.join(NAMES)}")
        if not number.isdigit() or len(number) > 18:
            raise ValueError(f"must give {name} a whole number")
        found[NAMES[name]] = int(number)
    return Quotas(**found)
