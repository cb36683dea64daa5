"""The herald of a node: tells the owner of this node, and asks other nodes who owns."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Protocol

from fanlog.cluster.announcements import Announcement, KnownOwner
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.ownership import OwnerSession
from fanlog.errors import FailedPrecondition, FanlogError

log = logging.getLogger("fanlog.cluster")


class Peers(Protocol):
    """The ways to other nodes."""

    async def announce(self, to: NodeCard, said: Announcement) -> KnownOwner:
        """Raises:
        FailedPrecondition: The owner does not take this node.
        FanlogError: It was not heard.
        """

    async def ask_owner(self, of: NodeCard) -> KnownOwner:
        """Which owner another node knows; raises as `announce`."""


class Herald:
    """Lives on the loop; says one thing at a time. `await stop()` it."""

    def __init__(
        self,
        session: OwnerSession,
        peers: Peers,
        *,
        learn: Callable[[KnownOwner], None],
        boottime_s: Callable[[], float],
    ) -> None:
        """`learn` is told of the owners that other nodes know."""
        self._session = session
        self._peers = peers
        self._learn = learn
        self._boottime_s = boottime_s
        self._spoke_s = -math.inf
        self._task: asyncio.Task[None] | None = None
        #: Why the owner does not take this node; empty when it does.
        self.trouble = ""
        #: What an owner said of itself when it was last told of this node, by its name; None if it
        #: did not answer. Only the last one is kept.
        self._answers: dict[str, KnownOwner | None] = {}

    def announce(self, to: NodeCard, said: Announcement) -> None:
        """Tell the owner of this node, if it is time to."""
        self._speak(lambda: self._announce(to, said))

    def ask(self, cards: Iterable[NodeCard]) -> None:
        """Ask other nodes who owns, if it is time to."""
        asked = list(cards)
        self._speak(lambda: self._ask(asked))

    def forget(self) -> None:
        """Speak at once when there is something to say: there is another owner."""
        self._spoke_s = -math.inf
        self._answers = {}

    def obstacle_at(self, owner: NodeCard) -> str:
        """Why an owner does not answer calls, as far as it was asked; empty when it does."""
        if owner.name not in self._answers:
            return ""
        answer = self._answers[owner.name]
        if answer is None:
            return f"node {owner.name}, which owns the log, does not answer this node: calls wait"
        if not answer.is_sure and answer.card == owner:
            return f"node {owner.name} owns the log and cannot reach it just now: calls wait"
        return ""

    async def take_leave(self, of: NodeCard, said: Announcement) -> None:
        """Tell the owner that this node ends, so that it is not named to own next."""
        await self.stop()
        with suppress(FanlogError, TimeoutError):
            async with asyncio.timeout(self._session.renew_s):
                await self._peers.announce(of, said)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _speak(self, say: Callable[[], Coroutine[None, None, None]]) -> None:
        now = self._boottime_s()
        is_busy = self._task is not None and not self._task.done()
        if not is_busy and now - self._spoke_s >= self._session.renew_s:
            self._spoke_s = now
            self._task = asyncio.create_task(say())

    async def _announce(self, to: NodeCard, said: Announcement) -> None:
        try:
            async with asyncio.timeout(self._session.length_s):
                answer = await self._peers.announce(to, said)
            self._answers = {to.name: answer}
            self._learn(answer)
        except FailedPrecondition as error:
            self.trouble = error.message
            self._answers = {}
        except (FanlogError, TimeoutError) as error:
            # The owner may be gone: its silence in the log says so.
            self._answers = {to.name: None}
            log.info("action=not_announced to=%s reason=%s", to.name, str(error) or "no answer")
        else:
            self.trouble = ""

    async def _ask(self, cards: list[NodeCard]) -> None:
        for card in cards:
            with suppress(FanlogError, TimeoutError):
                async with asyncio.timeout(self._session.renew_s):
                    self._learn(await self._peers.ask_owner(card))
