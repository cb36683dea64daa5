"""A chronicle, read in the order of decisions: keeps the ledgers and asks the checkers.

Nothing is judged here. At each delivery, each answered acknowledgement and each commit the checkers
are asked *before* the ledger learns of it, so that they see what was known just then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fanlog.core.records import SnapshotRecord, SubscriptionRecord
from fanlog.model import Offset, SnapshotId, SubscriptionId
from fanlog.testing.simulator import checkers
from fanlog.testing.simulator.checkers import Violation
from fanlog.testing.simulator.chronicle import (
    NEVER,
    AckRef,
    Chronicle,
    Committed,
    Delivered,
    Entry,
    Message,
    Op,
    Rotten,
    SeekTo,
    Settle,
    Turn,
)
from fanlog.testing.simulator.ledger import EPSILON_S, Card, Ledger
from fanlog.wire.publish import parse_message_id

#: Sentences of one world at most: the first few say it all.
VIOLATIONS_MAX = 20


@dataclass(slots=True)
class SnapshotView:
    """What a snapshot may hold as acknowledged; None if that cannot be said."""

    id: SnapshotId
    maybe_closed: set[Offset] | None
    partition: int = 0


@dataclass(slots=True)
class _Seeking:
    """A seek to a snapshot that is under way."""

    view: SnapshotView | None
    #: What may have closed each message before it.
    before: dict[Offset, int] = field(default_factory=dict)
    is_clear: bool = True


class Replay:
    """One reading of one chronicle."""

    def __init__(self, chronicle: Chronicle) -> None:
        self._chronicle = chronicle
        self.violations: list[Violation] = []
        self._letters = _letters(chronicle)
        self._disturbed = _disturbed(chronicle)
        self.ledgers: dict[SubscriptionId, Ledger] = {}
        self._running: dict[int, Op] = {}
        self._snapshots: dict[str, SnapshotView] = {}
        #: When the making or removal of a snapshot of that name last began, ended or came true.
        self._snapshot_touched: dict[str, int] = {}
        self._seeking: dict[int, dict[SubscriptionId, _Seeking]] = {}
        self._deleting: set[str] = set()
        self._rotten: set[tuple[int, Offset]] = set()
        #: Nacks under way that will certainly count, if nothing comes between.
        self._nacking: dict[tuple[int, SubscriptionId], tuple[int, list[Card]]] = {}
        self.end_s = 0.0

    def run(self) -> list[Violation]:
        for entry in self._chronicle.in_order():
            self.end_s = entry.time_s
            match entry.what:
                case Op():
                    self._op(entry, entry.what)
                case Delivered():
                    self._delivered(entry.what)
                case Committed():
                    self._committed(entry, entry.what)
                case Rotten(partition=partition, offset_start=start, offset_end=end):
                    self._rotten.update((partition, offset) for offset in range(start, end))
                    for ledger in self.ledgers.values():
                        if ledger.partition == partition:
                            for card in ledger.cards[start:end]:
                                card.is_rotten = True
                case Turn():
                    self._turn(entry, entry.what)
            if len(self.violations) > VIOLATIONS_MAX:
                return self.violations
        for ledger in self.ledgers.values():
            if not ledger.is_removed and not ledger.is_vague:
                self.violations += checkers.nothing_is_lost(ledger, self.end_s)
        return self.violations

    # Commits.

    def _committed(self, entry: Entry, committed: Committed) -> None:
        for change in committed.changes:
            if isinstance(change, SubscriptionRecord):
                self._subscription_changed(entry, committed, change)
        for message in committed.messages:
            for ledger in self.ledgers.values():
                if ledger.partition == message.partition and not ledger.is_removed:
                    self._appended(ledger, message)
            if message.source_id:
                self._letter(entry, message)
        # Last: what a snapshot copies may have been decided for the same commit.
        for change in committed.changes:
            if isinstance(change, SnapshotRecord):
                self._snapshot_changed(entry, change)

    def _appended(self, ledger: Ledger, message: Message) -> None:
        card = ledger.add(message)
        for op in self._running.values():
            if op.verb in ("seek", "detach") and op.name == ledger.name and op.may_have_shown:
                card.close(op)

    def _letter(self, entry: Entry, message: Message) -> None:
        partition, offset = parse_message_id(message.source_id)
        for ledger in self.ledgers.values():
            if ledger.partition != partition or ledger.name.rpartition("/")[2] != message.source:
                continue
            card = ledger.card(offset)
            if card is None or ledger.is_removed or ledger.is_vague:
                continue
            self.violations += checkers.one_letter(ledger, card, entry)
            card.letter_at = entry.at
            card.closed_until = max(card.closed_until, entry.at)

    def _subscription_changed(
        self, entry: Entry, committed: Committed, change: SubscriptionRecord
    ) -> None:
        ledger = self.ledgers.get(change.id)
        if change.subscription is None:
            if ledger is not None:
                ledger.is_removed = True
                was_asked = ledger.name in self._deleting
                self.violations += checkers.removed_lawfully(ledger, entry, was_asked=was_asked)
            return
        if ledger is not None:
            ledger.configure(change.subscription, entry.time_s, entry.at)
            return
        floor = next(head.floor for head in committed.heads if head.owner == change.id)
        assert floor is not None
        ledger = Ledger(change.subscription, floor, entry.at, entry.time_s)
        ledger.disturbed = self._disturbed.get(ledger.name, ())
        ledger.letters = self._letters.get((ledger.partition, ledger.name.rpartition("/")[2]), {})
        self.ledgers[change.id] = ledger
        appended = {message.offset for message in committed.messages}
        for message in self._chronicle.log.get(ledger.partition, ()):
            # Those of this very commit come by in a moment.
            if message.at < entry.at or (message.at == entry.at and message.offset not in appended):
                card = ledger.add(message)
                card.is_rotten = (message.partition, message.offset) in self._rotten
        for op in self._running.values():
            if op.name == ledger.name and op.verb not in ("create subscription", "pull", "stream"):
                ledger.is_vague = True

    def _snapshot_changed(self, entry: Entry, change: SnapshotRecord) -> None:
        if change.snapshot is None:
            for name in [n for n, view in self._snapshots.items() if view.id == change.id]:
                del self._snapshots[name]
                self._snapshot_touched[name] = entry.at
            return
        name = change.snapshot.name
        known = self._snapshots.get(name)
        if known is not None and known.id == change.id:
            return
        self._snapshot_touched[name] = entry.at
        partition = change.snapshot.partitions[0]
        self._snapshots[name] = SnapshotView(change.id, self._content(entry, name), partition)

    def _content(self, entry: Entry, name: str) -> set[Offset] | None:
        makers = [
            op for op in self._running.values() if op.verb == "create snapshot" and op.name == name
        ]
        sources = {
            ledger.id: ledger
            for op in makers
            for ledger in self._named(op.detail)
            if not ledger.is_vague and ledger.seek_until < op.begun_at
        }
        if len(sources) != 1 or len({op.detail for op in makers}) != 1:
            return None
        (source,) = sources.values()
        return {
            card.message.offset
            for card in source.cards
            if source.is_excused(card, entry.time_s, entry.at)
        }

    # Deliveries.

    def _delivered(self, delivered: Delivered) -> None:
        ledger = self.ledgers.get(delivered.subscription)
        if ledger is None or ledger.is_vague:
            return
        ledger.used_s = delivered.time_s
        ledger.delivered_at[delivered.generation] = delivered.at
        for offset, attempt in zip(delivered.offsets, delivered.attempts, strict=True):
            card = ledger.card(offset)
            if card is None:
                self.violations.append(
                    Violation("P1", f"offset {offset} came before it was committed", ledger.id)
                )
                continue
            self.violations += checkers.order_is_kept(ledger, card, delivered)
            self.violations += checkers.exactly_once(ledger, card, delivered)
            self.violations += checkers.attempts_are_kept(ledger, card, delivered, attempt)
            ledger.lease(card, delivered)
            card.is_drained = card.is_drained or delivered.is_drain
        if delivered.credit:
            self.violations += checkers.credit_is_kept(ledger, delivered)

    # Turns of the process.

    def _turn(self, entry: Entry, turn: Turn) -> None:
        for ledger in self.ledgers.values():
            if turn.what == "frozen":
                ledger.thawed_s = entry.time_s
            elif turn.what == "starting":
                ledger.restart(entry.time_s)
            elif turn.what in ("crashed", "stopped", "commit failed"):
                if ledger.is_at_least_once(entry.at):
                    ledger.end_leases(entry.at, entry.generation)
                elif not ledger.is_exactly_once(entry.at):
                    ledger.doubt_leases()
                ledger.elapse(entry.time_s)
                ledger.recall_all(entry.at, entry.time_s)

    # Verbs.

    def _op(self, entry: Entry, op: Op) -> None:
        is_begin = entry.kind == "begun"
        for ledger in self._named(op.name):
            ledger.used_s = entry.time_s
        match op.verb:
            case "acknowledge" | "modify":
                self._settle(op, op.detail, is_begin=is_begin)
            case "seek":
                self._seek(op, op.detail, is_begin=is_begin)
            case "detach" if is_begin and op.may_have_shown:
                for ledger in self._named(op.name):
                    ledger.seek_until = max(ledger.seek_until, op.ended_at)
                    ledger.seek_begun = op.begun_at
                    ledger.doubt_leases()
                    for card in ledger.cards:
                        card.close(op)
            case "update subscription" if is_begin and op.may_have_shown:
                for ledger in self._named(op.name):
                    self._update(ledger, op)
            case "delete subscription" if is_begin and op.may_have_happened:
                self._deleting.add(op.name)
            case "create snapshot" | "delete snapshot":
                self._snapshot_touched[op.name] = entry.at
        if is_begin:
            self._running[op.begun_at] = op
        else:
            del self._running[op.begun_at]

    def _update(self, ledger: Ledger, op: Op) -> None:
        ledger.update_until = max(ledger.update_until, op.ended_at)
        if "enable_exactly_once" in op.detail:
            ledger.once_until = max(ledger.once_until, op.ended_at)
            ledger.doubt_leases()
            for card in ledger.cards:
                card.confirmed_from = card.confirmed_generation = -1
        if "dead_letter" in op.detail:
            for card in ledger.cards:
                card.failures = 0

    def _settle(self, op: Op, settle: Settle, *, is_begin: bool) -> None:
        if not op.may_have_shown:
            return
        refused = op.answer if isinstance(op.answer, tuple) else ()
        by_ledger: dict[SubscriptionId, list[AckRef]] = {}
        for ref in settle.refs:
            if ref.ack_id not in refused:
                by_ledger.setdefault(ref.subscription, []).append(ref)
        for subscription, refs in by_ledger.items():
            ledger = self.ledgers.get(subscription)
            if ledger is None or ledger.is_vague or ledger.is_removed or ledger.name != op.name:
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
            self.violations += checkers.acks_are_of_live_leases(ledger, op, list(pairs))
            for _, card in pairs:
                ledger.confirm(card, op)
        elif ledger.is_at_least_once(op.begun_at) and ledger.settings.dead_letter is None:
            # In order, an ack that is late may be of a message whose key is not known any more.
            is_unary = op.consumer == 0 and not ledger.settings.enable_message_ordering
            for ref, card in pairs:
                delivered_at = ledger.delivered_at.get(ref.generation, -1)
                if is_unary and ledger.seek_until < delivered_at:
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
            self._nacking[op.begun_at, ledger.id] = ledger.doubts, certain
            return
        doubts, certain = self._nacking.pop((op.begun_at, ledger.id), (-1, []))
        if op.outcome != "ok" or ledger.doubts != doubts:
            return
        for card in certain:
            if card.is_maybe_closed or card.lease is None:
                continue
            card.lease.end(op.ended_at)
            if ledger.settings.dead_letter is not None and ledger.update_until < op.begun_at:
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
                lease.lo_s = min(lease.lo_s, op.begun_s + seconds)
                lease.hi_s = max(lease.hi_s, op.ended_s + seconds)
                # Of two that are under way together nobody can tell which one was the last.
                lease.extended_at = -1 if lease.extending_until > op.begun_at else op.begun_at
                lease.extending_until = max(lease.extending_until, op.ended_at)
            elif (
                op.outcome == "ok"
                and ledger.is_exactly_once(op.begun_at)
                and lease.extended_at == op.begun_at
            ):
                # Confirmed, and so it was live; and nothing else that was asked for overlaps.
                lease.lo_s, lease.hi_s = op.begun_s + seconds, op.ended_s + seconds

    # Seeks.

    def _seek(self, op: Op, to: SeekTo, *, is_begin: bool) -> None:
        if not op.may_have_shown:
            return
        for ledger in self._named(op.name):
            if is_begin:
                overlaps = ledger.seek_until > op.begun_at
                ledger.seek_until = max(ledger.seek_until, op.ended_at)
                ledger.seek_begun = op.begun_at
                ledger.doubt_leases()
                for card in ledger.cards:
                    card.failures = 0
                if to.time_ns is not None:
                    for card in ledger.cards:
                        if card.message.publish_ns < to.time_ns:
                            card.close(op)
                else:
                    self._begin_snapshot_seek(ledger, op, to, overlaps=overlaps)
            elif op.outcome == "ok" and to.time_ns is not None:
                self._end_time_seek(ledger, op, to.time_ns)
            elif op.outcome == "ok":
                self._end_snapshot_seek(ledger, op, to)

    def _end_time_seek(self, ledger: Ledger, op: Op, time_ns: int) -> None:
        """Acknowledged messages that are retained are certainly open again."""
        settings = ledger.settings
        ledger.end_leases(op.ended_at, op.begun_generation)
        if not settings.retain_acked or ledger.update_until > op.begun_at:
            return
        retained_s = op.ended_s - settings.message_retention_s + EPSILON_S
        for card in ledger.cards:
            message = card.message
            if (
                message.publish_ns >= max(time_ns, int(retained_s * 1e9))
                and (message.offset >= op.answer or message.at > ledger.retains_from)
                and message.at < op.begun_at
            ):
                card.opened_from = max(card.opened_from, op.begun_at)
        ledger.reopened()

    def _begin_snapshot_seek(self, ledger: Ledger, op: Op, to: SeekTo, *, overlaps: bool) -> None:
        view = self._snapshots.get(to.snapshot)
        touching = any(
            other.name == to.snapshot
            for other in self._running.values()
            if other.verb in ("create snapshot", "delete snapshot")
        )
        seeking = _Seeking(view, is_clear=not overlaps and not touching)
        for card in ledger.cards:
            seeking.before[card.message.offset] = card.closed_until
            card.close(op)
        self._seeking.setdefault(op.begun_at, {})[ledger.id] = seeking

    def _end_snapshot_seek(self, ledger: Ledger, op: Op, to: SeekTo) -> None:
        seeking = self._seeking.get(op.begun_at, {}).pop(ledger.id, None)
        if seeking is None or not seeking.is_clear or ledger.seek_begun > op.begun_at:
            return
        view = seeking.view
        if view is None or view.maybe_closed is None or view.partition != ledger.partition:
            return
        if self._snapshot_touched.get(to.snapshot, NEVER) > op.begun_at:
            return
        ledger.end_leases(op.ended_at, op.begun_generation)
        for card in ledger.cards:
            offset = card.message.offset
            if offset in seeking.before and offset not in view.maybe_closed:
                card.closed_until = seeking.before[offset]
                card.opened_from = max(card.opened_from, op.begun_at)
        ledger.reopened()

    def _named(self, name: str) -> list[Ledger]:
        return [
            ledger
            for ledger in self.ledgers.values()
            if ledger.name == name and not ledger.is_removed
        ]


def _letters(chronicle: Chronicle) -> dict[tuple[int, str], dict[Offset, list[int]]]:
    """When dead letters were committed, by the partition and subscription they came from."""
    found: dict[tuple[int, str], dict[Offset, list[int]]] = {}
    for log in chronicle.log.values():
        for message in log:
            if message.source_id:
                partition, offset = parse_message_id(message.source_id)
                of_source = found.setdefault((partition, message.source), {})
                of_source.setdefault(offset, []).append(message.at)
    return found


def _disturbed(chronicle: Chronicle) -> dict[str, list[int]]:
    """When verbs begin that may change what a delivery says of itself, by subscription."""
    found: dict[str, list[int]] = {}
    for entry in chronicle.entries:
        if entry.kind == "begun" and entry.what.verb in ("seek", "detach", "update subscription"):
            found.setdefault(entry.what.name, []).append(entry.at)
    return found
