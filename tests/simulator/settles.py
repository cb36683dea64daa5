"""Acknowledgements, nacks and deadlines as the ledgers learn of them, and what checkers say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fanlog.limits import AVERSION_S
from fanlog.model.resources import PartitionId, SubscriptionId
from simulator import checkers
from simulator.checkers import Violation
from simulator.chronicle import AckRef, Op, Settle
from simulator.ledger import Account, Card, Ledger


class Settles:
    """The verbs of consumers in one reading of a chronicle."""

    def __init__(
        self,
        accounts: Mapping[SubscriptionId, Account],
        violations: list[Violation],
        slack_s: float,
    ) -> None:
        """`slack_s` is how far a deadline may be counted apart."""
        self._slack_s = slack_s
        self._accounts = accounts
        self._violations = violations
        #: Nacks under way that will certainly count, if nothing comes between.
        self._nacking: dict[tuple[int, SubscriptionId, PartitionId], tuple[int, list[Card]]] = {}

    def settle(self, op: Op, settle: Settle, *, is_begin: bool) -> None:
        """One of them begins or ends."""
        if not op.may_have_shown:
            return
        refused = op.answer if isinstance(op.answer, tuple) else ()
        by_ledger: dict[tuple[SubscriptionId, PartitionId], list[AckRef]] = {}
        for ref in settle.refs:
            if ref.ack_id not in refused:
                by_ledger.setdefault((ref.subscription, ref.partition), []).append(ref)
        for (subscription, partition), refs in by_ledger.items():
            account = self._accounts.get(subscription)
            ledger = None if account is None else account.ledgers.get(partition)
            if ledger is None or ledger.is_vague or ledger.name != op.name:
                continue
            pairs = [(ref, ledger.cards[ref.offset]) for ref in refs]
            if settle.seconds is None:
                self._acknowledge(ledger, op, pairs, is_begin=is_begin)
            elif settle.seconds == 0:
                self._nack(ledger, op, pairs, is_begin=is_begin)
            else:
                self._extend(ledger, op, pairs, settle.seconds, is_begin=is_begin)

    def _acknowledge(
        self, ledger: Ledger, op: Op, pairs: Iterable[tuple[AckRef, Card]], *, is_begin: bool
    ) -> None:
        if is_begin and not op.may_have_happened:
            for _, card in pairs:
                card.shaky_until = max(card.shaky_until, op.ended_at)
            return
        if is_begin:
            for ref, card in pairs:
                delivered_at = ledger.delivered_at.get(ref.generation, -1)
                card.ack_delivered = max(card.ack_delivered, delivered_at)
                card.ack_until = max(card.ack_until, op.ended_at)
            return
        if op.outcome != "ok":
            return
        if ledger.is_exactly_once(op.begun_at):
            self._violations += checkers.acks_are_of_live_leases(ledger, op, list(pairs))
            for _, card in pairs:
                ledger.confirm(card, op)
        elif ledger.is_at_least_once(op.begun_at) and ledger.settings.dead_letter is None:
            # In order, an ack that is late may be of a message whose key is not known any more.
            is_unary = op.consumer == 0 and not ledger.settings.enable_message_ordering
            for ref, card in pairs:
                delivered_at = ledger.delivered_at.get(ref.generation, -1)
                # One that is late counts no more once a neighbour was reopened.
                moved_until = max(ledger.moved_until(card), ledger.reopened_until)
                if is_unary and moved_until < delivered_at:
                    ledger.confirm(card, op)

    def _nack(
        self, ledger: Ledger, op: Op, pairs: Iterable[tuple[AckRef, Card]], *, is_begin: bool
    ) -> None:
        if is_begin:
            certain: list[Card] = []
            for ref, card in pairs:
                lease = card.lease
                if lease is None or lease.generation != ref.generation or card in certain:
                    continue
                if ledger.is_live(card, op.ended_s) and not ledger.is_excused(
                    card, op.ended_s, op.begun_at
                ):
                    certain.append(card)
            for _, card in pairs:
                ledger.doubt_after(card)
            self._nacking[op.begun_at, ledger.id, ledger.partition] = ledger.doubts, certain
            if ledger.settings.enable_message_ordering:
                ledger.nacking[op.begun_at] = [card for _, card in pairs]
            return
        ledger.nacking.pop(op.begun_at, None)
        key = op.begun_at, ledger.id, ledger.partition
        doubts, certain = self._nacking.pop(key, (-1, []))
        if op.outcome != "ok" or ledger.doubts != doubts:
            return
        for card in certain:
            if card.is_maybe_closed or card.lease is None:
                continue
            card.lease.end(op.ended_at)
            card.averse, card.averse_at = card.lease.consumer, op.begun_at
            card.averse_until_s = op.begun_s + AVERSION_S
            has_policy = ledger.settings.dead_letter is not None
            if op.detail.is_counted and has_policy and ledger.update_until < op.begun_at:
                card.failures += 1
                card.failed_at = op.ended_at
            ledger.recall_after(card, op)

    def _extend(
        self,
        ledger: Ledger,
        op: Op,
        pairs: Iterable[tuple[AckRef, Card]],
        seconds: int,
        *,
        is_begin: bool,
    ) -> None:
        for ref, card in pairs:
            lease = card.lease
            if lease is None or lease.generation != ref.generation:
                continue
            if is_begin:
                lease.lo_s = min(lease.lo_s, op.begun_s + seconds - self._slack_s)
                lease.hi_s = max(lease.hi_s, op.ended_s + seconds + self._slack_s)
                # Of two that are under way together nobody can tell which one was the last.
                lease.extended_at = -1 if lease.extending_until > op.begun_at else op.begun_at
                lease.extending_until = max(lease.extending_until, op.ended_at)
            elif (
                op.outcome == "ok"
                and ledger.is_exactly_once(op.begun_at)
                and lease.extended_at == op.begun_at
            ):
                # Confirmed, and so it was live; and nothing else that was asked for overlaps.
                lease.lo_s = op.begun_s + seconds - self._slack_s
                lease.hi_s = op.ended_s + seconds + self._slack_s
