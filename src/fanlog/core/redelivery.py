"""After a nack or an expiry: back off, deliver again, or dead-letter.

The counts are hard state under a dead letter policy; everything else here is soft. A restart
forgets the waits, not the counts: messages that waited are delivered at once then.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.attempts import Attempts, Counts
from fanlog.model.resources import FIRST_IMMEDIATE, DeadLetterPolicy, Offset, RetrySchedule

#: Jitter spreads a wait by up to this share upwards, so that it stays within the policy's bounds.
JITTER = 0.25


#: Reasons of failed messages remembered by one share; the oldest are forgotten first.
_REASONS_MAX = 10_000


def backoff_s(schedule: RetrySchedule, failures: int, jitter: float) -> float:
    """Seconds before the next delivery after `failures` of them; `jitter` is in [0, 1).

    Without a schedule a failed message comes back at once; with `first-immediate` it does so the
    first time.
    """
    if schedule is None:
        return 0.0
    if schedule == FIRST_IMMEDIATE:
        failures -= 1
        if failures <= 0:
            return 0.0
        least_s, most_s = limits.FIRST_IMMEDIATE_BACKOFF_S_MIN, limits.FIRST_IMMEDIATE_BACKOFF_S_MAX
    else:
        least_s, most_s = schedule.minimum_backoff_s, schedule.maximum_backoff_s
    # Beyond this power every schedule is at its maximum; the bound keeps floats finite.
    wait_s = min(least_s * 2.0 ** min(max(failures, 1) - 1, 30), most_s)
    return min(wait_s * (1.0 + JITTER * jitter), most_s)


@dataclass(frozen=True, slots=True)
class Nack:
    """How a delivery failed, and how its consumer wants the message to go on."""

    how: str = "nacked"
    #: Deliver it again after so many seconds, instead of the wait of the retry policy.
    delay_s: float | None = None
    #: Do not deliver it again: it is a dead letter. Needs a dead letter policy.
    is_terminal: bool = False
    #: The reason, for the dead letter.
    reason: str = ""
    #: Whether it was an attempt: a delivery that never left the broker is none, nor one that its
    #: consumer does not want to be counted.
    is_counted: bool = True

    @property
    def is_told(self) -> bool:
        """Whether a consumer nacked: it does not want the message just now."""
        return self.how == "nacked"

    @property
    def was_sent(self) -> bool:
        """Whether the message had left the broker."""
        return self.how != "unsent"


NACKED = Nack()
EXPIRED = Nack("expired")
UNSENT = Nack("unsent", delay_s=0.0, is_counted=False)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message without attempts left: forward it, and acknowledge it in the same commit."""

    offset: Offset
    attempts: int
    reason: str


