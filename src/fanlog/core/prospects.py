"""The prospects of one message: when it is due, until when it is worth delivering, and how urgent.

For looking at it: deliveries ask of whole batches (`fanlog.core.agenda`, `fanlog.core.lapse`), and
say the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from fanlog.core.lapse import Dated
from fanlog.model.resources import Offset
from fanlog.model.terms import TermKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospects:
    """The terms of a message, as times of the wall clock."""

    #: None for at once.
    due_ns: int | None = None
    #: When its time-to-live is over; None for never.
    expires_ns: int | None = None
    priority: int = 0

    def has_lapsed(self, now_ns: int) -> bool:
        return self.expires_ns is not None and self.expires_ns <= now_ns


NOTHING = Prospects()


def prospects(batch: Dated, offset: Offset, default_s: float | None) -> Prospects:
    """The prospects of one message; `default_s` is the time-to-live of those without their own."""
    publish_ns, index = batch.publish_time_ns, offset - batch.base_offset
    default_ns = None if default_s is None else int(default_s * 1e9)
    terms = None if batch.terms is None else batch.terms.part(index, index + 1)
    if terms is None:
        return Prospects(expires_ns=None if default_ns is None else publish_ns + default_ns)
    due_ns = next((due_ms * 1_000_000 for _, due_ms in terms.dues_ms(publish_ns)), None)
    own = {kind: value for kind, _, value in terms}
    ttl_ms = own.get(TermKind.TTL)
    expires_ns = None
    if ttl_ms is not None:
        # From a whole millisecond on, as a time that it is due at is one.
        begins_ns = -(-publish_ns // 1_000_000) * 1_000_000 if due_ns is None else due_ns
        expires_ns = begins_ns + ttl_ms * 1_000_000
    elif default_ns is not None:
        begins_ns = publish_ns if due_ns is None else due_ns
        expires_ns = begins_ns + default_ns
    return Prospects(due_ns=due_ns, expires_ns=expires_ns, priority=own.get(TermKind.PRIORITY, 0))
