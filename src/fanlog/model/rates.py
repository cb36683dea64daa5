"""Rates: how much a project, and a principal, may do a second; and how many streams it may have.

Each rate is a bucket of tokens that fills at its pace and holds two seconds' worth. A request takes
from all buckets that it touches, or from none. One that needs more than a bucket holds is let in
when the bucket is full, and leaves it in debt: it is never refused for ever.

An operator sets rates by name in one setting, such as `rates = "project.messages=10000"`. Without
any there is no limit, and no cost.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fanlog.errors import RateExceeded

_OWNERS: Final = ("project", "principal")
_RATES: Final = ("requests", "messages", "bytes")
_COUNTS: Final = ("streams",)
NAMES: Final = tuple(f"{owner}.{what}" for owner in _OWNERS for what in (*_RATES, *_COUNTS))
#: How many seconds' worth a bucket holds.
BURST_S: Final = 2.0
#: Owners that are remembered; one that is forgotten begins with full buckets.
_OWNERS_MAX: Final = 10_000
#: When a stream that was one too many may be tried again.
_STREAM_RETRY_S: Final = 5.0


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
        #: By rate and owner: tokens, and as of when. The one used last is last.
        self._buckets: OrderedDict[tuple[str, str], tuple[float, float]] = OrderedDict()
        self._streams: Counter[tuple[str, str]] = Counter()
        #: Refusals by the name of the rate.
        self.refusals: Counter[str] = Counter()

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
        taken: list[tuple[tuple[str, str], float]] = []
        for owner, name in (("project", project), ("principal", member)):
            if not name:
                continue
            for what, amount in amounts.items():
                rate = f"{owner}.{what}"
                limit = self._limits.get(rate)
                if not amount or limit is None:
                    continue
                left = self._left(rate, name, limit, now_s)
                holds = max(1.0, limit * BURST_S)
                needed = min(float(amount), holds)
                if left < needed:
                    self.refusals[rate] += 1
                    raise RateExceeded(
                        f"{owner} {name!r} has used up its {what}: {rate}={limit} a second",
                        (needed - left) / limit,
                    )
                taken.append(((rate, name), left - amount))
        for key, left in taken:
            self._buckets[key] = (left, now_s)
            self._buckets.move_to_end(key)
        while len(self._buckets) > _OWNERS_MAX:
            self._buckets.popitem(last=False)

    def _left(self, rate: str, name: str, limit: int, now_s: float) -> float:
        holds = max(1.0, limit * BURST_S)
        left, since_s = self._buckets.get((rate, name), (math.inf, now_s))
        return min(holds, left + max(0.0, now_s - since_s) * limit)

    def enter_stream(self, project: str, member: str) -> None:
        """Count a stream; raises RateExceeded when there are too many."""
        keys = [key for key in (("project", project), ("principal", member)) if key[1]]
        for owner, name in keys:
            limit = self._limits.get(f"{owner}.streams")
            if limit is not None and self._streams[owner, name] >= limit:
                self.refusals[f"{owner}.streams"] += 1
                raise RateExceeded(
                    f"{owner} {name!r} has {limit} streams, as many as {owner}.streams allows",
                    _STREAM_RETRY_S,
                )
        self._streams.update(keys)

    def leave_stream(self, project: str, member: str) -> None:
        for key in (("project", project), ("principal", member)):
            if self._streams[key] <= 1:
                del self._streams[key]
            else:
                self._streams[key] -= 1
