"""The decision of a verb of a share: values only.

Apply the records at once and in order, commit them, and only then let the rest happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog.core.records import ShareRecord
from fanlog.core.redelivery import DeadLetter, Nack
from fanlog.core.share.lease import LeasedRun
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class Grant:
    """The messages of one answer: one lease."""

    generation: int
    runs: Sequence[LeasedRun]
    count: int
    #: Of them, those that came back from an earlier delivery.
    redelivered: int = 0


@dataclass(slots=True)
class Decision:
    """The outcome of a verb: apply the records at once, commit them, then let the rest happen."""

    records: list[ShareRecord] = field(default_factory=list)
    grant: Grant | None = None
    dead_letters: list[DeadLetter] = field(default_factory=list)
    #: Messages whose delivery failed, and how; and those that a subscriber acknowledged.
    failed: tuple[BitMap64, Nack] | None = None
    acked: BitMap64 | None = None
    #: Messages acknowledged, nacked, extended or expired by the verb.
    count: int = 0
    #: Messages that were not delivered, for their time-to-live was over, and are acknowledged.
    lapsed: int = 0
    #: Messages that waited too long for others, and wait no longer.
    overdue: int = 0
    #: Something granted follows what was acknowledged lately: it leaves when that is durable.
    follows_commits: bool = False
    #: Leases that acknowledgements ended: when each was granted, its number of messages, and when
    #: these were published.
    ended: list[tuple[float, int, float]] = field(default_factory=list)
    #: Exactly-once: ack ids that are not live (generation, offset).
    invalid: list[tuple[int, Offset]] = field(default_factory=list)
    #: Exactly-once with ordering: acks ahead of an earlier message of the key.
    early: list[tuple[int, Offset]] = field(default_factory=list)
    #: The backlog moved on without handing anything out: ask again.
    has_progressed: bool = False

    @property
    def is_refused(self) -> bool:
        return bool(self.invalid or self.early)


@dataclass(frozen=True, slots=True)
class ShareStats:
    """Counts of one share, for metrics and tests."""

    floor: Offset
    #: Unacknowledged messages, whatever their state.
    backlog: int
    outstanding: int
    delayed: int
    forwarding: int
    #: Those that wait for others to be acknowledged.
    depending: int = 0
    #: Not due yet.
    pending: int = 0
