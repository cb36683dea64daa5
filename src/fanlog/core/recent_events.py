"""Recent events of messages: failures, dead letters, and a sample of all else. Soft state.

An entry is a run of a verb, not a message: one nack of a thousand messages is one entry with a
bitmap. Failures are always remembered. Deliveries and acknowledgements are remembered of a sample:
of each partition every so many-th message, so that the same messages are remembered everywhere, and
a run of ten thousand costs ten steps. Entries and the messages in them are bounded; the oldest are
forgotten first.

Pure: time is an argument. A restart forgets all of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.cursor import Range
from fanlog.core.redelivery import UNSENT, Nack
from fanlog.core.share import Decision
from fanlog.model.resources import Offset, PartitionId, SubscriptionId

DELIVERED, ACKNOWLEDGED = "delivered", "acknowledged"
DEAD_LETTERED, REDRIVEN, COPIED, PURGED = "dead-lettered", "redriven", "copied", "purged"
DROPPED = "dropped"
#: The same, of all messages between two offsets.
DROPPED_RUN = "dropped in a run"
_NOTHING: Mapping[Offset, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that happened to some messages of one share at once."""

    time_s: float
    owner: SubscriptionId
    partition: PartitionId
    what: str
    offsets: BitMap64
    reason: str = ""
    #: The message that each of them became, by its id.
    became: Mapping[Offset, str] = field(default_factory=lambda: _NOTHING)

    @property
    def cost(self) -> int:
        return len(self.offsets) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """An entry as one message has it."""

    time_s: float
    what: str
    reason: str
    message_id: str


