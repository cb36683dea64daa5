"""Terms: what messages ask for besides being delivered. Pure values.

A publisher asks by attributes (`fanlog-delay`, `fanlog-priority` …). They are read once, at publish
(`fanlog.model.term_attributes`), and stored with the batch as *columns*: for each kind of term,
which messages have it, by their index, and its value, a number below 2**64. Few messages ask for
anything, so a column has entries only for those that do. A new kind is a new `TermKind`; nothing
else of the format changes. A message may have several entries of one kind, where its kind says so.

Times that count from the publish stay relative: whoever reads them has the batch's publish time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from hashlib import blake2b
from typing import NamedTuple


class TermKind(IntEnum):
    """The kinds of terms. Their numbers are in the log, so they never change."""

    #: Deliver so many milliseconds after the publish time.
    DELAY = 1
    #: Deliver at a time, in milliseconds since the epoch.
    DELIVER_AT = 2
    #: Not to be delivered so many milliseconds after it was deliverable first.
    TTL = 3
    #: 1 to 9; a message without one has 0.
    PRIORITY = 4
    #: Not to be delivered before another message is acknowledged; its message id, as a number.
    #: A message may have several.
    DEPENDS_ON = 5
    #: Whose message it is: a number of the tenant's name (`tenant_number`).
    TENANT = 6


#: Those that say when a message is due.
TIMED = (TermKind.DELAY, TermKind.DELIVER_AT)
PRIORITY_MAX = 9
#: Numbers below this are of no tenant.
TENANT_NUMBER_MIN = 1 << 16


def tenant_number(name: str) -> int:
    """The number of a tenant: two names have the same by chance, once in 2**64."""
    digest = blake2b(name.encode(), digest_size=8).digest()
    return max(int.from_bytes(digest, "little"), TENANT_NUMBER_MIN)


class TermColumn(NamedTuple):
    """The messages of a body that have one kind of term, in order, and its value for each."""

    indexes: array[int]
    values: array[int]


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of the messages of one body; at least one has some."""

    columns: Mapping[TermKind, TermColumn]

    @classmethod
    def of(cls, found: Iterable[tuple[int, TermKind, int]]) -> Terms | None:
        """The terms given as (index, kind, value), by ascending index; None when there are none."""
        columns: defaultdict[TermKind, TermColumn] = defaultdict(_empty)
        for index, kind, value in found:
            columns[kind].indexes.append(index)
            columns[kind].values.append(value)
        return cls(dict(sorted(columns.items()))) if columns else None

    def __iter__(self) -> Iterator[tuple[TermKind, int, int]]:
        """Every entry: kind, index, value."""
        for kind, column in self.columns.items():
            for index, value in zip(column.indexes, column.values, strict=True):
                yield kind, index, value

    @property
    def is_timed(self) -> bool:
        """Whether some message is not to be delivered at once."""
        return any(kind in self.columns for kind in TIMED)

    def column(self, kind: TermKind) -> TermColumn:
        return self.columns.get(kind) or _empty()

    def dues_ms(self, publish_time_ns: int) -> Iterator[tuple[int, int]]:
        """The index of each message that is to be delivered later, and when."""
        # Rounded up: never early.
        publish_ms = -(-publish_time_ns // 1_000_000)
        for kind, base in ((TermKind.DELAY, publish_ms), (TermKind.DELIVER_AT, 0)):
            column = self.columns.get(kind)
            if column is not None:
                for index, value in zip(column.indexes, column.values, strict=True):
                    yield index, base + value

    def part(self, first: int, end: int) -> Terms | None:
        """The terms of the messages from one index to before another, counted from the first."""
        found: dict[TermKind, TermColumn] = {}
        for kind, (indexes, values) in self.columns.items():
            low, high = bisect_left(indexes, first), bisect_left(indexes, end)
            if low < high:
                shifted = array("I", (index - first for index in indexes[low:high]))
                found[kind] = TermColumn(shifted, values[low:high])
        return Terms(found) if found else None

    def only(self, chosen: Sequence[int]) -> Terms | None:
        """The terms of some messages, which ascend; they get the indexes from 0 on."""
        places = {index: place for place, index in enumerate(chosen)}
        return Terms.of(
            sorted((places[index], kind, value) for kind, index, value in self if index in places)
        )


def joined(parts: Iterable[tuple[int, Terms | None]]) -> Terms | None:
    """The terms of bodies that follow each other, each given with its first message's index."""
    found: defaultdict[TermKind, TermColumn] = defaultdict(_empty)
    for first, terms in parts:
        if terms is not None:
            for kind, (indexes, values) in terms.columns.items():
                found[kind].indexes.extend(map(first.__add__, indexes))
                found[kind].values.extend(values)
    return Terms(dict(sorted(found.items()))) if found else None


def _empty() -> TermColumn:
    return TermColumn(array("I"), array("Q"))
