"""Dedup ids: what publishers repeat, and that it is there once.

A publish decides what is new the moment it begins, so the window of an id begins no earlier than
the first publish that could have brought it. A second message of the same id must not be in the
log before that window is over.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from fanlog.model.attributes import DEDUP_ID
from fanlog.model.resources import Topic
from simulator.chronicle import Message

#: Windows of a world's topics, as their label says.
WINDOWS = ("60", "600", "86400")
#: Ids that somebody may publish again, of those that were published last.
REMEMBERED = 30

#: Data, attributes and ordering key.
Draft = tuple[bytes, dict[str, str], str]


class Dedups:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._ids: list[str] = []
        self._made = 0
        #: When publishes began, by topic and id, since a message of theirs was committed.
        self._begun: dict[tuple[str, str], list[float]] = {}
        #: The last message of an id, and when its window is over at the earliest.
        self._last: dict[tuple[int, str], tuple[Message, float]] = {}

    def named(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The same messages; most have a dedup id, of which some were used before."""
        return [(data, self._with_id(attributes), key) for data, attributes, key in drafts]

    def _with_id(self, attributes: dict[str, str]) -> dict[str, str]:
        rng = self._rng
        if rng.random() < 0.2:
            return attributes
        if not self._ids or rng.random() < 0.7:
            self._made += 1
            self._ids.append(f"id-{self._made}")
            del self._ids[:-REMEMBERED]
        return {**attributes, DEDUP_ID: rng.choice(self._ids[-5:] + self._ids)}

    def begun(self, topic: str, drafts: Sequence[Draft], now: float) -> None:
        """A publish begins on the server."""
        for _, attributes, _ in drafts:
            if dedup_id := attributes.get(DEDUP_ID):
                self._begun.setdefault((topic, dedup_id), []).append(now)

    def answered(self, draft: Draft, stored: Message | None) -> Iterator[str]:
        """A message was published, and this is what stands where they say it does."""
        data, attributes, _ = draft
        dedup_id = attributes.get(DEDUP_ID)
        if stored is None:
            yield "P1: a publish with dedup ids was answered, and it is not on the disk"
        elif dedup_id is None:
            if stored.data != data:
                yield f"P1: {stored.partition}:{stored.offset} was answered, and is another message"
        elif stored.attributes.get(DEDUP_ID) != dedup_id:
            yield f"dedup: {stored.partition}:{stored.offset} was answered for {dedup_id}"

    def committed(self, topic: Topic | None, message: Message, now: float) -> Iterator[str]:
        """The disk took a message."""
        dedup_id = message.attributes.get(DEDUP_ID)
        if dedup_id is None or message.source_id or topic is None:
            return
        begun = self._begun.pop((topic.name, dedup_id), [now])
        where = message.partition, dedup_id
        known = self._last.get(where)
        if known is not None and now < known[1]:
            yield (
                f"dedup: {message.partition}:{message.offset} has the id {dedup_id} of "
                f"{known[0].offset}, whose window is not over"
            )
        self._last[where] = message, min(begun) + topic.dedup_window_s

    def life_ended(self, now: float) -> None:
        """What is over by now stays over, though the next process may read an earlier time."""
        self._last = {where: last for where, last in self._last.items() if now < last[1]}
