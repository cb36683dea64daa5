"""Ports between the parts of delivery: a feed asks for these, and knows no more of the others."""

from __future__ import annotations

import asyncio
from typing import Protocol

from fanlog.broker.delivery.delivery import Delivery
from fanlog.core.share import Decision, Share
from fanlog.model.resources import Offset


class Decide(Protocol):
    """Carries out the decision of a share; see `fanlog.broker.delivery.decisions`."""

    def __call__(
        self, share: Share, decision: Decision, *, can_wait: bool = False, wakes: bool = True
    ) -> asyncio.Future[None] | None:
        """Returns the future of the commit, if there is anything to commit."""


class Judge(Protocol):
    """Has the filter of a share judge some more of its log."""

    async def __call__(self, share: Share, end: Offset) -> int:
        """Judge a stretch before `end`; return how many messages of it are wanted.

        Nothing is judged when the share changes meanwhile; then ask again.
        """


class Revise(Protocol):
    """Gives messages in the revision of their schema that the subscription asks for."""

    async def __call__(self, deliveries: list[Delivery], max_bytes: int) -> list[Delivery]:
        """The deliveries as they leave; messages that cannot leave, or not yet, are given back."""
