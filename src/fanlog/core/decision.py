"""What a verb of a share decides: values only.

Apply the records at once and in order, commit them, and only then let the rest happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fanlog.core.lease import Run
from fanlog.core.records import ShareRecord
from fanlog.core.redelivery import DeadLetter
from fanlog.model.resources import Offset


@dataclass(frozen=True, slots=True)
class Grant:
    """What one answer hands out: one lease."""

    generation: int
    runs: Sequence[Run]
    count: int
    #: Of them, those that came back from an earlier delivery.
    redelivered: int = 0


@dataclass(slots=True)
class Decision:
    """What a verb decided: apply the records at once, commit them, then let the rest happen."""

    records: list[ShareRecord] = field(default_factory=list)
    grant: Grant | None = None
    dead_letters: list[DeadLetter] = field(default_factory=list)
    #: Messages acknowledged, nacked, extended or expired by it.
    count: int = 0
    #: Leases that acknowledgements ended: when they were granted, and of how many messages.
    ended: list[tuple[float, int]] = field(default_factory=list)
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
    floor: Offset
    #: Unacknowledged messages, whatever their state.
    backlog: int
    outstanding: int
    delayed: int
    forwarding: int
