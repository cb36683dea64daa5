"""A subscription with a callback in this program, as `subscribe` returns it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fanlog.in_process.consumer import EXTEND_S, CallbackConsumer
from fanlog.in_process.workers import Runner


class CallbackSubscription:
    """A callback, until it is stopped, alone or with its broker. Safe to use from any thread."""

    def __init__(
        self,
        full_name: str,
        consumer: CallbackConsumer,
        runner: Runner,
        end: Callable[[CallbackSubscription, float], bool],
        *,
        is_temporary: bool,
    ) -> None:
        #: The name of the subscription: `projects/…/subscriptions/…`.
        self.full_name = full_name
        #: Whether the subscription ends with the callback.
        self.is_temporary = is_temporary
        self._consumer = consumer
        self._runner = runner
        self._end = end
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<CallbackSubscription {self.full_name!r}>"

    @property
    def name(self) -> str:
        """The subscription's id."""
        return self.full_name.rpartition("/")[2]

    @property
    def is_active(self) -> bool:
        """Whether it gets messages: not when it was stopped, nor when the subscription is gone."""
        return not self._consumer.has_ended

    def stop(self, timeout: float = 30.0) -> bool:
        """Take no more messages, and wait for callbacks; whether all of them ended in time.

        The subscription stays, with its backlog, if it has a name. From a callback it waits for
        none.
        """
        return self._end(self, timeout)

    # For the modules beside this one.

    @property
    def consumer(self) -> CallbackConsumer:
        return self._consumer

    def wait(self, timeout_s: float) -> int:
        """Wait for callbacks; how many run after so long."""
        return self._runner.wait(timeout_s)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin to take messages; on the loop."""
        self._consumer.start(self._runner)
        self._extend_later(loop)

    async def finish(self) -> None:
        """Settle what is left; on the loop."""
        if self._timer is not None:
            self._timer.cancel()
        await self._consumer.finish()

    def _extend_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(EXTEND_S, self._extend, loop)

    def _extend(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.is_active:
            self._consumer.extend()
            self._extend_later(loop)
