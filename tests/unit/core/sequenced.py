"""A share whose publishers number their messages, and the partition that remembers them."""

from __future__ import annotations

from fanlog.core import records as codec
from fanlog.core.agenda import AgendaTable
from fanlog.core.publishers import Placing, PublisherTable
from fanlog.core.records import AgendaChunk, PlaceRecord, Record
from fanlog.model.sequences import Numbered
from unit.core.transitions import WatchedShare
from unit.core.world import PARTITION, World

GAP_S = 30.0


class Sequenced(World):
    """A world whose publishers number their messages."""

    def begin(self) -> None:
        self.has_places = True
        self.publishers = PublisherTable()
        self.agendas = AgendaTable()
        self.others: dict[bytes, bytes] = {}

    def change(self, records: list[Record]) -> None:
        for record in records:
            value = record.value()
            if value is None:
                self.others.pop(record.key(), None)
            else:
                self.others[record.key()] = value
            self.take(record)

    def take(self, record: Record) -> None:
        if isinstance(record, AgendaChunk | PlaceRecord):
            placed = self.agendas.apply(record)
            self.share.attend(self.agendas.find(PARTITION))
            if placed and isinstance(record, PlaceRecord):
                self.share.take_places(record.anchor, placed)
        else:
            self.publishers.apply(record)  # type: ignore[arg-type]

    def say(self, said: list[Numbered], keys: list[int]) -> list[int]:
        publishers = self.publishers.on(PARTITION)
        judgement = publishers.judge(said)
        placed = {index: self.end + place for place, index in enumerate(judgement.fresh)}
        if placed:
            records, placing = publishers.note(judgement, placed, self.now)
            self.publish(*(keys[index] for index in judgement.fresh))
            self.change(list(records))
            self.change(list(publishers.forget_numbers()))
            self.place(placing)
        return judgement.offsets(placed, len(said))

    def place(self, placing: Placing) -> None:
        for anchor, offsets in placing.behind.items():
            self.change([self.agendas.place(PARTITION, anchor, offsets)])
        self.change([*self.agendas.hold(PARTITION, placing.held, placing.released)])
        self.transitions.look(self.share, self.end)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        records, placing, _ = self.publishers.on(PARTITION).give_up(self.now, GAP_S, self.end)
        self.change(list(records))
        self.place(placing)

    def restart(self, *, scan: bool = False) -> None:
        self.publishers, self.agendas = PublisherTable(), AgendaTable()
        for key, value in self.others.items():
            self.take(codec.decode(key, value))
        self.publishers.sort()
        self.share = WatchedShare(self.settings, PARTITION)
        self.share.attend(self.agendas.find(PARTITION))
        for key, value in sorted(self.store.items(), reverse=True):
            self.share.apply(codec.decode(key, value))  # type: ignore[arg-type]
        self.share.start()
        self.transitions.look(self.share, self.end)
