"""Planted bugs of what messages ask for; see `mutants`."""

from __future__ import annotations

from typing import Any

from pyroaring import BitMap64

from fanlog.broker.delivery import feed
from fanlog.broker.delivery.due_times import DueTimes
from fanlog.core.agenda import PENDING, Agenda
from fanlog.core.records import AgendaChunk
from fanlog.core.share import Share, along_places
from fanlog.core.share.backlog import find
from fanlog.core.share.depending import Depending
from fanlog.core.share.ordered import OrderedBacklog
from fanlog.core.share.unordered import UnorderedBacklog
from simulator.planting import mutant


@mutant("nobody notes that a message is to be delivered later", 40, (Agenda, "add"), needs="terms")
def _(add: Any) -> Any:
    return lambda self, *asked: (one for one in add(self, *asked) if one.listing != PENDING)


@mutant("times are not read again after a start", 60, (DueTimes, "start"), needs="terms")
def _(_: Any) -> Any:
    async def start(self: DueTimes) -> None:
        for agenda in self._ledger.hard.agendas:
            self._tell(agenda, *agenda.give_up(agenda.unread.copy()))

    return start


@mutant("a message is due a second early", 60, (Agenda, "take_due"), needs="terms")
def _(take_due: Any) -> Any:
    return lambda self, now_ms, most: take_due(self, now_ms + 1_000, most)


@mutant("shares are not told what is due", 40, (Share, "come_due"), needs="terms")
def _(_: Any) -> Any:
    return lambda self, offsets, keyed: False


@mutant("hard state forgets what is pending", 100, (Agenda, "settle"), needs="terms")
def _(_: Any) -> Any:
    def settle(self: Agenda) -> Any:
        for record in list(self._chunks):
            if record[0] == PENDING:
                yield AgendaChunk(self.partition, PENDING, record[1], None)

    return settle


@mutant(
    "a pending message lets later ones of its key by",
    100,
    (OrderedBacklog, "_meet"),
    needs="terms keys",
)
def _(meet: Any) -> Any:
    def passing(self: OrderedBacklog, offset: int, number: int, slots: Any, packer: Any) -> bool:
        if number and self.agenda is not None and offset in self.agenda.pending:
            self._keyless.add(offset)
            return True
        return bool(meet(self, offset, number, slots, packer))

    return passing


@mutant("what has lapsed is delivered", 60, (feed, "lapsed_in"), needs="terms")
def _(_: Any) -> Any:
    return lambda batches, default_s, now_ns: None


@mutant("no message waits for another", 40, (feed, "causes_in"), needs="terms")
def _(_: Any) -> Any:
    return lambda batches: None


@mutant(
    "a message waits for the first that it names alone", 100, (feed, "causes_in"), needs="terms"
)
def _(causes_in: Any) -> Any:
    def first(batches: Any) -> Any:
        found = causes_in(batches)
        return found and {offset: causes[:1] for offset, causes in found.items()}

    return first


@mutant("an acknowledgement lets nothing go", 100, (Depending, "release"), needs="terms")
def _(_: Any) -> Any:
    return lambda self, offsets: (BitMap64(), BitMap64())


@mutant("what is leased counts as acknowledged", 60, (Depending, "_find"), needs="terms")
def _(find: Any) -> Any:
    def leased(self: Depending, offset: int) -> Any:
        found = find(self, offset)
        return None if found is None or found[0].offset in found[1].leased else found

    return leased


class _Impatient:
    """The agenda of a partition on which nothing waits for its time."""

    pending = BitMap64()

    def __init__(self, agenda: Any) -> None:
        self.urgent = agenda.urgent


@mutant(
    "an urgent message does not wait for its time",
    60,
    (along_places, "urgent_offsets"),
    needs="terms",
)
def _(urgent_offsets: Any) -> Any:
    return lambda agenda, *asked, **said: urgent_offsets(_Impatient(agenda), *asked, **said)


@mutant(
    "an urgent message that was handed out is the next of the oldest, too",
    60,
    (UnorderedBacklog, "_pack_urgent"),
    needs="terms",
)
def _(_: Any) -> Any:
    def packed(self: UnorderedBacklog, urgent: Any, views: Any, packer: Any) -> None:
        for offset in urgent:
            slots = find(views, offset)
            if slots is None or packer.add(slots, offset, offset + 1) == offset:
                return

    return packed
