"""What may be true of one subscription: built from the chronicle, in the order of decisions.

A subscription has an `Account`, and in it a `Ledger` for each partition it reads: one, or on a
pattern as many as there are topics that match.

A checker must not accuse where it does not know. So for each message the ledger keeps what may have
closed it (the latest moment that could have happened) and what certainly reopened it (the earliest
moment that could have been): a message is *maybe closed* when the first is later than the second,
and *certainly open* otherwise. A lease is *certain* while nothing that could have ended it was even
begun, and its deadline is known between two bounds.

What a filter leaves out is closed for as long as that filter judges it. Which one does is no matter
of doubt: the disk says with which commit each message and each filter came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fanlog.core.records import CursorHead
from fanlog.limits import ACK_DEADLINE_S_MAX
from fanlog.model.resources import Offset, PartitionId, Subscription
from simulator.asking import may_be_lapsed
from simulator.chronicle import NEVER, Delivered, Message, Op
from simulator.meanings import is_wanted, slot_of

#: Slack for comparisons of seconds that went through nanoseconds.
EPSILON_S = 1e-3


class Lease:
    """The last delivery of a message."""

    __slots__ = (
        "consumer",
        "extended_at",
        "extending_until",
        "generation",
        "hi_s",
        "is_certain",
        "lo_s",
        "over_from",
    )

    def __init__(self, delivered: Delivered) -> None:
        self.consumer = delivered.consumer
        self.generation = delivered.generation
        #: The deadline lies between these.
        self.lo_s = delivered.deadline_lo_s
        self.hi_s = delivered.deadline_hi_s
        #: When the last change of its deadline began; until when one may have been decided.
        self.extended_at = -1
        self.extending_until = -1
        #: Nothing but its deadline can have ended it.
        self.is_certain = True
        #: When it had certainly ended.
        self.over_from = NEVER

    def end(self, at: int) -> None:
        self.is_certain = False
        self.over_from = min(self.over_from, at)


class Card:
    """What is known of one message on one subscription. Moments are numbers of entries."""

    __slots__ = (
        "ack_delivered",
        "ack_until",
        "averse",
        "averse_at",
        "averse_until_s",
        "closed_until",
        "confirmed_from",
        "confirmed_generation",
        "failed_at",
        "failures",
        "forwarded_at",
        "is_drained",
        "is_passed",
        "is_rotten",
        "is_unjudged",
        "is_wanted",
        "lease",
        "letter_at",
        "message",
        "moved_until",
        "opened_from",
        "recalled_from",
        "reopened_generation",
        "reopened_s",
        "shaky_until",
    )

    def __init__(self, message: Message, closed_until: int) -> None:
        self.message = message
        #: Acks that may count: when the newest of their ids was handed out, and until when one of
        #: them may have been decided.
        self.ack_delivered = -1
        self.ack_until = -1
        #: Until when something other than an ack may have closed it.
        self.closed_until = closed_until
        #: Until when something that failed at its commit may have kept it closed.
        self.shaky_until = -1
        #: Since when a seek has certainly reopened it. Ack ids from before are void.
        self.opened_from = -1
        #: Since when an ack ahead of its key is certainly forgotten.
        self.recalled_from = -1
        #: Since when an ack that was confirmed may hold, and the generation of the moment it was
        #: confirmed; -1 if none was.
        self.confirmed_from = -1
        self.confirmed_generation = -1
        #: When its dead letter was committed.
        self.letter_at = -1
        #: When its copy was, on the topic that it is forwarded to.
        self.forwarded_at = -1
        #: Failed deliveries that certainly count, under the present dead letter policy.
        self.failures = 0
        self.failed_at = -1
        self.lease: Lease | None = None
        #: The consumer that nacked it last, if that certainly counted; since when it counts, and
        #: until when at least it is for others.
        self.averse = 0
        self.averse_at = -1
        self.averse_until_s = 0.0
        self.is_rotten = False
        #: It came in the drain at the end.
        self.is_drained = False
        #: The filter that judges it wants it.
        self.is_wanted = True
        #: A filter left it out, and whichever judges it now: it is acknowledged for good.
        self.is_passed = False
        #: Until when it may have been reopened by itself, since when it certainly is, and the
        #: generation of the moment that was answered.
        self.moved_until = -1
        self.reopened_s = 0.0
        self.reopened_generation = -1
        #: It may come whatever its filter was: nobody knows which one judges it.
        self.is_unjudged = False

    @property
    def is_maybe_closed(self) -> bool:
        if not self.is_wanted:
            return True
        if self.closed_until > self.opened_from:
            return True
        return self.ack_delivered > self.opened_from and self.ack_until > self.recalled_from

    def close(self, op: Op) -> None:
        """Something that is not an ack may close it."""
        if op.may_have_happened:
            self.closed_until = max(self.closed_until, op.ended_at)
        else:
            self.shaky_until = max(self.shaky_until, op.ended_at)


class Account:
    """One subscription, from the commit that made it to the one that removes it."""

    def __init__(self, settings: Subscription, at: int, now: float) -> None:
        self.id = settings.id
        self.name = settings.name
        self.created_at = at
        #: As last committed.
        self.settings = settings
        self.ledgers: dict[PartitionId, Ledger] = {}
        self.used_s = now
        #: Too much went on when it was made to say anything of it.
        self.is_vague = False


class Ledger:
    """One partition of a subscription, from the commit that joined them on.

    A pattern that is through with a deleted topic leaves it; a snapshot may take it back there.
    """

    def __init__(
        self,
        settings: Subscription,
        partition: PartitionId,
        head: CursorHead,
        at: int,
        now: float,
    ) -> None:
        self.id = settings.id
        self.name = settings.name
        self.partition = partition
        assert head.floor is not None
        self.floor = head.floor
        #: As last committed: another one says that a seek was.
        self.fence = head.fence
        #: Filters, and from which commit on each of them judges.
        self._filters: list[tuple[int, str]] = [(0, settings.filter)]
        self._has_changed_filters = False
        self.created_at = at
        #: As last committed.
        self.settings = settings
        self.cards: list[Card] = []
        #: Messages of each ordering key, in order; empty without ordering.
        self.keys: dict[str, list[Card]] = {}
        self._first_open: dict[str, int] = {}
        #: Messages that were delivered and not confirmed in time since, by key and by consumer.
        self._leased: dict[str, dict[Offset, Card]] = {}
        self._held_by: dict[int, dict[Offset, Card]] = {}
        #: The same by key slot, where consumers have key slots.
        self._in_slot: dict[int, dict[Offset, Card]] = {}
        #: When dead letters of its messages are committed, those to come included.
        self.letters: Mapping[Offset, Sequence[int]] = {}
        #: When seeks and updates of it begin, those to come included.
        self.disturbed: Sequence[int] = ()
        #: When each lease was handed out, by generation.
        self.delivered_at: dict[int, int] = {}
        #: Until when a seek, an update, a change of exactly-once may have been decided.
        self.seek_until = -1
        self.seek_begun = -1
        #: Leases up to this generation may have been decided before the last seek, or during it.
        self.seek_generation = -1
        #: Generations at which seeks began whose callers left: they may be decided and not durable.
        self.seeks_left: list[int] = []
        self.update_until = -1
        #: Until when some of its messages may have been reopened.
        self.reopened_until = -1
        #: Filters that were asked for and are not committed yet.
        self.filters_asked: set[str] = set()
        self.once_until = -1
        #: Messages published before this may have expired, whatever the settings are now.
        self._expired_s = 0.0
        #: The last moment the process stood still: leases may be overdue just then.
        self.thawed_s = 0.0
        #: Too much went on when it was made to say anything of it.
        self.is_vague = False
        #: Since when acknowledged messages are retained, for as long as they are now.
        self.retains_from = at if settings.retain_acked else NEVER
        self.was_dead_lettered = settings.dead_letter is not None
        #: How often a lease came into doubt.
        self.doubts = 0
        #: Messages in order whose nack is under way: it may take along what is leased meanwhile.
        self.nacking: dict[int, list[Card]] = {}

    # Looking.

    def card(self, offset: Offset) -> Card | None:
        return self.cards[offset] if offset < len(self.cards) else None

    def is_excused(self, card: Card, now: float, at: int) -> bool:
        """Whether the subscription may do without the message now."""
        if card.is_maybe_closed or card.shaky_until > at or card.is_rotten:
            return True
        return may_be_lapsed(card.message, now) or self.is_expired(card, now)

    def is_expired(self, card: Card, now: float) -> bool:
        horizon_s = max(self._expired_s, now - self.settings.message_retention_s)
        return max(card.message.publish_ns / 1e9, card.reopened_s) < horizon_s + EPSILON_S

    def is_live(self, card: Card, now: float) -> bool:
        """Whether the message is certainly leased."""
        lease = card.lease
        if lease is None or not lease.is_certain or lease.lo_s <= now:
            return False
        for earlier in self._leased.get(card.message.key, {}).values():
            if earlier.message.offset >= card.message.offset or earlier.lease is None:
                continue
            # An earlier one of its key that expires takes it along.
            if earlier.lease.lo_s <= now:
                return False
        return True

    def is_letter(self, card: Card, at: int) -> bool:
        """Whether its dead letter was committed by then, and no seek has reopened it."""
        committed = self.letters.get(card.message.offset, ())
        return any(card.opened_from < letter < at for letter in committed)

    def moved_until(self, card: Card) -> int:
        """Until when a seek, or a reopening of the message itself, may have been decided."""
        return max(self.seek_until, card.moved_until)

    @property
    def has_changed_filters(self) -> bool:
        """Whether it ever had, or may have, another filter than its first."""
        return self._has_changed_filters or bool(self.filters_asked)

    def is_moving(self, generation: int) -> bool:
        """Whether a seek may have been under way when a lease was decided, or be so still."""
        return generation <= self.seek_generation or bool(self.seeks_left)

    def is_exactly_once(self, at: int) -> bool:
        """Whether exactly-once is certainly on."""
        return self.settings.enable_exactly_once and self.once_until < at

    def is_at_least_once(self, at: int) -> bool:
        return not self.settings.enable_exactly_once and self.once_until < at

    def open_before(self, card: Card) -> Iterator[Card]:
        """Messages of the same key, before this one, that are certainly not closed."""
        cards = self.keys[card.message.key]
        first = self._first_open.get(card.message.key, 0)
        while first < len(cards) and cards[first].is_maybe_closed:
            first += 1
        self._first_open[card.message.key] = first
        for other in cards[first:]:
            if other.message.offset >= card.message.offset:
                return
            if not other.is_maybe_closed:
                yield other

    def held_by(self, consumer: int) -> list[Card]:
        """What a consumer was given and is not known to have settled."""
        return _not_settled(self._held_by.get(consumer, {}))

    def slot_of(self, message: Message) -> int:
        """The key slot of a message, of a subscription that has key slots."""
        return slot_of(self.partition, message.offset, message.key, self.settings.key_slots)

    def in_slot(self, slot: int) -> list[Card]:
        """What was given to some consumer of a key slot, and is not known to be settled."""
        return _not_settled(self._in_slot.get(slot, {}))

    # Changing.

    def add(self, message: Message) -> Card:
        assert message.offset == len(self.cards)
        card = Card(message, -1 if message.offset >= self.floor else self.created_at)
        card.is_wanted = self.wants(self.filter_at(message.sequence), message)
        self.cards.append(card)
        if self.settings.enable_message_ordering and message.key:
            self.keys.setdefault(message.key, []).append(card)
        return card

    def leave(self, at: int) -> None:
        """The pattern is through with it."""
        self.fence = 0
        for card in self.cards:
            card.closed_until = max(card.closed_until, at)

    def lease(self, card: Card, delivered: Delivered) -> None:
        offset = card.message.offset
        if card.lease is not None:
            self.doubt_after(card)
            self._held_by.get(card.lease.consumer, {}).pop(offset, None)
        card.lease = Lease(delivered)
        key = card.message.key
        is_changing = self.once_until > delivered.at or self.is_moving(delivered.generation)
        if is_changing or any(
            key and other.message.key == key and other.message.offset < offset
            for cards in self.nacking.values()
            for other in cards
        ):
            card.lease.is_certain = False
        if delivered.credit:
            self._held_by.setdefault(delivered.consumer, {})[offset] = card
        if self.settings.enable_message_ordering and card.message.key:
            self._leased.setdefault(card.message.key, {})[offset] = card
        if self.settings.key_slots:
            self._in_slot.setdefault(self.slot_of(card.message), {})[offset] = card

    def confirm(self, card: Card, op: Op) -> None:
        """An ack of a message was confirmed, and is final."""
        card.confirmed_from, card.confirmed_generation = op.begun_at, op.ended_generation
        if card.lease is not None and op.ended_s < card.lease.lo_s:
            self._leased.get(card.message.key, {}).pop(card.message.offset, None)

    def reopened(self) -> None:
        """Something below what was known to be closed is open again."""
        self._first_open.clear()

    def wants(self, text: str, message: Message) -> bool:
        """Whether it is to get a message under a filter; what is addressed, no filter judges."""
        if message.addressee:
            return message.addressee == self.id
        return is_wanted(text, message)

    def filter_at(self, sequence: int) -> str:
        """The filter that judges what a commit publishes."""
        return next(text for since, text in reversed(self._filters) if since <= sequence)

    def refilter(self, sequence: int, begun_at: int, *, may_reopen: bool) -> None:
        """A seek was committed: the present filter judges everything from now on.

        What another one left out was acknowledged by that, and stays so unless it is retained.
        """
        before, present = self._filters, self._filters[-1][1]
        self._filters = [(0, present)]
        changes = self.settings.filter_changes
        if changes and changes[0].before_sequence == sequence:
            # Changed once more by the same commit: only its record says which of them came first.
            self._filters = [(0, changes[0].filter), (sequence, present)]
        text = self._filters[0][1]
        if before != [(0, text)]:
            for card in self.cards:
                was_wanted, message = card.is_wanted, card.message
                card.is_wanted = self.wants(text, message)
                if card.is_wanted and not was_wanted:
                    card.closed_until = max(card.closed_until, begun_at)
                    card.is_passed = message.at < begun_at
            self.reopened()
        if may_reopen:
            for card in self.cards:
                card.is_passed = False

    def doubt_filters(self, seek: Op) -> None:
        """A seek is under way: it may leave out what is open by an earlier filter."""
        texts = {self._filters[-1][1], *self.filters_asked}
        if len(self._filters) > 1 or len(texts) > 1:
            for card in self.cards:
                if card.is_wanted and not all(self.wants(text, card.message) for text in texts):
                    card.close(seek)

    def change_filter(self, text: str, sequence: int) -> None:
        if text != self._filters[-1][1]:
            self._filters.append((sequence, text))
            self._has_changed_filters = True

    def configure(self, settings: Subscription, now: float, at: int = -1) -> None:
        how_long = settings.retain_acked, settings.message_retention_s
        if how_long != (self.settings.retain_acked, self.settings.message_retention_s):
            self.retains_from = at if settings.retain_acked else NEVER
        for retention_s in (self.settings.message_retention_s, settings.message_retention_s):
            self._expired_s = max(self._expired_s, now - retention_s)
        self.was_dead_lettered |= settings.dead_letter is not None
        self.settings = settings

    def elapse(self, now: float) -> None:
        """What is over by now stays over, though the next process may read an earlier time."""
        self.configure(self.settings, now)
        for card in self.cards:
            if card.lease is not None and card.lease.lo_s <= now:
                card.lease.is_certain = False

    def restart(self, now: float) -> None:
        """Of leases that outlive a process, none lasts longer than the longest there is."""
        for card in self.cards:
            if card.lease is not None:
                card.lease.lo_s = min(card.lease.lo_s, now + ACK_DEADLINE_S_MAX)

    def doubt_leases(self) -> None:
        """Every lease may have ended."""
        self.doubts += 1
        for card in self.cards:
            if card.lease is not None:
                card.lease.is_certain = False

    def end_leases(self, at: int, generation: int) -> None:
        """Every lease up to a generation has ended by `at`; later ones may have."""
        self.doubts += 1
        for card in self.cards:
            if card.lease is not None:
                card.lease.is_certain = False
                if card.lease.generation <= generation:
                    card.lease.end(at)

    def doubt_after(self, card: Card) -> None:
        """The message may have come back, and with it all after it of its key."""
        self.doubts += 1
        if card.lease is not None:
            card.lease.is_certain = False
        for other in self._leased.get(card.message.key, {}).values():
            if other.lease is not None and other.message.offset > card.message.offset:
                other.lease.is_certain = False

    def recall_after(self, card: Card, op: Op) -> None:
        """The message certainly came back by a nack.

        Leases from before the nack of those after it of its key are over, and acks of them void.
        """
        self.doubts += 1
        if card.moved_until >= 0:
            # Behind one that was reopened they may be hard all the same.
            self.doubt_after(card)
            return
        for other in self.keys.get(card.message.key, ()):
            if other.message.offset > card.message.offset:
                other.recalled_from = max(other.recalled_from, op.begun_at)
                if other.lease is not None:
                    other.lease.is_certain = False
                    if other.lease.generation <= op.begun_generation:
                        other.lease.end(op.ended_at)
        self.reopened()

    def recall_all(self, since: int, now: float) -> None:
        """Soft state is gone: an ack that waited for an earlier one of its key is forgotten."""
        for cards in self.keys.values():
            is_behind = False
            for card in cards:
                if is_behind:
                    card.recalled_from = max(card.recalled_from, since)
                elif not self.is_excused(card, now, since) and card.moved_until < 0:
                    # Behind one that was reopened an ack may be hard all the same.
                    is_behind = True
        self.reopened()


def _not_settled(cards: dict[Offset, Card]) -> list[Card]:
    for offset in [o for o, card in cards.items() if card.is_maybe_closed]:
        del cards[offset]
    return list(cards.values())
