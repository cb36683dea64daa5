"""The promises, as predicates over what is known.

Each is asked at the moment it speaks of, with the ledger as it stood just before; each gives the
sentences of what broke it, none when it was kept. What is unknown accuses nobody. P1's other half
(what is answered is on the disk) and P7, P8 and recovery are looked at while the world runs: see
`clients`, `network` and `probes`. P6 is in the plot of a world: everything is drained within a
bounded time although somebody is stuck, or `nothing_is_lost` finds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fanlog.limits import DEPENDENCY_TIMEOUT_S_DEFAULT
from fanlog.model.attributes import LABEL_ORDERING
from fanlog.model.resources import Offset, PartitionId, SubscriptionId
from simulator.asking import causes_of, is_early, is_lapsed
from simulator.chronicle import NEVER, AckRef, Delivered, Entry, Message, Op
from simulator.faults import TIMER_LATE_S
from simulator.ledger import EPSILON_S, Account, Card, Ledger
from simulator.meanings import is_matched


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and whom it concerns."""

    promise: str
    sentence: str
    subscription: SubscriptionId
    partition: int = 0
    offset: Offset = -1

    def __str__(self) -> str:
        return f"{self.promise}: {self.sentence}"


def nothing_is_lost(ledger: Ledger, end_s: float) -> Iterator[Violation]:
    """P1, P2, P6: what stands in the log comes to every subscription that was there.

    After the faults have ended, each message that is certainly open came in the drain. It may be
    missing only if an ack of it was sent since it was last certainly reopened, a seek or a snapshot
    may have passed it, its retention has ended, its dead letter was committed, or its batch rotted.
    """
    if ledger.settings.detached:
        return
    for card in ledger.cards:
        if not card.is_drained and not ledger.is_excused(card, end_s, NEVER):
            yield Violation(
                "P2",
                f"{_name(ledger, card)} was never delivered, nor was it acknowledged",
                ledger.id,
                ledger.partition,
                card.message.offset,
            )


def removed_lawfully(account: Account, entry: Entry, *, was_asked: bool) -> Iterator[Violation]:
    """P2: a subscription goes when somebody deletes it, or when it was idle for its time."""
    if was_asked or account.is_vague:
        return
    ttl_s = account.settings.expiration_ttl_s
    idle_s = entry.time_s - account.used_s
    if ttl_s is None or idle_s < ttl_s:
        yield Violation(
            "P2", f"{account.name} vanished after {idle_s:.0f} idle seconds", account.id
        )


def found_lawfully(account: Account, op: Op) -> Iterator[Violation]:
    """P2: a subscription that is there is not said to be gone."""
    if op.outcome == "refused" and op.answer == "SUBSCRIPTION_NOT_FOUND":
        yield Violation(
            "P2",
            f"{op.verb} of {account.name} begun at {op.begun_at} was told that it does not exist",
            account.id,
        )


# Patterns.


def joins_every_topic(
    account: Account, topics: Mapping[PartitionId, str], entry: Entry
) -> Iterator[Violation]:
    """P2: a subscription on a pattern reads every topic that matches, from the commit of either."""
    for partition, topic in topics.items():
        if is_matched(account.settings.topic, topic) and partition not in account.ledgers:
            yield Violation(
                "P2",
                f"{account.name} does not read {topic} at {entry.at}, which its pattern "
                f"{account.settings.topic} matches",
                account.id,
                partition,
            )


def joins_from_its_first(ledger: Ledger, entry: Entry) -> Iterator[Violation]:
    """P2: of a topic that is made later, a pattern gets the first message and all after it."""
    if ledger.floor > 0:
        yield Violation(
            "P2",
            f"subscription {ledger.id} joined partition {ledger.partition} at {entry.at} from "
            f"message {ledger.floor} on",
            ledger.id,
            ledger.partition,
        )


def begins_where_it_should(
    ledger: Ledger, entry: Entry, *, log_start: Offset, log_end: Offset, is_earliest: bool
) -> Iterator[Violation]:
    """P2: a new subscription gets all that comes after it, or all there is."""
    if ledger.floor > (log_start if is_earliest else log_end):
        yield Violation(
            "P2",
            f"subscription {ledger.id} was made at {entry.at} and begins at {ledger.floor} of "
            f"{log_start} to {log_end}",
            ledger.id,
            ledger.partition,
        )


def leaves_lawfully(ledger: Ledger, entry: Entry, *, is_deleted: bool) -> Iterator[Violation]:
    """P2: a pattern lets go of a topic that is deleted when nothing of it is left to deliver."""
    if not is_deleted:
        yield Violation(
            "P2",
            f"{ledger.name} let go of partition {ledger.partition} at {entry.at}, whose topic is "
            "there",
            ledger.id,
            ledger.partition,
        )
    for card in () if ledger.settings.detached else ledger.cards:
        if not ledger.is_excused(card, entry.time_s, entry.at):
            yield Violation(
                "P2",
                f"{_name(ledger, card)} was open when its topic was let go of at {entry.at}",
                ledger.id,
                ledger.partition,
                card.message.offset,
            )


