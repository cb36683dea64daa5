"""Numbering: messages with numbers of their publishers are appended, or found to be there already.

`fanlog.core.publishers` has the rules. Messages behind a gap are appended and held back; those that
a message lets go are placed behind it in its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.gaps import Gaps
from fanlog.broker.metrics import Metrics
from fanlog.broker.parts import Placed, parts_of
from fanlog.broker.transaction import Ledger, Transaction
from fanlog.core.publishers import Judgement, Publishers
from fanlog.errors import ResourceExhausted
from fanlog.log.batch import Body
from fanlog.model.resources import Offset, PartitionId, Topic
from fanlog.model.sequences import Numbered


@dataclass(frozen=True, slots=True)
class _Part:
    """The messages of a request for one partition, judged."""

    partition: PartitionId
    body: Body
    indexes: Sequence[int] | None
    dedup_ids: Sequence[str]
    publishers: Publishers
    judgement: Judgement


class Numbering:
    """Appends messages with numbers. One broker's; lives on the loop."""

    def __init__(self, ledger: Ledger, clock: Clock, metrics: Metrics, gaps: Gaps) -> None:
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._gaps = gaps

    def append(
        self,
        transaction: Transaction,
        topic: Topic,
        body: Body,
        numbers: Sequence[Numbered | None],
        dedup_ids: Sequence[str] | None,
    ) -> list[Placed]:
        """Append the messages that are new; returns the place of each, or of what it repeats.

        Raises:
            FailedPrecondition: A number or an epoch is over; nothing was changed.
            ResourceExhausted: There is no room for more publishers, or behind gaps; likewise.
        """
        ids = dedup_ids or [""] * body.count
        homes = [
            one.publisher if one is not None else ids[index] for index, one in enumerate(numbers)
        ]
        found: list[_Part] = []
        for partition, part, indexes in parts_of(topic.partitions, body, homes):
            chosen = range(body.count) if indexes is None else indexes
            publishers = self._ledger.hard.publishers.on(partition)
            judgement = publishers.judge([numbers[index] for index in chosen])
            if judgement.is_holding:
                self._check_room(partition)
            part_ids = [ids[index] for index in chosen]
            found.append(_Part(partition, part, indexes, part_ids, publishers, judgement))
        return [
            (part.partition, self._append_part(transaction, topic, part), part.indexes)
            for part in found
        ]

    def _append_part(self, transaction: Transaction, topic: Topic, part: _Part) -> Sequence[Offset]:
        partition, judgement, now = part.partition, part.judgement, self._clock.now()
        base = transaction.end(partition)
        admission = self._ledger.hard.dedup_on(partition).admit(
            [part.dedup_ids[index] for index in judgement.fresh],
            base_offset=base,
            now=now,
            window_s=topic.dedup_window_s,
            most=limits.DEDUP_IDS_MAX,
        )
        placed = dict(zip(judgement.fresh, admission.offsets, strict=True))
        fresh = [judgement.fresh[index] for index in admission.fresh]
        self._metrics.deduplicated += part.body.count - len(fresh)
        if fresh:
            records, placing = part.publishers.note(judgement, placed, now)
            transaction.apply(admission.records)
            transaction.append(topic.id, partition, part.body.only(fresh))
            transaction.apply(records)
            transaction.apply(list(part.publishers.forget_numbers()))
            if placing:
                self._gaps.place(transaction, partition, placing)
        return judgement.offsets(placed, part.body.count)

    def _check_room(self, partition: PartitionId) -> None:
        agenda = self._ledger.hard.agendas.find(partition)
        if agenda is None:
            return
        moved = len(agenda.places.absent)
        if moved >= limits.MOVED_MAX:
            raise ResourceExhausted(
                f"{moved} messages of the topic came behind a gap in their publishers' numbers; it "
                f"remembers the places of {limits.MOVED_MAX}, until retention takes some: publish "
                "without gaps"
            )
