"""Which messages have lapsed: their time-to-live was over before they were delivered.

A time-to-live counts from when a message was deliverable first: its publish, or the time it was to
be delivered at. It is looked at when a message's turn comes, in the batch that is read then, so
nothing has to be remembered about it; a subscription's default holds for messages without their
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from pyroaring import BitMap64

from fanlog.model.resources import Offset
from fanlog.model.terms import TermKind, Terms


class Dated(Protocol):
    """A batch as far as time goes."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def end_offset(self) -> Offset: ...
    @property
    def publish_time_ns(self) -> int: ...
    @property
    def terms(self) -> Terms | None: ...


def lapsed_in(batches: Iterable[Dated], default_s: float | None, now_ns: int) -> BitMap64 | None:
    """The messages of some batches that have lapsed; None when there are none.

    `default_s` is the time-to-live of messages without their own.
    """
    found: BitMap64 | None = None
    for batch in batches:
        if batch.terms is not None or default_s is not None:
            some = _lapsed(batch, default_s, now_ns)
            if some:
                found = some if found is None else found | some
    return found


def _lapsed(batch: Dated, default_s: float | None, now_ns: int) -> BitMap64:
    base, now_ms = batch.base_offset, now_ns // 1_000_000
    found = BitMap64()
    if default_s is not None and batch.publish_time_ns + int(default_s * 1e9) <= now_ns:
        found.add_range(base, batch.end_offset)
    terms = batch.terms
    if terms is None:
        return found
    own = terms.column(TermKind.TTL)
    if default_s is None and not own.indexes:
        return found
    dues_ms = dict(terms.dues_ms(batch.publish_time_ns))
    ttls_ms = dict(zip(own.indexes, own.values, strict=True))
    # Rounded up: a message may live a moment longer, and not shorter.
    publish_ms = -(-batch.publish_time_ns // 1_000_000)
    for index in dues_ms.keys() | ttls_ms.keys():
        ttl_ms = ttls_ms.get(index, None if default_s is None else int(default_s * 1_000))
        if ttl_ms is None:
            continue
        if dues_ms.get(index, publish_ms) + ttl_ms <= now_ms:
            found.add(base + index)
        else:
            found.discard(base + index)
    return found