# Filters.


def is_for_it(
    account: Account, ledger: Ledger, card: Card, delivered: Delivered
) -> Iterator[Violation]:
    """P2: what comes is what the filter wants that was there when it was published.

    After a seek it is what the present filter wants. What was left out before and is not retained
    stays acknowledged, whatever the filter is now. What is addressed comes to its addressee alone.
    """
    yield from terms_are_kept(account, ledger, card, delivered)
    message = card.message
    if message.addressee not in (0, ledger.id):
        yield Violation(
            "P2",
            f"{_name(ledger, card)} came at {delivered.at}, and it is for subscription "
            f"{message.addressee} alone",
            ledger.id,
            ledger.partition,
            message.offset,
        )
        return
    if card.is_unjudged:
        return
    is_moving = ledger.is_moving(delivered.generation)
    if not card.is_wanted and not (
        is_moving
        and any(
            ledger.wants(text, message) for text in (ledger.settings.filter, *ledger.filters_asked)
        )
    ):
        yield Violation(
            "P2",
            f"{_name(ledger, card)} came at {delivered.at}, and its filter "
            f"{ledger.filter_at(message.sequence)!r} leaves it out",
            ledger.id,
            ledger.partition,
            message.offset,
        )
    if card.is_passed and not is_moving:
        yield Violation(
            "P2",
            f"{_name(ledger, card)} came at {delivered.at}, and an earlier filter had left it out",
            ledger.id,
            ledger.partition,
            message.offset,
        )


def terms_are_kept(
    account: Account, ledger: Ledger, card: Card, delivered: Delivered
) -> Iterator[Violation]:
    """P2: no message comes before its time, nor after it has lapsed unless it was reopened."""
    message, decided_s = card.message, delivered.decided_s
    what = ""
    if is_early(message, decided_s):
        what = "before its time"
    elif is_lapsed(message, decided_s) and ledger.reopened_until < 0:
        what = "after its time-to-live"
    if what:
        yield Violation(
            "P2",
            f"{_name(ledger, card)} came at {delivered.at}, {what}",
            ledger.id,
            ledger.partition,
            message.offset,
        )
    yield from _causes_come_first(account, ledger, card, delivered)


def _causes_come_first(
    account: Account, ledger: Ledger, card: Card, delivered: Delivered
) -> Iterator[Violation]:
    """P2: a message comes when those that it depends on are acknowledged, or after the time-out.

    Nothing is said where a message may have been opened again: it may have been then.
    """
    message, now = card.message, delivered.decided_s
    if now - message.publish_ns / 1e9 > DEPENDENCY_TIMEOUT_S_DEFAULT:
        return
    for partition, offset in causes_of(message):
        other = account.ledgers.get(partition)
        cause = None if other is None else other.card(offset)
        if other is None or cause is None or other.is_vague:
            continue
        if max(other.seek_until, other.reopened_until) >= 0 or other.seeks_left:
            continue
        if other.is_excused(cause, now, delivered.at) or other.is_letter(cause, delivered.at):
            continue
        yield Violation(
            "P2",
            f"{_name(ledger, card)} came at {delivered.at}, before {offset}, which it depends on",
            ledger.id,
            ledger.partition,
            message.offset,
        )


def one_letter(ledger: Ledger, card: Card, letter: Message, entry: Entry) -> Iterator[Violation]:
    """P3: a message becomes a dead letter once, and not after its ack was confirmed.

    Nor if its filter leaves it out; and it says which topic it was published to.
    """
    message = card.message
    if not (card.is_wanted or card.is_unjudged) and ledger.moved_until(card) < entry.at:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} became a dead letter at {entry.at}, and its filter leaves it "
            "out",
            ledger.id,
            ledger.partition,
            message.offset,
        )
    if letter.source_topic.rpartition("/")[2] != message.topic:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} of {message.topic} says as a dead letter that it is of "
            f"{letter.source_topic!r}",
            ledger.id,
            ledger.partition,
            message.offset,
        )
    if card.letter_at >= 0 and ledger.moved_until(card) < card.letter_at:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} became a dead letter at {card.letter_at} and again at "
            f"{entry.at}",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )
    if card.confirmed_from >= 0 and ledger.moved_until(card) < card.confirmed_from:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} became a dead letter at {entry.at}, after its ack was "
            f"confirmed at {card.confirmed_from}",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )


