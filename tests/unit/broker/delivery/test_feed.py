"""A feed that is closed has nobody waiting."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from fanlog.broker.delivery.feed import Feed
from fanlog.broker.tenure import Always
from fanlog.errors import SubscriptionNotFound


def feed() -> Feed:
    """One without shares; nothing of its surroundings is asked."""
    nothing = cast(Any, None)
    return Feed(
        [],
        nothing,
        judge=nothing,
        end=nothing,
        now=nothing,
        wall_ns=lambda: 0,
        check_dues=lambda _: None,
        next_generation=nothing,
        decide=nothing,
        on_damage=nothing,
        revise=nothing,
        tenure=Always(),
    )


def test_who_was_busy_when_it_was_closed_is_told_when_it_comes_back():
    async def waited() -> None:
        one = feed()
        one.close(SubscriptionNotFound("gone"))
        async with asyncio.timeout(5):
            await one.wait(one.version)

    with pytest.raises(SubscriptionNotFound, match="gone"):
        asyncio.run(waited())
