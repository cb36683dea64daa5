"""A record of the events that clients saw, and the check that it keeps the promises.

A `History` has the events of one world as seen from outside: publishes that were answered,
messages that came, acknowledgements that were confirmed. Clients write them down as they happen,
from any number of threads; crash tests and simulations ask the same questions afterwards, when
everything was drained:

- `lost`: a publish that returned OK, and a message that never came (P1, P2).
- `unwanted`: a message that came although the subscription's filter leaves it out (P2).
- `altered`: a message that came with other bytes than were published (P1).
- `came_as_two`: data that was published once and came under two ids, where ids of dedup forbid it.
- `came_back`: a message that came although its acknowledgement was confirmed (P5).
- `out_of_order`: a message that came before an earlier one of its ordering key (P4).
- `sent_out_of_order`, `acked_out_of_order`: the same of what the service sent, and confirmed (P4).
- `dead_letters_lost`, `dead_letters_doubled`: a message that neither was acknowledged nor came as a
  dead letter, and one that came as two, or again after it was a dead letter (P3).

Each gives a list of sentences, empty when the promise was kept. Events with an unknown result count
for nothing: a publish without an answer may be there or not, an acknowledgement without a
confirmation may hold or not.

Message ids are read as this service makes them: the ids of a topic, compared as numbers, are in the
order in which its messages were committed.
"""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

