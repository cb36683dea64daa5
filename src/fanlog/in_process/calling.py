"""Calling: one callback for one message, and what its end means for the message.

It returns: acknowledged. It raises: nacked, with the text of the exception as the reason. With
`manual` a return says nothing, and the message is the program's until it settles it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from fanlog.core.redelivery import UNSENT, Nack
from fanlog.in_process.consumer import CallbackConsumer
from fanlog.in_process.message import Message, reason_of

log = logging.getLogger("fanlog.in_process")

Callback = Callable[[Message], Any]
Predicate = Callable[[Message], bool]

#: The broker whose callback is running here; None outside of callbacks.
current: ContextVar[object | None] = ContextVar("fanlog_callback_of", default=None)


class Calling:
    """Calls the callback of one subscription. Safe to use from many threads."""

    def __init__(
        self,
        consumer: CallbackConsumer,
        callback: Callback,
        predicate: Predicate | None,
        *,
        manual: bool,
        now: Callable[[], float],
    ) -> None:
        self._consumer = consumer
        self._callback = callback
        self._predicate = predicate
        self._manual = manual
        self._now = now

    def call(self, message: Message) -> None:
        """Call a callback that is a plain function."""
        try:
            if self._is_wanted(message):
                answer = self._callback(message)
                if answer is not None and inspect.isawaitable(answer):
                    _refuse_awaitable(answer)
                self._succeed(message)
        except BaseException as error:
            # Also SystemExit: it would end a thread that is not the program's.
            self._fail(message, error)
        finally:
            self._consumer.leave_gate(message)

    async def call_async(self, message: Message) -> None:
        """Call a callback that is a coroutine function, or returns something to await."""
        try:
            if self._is_wanted(message):
                answer: Awaitable[Any] = self._callback(message)
                await answer
                self._succeed(message)
        except BaseException as error:
            self._fail(message, error)
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._consumer.leave_gate(message)

    def _is_wanted(self, message: Message) -> bool:
        """Whether the callback is to be called; if not, the message is settled, or another's."""
        if message.is_settled or message.leased.deadline_s <= self._now():
            return False
        if self._predicate is None or self._predicate(message):
            return True
        self._consumer.filtered += 1
        self._consumer.settle(message, None)
        return False

    def _succeed(self, message: Message) -> None:
        if not self._manual and not message.is_settled:
            self._consumer.settle(message, None)

    def _fail(self, message: Message, error: BaseException) -> None:
        reason = reason_of(error)
        if isinstance(error, asyncio.CancelledError):
            # By a stop, mostly: the message has not failed.
            nack = UNSENT
        else:
            nack = Nack(reason=reason)
            log.warning(
                "action=callback_failed subscription=%s message=%s reason=%s",
                *(self._consumer.subscription.name, message.id, reason),
            )
            log.debug("action=callback_failed message=%s", message.id, exc_info=error)
        if not message.is_settled:
            self._consumer.settle(message, nack)


def _refuse_awaitable(answer: object) -> None:
    """Raises TypeError: Nothing of it has been done yet, and nobody would wait for it."""
    if inspect.iscoroutine(answer):
        answer.close()
    raise TypeError("the callback returned something to await; make it a coroutine function")
