"""Publishes that are refused because there is no room for them: how often, why, and whether still.

The broker is *degraded* while it would refuse a publish of the size that it refused last.
Deliveries and acknowledgements go on meanwhile. It ends without another publish: the room is looked
at whenever the state is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from fanlog import limits
from fanlog.errors import DiskFull, HotLogFull, LoadShed, ResourceExhausted, WriterBacklogFull

log = logging.getLogger("fanlog.broker")

#: Why a publish may be refused, as errors.
REASONS = (DiskFull, HotLogFull, WriterBacklogFull, LoadShed)


class Refusals:
    """Counts the publishes that `check` refuses, and remembers the size of the last."""

    def __init__(self, check: Callable[[int], None]) -> None:
        self._check = check
        #: How many by reason: the error's code in lower case.
        self.counts = {reason.code.lower(): 0 for reason in REASONS}
        #: Size of the publish that was refused last; None when it would be taken by now.
        self._refused_bytes: int | None = None

    def check(self, size_bytes: int) -> None:
        """Raises ResourceExhausted: There is no room for a publish of this size."""
        try:
            self._check(size_bytes)
        except ResourceExhausted as refusal:
            reason = self.count(refusal)
            if self._refused_bytes is None:
                log.warning("action=publishing_refused reason=%s error=%s", reason, refusal.message)
            # Whole epochs of a sink are larger; the broker serves again when a publish fits.
            self._refused_bytes = min(size_bytes, limits.PUBLISH_BYTES_MAX)
            raise
        if self._refused_bytes is not None:
            self.degraded()

    @property
    def has_refused(self) -> bool:
        """Whether publishes were refused of late, and the end of that was not noticed yet."""
        return self._refused_bytes is not None

    def count(self, refusal: ResourceExhausted) -> str:
        """Count a refusal; gives its reason."""
        reason = refusal.code.lower()
        self.counts[reason] = self.counts.get(reason, 0) + 1
        return reason

    def degraded(self) -> str:
        """Why publishing is refused now, as a sentence; empty while it is not."""
        try:
            self._check(self._refused_bytes or 0)
        except ResourceExhausted as refusal:
            return f"publishing is refused: {refusal.message}"
        if self._refused_bytes is not None:
            self._refused_bytes = None
            log.info("action=publishing_resumed")
        return ""
