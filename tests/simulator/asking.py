"""What messages of a world ask for, and what it means, said another way than the code says it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from fanlog.model.attributes import DELAY, DELIVER_AT, DEPENDS_ON, PRIORITY, TTL
from fanlog.model.ids import message_id, parse_message_id
from fanlog.model.resources import Offset, PartitionId
from fanlog.times import of_ns
from simulator.chronicle import Message

#: Data, attributes and ordering key.
Draft = tuple[bytes, dict[str, str], str]

#: Seconds, the longest shorter than what a drain waits for.
_WAITS_S: Final = ("0.001", "0.5", "5", "30", "120")
_LIVES_S: Final = ("0.5", "10", "60", "600")
#: Times are in milliseconds.
_GRAIN_S: Final = 0.001


class Asking:
    """Draws what messages ask for, of a chance of its own: other worlds stay what they were."""

    def __init__(self, rng: random.Random, often: float) -> None:
        self._rng = rng
        self._often = often

    def asked(self, draft: Draft, wall_ns: int, earlier: Sequence[Message]) -> Draft:
        """The same message; now and then one that asks for something.

        It may depend on `earlier` ones, which are on the disk.
        """
        rng = self._rng
        if not self._often or rng.random() >= self._often:
            return draft
        data, attributes, key = draft
        asking: dict[str, str] = {}
        if rng.random() < 0.6:
            wait_s = rng.choice(_WAITS_S)
            if rng.random() < 0.5:
                asking[DELAY] = wait_s
            else:
                asking[DELIVER_AT] = of_ns(wall_ns + int(float(wait_s) * 1e9))
        if rng.random() < 0.4:
            asking[TTL] = rng.choice(_LIVES_S)
        if not key and rng.random() < 0.4:
            asking[PRIORITY] = str(rng.randrange(10))
        if earlier and rng.random() < 0.4:
            # Mostly on late ones: the others are acknowledged.
            late = earlier[-20:]
            causes = rng.choices(late, k=rng.choice((1, 1, 2, 3)))
            asking[DEPENDS_ON] = ",".join(message_id(one.partition, one.offset) for one in causes)
        return data, {**attributes, **asking}, key


def due_s(message: Message) -> float | None:
    """When a message is to be delivered; None for one that may be at once."""
    if DELAY in message.attributes:
        return message.publish_ns / 1e9 + float(message.attributes[DELAY])
    if DELIVER_AT in message.attributes:
        return _seconds(message.attributes[DELIVER_AT])
    return None


def lapses_s(message: Message) -> float | None:
    """Since when a message is not to be delivered any more; None for never."""
    if TTL not in message.attributes:
        return None
    begins_s = due_s(message)
    if begins_s is None:
        begins_s = message.publish_ns / 1e9
    return begins_s + float(message.attributes[TTL])


def causes_of(message: Message) -> Iterator[tuple[PartitionId, Offset]]:
    """The messages that it depends on."""
    for text in message.attributes.get(DEPENDS_ON, "").split(","):
        if text:
            partition, offset = parse_message_id(text)
            yield PartitionId(partition), offset


def is_early(message: Message, decided_s: float) -> bool:
    due = due_s(message)
    return due is not None and decided_s < due - _GRAIN_S


def is_lapsed(message: Message, at_s: float) -> bool:
    """Whether it has certainly lapsed."""
    lapses = lapses_s(message)
    return lapses is not None and at_s > lapses + 2 * _GRAIN_S


def may_be_lapsed(message: Message, at_s: float) -> bool:
    lapses = lapses_s(message)
    return lapses is not None and at_s >= lapses - 2 * _GRAIN_S


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
