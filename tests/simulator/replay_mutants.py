"""Planted bugs of delivering again; see `mutants`."""

from __future__ import annotations

import asyncio
from typing import Any

from pyroaring import BitMap64

from fanlog.broker.delivery import feed
from fanlog.broker.verbs.dead_letters import DeadLetters
from fanlog.core.addressing import NOTHING_ADDRESSED, AddressTable
from fanlog.core.share import Share
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.unordered import UnorderedBacklog
from simulator.planting import mutant


@mutant("the backlog does not go back", 50, (OrderedBacklog, "reopen"), needs="reopens")
def _(_: Any) -> Any:
    return lambda self, opened, busy, delayed, *, is_filtered: None


@mutant(
    "what is reopened and held is met twice",
    100,
    (UnorderedBacklog, "_go_back"),
    # Only what a filter judges again goes back, and only answers on their way hold some of it.
    needs="reopens filters admins streams is_laggy",
)
def _(go_back: Any) -> Any:
    return lambda self, opened, busy, delayed: go_back(self, opened, BitMap64(), BitMap64())


@mutant(
    "a reopened one passes what is outstanding", 200, (OrderedBacklog, "_is_next"), needs="reopens"
)
def _(is_next: Any) -> Any:
    def passed(self: OrderedBacklog, key: Any, consumer: Any, offset: int) -> bool:
        # As if what is outstanding were all before it.
        outstanding, key.outstanding = key.outstanding, type(key.outstanding)()
        try:
            return bool(is_next(self, key, consumer, offset))
        finally:
            key.outstanding = outstanding

    return passed


@mutant("reopening does not ask the filter", 50, (Share, "reopen"), needs="reopens")
def _(reopen: Any) -> Any:
    def unasked(self: Share, now: float, offsets: Any, **more: Any) -> Any:
        return reopen(self, now, offsets, **more | {"is_wanted": True})

    return unasked


@mutant("a letter and its original are two commits", 50, (DeadLetters, "_reopen"), needs="reopens")
def _(_: Any) -> Any:
    def torn(self: DeadLetters, subscription: Any, originals: Any, letters: Any) -> Any:
        transaction = self._ledger.begin()
        self._acknowledge(transaction, subscription, letters)
        first = transaction.commit()

        async def then() -> None:
            await first
            # A crash rarely falls between two commits that follow each other at once.
            await asyncio.sleep(1.0)
            later = self._ledger.begin()
            for share, offsets in originals.items():
                decision = share.reopen(
                    self._clock.now(), offsets, generation=self._generations.next(), is_wanted=True
                )
                later.apply(decision.records)
                self._decisions.follow(share, decision)
            await later.commit()

        return asyncio.ensure_future(then())

    return torn


@mutant(
    "a redriven copy is delivered to all",
    50,
    (AddressTable, "view"),
    (feed, "_check_address"),
    needs="reopens dead_letters",
    first=650,
)
def _(known: Any) -> Any:
    if known is AddressTable.__dict__["view"]:
        return lambda self, subscription, partition: NOTHING_ADDRESSED
    return lambda share, batch: None