class RecentEvents:
    """The entries of one broker. Not safe to share between threads."""

    def __init__(
        self,
        *,
        sample_every: int = 0,
        entries_max: int = limits.TRACE_EVENTS_MAX,
        messages_max: int = limits.TRACE_MESSAGES_MAX,
        since_s: float = 0.0,
    ) -> None:
        #: Of so many messages of a partition one is of the sample; 0 for none.
        self.sample_every = sample_every
        #: All that is remembered happened since then.
        self.since_s = since_s
        self._entries_max = entries_max
        self._messages_max = messages_max
        self._entries: deque[Entry] = deque()
        self._cost = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def messages(self) -> int:
        """Messages in all entries, and one for each entry."""
        return self._cost

    def is_sampled(self, partition: PartitionId, offset: Offset) -> bool:
        return self.sample_every > 0 and (offset - self._phase(partition)) % self.sample_every == 0

    # Remembering.

    def note(
        self, now: float, owner: SubscriptionId, partition: PartitionId, decision: Decision
    ) -> None:
        """Remember the failures of a decision, and what it did to messages of the sample."""
        if decision.failed is not None:
            offsets, nack = decision.failed
            if nack is UNSENT:
                offsets = self._sample(partition, offsets)
            self._add(now, owner, partition, nack.how, offsets, _reason_of(nack))
        if not self.sample_every:
            return
        if decision.grant is not None:
            runs = ((run.start, run.end) for run in decision.grant.runs)
            self._add(now, owner, partition, DELIVERED, self._sample_runs(partition, runs))
        if decision.acked:
            self._add(now, owner, partition, ACKNOWLEDGED, self._sample(partition, decision.acked))

    def note_became(
        self,
        now: float,
        owner: SubscriptionId,
        partition: PartitionId,
        what: str,
        became: Mapping[Offset, str],
        reason: str = "",
    ) -> None:
        """Remember that messages became others: letters or copies; or came back from such."""
        self._add(now, owner, partition, what, BitMap64(became), reason, became)

    def note_purged(
        self, now: float, owner: SubscriptionId, partition: PartitionId, span: Range
    ) -> None:
        """Remember that a purge acknowledged what was unacknowledged in a span of offsets."""
        # Two numbers stand for all of them: ten million messages must not push out the rest.
        ends = BitMap64([span[0], span[1] - 1])
        self._add(now, owner, partition, PURGED, ends, "with all that was unacknowledged then")

    def note_dropped(
        self, now: float, owner: SubscriptionId, partition: PartitionId, offsets: BitMap64, why: str
    ) -> None:
        """Remember that a full backlog let go of messages.

        A run that goes on where the last entry ended is one with it: a backlog that stays full
        drops with every publish. Of many that are scattered, the sample is remembered.
        """
        is_run = offsets.max() - offsets.min() + 1 == len(offsets)
        if not is_run:
            if len(offsets) > limits.RELIEF_STEPS_MAX // 10:
                offsets = self._sample(partition, offsets)
            self._add(now, owner, partition, DROPPED, offsets, why)
            return
        start, end = offsets.min(), offsets.max()
        last = self._entries[-1] if self._entries else None
        if (
            last is not None
            and (last.owner, last.partition, last.what, last.reason)
            == (owner, partition, DROPPED_RUN, why)
            and last.offsets.max() + 1 == start
            and now - last.time_s < limits.DROP_PAUSE_S
        ):
            self._cost -= self._entries.pop().cost
            start = last.offsets.min()
        self._add(now, owner, partition, DROPPED_RUN, BitMap64([start, end]), why)

    def forget(self, now: float) -> None:
        """Forget everything: some of it was decided on top of a commit that failed."""
        self._entries.clear()
        self._cost = 0
        self.since_s = now

    # Asking.

    def of(self, owner: SubscriptionId, partition: PartitionId, offset: Offset) -> list[Happened]:
        """The events of a message on one share, the oldest first."""
        found: list[Happened] = []
        for entry in self._entries:
            if entry.owner != owner or entry.partition != partition:
                continue
            is_of_it = offset in entry.offsets
            if entry.what in (PURGED, DROPPED_RUN):
                is_of_it = entry.offsets.min() <= offset <= entry.offsets.max()
            if is_of_it:
                became = entry.became.get(offset, "")
                found.append(
                    Happened(
                        time_s=entry.time_s,
                        what=DROPPED if entry.what == DROPPED_RUN else entry.what,
                        reason=entry.reason,
                        message_id=became,
                    )
                )
        return found[-limits.TRACE_SHOWN_MAX :]

    # Private.

    def _phase(self, partition: PartitionId) -> int:
        """Which message of so many it is; another one in each partition."""
        return partition * 7_919 % self.sample_every

    def _sample_runs(
        self, partition: PartitionId, runs: Iterable[tuple[Offset, Offset]]
    ) -> BitMap64:
        every, phase = self.sample_every, self._phase(partition)
        found = BitMap64()
        for start, end in runs:
            first = start + (phase - start) % every
            if first < end:
                found.update(range(first, end, every))
        return found

    def _sample(self, partition: PartitionId, offsets: BitMap64) -> BitMap64:
        if not offsets or not self.sample_every:
            return BitMap64()
        start, end = offsets.min(), offsets.max() + 1
        if (end - start) // self.sample_every > len(offsets):
            return BitMap64(offset for offset in offsets if self.is_sampled(partition, offset))
        return self._sample_runs(partition, [(start, end)]) & offsets

    def _add(
        self,
        now: float,
        owner: SubscriptionId,
        partition: PartitionId,
        what: str,
        offsets: BitMap64,
        reason: str = "",
        became: Mapping[Offset, str] = _NOTHING,
    ) -> None:
        if offsets:
            self._append(
                Entry(
                    time_s=now,
                    owner=owner,
                    partition=partition,
                    what=what,
                    offsets=offsets,
                    reason=reason,
                    became=became,
                )
            )

    def _append(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._cost += entry.cost
        while len(self._entries) > self._entries_max or self._cost > self._messages_max:
            gone = self._entries.popleft()
            self._cost -= gone.cost
            self.since_s = max(self.since_s, gone.time_s)


def _reason_of(nack: Nack) -> str:
    words = ["for good"] if nack.is_terminal else []
    if nack.delay_s and not nack.is_terminal:
        words.append(f"to come back after {nack.delay_s:g} s")
    return ": ".join([*words, nack.reason] if nack.reason else words)
