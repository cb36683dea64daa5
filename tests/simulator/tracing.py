"""What traces say of messages, held against what the ledgers know of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fanlog.model.resources import SubscriptionId
from simulator.checkers import Violation
from simulator.chronicle import Entry, Traced
from simulator.ledger import Account, Card, Ledger

#: States of messages that are to be delivered yet. EARLY is neither: a restart may forget it.
_PENDING = frozenset({"PENDING", "BACKLOG", "OUTSTANDING", "DELAYED", "DEPENDING", "FORWARDING"})


def traced_rightly(
    accounts: Mapping[SubscriptionId, Account], traced: Traced, entry: Entry
) -> Iterator[Violation]:
    """A trace says that a message is pending, or is not, only if that may be so."""
    account = accounts.get(traced.subscription)
    ledger = None if account is None else account.ledgers.get(traced.partition)
    card = None if ledger is None else ledger.card(traced.offset)
    if ledger is None or card is None or ledger.is_vague:
        return
    why = _why_not(ledger, card, traced, entry)
    if why:
        yield Violation(
            "trace",
            f"message {traced.partition}:{traced.offset} of {ledger.name} was traced as "
            f"{traced.state} at {entry.at}, {why}",
            ledger.id,
            ledger.partition,
            traced.offset,
        )


def _why_not(ledger: Ledger, card: Card, traced: Traced, entry: Entry) -> str:
    if ledger.moved_until(card) >= entry.at or ledger.settings.detached:
        return ""
    if traced.state in _PENDING:
        is_confirmed = card.confirmed_from >= 0 and ledger.moved_until(card) < card.confirmed_from
        return "and its ack was confirmed" if is_confirmed else ""
    is_open = not ledger.is_excused(card, entry.time_s, entry.at) and not card.is_unjudged
    return "and it is still to be delivered" if is_open else ""