def forwarded_once(ledger: Ledger, card: Card, copy: Message, entry: Entry) -> Iterator[Violation]:
    """P3: a message is forwarded once, in order, and only if it is to be delivered at all."""
    message, why = card.message, ""
    if message.addressee not in (0, ledger.id):
        why = f"and is for subscription {message.addressee} alone"
    elif not (card.is_wanted or card.is_unjudged) and ledger.moved_until(card) < entry.at:
        why = "and its filter leaves it out"
    elif card.forwarded_at >= 0 and ledger.moved_until(card) < card.forwarded_at:
        why = f"and was before, at {card.forwarded_at}"
    elif card.letter_at >= 0 and ledger.moved_until(card) < card.letter_at:
        why = f"after it became a dead letter at {card.letter_at}"
    elif card.confirmed_from >= 0 and ledger.moved_until(card) < card.confirmed_from:
        why = f"after its ack was confirmed at {card.confirmed_from}"
    elif copy.data != message.data or copy.source_topic.rpartition("/")[2] != message.topic:
        why = f"as another message, of {copy.source_topic!r}"
    elif ledger.settings.enable_message_ordering and message.key:
        for earlier in ledger.open_before(card):
            if not ledger.is_excused(earlier, entry.time_s, entry.at):
                why = f"before {earlier.message.offset} of its key {message.key}"
                break
    if why:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} was forwarded at {entry.at}, {why}",
            ledger.id,
            ledger.partition,
            message.offset,
        )


def attempts_are_kept(
    ledger: Ledger, card: Card, delivered: Delivered, attempt: int
) -> Iterator[Violation]:
    """P3: failed deliveries are counted, through restarts too, and dead letters do not come back.

    A delivery shows one more than the failures that certainly counted, or a higher number.
    """
    settings = ledger.settings
    # The number is looked up when the message leaves: something may have come between.
    is_disturbed = any(card.failed_at < at < delivered.at for at in ledger.disturbed)
    if settings.dead_letter is not None and not is_disturbed and attempt < 1 + card.failures:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} came at {delivered.at} as attempt {attempt} after "
            f"{card.failures} failures",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )
    if card.letter_at >= 0 and ledger.moved_until(card) < card.letter_at:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} came at {delivered.at}, after it became a dead letter at "
            f"{card.letter_at}",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )
    if card.forwarded_at >= 0 and ledger.moved_until(card) < card.forwarded_at:
        yield Violation(
            "P3",
            f"{_name(ledger, card)} came at {delivered.at}, after it was forwarded at "
            f"{card.forwarded_at}",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )


def order_is_kept(ledger: Ledger, card: Card, delivered: Delivered) -> Iterator[Violation]:
    """P4: the outstanding messages of a key are a run from its first open one, with one consumer.

    When a message of a key is delivered, every earlier one that is certainly open is outstanding
    with the same consumer, delivered before it, its lease live. So nothing of a key is ever
    outstanding with two. With strict ordering there is no such earlier one.
    """
    settings, message = ledger.settings, card.message
    if not settings.enable_message_ordering or not message.key:
        return
    # What was pushed may be pulled from just now, and the other way round.
    is_strict = settings.push is not None or settings.labels.get(LABEL_ORDERING) == "strict"
    is_strict = is_strict and ledger.update_until < delivered.at
    now = delivered.decided_s
    for earlier in ledger.open_before(card):
        if not is_strict and _is_held(ledger, earlier, delivered):
            continue
        if ledger.is_excused(earlier, now, delivered.at) or ledger.is_letter(earlier, delivered.at):
            continue
        yield Violation(
            "P4",
            f"{_name(ledger, card)} came at {delivered.at}, before {earlier.message.offset} of "
            f"its key {message.key}",
            ledger.id,
            ledger.partition,
            message.offset,
        )
        return


def _is_held(ledger: Ledger, card: Card, delivered: Delivered) -> bool:
    """Whether the message may be outstanding with the consumer that gets another one now."""
    lease = card.lease
    if lease is None or lease.consumer != delivered.consumer:
        return False
    # Its timer may be late; nobody else can have it before it comes.
    due_s = lease.hi_s + TIMER_LATE_S
    is_overdue = due_s < delivered.decided_s and ledger.thawed_s != delivered.decided_s
    return lease.over_from > delivered.at and not is_overdue


def exactly_once(ledger: Ledger, card: Card, delivered: Delivered) -> Iterator[Violation]:
    """P5: an ack that was confirmed is final, and while a lease lives nobody else gets the message.

    Confirmed acks are final on every subscription where they cannot be early: without ordering,
    also at least once.
    """
    if (
        card.confirmed_from >= 0
        and delivered.generation > card.confirmed_generation
        and ledger.moved_until(card) < card.confirmed_from
    ):
        yield Violation(
            "P5" if ledger.settings.enable_exactly_once else "P2",
            f"{_name(ledger, card)} came at {delivered.at}, after its ack was confirmed at "
            f"{card.confirmed_from}",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )
    lease = card.lease
    if lease is None or not ledger.is_exactly_once(delivered.at):
        return
    if ledger.is_live(card, delivered.decided_s):
        yield Violation(
            "P5",
            f"{_name(ledger, card)} came at {delivered.at} while the lease of generation "
            f"{lease.generation:x} lived for another {lease.lo_s - delivered.decided_s:.3f} s",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )


