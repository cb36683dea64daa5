"""Rates: how much a project and a principal may do a second; their connections and streams.

Each rate is a bucket of tokens that fills at its pace and holds two seconds' worth. A request takes
from all buckets that it touches, or from none. One that needs more than a bucket holds is let in
when the bucket is full, and leaves it in debt: it is never refused for ever.

An operator sets rates by name in one setting, such as `rates = "project.messages=10000"`. Without
any there is no limit, and no cost.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from fanlog.errors import RateExceeded
from fanlog.model.token_bucket import TokenBucket

_OWNERS: Final = ("project", "principal")
_RATES: Final = ("requests", "messages", "bytes")
_COUNTS: Final = ("connections", "streams")
NAMES: Final = tuple(f"{owner}.{what}" for owner in _OWNERS for what in (*_RATES, *_COUNTS))
#: How many seconds' worth a bucket holds.
BURST_S: Final = 2.0
#: Owners that are remembered; one that is forgotten begins with full buckets.
_OWNERS_MAX: Final = 10_000
#: When a stream or a connection that was one too many may be tried again.
_COUNT_RETRY_S: Final = 5.0

#: A project or a principal: which of the two, and its name.
Owner = tuple[str, str]


def owners_of(project: str, member: str) -> list[Owner]:
    """Those that a call counts for; methods of the server have no project."""
    return [one for one in (("project", project), ("principal", member)) if one[1]]


@dataclass(frozen=True, slots=True)
class Rates:
    """The limits that are set, by name."""

    limits: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.limits)


#: Of a server that was told of none.
NONE: Final = Rates()


def parse_rates(text: str) -> Rates:
    """Read rates as the setting has them: `NAME=NUMBER`, with blanks or commas between.

    Raises:
        ValueError: An unknown name, or not a whole number of at least 1.
    """
    found: dict[str, int] = {}
    for part in text.replace(",", " ").split():
        name, _, number = part.partition("=")
        if name not in NAMES:
            raise ValueError(f"has no rate {name!r}; there are {', '.join(NAMES)}")
        if not (number.isascii() and number.isdigit()) or len(number) > 15 or not int(number):
            raise ValueError(f"must give {name} a whole number, 1 or more")
        found[name] = int(number)
    return Rates(found)


class Allowance:
    """How much of each rate is left. Time is an argument."""

    def __init__(self, rates: Rates) -> None:
        self._limits = rates.limits
        #: By rate and owner. The one used last is last.
        self._buckets: OrderedDict[tuple[str, str], TokenBucket] = OrderedDict()
        #: Open connections and streams, by owner.
        self._held: dict[str, Counter[Owner]] = {what: Counter() for what in _COUNTS}
        #: By the name of the rate: how much was let in, and requests that were refused.
        self.taken: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()

    @property
    def limits(self) -> Mapping[str, int]:
        return self._limits

    def bounds(self, what: str) -> bool:
        """Whether there is a limit of `connections` or `streams`."""
        return any(f"{owner}.{what}" in self._limits for owner in _OWNERS)

    def take(
        self,
        now_s: float,
        project: str,
        member: str,
        *,
        requests: int = 0,
        messages: int = 0,
        size_bytes: int = 0,
    ) -> None:
        """Take from all buckets, or from none.

        Raises:
            RateExceeded: Names the rate, and says when to try again.
        """
        amounts = {"requests": requests, "messages": messages, "bytes": size_bytes}
        taken: list[tuple[tuple[str, str], TokenBucket, int]] = []
        for owner, name in owners_of(project, member):
            for what, amount in amounts.items():
                rate = f"{owner}.{what}"
                limit = self._limits.get(rate)
                if not amount or limit is None:
                    continue
                bucket = self._buckets.get((rate, name))
                if bucket is None:
                    bucket = TokenBucket(limit, max(1.0, limit * BURST_S), now_s)
                wait_s = bucket.wait_s(now_s, min(float(amount), bucket.holds))
                if wait_s > 0.0:
                    self.refusals[rate] += 1
                    raise RateExceeded(
                        f"{owner} {name!r} has used up its {what}: {rate}={limit} a second", wait_s
                    )
                taken.append(((rate, name), bucket, amount))
        for key, bucket, amount in taken:
            self.taken[key[0]] += amount
            bucket.take(now_s, amount)
            self._buckets[key] = bucket
            self._buckets.move_to_end(key)
        while len(self._buckets) > _OWNERS_MAX:
            self._buckets.popitem(last=False)

    def enter(self, what: str, owners: Collection[Owner]) -> None:
        """Count one of `connections` or `streams` for all of some owners, or for none.

        Raises:
            RateExceeded: One of them has as many as it may have.
        """
        held = self._held[what]
        for owner, name in owners:
            rate = f"{owner}.{what}"
            limit = self._limits.get(rate)
            if limit is not None and held[owner, name] >= limit:
                self.refusals[rate] += 1
                raise RateExceeded(
                    f"{owner} {name!r} has as many {what} as it may have: {rate}={limit}",
                    _COUNT_RETRY_S,
                )
        held.update(owners)
        self.taken.update(f"{owner}.{what}" for owner, _ in owners)

    def leave(self, what: str, owners: Collection[Owner]) -> None:
        held = self._held[what]
        for owner in owners:
            if held[owner] <= 1:
                del held[owner]
            else:
                held[owner] -= 1