#: Sentences of one answer at most: the first few say it all.
SENTENCES_MAX = 10


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message came to a consumer."""

    at: int
    message_id: str
    #: Hash of the data: an id given twice is a message lost.
    content: int
    key: str
    #: Message id of the original, if this is a dead letter.
    source_id: str


@dataclass(slots=True)
class _Topic:
    #: Ids of publishes that were answered, in the order of the answers, by ordering key; and the
    #: hash of their data.
    published: defaultdict[str, list[tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )


@dataclass(slots=True)
class _Subscription:
    delivered: list[Delivered] = field(default_factory=list)
    #: As the service sent them, where that is another order.
    arrived: list[Delivered] = field(default_factory=list)
    #: When an acknowledgement of a message was first sent: it may hold from then on.
    ack_sent: dict[str, int] = field(default_factory=dict)
    #: When the acknowledgement of a message was first confirmed.
    acked: dict[str, int] = field(default_factory=dict)
    #: Messages that its filter leaves out.
    left_out: set[str] = field(default_factory=set)


class History:
    """A record of one world.

    Safe to write, and to count, from many threads; ask it the rest when they have ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = 0
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)
        self._subscriptions: defaultdict[str, _Subscription] = defaultdict(_Subscription)

    # Writing down.

    def published(
        self, topic: str, messages: Iterable[tuple[str, bytes]], *, key: str = ""
    ) -> None:
        """A publish was answered with OK: ids and data, those of an ordering key in order."""
        with self._lock:
            self._topics[topic].published[key] += [(id_, hash(data)) for id_, data in messages]

    def delivered(
        self,
        subscription: str,
        message_id: str,
        data: bytes,
        *,
        key: str = "",
        source_id: str = "",
    ) -> None:
        """A message came; to be written before it is acknowledged."""
        with self._lock:
            self._now += 1
            self._subscriptions[subscription].delivered.append(
                Delivered(self._now, message_id, hash(data), key, source_id)
            )

    def arrived(self, subscription: str, message_id: str, data: bytes, *, key: str = "") -> None:
        """A message came off the wire, into the queues of a client that may hand it out later.

        To be written by the one thread that reads the stream, before the client sees the message.
        """
        with self._lock:
            self._now += 1
            self._subscriptions[subscription].arrived.append(
                Delivered(self._now, message_id, hash(data), key, "")
            )

    def ack_sent(self, subscription: str, message_ids: Iterable[str]) -> None:
        """Acknowledgements are about to be sent; they may hold even without a confirmation."""
        with self._lock:
            self._now += 1
            sent = self._subscriptions[subscription].ack_sent
            for message_id in message_ids:
                sent.setdefault(message_id, self._now)

    def acked(self, subscription: str, message_ids: Iterable[str]) -> None:
        """Acknowledgements that were sent are confirmed."""
        with self._lock:
            self._now += 1
            acked = self._subscriptions[subscription].acked
            for message_id in message_ids:
                acked.setdefault(message_id, self._now)

    def left_out(self, subscription: str, message_ids: Iterable[str]) -> None:
        """The filter of a subscription leaves messages out: they count as acknowledged."""
        with self._lock:
            self._subscriptions[subscription].left_out.update(message_ids)

    # Asking.

    def published_count(self, topic: str) -> int:
        with self._lock:
            return sum(1 for _ in self._published(topic))

    def answered(self, topic: str) -> list[tuple[str, int]]:
        """Id and hash of the data of each message whose publish was answered."""
        with self._lock:
            return list(self._published(topic))

    def delivered_count(self, subscription: str) -> int:
        with self._lock:
            return len(self._subscriptions[subscription].delivered)

    def acked_count(self, subscription: str) -> int:
        """Messages whose acknowledgement was confirmed."""
        with self._lock:
            return len(self._subscriptions[subscription].acked)

    def altered(self, topic: str, subscription: str) -> list[str]:
        """Messages that came with other bytes than were published under their id."""
        published = dict(self._published(topic))
        return _first(
            f"message {one.message_id} of {topic} came to {subscription} with other bytes"
            for one in self._subscriptions[subscription].delivered
            if published.get(one.message_id, one.content) != one.content
        )

    def lost(self, topic: str, subscription: str) -> list[str]:
        """Messages that were published and never came to a subscription that was there before."""
        seen = self._subscriptions[subscription]
        came = {(one.message_id, one.content) for one in seen.delivered}
        return _first(
            f"message {message[0]} was published to {topic} and never came to {subscription}"
            for message in self._published(topic)
            if message not in came and message[0] not in seen.left_out
        )

    def unwanted(self, subscription: str) -> list[str]:
        """Messages that came although the filter leaves them out."""
        seen = self._subscriptions[subscription]
        return _first(
            f"message {one.message_id} came to {subscription}, whose filter leaves it out"
            for one in seen.delivered
            if one.message_id in seen.left_out
        )

    def came_back(self, subscription: str) -> list[str]:
        """Messages of an exactly-once subscription that came after their ack was confirmed."""
        seen = self._subscriptions[subscription]
        return _first(
            f"message {one.message_id} came to {subscription} at {one.at}, after its "
            f"acknowledgement was confirmed at {seen.acked[one.message_id]}"
            for one in seen.delivered
            if seen.acked.get(one.message_id, one.at) < one.at
        )

    def came_twice(self, subscription: str) -> list[str]:
        """Messages that a subscription which delivers at most once delivered more than once."""
        first_at: dict[str, int] = {}
        return _first(
            f"message {one.message_id} came to {subscription} at {one.at}, and at "
            f"{first_at[one.message_id]} before"
            for one in self._subscriptions[subscription].delivered
            if first_at.setdefault(one.message_id, one.at) != one.at
        )

    def came_as_two(self, subscription: str) -> list[str]:
        """Data that came under two ids, where no two messages were published with the same."""
        ids: dict[int, str] = {}
        return _first(
            f"message {one.message_id} came to {subscription} with the data of message "
            f"{ids[one.content]}"
            for one in self._subscriptions[subscription].delivered
            if ids.setdefault(one.content, one.message_id) != one.message_id
        )

    def went_back(self, subscription: str) -> list[str]:
        """Messages of an ordered subscription that came after a later one of their key.

        For a subscription that delivers at most once: messages may be missing, and none comes back.
        """
        last: dict[str, int] = {}
        found: list[str] = []
        for one in self._subscriptions[subscription].delivered:
            number = int(one.message_id)
            if one.key and number < last.get(one.key, 0):
                found.append(
                    f"message {one.message_id} of key {one.key!r} came to {subscription} after "
                    f"{last[one.key]}"
                )
            last[one.key] = number
        return _first(found)

    def out_of_order(self, topic: str, subscription: str) -> list[str]:
        """Messages of an ordered subscription that came before an earlier one of their key.

        After a message comes its successor, or one that came before and is delivered again; one
        further on only when an acknowledgement was sent for all between. Messages whose publish
        was not answered count as soon as they came.
        """
        return self._all_disorder(topic, subscription, self._subscriptions[subscription].delivered)

    def sent_out_of_order(self, topic: str, subscription: str) -> list[str]:
        """As `out_of_order`, of messages as they came off the wire.

        For clients with queues of their own. Google's client of an exactly-once subscription lets
        the next message of a key go when a lease of the key is refused, and yet calls back with the
        message that it had under that lease: whenever a lease is lost, callbacks of a key run side
        by side, in any order. No service can prevent that. What it sent must be in order, and what
        it confirmed: see `acked_out_of_order`.
        """
        return self._all_disorder(topic, subscription, self._subscriptions[subscription].arrived)

    def acked_out_of_order(self, topic: str, subscription: str) -> list[str]:
        """Messages whose acknowledgement was confirmed before that of an earlier one was sent.

        For a subscription with order that delivers exactly once: it refuses such acknowledgements,
        whatever order its messages were worked on.
        """
        seen = self._subscriptions[subscription]
        found = []
        for key in {one.key for one in seen.delivered if one.key}:
            latest, last = -1.0, ""
            for message_id in self._ids_of_key(topic, subscription, key):
                if (acked := seen.acked.get(message_id, math.inf)) < latest:
                    found.append(
                        f"message {message_id} of key {key!r} was acknowledged on {subscription} "
                        f"at {acked}, before {last}"
                    )
                if (sent := seen.ack_sent.get(message_id, math.inf)) > latest:
                    latest, last = sent, message_id
        return _first(found)

    def unordered_ids(self, topic: str) -> list[str]:
        """Publishes of one key whose ids do not grow with the order in which they were answered."""
        return _first(
            f"message {later} of key {key!r} was published after {earlier} and has a lower id"
            for key, messages in self._topics[topic].published.items()
            if key
            for (earlier, _), (later, _) in pairwise(messages)
            if int(earlier) >= int(later)
        )

    def dead_letters_lost(self, topic: str, subscription: str, letters: str) -> list[str]:
        """Messages neither acknowledged on `subscription` nor come to `letters`, its dead end."""
        sent = self._subscriptions[subscription].ack_sent
        forwarded = {(one.source_id, one.content) for one in self._subscriptions[letters].delivered}
        return _first(
            f"message {message[0]} of {topic} was neither acknowledged on {subscription} nor came "
            f"as a dead letter to {letters}"
            for message in self._published(topic)
            if message[0] not in sent
            and message not in forwarded
            and message[0] not in self._subscriptions[subscription].left_out
        )

    def dead_letters_doubled(self, subscription: str, letters: str) -> list[str]:
        """Messages that became two dead letters, or were delivered after they became one."""
        copies: defaultdict[str, set[str]] = defaultdict(set)
        first_at: dict[str, int] = {}
        for one in self._subscriptions[letters].delivered:
            copies[one.source_id].add(one.message_id)
            first_at.setdefault(one.source_id, one.at)
        twice = [
            f"message {source_id} is the dead letters {' and '.join(sorted(ids))}"
            for source_id, ids in copies.items()
            if len(ids) > 1
        ]
        again = [
            f"message {one.message_id} came to {subscription} after it was a dead letter"
            for one in self._subscriptions[subscription].delivered
            if first_at.get(one.message_id, one.at) < one.at
        ]
        return _first([*twice, *again])

    def _published(self, topic: str) -> Iterator[tuple[str, int]]:
        for messages in self._topics[topic].published.values():
            yield from messages

    def _all_disorder(self, topic: str, subscription: str, came: Iterable[Delivered]) -> list[str]:
        by_key: defaultdict[str, list[Delivered]] = defaultdict(list)
        for one in came:
            if one.key:
                by_key[one.key].append(one)
        return _first(
            sentence
            for key, of_key in by_key.items()
            for sentence in self._disorder(topic, subscription, key, of_key)
        )

    def _ids_of_key(self, topic: str, subscription: str, key: str) -> list[str]:
        """Messages of a key that are known to be there, in their order."""
        seen = self._subscriptions[subscription]
        known = {one.message_id for one in (*seen.delivered, *seen.arrived) if one.key == key}
        known |= {message_id for message_id, _ in self._topics[topic].published[key]}
        return sorted(known - seen.left_out, key=int)

    def _disorder(
        self, topic: str, subscription: str, key: str, delivered: Sequence[Delivered]
    ) -> Iterator[str]:
        ids = self._ids_of_key(topic, subscription, key)
        places = {message_id: place for place, message_id in enumerate(ids)}
        sent = self._subscriptions[subscription].ack_sent
        previous = -1
        for one in delivered:
            if one.message_id not in places:
                continue
            place = places[one.message_id]
            for skipped in ids[previous + 1 : place]:
                if sent.get(skipped, one.at) >= one.at:
                    yield (
                        f"message {one.message_id} of key {key!r} came to {subscription} at "
                        f"{one.at}, before {skipped}"
                    )
            previous = place


def _first(sentences: Iterable[str]) -> list[str]:
    found = []
    for sentence in sentences:
        found.append(sentence)
        if len(found) == SENTENCES_MAX:
            break
    return found
