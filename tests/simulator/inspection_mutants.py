"""Planted bugs of those who look at messages, and of those who purge them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.verbs.peeks import Peeks
from fanlog.broker.verbs.traces import ACKNOWLEDGED, SubscriptionTrace, Traces
from fanlog.core.share import Decision, Share
from simulator.planting import mutant


@mutant(
    "a peek tells the share what the filter said",
    20,
    (Filtering, "preview"),
    needs="inspectors filters",
)
def _(preview: Any) -> Any:
    async def told(self: Filtering, share: Share, offset: int, end: int) -> Any:
        stop, wanted = await preview(self, share, offset, end)
        if share.routed_to == offset:
            share.route(stop, wanted)
        return stop, wanted

    return told


@mutant("a peek leaves out what is outstanding", 20, (Peeks, "_stretch"), needs="inspectors")
def _(stretch: Any) -> Any:
    async def free_alone(self: Peeks, share: Share, *rest: Any) -> Any:
        stop, offsets = await stretch(self, share, *rest)
        return stop, offsets - share.leased

    return free_alone


@mutant("a purge leaves what is outstanding", 20, (Share, "purge"), needs="inspectors")
def _(_: Any) -> Any:
    def purge(self: Share, end: int) -> Decision:
        return self.discard(self.cursor.open_offsets(end) & BitMap64(range(end)))

    return purge


@mutant("a trace takes a lease for an acknowledgement", 30, (Traces, "_on"), needs="inspectors")
def _(on: Any) -> Any:
    async def forgetful(self: Traces, *args: Any) -> SubscriptionTrace:
        found: SubscriptionTrace = await on(self, *args)
        return replace(found, state=ACKNOWLEDGED) if found.state == "OUTSTANDING" else found

    return forgetful
