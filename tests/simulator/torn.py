"""Transactions torn in two, for planted bugs: messages and records in commits of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fanlog.broker.transaction import Ledger, Transaction


class _Torn(Transaction):
    __slots__ = ("_is_records_first",)

    def __init__(self, ledger: Ledger, *, is_records_first: bool) -> None:
        super().__init__(ledger)
        self._is_records_first = is_records_first

    def commit(self, *, can_wait: bool = False) -> asyncio.Future[None]:
        parts: list[Callable[[], asyncio.Future[None]]] = [self._publish, self._record]
        if self._is_records_first:
            parts.reverse()
        first = parts[0]()
        first.add_done_callback(lambda done: None if done.exception() else parts[1]())
        return first

    def _publish(self) -> asyncio.Future[None]:
        # Others may have appended meanwhile.
        later = Transaction(self._ledger)
        for topic, partition, _, body in self._publications:
            later.append(topic, partition, body)
        return later.commit()

    def _record(self) -> asyncio.Future[None]:
        return self._ledger._writer.submit(self._records, stored_bytes=0)


@contextmanager
def torn(ledger: Ledger, *, is_records_first: bool) -> Iterator[None]:
    """Transactions that are begun inside are torn."""
    ledger.begin = lambda: _Torn(ledger, is_records_first=is_records_first)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del ledger.begin
