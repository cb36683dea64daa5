"""Tenure: whether a broker is sure to be the only one that answers for its log, just now."""

from __future__ import annotations

from typing import Protocol

from fanlog.broker.events import Event


class Tenure(Protocol):
    """Whether this broker still is the only one that answers for its log.

    A broker that is alone always is. The owner of a shard is for as long as its last record in the
    log is young enough; while it is not sure, nothing is delivered.
    """

    @property
    def is_sure(self) -> bool: ...

    @property
    def on_sure(self) -> Event[None]:
        """It is sure again, after a time in which it was not."""


class Always:
    """The tenure of a broker that is alone."""

    is_sure = True

    def __init__(self) -> None:
        self.on_sure: Event[None] = Event()