def aversions_are_kept(ledger: Ledger, card: Card, delivered: Delivered) -> Iterator[Violation]:
    """P6: a message that a stream nacked is for others first, and for the stream after a while."""
    is_early = delivered.decided_s < card.averse_until_s - EPSILON_S
    if card.averse == delivered.consumer and is_early and ledger.moved_until(card) < card.averse_at:
        yield Violation(
            "P6",
            f"{_name(ledger, card)} came at {delivered.at} to the stream that nacked it, "
            f"{card.averse_until_s - delivered.decided_s:.3f} s too early",
            ledger.id,
            ledger.partition,
            card.message.offset,
        )


def acks_are_of_live_leases(
    ledger: Ledger, op: Op, pairs: Sequence[tuple[AckRef, Card]]
) -> Iterator[Violation]:
    """P5: an ack of a lease that is over is refused, and so is one ahead of its key."""
    together = {ref.offset for ref, _ in pairs}
    for ref, card in pairs:
        why = _why_dead(ledger, op, ref, card)
        if why:
            yield Violation(
                "P5",
                f"the ack of {_name(ledger, card)} begun at {op.begun_at} was confirmed although "
                f"{why}",
                ledger.id,
                ledger.partition,
                ref.offset,
            )
        if not ledger.settings.enable_message_ordering or not card.message.key:
            continue
        for earlier in ledger.open_before(card):
            if earlier.message.offset in together or ledger.seek_until > op.begun_at:
                continue
            # What was outstanding when an earlier one was reopened is done with first.
            if ref.generation <= earlier.reopened_generation:
                continue
            if ledger.is_excused(earlier, op.ended_s, op.ended_at):
                continue
            yield Violation(
                "P5",
                f"the ack of {_name(ledger, card)} begun at {op.begun_at} was confirmed ahead of "
                f"{earlier.message.offset} of its key {card.message.key}",
                ledger.id,
                ledger.partition,
                ref.offset,
            )


def _why_dead(ledger: Ledger, op: Op, ref: AckRef, card: Card) -> str:
    lease = card.lease
    if lease is None:
        return ""
    if ref.generation < lease.generation <= op.begun_generation:
        return "it was delivered again before"
    if lease.generation == ref.generation:
        if lease.hi_s < op.begun_s:
            return "its lease had run out"
        if lease.over_from < op.begun_at:
            return "its lease was over"
    if 0 <= card.confirmed_from < op.begun_at and ledger.moved_until(card) < card.confirmed_from:
        return "it was confirmed before"
    return ""


def credit_is_kept(account: Account, delivered: Delivered) -> Iterator[Violation]:
    """P8: a stream never holds more than the credit it asked for, of all topics together."""
    now = delivered.decided_s
    cards = [
        (ledger, card)
        for ledger in account.ledgers.values()
        for card in ledger.held_by(delivered.consumer)
    ]
    if len(cards) <= delivered.credit:
        return
    held = sum(
        1
        for ledger, card in cards
        if ledger.is_live(card, now) and not ledger.is_excused(card, now, delivered.at)
    )
    if held > delivered.credit:
        yield Violation(
            "P8",
            f"consumer {delivered.consumer} holds {held} messages of {account.name} and asked for "
            f"{delivered.credit}",
            account.id,
        )


def key_slots_have_one_holder(
    account: Account, ledger: Ledger, card: Card, delivered: Delivered
) -> Iterator[Violation]:
    """P11: no two consumers ever hold messages of one key slot, of all topics together."""
    if not ledger.settings.key_slots:
        return
    now, slot = delivered.decided_s, ledger.slot_of(card.message)
    for other in account.ledgers.values():
        for held in () if other.is_vague else other.in_slot(slot):
            assert held.lease is not None
            if held.lease.consumer == delivered.consumer or not other.is_live(held, now):
                continue
            if other.is_excused(held, now, delivered.at) or other.is_letter(held, delivered.at):
                continue
            yield Violation(
                "P11",
                f"{_name(ledger, card)} of key slot {slot} came at {delivered.at} to consumer "
                f"{delivered.consumer}, while consumer {held.lease.consumer} holds "
                f"{other.partition}:{held.message.offset} of it",
                ledger.id,
                ledger.partition,
                card.message.offset,
            )
            return


def _name(ledger: Ledger, card: Card) -> str:
    return f"message {ledger.partition}:{card.message.offset} on subscription {ledger.id}"
