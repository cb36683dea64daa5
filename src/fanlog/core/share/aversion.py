"""Aversions: a message that a client nacked goes to other clients first. Soft state.

A client that ends nacks the messages it holds and closes its streams right after that. If they came
back to it in between, they would be leased to a closed stream for a whole ack deadline. So they go
to other consumers at once and to the same client only after `limits.AVERSION_S`: by then its
streams are closed, or it goes on. A client is known by the id that its streams share (Go opens ten
of them); a stream without one is a client of its own. Pulls and push have no aversions: a pull is
over when it nacks, and push has a schedule.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.flow import Credit
from fanlog.core.share.lease import Matched

_NONE = BitMap64()


class Aversions:
    """The aversions on one share."""

    __slots__ = ("_by_client", "_until")

    def __init__(self) -> None:
        self._by_client: dict[object, BitMap64] = {}
        #: In the order in which they end: all of them last equally long.
        self._until: deque[tuple[float, object, BitMap64]] = deque()

    def add(self, now: float, nacked: Sequence[Matched]) -> None:
        """Make clients averse to messages of their leases that they nacked just now."""
        for lease, offsets in nacked:
            client = None if lease.credit is None else lease.credit.client
            if client is not None:
                self._until.append((now + limits.AVERSION_S, client, offsets))
                self._by_client[client] = self.of(lease.credit) | offsets

    def of(self, consumer: Credit | None) -> BitMap64:
        """The offsets that this consumer does not get now. Not to be changed in place."""
        if consumer is None or not self._by_client:
            return _NONE
        return self._by_client.get(consumer.client, _NONE)

    def expire(self, now: float) -> None:
        """Forget aversions that are over."""
        while self._until and self._until[0][0] <= now:
            _, client, offsets = self._until.popleft()
            # No offset is in two of a client: it was not leased to it meanwhile.
            self._by_client[client] = self._by_client[client] - offsets
            if not self._by_client[client]:
                del self._by_client[client]

    def next_deadline(self) -> float | None:
        return self._until[0][0] if self._until else None
