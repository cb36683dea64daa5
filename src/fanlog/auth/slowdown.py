"""How long a failed authentication waits for its answer: the more failures of an address, the
longer.

Only failures wait: a caller behind the same address that shows a good credential goes on at once.
The failures of an address are forgotten at a steady pace. The table is bounded, the oldest address
is forgotten first.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final

#: Failures that cost no time, and how many are forgotten a second.
FREE: Final = 5
_FORGOTTEN_A_SECOND: Final = FREE / 60
STEP_S: Final = 0.1
DELAY_S_MAX: Final = 2.0
ADDRESSES_MAX: Final = 10_000


class Slowdown:
    """Failures by address. Time is an argument."""

    __slots__ = ("_failures",)

    def __init__(self) -> None:
        #: How many failures are remembered, and as of when; the address that failed last is last.
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def fail(self, address: str, now_s: float) -> float:
        """Count a failure; the seconds that its answer waits."""
        key = _network(address)
        count, since_s = self._failures.pop(key, (0.0, now_s))
        count = max(0.0, count - (now_s - since_s) * _FORGOTTEN_A_SECOND) + 1
        self._failures[key] = (count, now_s)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)
        return min(DELAY_S_MAX, max(0.0, count - FREE) * STEP_S)


def _network(address: str) -> str:
    """One caller has many addresses of IPv6: its network counts.

    On a port for both kinds, addresses of IPv4 are shown as ones of IPv6, all of one network.
    """
    if ":" not in address:
        return address
    try:
        found = ipaddress.IPv6Address(address.strip("[]").partition("%")[0])
    except ValueError:
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
