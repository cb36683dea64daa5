"""The same world as its clients saw it, asked with the checker that the crash tests use.

`fanlog.testing.history` knows no excuses: it has no words for a seek, for retention or for a dead
letter policy. So only subscriptions on which nothing of the kind was ever tried are told to it. For
those it must find what `checkers` finds, and nothing else: the one checks the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fanlog.model.ids import message_id
from fanlog.testing.history import History
from simulator.asking import may_be_lapsed
from simulator.chronicle import (
    Chronicle,
    Committed,
    Delivered,
    Entry,
    Op,
    Rotten,
    Settle,
)
from simulator.ledger import Ledger

#: Verbs after which a subscription is not plain any more, if they may have done anything.
_MOVES = ("seek", "detach", "delete subscription", "reopen", "redrive")


def seen_from_outside(
    chronicle: Chronicle, ledgers: Iterator[Ledger], end_s: float
) -> Iterator[str]:
    """Sentences of the promises that clients of plain subscriptions saw broken."""
    if any(isinstance(entry.what, Rotten) for entry in chronicle.entries):
        return
    moved = {
        entry.what.name
        for entry in chronicle.entries
        if entry.kind == "begun" and entry.what.verb in _MOVES and entry.what.may_have_shown
    }
    plain = [one for one in ledgers if one.name not in moved and _is_plain(one, end_s)]
    entries = chronicle.in_order() if plain else []
    for ledger in plain:
        yield from _asked(_told(entries, ledger), ledger)


def _is_plain(ledger: Ledger, end_s: float) -> bool:
    if ledger.is_vague or ledger.settings.detached or ledger.was_dead_lettered:
        return False
    if any(card.forwarded_at >= 0 for card in ledger.cards):
        return False
    return not any(
        ledger.is_expired(card, end_s) or may_be_lapsed(card.message, end_s)
        for card in ledger.cards
    )


def _told(entries: Sequence[Entry], ledger: Ledger) -> History:
    """The history of one subscription in one partition: its name stands for its topic, too."""
    history = History()
    for entry in entries:
        match entry.what:
            case Committed(messages=messages):
                for message in messages:
                    if message.partition == ledger.partition and message.offset >= ledger.floor:
                        identity = message_id(message.partition, message.offset)
                        one = (identity, message.data)
                        history.published(ledger.name, [one], key=message.key)
                        if not ledger.cards[message.offset].is_wanted:
                            history.left_out(ledger.name, [identity])
            case Delivered(
                subscription=ledger.id, offsets=offsets, partition=ledger.partition as partition
            ):
                for offset in offsets:
                    card = ledger.cards[offset]
                    identity = message_id(partition, offset)
                    data, key = card.message.data, card.message.key
                    history.delivered(ledger.name, identity, data, key=key)
            case Op(detail=Settle(seconds=None)) as op:
                _tell_ack(history, ledger, op, is_begin=entry.kind == "begun")
    return history


def _tell_ack(history: History, ledger: Ledger, op: Op, *, is_begin: bool) -> None:
    refused = op.answer if isinstance(op.answer, tuple) else ()
    ids = [
        message_id(ledger.partition, ref.offset)
        for ref in op.detail.refs
        if ref.subscription == ledger.id
        and ref.partition == ledger.partition
        and ref.ack_id not in refused
    ]
    if is_begin:
        history.ack_sent(ledger.name, ids)
    elif op.outcome == "ok" and ids:
        history.acked(ledger.name, ids)


def _asked(history: History, ledger: Ledger) -> Iterator[str]:
    name = ledger.name
    for sentence in [*history.lost(name, name), *history.unwanted(name)]:
        yield f"P2: {sentence}"
    for sentence in [*history.altered(name, name), *history.unordered_ids(name)]:
        yield f"P1: {sentence}"
    if ledger.settings.enable_message_ordering:
        for sentence in history.out_of_order(name, name):
            yield f"P4: {sentence}"
    if ledger.settings.enable_exactly_once and ledger.once_until < 0:
        for sentence in history.came_back(name):
            yield f"P5: {sentence}"
