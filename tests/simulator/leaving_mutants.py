"""Planted bugs of streams that nack and of streams that leave; see `mutants`."""

from __future__ import annotations

import asyncio
from typing import Any

from fanlog.core.flow import Credit
from fanlog.core.share import Decision, Share
from fanlog.core.share.aversion import Aversions
from fanlog.server.streaming_pull import _Stream
from simulator.planting import mutant


@mutant("nacked messages go back to the stream at once", 60, (Aversions, "add"), needs="streams")
def _(_: Any) -> Any:
    return lambda self, now, nacked: None


@mutant("an aversion ends with the next event", 60, (Aversions, "expire"), needs="streams")
def _(expire: Any) -> Any:
    return lambda self, now: expire(self, now + 3_600.0)


@mutant("a half-closed stream still gets messages", 60, (_Stream, "_half_close"), needs="streams")
def _(half_close: Any) -> Any:
    def late(self: _Stream) -> None:
        asyncio.get_running_loop().call_later(1.0, half_close, self)

    return late


@mutant("what is given back is lost", 60, (Share, "give_back"), needs="streams")
def _(_: Any) -> Any:
    def lost(self: Share, now: float, consumer: Credit, written: int) -> Decision:
        for lease in self._soft.leases.of(consumer, after=written):
            self._soft.leases.settle(lease, lease.open)
        return self._soft.finish(Decision())

    return lost
