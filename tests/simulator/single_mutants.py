"""Planted bugs of delivery at most once, and of the order of topics; see `mutants`."""

from __future__ import annotations

from typing import Any

from fanlog.broker.delivery.claims import Claims
from fanlog.broker.keying import Keying
from fanlog.core.share import Decision, Share
from simulator.planting import mutant


@mutant("what is sent is not claimed", 20, (Claims, "claim_deliveries"), needs="singles")
def _(_: Any) -> Any:
    async def unclaimed(self: Claims, subscription: Any, deliveries: Any) -> Any:
        return list(deliveries)

    return unclaimed


@mutant("what is claimed is sent before its commit", 100, (Claims, "claim"), needs="singles")
def _(_: Any) -> Any:
    async def hasty(self: Claims, subscription: Any, leased: Any) -> Any:
        now, lost = self._clock.now(), set()
        for partition, by_generation in leased.items():
            share = self._ledger.hard.share(subscription.id, partition)
            if share is not None:
                decision = share.claim(now, by_generation)
                self._decisions.decide(share, decision)
                lost |= {(partition, o) for _, o in (*decision.invalid, *decision.early)}
        return lost

    return hasty


@mutant("a claim is not written down", 20, (Share, "claim"), needs="singles")
def _(claim: Any) -> Any:
    def forgotten(self: Share, *args: Any) -> Decision:
        decision: Decision = claim(self, *args)
        decision.records = []
        return decision

    return forgotten


@mutant("the order of a topic is left to senders", 20, (Keying, "keyed"), needs="singles")
def _(_: Any) -> Any:
    return lambda self, topic, body: body