class Failures:
    """Failed deliveries by message, those of the running verb included.

    The records of the running verb are applied after it; until then its counts are only here.
    """

    __slots__ = ("_counted", "_given_up", "_nack", "_reasons", "_spared", "attempts", "returned")

    def __init__(self, attempts: Attempts) -> None:
        self.attempts = attempts
        #: Counts of the running verb, and the way its messages failed.
        self._counted: dict[Offset, int] = {}
        self._nack = NACKED
        #: The reason that the last consumer of a message gave; and messages nacked for good.
        self._reasons: dict[Offset, str] = {}
        self._given_up = BitMap64()
        #: Could not be forwarded: to be delivered once more before that is tried again.
        self._spared = BitMap64()
        #: Delivered before and not acknowledged: their next delivery is a redelivery.
        self.returned = BitMap64()

    def __getitem__(self, offset: Offset) -> int:
        return self._counted.get(offset) or self.attempts[offset]

    def take_back(self, offsets: BitMap64, nack: Nack) -> None:
        """Note that messages are not leased any more; their next delivery is a redelivery."""
        if nack.was_sent:
            self.returned |= offsets

    def note(self, offsets: BitMap64, nack: Nack, policy: DeadLetterPolicy | None) -> None:
        """Keep what the consumer said, for the dead letters; a nack for good needs a policy."""
        if nack.reason:
            self._note_reason(offsets, nack.reason)
        if nack.is_terminal and policy is not None:
            self._given_up |= offsets

    def count(self, offsets: BitMap64, nack: Nack) -> dict[int, Counts]:
        """Count one failure each; return the chunks to be written."""
        self._nack = nack
        self._spared -= offsets
        self._counted = {offset: self.attempts[offset] + 1 for offset in offsets}
        return self.attempts.increase(offsets)

    def _note_reason(self, offsets: BitMap64, reason: str) -> None:
        for offset in offsets:
            # The newest last.
            self._reasons.pop(offset, None)
            self._reasons[offset] = reason
        while len(self._reasons) > max(_REASONS_MAX, len(offsets)):
            del self._reasons[next(iter(self._reasons))]

    def waits(
        self, nack: Nack, schedule: RetrySchedule, jitter: float
    ) -> Callable[[Offset], float] | None:
        """How long each message waits before it is delivered again; None when all go at once."""
        delay_s = nack.delay_s
        if delay_s is not None:
            return lambda _: delay_s
        if schedule is None:
            return None
        return lambda offset: backoff_s(schedule, self[offset], jitter)

    def end_verb(self) -> None:
        """Forget the counts of the running verb: its records are applied from now on."""
        self._counted = {}

    def spare(self, offsets: BitMap64) -> None:
        self._spared |= offsets
        self._given_up -= offsets

    def forget(self, offsets: BitMap64) -> None:
        """Forget messages that are acknowledged."""
        self._spared -= offsets
        self._given_up -= offsets
        if self.returned:
            self.returned -= offsets
        if self._reasons:
            for offset in offsets & BitMap64(self._reasons):
                del self._reasons[offset]

    def is_exhausted(self, offset: Offset, policy: DeadLetterPolicy | None) -> bool:
        if policy is None or offset in self._spared:
            return False
        return self[offset] >= policy.max_delivery_attempts or offset in self._given_up

    def letter(
        self,
        offset: Offset,
        policy: DeadLetterPolicy,
        *,
        is_lapsed: bool = False,
        overdue: str = "",
    ) -> DeadLetter:
        if not self.is_exhausted(offset, policy):
            if is_lapsed:
                return DeadLetter(offset, self[offset], "its time-to-live was over")
            if overdue:
                return DeadLetter(offset, self[offset], overdue)
        reason = f"{self[offset]} of {policy.max_delivery_attempts} delivery attempts"
        if offset in self._given_up:
            reason += ", nacked for good"
        elif offset in self._counted:
            reason += f", the last one {self._nack.how}"
        if offset in self._reasons:
            reason += f": {self._reasons[offset]}"
        return DeadLetter(offset, self[offset], _cut(reason))


def _cut(reason: str) -> str:
    """As much of a reason as the value of an attribute holds."""
    return reason.encode()[: limits.ATTRIBUTE_VALUE_BYTES_MAX].decode(errors="ignore")


class Delayed:
    """Offsets that wait for their back-off, by the time they are due."""

    __slots__ = ("_count", "_heap", "_left", "offsets")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, BitMap64]] = []
        self._count = 0
        #: Those that no longer wait, and may still be in the heap.
        self._left = BitMap64()
        #: All that wait.
        self.offsets = BitMap64()

    def add(self, due_s: float, offsets: BitMap64) -> None:
        if back := offsets & self._left:
            # Acknowledged while they waited, and reopened since: the old wait is over, and must not
            # release them early.
            self._heap = [(when_s, count, some - back) for when_s, count, some in self._heap]
            self._left -= back
        self._count += 1
        heapq.heappush(self._heap, (due_s, self._count, offsets))
        self.offsets |= offsets

    def put(
        self, now: float, offsets: BitMap64, wait_of: Callable[[Offset], float] | None
    ) -> BitMap64:
        """Let offsets wait, each for its own time; return those that need not."""
        if wait_of is None:
            return offsets
        by_wait: defaultdict[float, BitMap64] = defaultdict(BitMap64)
        for offset in offsets:
            by_wait[wait_of(offset)].add(offset)
        free = BitMap64()
        for wait_s, some in by_wait.items():
            if wait_s > 0:
                self.add(now + wait_s, some)
            else:
                free |= some
        return free

    def discard(self, offsets: BitMap64) -> None:
        """Let messages wait no longer: they are acknowledged late, or gone."""
        self._left |= self.offsets & offsets
        self.offsets -= offsets

    def dues(self, offsets: BitMap64) -> dict[Offset, float]:
        """When the wait of each of `offsets` ends, of those that wait."""
        wanted = offsets & self.offsets
        return {o: due_s for due_s, _, some in self._heap for o in some & wanted} if wanted else {}

    def due(self, now: float) -> BitMap64:
        """Take out the messages that are due."""
        out = BitMap64()
        while self._heap and self._heap[0][0] <= now:
            out |= heapq.heappop(self._heap)[2]
        out &= self.offsets
        self.offsets -= out
        return out

    def next_deadline(self) -> float | None:
        if not self.offsets:
            self._heap.clear()
            self._left.clear()
        return self._heap[0][0] if self._heap else None
