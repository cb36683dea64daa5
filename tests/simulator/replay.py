"""A chronicle, read in the order of decisions: keeps the ledgers and asks the checkers.

Nothing is judged here. At each delivery, each answered acknowledgement and each commit the checkers
are asked *before* the ledger learns of it, so that they see what was known just then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fanlog.core.records import CursorHead, SnapshotRecord, SubscriptionRecord, TopicRecord
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId, SnapshotId, SubscriptionId, Topic, TopicId
from simulator import checkers
from simulator.checkers import Violation
from simulator.chronicle import (
    NEVER,
    Chronicle,
    Committed,
    Delivered,
    Entry,
    Message,
    Op,
    Rotten,
    SeekTo,
    Traced,
    Turn,
    letters_of,
)
from simulator.ledger import EPSILON_S, Account, Ledger
from simulator.meanings import is_matched, is_pattern
from simulator.receivers import forwarder_of
from simulator.reopening import Reopenings, disturbed
from simulator.sequences import is_numbered
from simulator.settles import Settles
from simulator.singles import is_apart
from simulator.tracing import traced_rightly

#: Verbs that leave no doubt about a subscription that is made while they run.
_HARMLESS = ("create subscription", "pull", "stream", "push", "get policy", "set policy")
#: Sentences of one world at most: the first few say it all.
VIOLATIONS_MAX = 20


@dataclass(slots=True)
class SnapshotView:
    """What a snapshot may hold as acknowledged; of partitions it cannot say it of, nothing."""

    id: SnapshotId
    #: The topic it is of, or the pattern.
    topic: str
    maybe_closed: dict[PartitionId, set[Offset]]
    #: What the filter had certainly left out by then.
    left_out: dict[PartitionId, set[Offset]]


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
        self._letters = letters_of(chronicle)
        self._disturbed = disturbed(chronicle)
        self.accounts: dict[SubscriptionId, Account] = {}
        self._topics: dict[TopicId, Topic] = {}
        #: Names of topics that may ever have retained what is acknowledged.
        self._retaining: set[str] = set()
        self._on: dict[PartitionId, list[Ledger]] = {}
        self._running: dict[int, Op] = {}
        #: Seeks that were cut: they may have passed messages that waited for the disk.
        self._cut_seeks: list[Op] = []
        self._snapshots: dict[str, SnapshotView] = {}
        #: When the making or removal of a snapshot of that name last began, ended or came true.
        self._snapshot_touched: dict[str, int] = {}
        self._seeking: dict[int, dict[tuple[SubscriptionId, PartitionId], _Seeking]] = {}
        #: Seeks that were begun, by the subscription's name.
        self._seeks: dict[str, list[Op]] = {}
        self._deleting: set[str] = set()
        #: Names of subscriptions that may have been gone for a while, also if that failed.
        self._missing: set[str] = set()
        #: Deliveries decided before the commit that made their subscription.
        self._early: dict[tuple[SubscriptionId, PartitionId], list[Delivered]] = {}
        self._rotten: set[tuple[int, Offset]] = set()
        self._settles = Settles(self.accounts, self.violations, chronicle.lease_slack_s)
        self._reopenings = Reopenings(chronicle, self._named)
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
                    for ledger in self._on.get(partition, ()):
                        for card in ledger.cards[start:end]:
                            card.is_rotten = True
                case Traced():
                    self.violations += traced_rightly(self.accounts, entry.what, entry)
                case Turn():
                    self._turn(entry, entry.what)
            if len(self.violations) > VIOLATIONS_MAX:
                return self.violations
        for ledger in self.ledgers():
            if not ledger.is_vague:
                self.violations += checkers.nothing_is_lost(ledger, self.end_s)
        self.violations += self._reopenings.nothing_is_lost_between(self.end_s)
        return self.violations

    def ledgers(self) -> Iterator[Ledger]:
        for account in self.accounts.values():
            yield from account.ledgers.values()

    # Commits.

    def _committed(self, entry: Entry, committed: Committed) -> None:
        new_topics: list[Topic] = []
        for change in committed.changes:
            if isinstance(change, TopicRecord) and not is_numbered(change.topic):
                new_topics += self._topic_changed(change)
        for change in committed.changes:
            if isinstance(change, SubscriptionRecord) and not (
                is_apart(change.subscription) or is_numbered(change.subscription)
            ):
                self._subscription_changed(entry, committed, change)
        new = {partition for topic in new_topics for partition in topic.partitions}
        for head in committed.heads:
            account = self.accounts.get(SubscriptionId(head.owner))
            if account is not None:
                self._head_changed(entry, committed, account, head, is_new=head.partition in new)
        for account in self.accounts.values():
            if is_pattern(account.settings.topic) and not account.settings.detached:
                topics = self._topics.values() if account.created_at == entry.at else new_topics
                names = {p: topic.name for topic in topics for p in topic.partitions}
                self.violations += checkers.joins_every_topic(account, names, entry)
        for message in committed.messages:
            for ledger in self._on.get(message.partition, ()):
                self._appended(ledger, message)
            if message.source:
                self._letter(entry, message)
            elif message.source_id:
                self._forwarded(entry, message)
        # Last: what a snapshot copies may have been decided for the same commit.
        for change in committed.changes:
            if isinstance(change, SnapshotRecord):
                self._snapshot_changed(entry, change)
        for view in self._snapshots.values():
            for topic in new_topics:
                if is_pattern(view.topic) and is_matched(view.topic, topic.name):
                    for partition in topic.partitions:
                        view.maybe_closed.setdefault(partition, set())

    def _topic_changed(self, change: TopicRecord) -> list[Topic]:
        """The topic, if it is a new one."""
        if change.topic is None:
            self._topics.pop(change.id, None)
            return []
        if change.topic.message_retention_s is not None:
            self._retaining.add(change.topic.name)
        is_new = change.id not in self._topics
        self._topics[change.id] = change.topic
        return [change.topic] if is_new else []

    def _appended(self, ledger: Ledger, message: Message) -> None:
        card = ledger.add(message)
        seeks = [op for op in self._running.values() if op.verb in ("seek", "detach")]
        offset, partition = message.offset, message.partition
        seeks += [op for op in self._cut_seeks if offset < op.assigned.get(partition, 0)]
        for op in seeks:
            if op.name == ledger.name and op.may_have_shown and op.may_pass(message):
                card.close(op)

    def _letter(self, entry: Entry, message: Message) -> None:
        partition, offset = parse_message_id(message.source_id)
        for ledger in self._on.get(PartitionId(partition), ()):
            card = ledger.card(offset)
            if card is None or ledger.is_vague:
                continue
            if ledger.name.rpartition("/")[2] != message.source:
                continue
            self.violations += checkers.one_letter(ledger, card, message, entry)
            card.letter_at = entry.at
            card.closed_until = max(card.closed_until, entry.at)

    def _forwarded(self, entry: Entry, message: Message) -> None:
        partition, offset = parse_message_id(message.source_id)
        for ledger in self._on.get(PartitionId(partition), ()):
            card = ledger.card(offset)
            if card is None or ledger.is_vague:
                continue
            if ledger.name.rpartition("/")[2] != forwarder_of(message.topic):
                continue
            self.violations += checkers.forwarded_once(ledger, card, message, entry)
            card.forwarded_at = entry.at
            card.closed_until = max(card.closed_until, entry.at)

    def _subscription_changed(
        self, entry: Entry, committed: Committed, change: SubscriptionRecord
    ) -> None:
        account = self.accounts.get(change.id)
        settings = change.subscription
        if settings is None:
            if account is not None:
                del self.accounts[change.id]
                for ledger in account.ledgers.values():
                    self._on[ledger.partition].remove(ledger)
                was_asked = account.name in self._deleting
                self.violations += checkers.removed_lawfully(account, entry, was_asked=was_asked)
            return
        if account is not None:
            account.settings = settings
            for ledger in account.ledgers.values():
                ledger.change_filter(settings.filter, committed.sequence)
                ledger.configure(settings, entry.time_s, entry.at)
            return
        account = self.accounts[change.id] = Account(settings, entry.at, entry.time_s)
        account.is_vague = any(
            op.name == account.name and op.verb not in _HARMLESS for op in self._running.values()
        )

    def _head_changed(
        self,
        entry: Entry,
        committed: Committed,
        account: Account,
        head: CursorHead,
        *,
        is_new: bool,
    ) -> None:
        """A cursor was made or removed, or a seek moved it; other moves say nothing new."""
        ledger = account.ledgers.get(head.partition)
        if head.floor is None:
            if ledger is not None:
                is_deleted = all(head.partition not in t.partitions for t in self._topics.values())
                if not ledger.is_vague:
                    self.violations += checkers.leaves_lawfully(
                        ledger, entry, is_deleted=is_deleted
                    )
                ledger.leave(entry.at)
        elif ledger is None:
            ledger = self._join(entry, committed, account, head)
            if ledger.is_vague:
                return
            if account.settings.push is not None and not is_new:
                # What is pushed at once may be acknowledged by the very commit that made it.
                return
            if account.created_at == entry.at:
                starts = [
                    op.detail
                    for op in self._running.values()
                    if op.verb == "create subscription" and op.name == account.name
                ]
                self.violations += checkers.begins_where_it_should(
                    ledger,
                    entry,
                    log_start=committed.starts[head.partition],
                    log_end=len(ledger.cards)
                    + sum(m.partition == head.partition for m in committed.messages),
                    is_earliest=bool(starts) and set(starts) == {"earliest"},
                )
            elif is_new:
                self.violations += checkers.joins_from_its_first(ledger, entry)
        elif head.fence != ledger.fence:
            ledger.fence = head.fence
            if any(begun < head.fence for begun in ledger.seeks_left):
                # What was decided after its caller had left shows only now.
                ledger.seek_until = max(ledger.seek_until, entry.at)
            ledger.seeks_left = [begun for begun in ledger.seeks_left if begun >= head.fence]
            # The fence is the generation of the moment the seek was decided.
            seeks = [
                op
                for op in self._seeks.get(ledger.name, ())
                if op.begun_generation < head.fence <= op.ended_generation
            ]
            may_reopen = not seeks or any(
                op.detail.time_ns is None or self._may_retain(ledger, op) for op in seeks
            )
            begun_at = min((op.begun_at for op in seeks), default=-1)
            ledger.refilter(committed.sequence, begun_at, may_reopen=may_reopen)

    def _may_retain(self, ledger: Ledger, op: Op) -> bool:
        """Whether a seek to a time may have brought back what was acknowledged."""
        topic = self._chronicle.topics.get(ledger.partition)
        is_touched = ledger.update_until >= op.begun_at or topic in self._retaining
        has_default = self._chronicle.topic_retention_s > 0.0
        return is_touched or has_default or ledger.settings.retain_acked

    def _join(
        self, entry: Entry, committed: Committed, account: Account, head: CursorHead
    ) -> Ledger:
        partition = head.partition
        ledger = Ledger(account.settings, partition, head, entry.at, entry.time_s)
        ledger.is_vague = account.is_vague
        ledger.disturbed = self._disturbed.get(ledger.name, ())
        ledger.letters = self._letters.get((partition, ledger.name.rpartition("/")[2]), {})
        account.ledgers[partition] = ledger
        self._on.setdefault(partition, []).append(ledger)
        # Those of this very commit come by in a moment.
        for message in self._chronicle.log.get(partition, ()):
            if message.at < entry.at:
                card = ledger.add(message)
                card.is_rotten = (partition, message.offset) in self._rotten
        for op in self._running.values():
            if op.name != ledger.name or not op.may_have_shown or ledger.is_vague:
                continue
            if op.verb == "update subscription":
                self._update(ledger, op)
            elif op.verb in ("seek", "detach"):
                ledger.is_vague = True
        for delivered in self._early.pop((ledger.id, partition), ()):
            self._delivered(delivered)
        return ledger

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
        view = self._snapshots[name] = SnapshotView(change.id, change.snapshot.topic, {}, {})
        makers = [
            op for op in self._running.values() if op.verb == "create snapshot" and op.name == name
        ]
        if len({op.detail for op in makers}) == 1:
            self._fill(view, entry, makers)

    def _fill(self, view: SnapshotView, entry: Entry, makers: Sequence[Op]) -> None:
        """What one of those who try to make a snapshot puts into it."""
        begun_at = min(op.begun_at for op in makers)
        for ledger in self._named(makers[0].detail):
            if ledger.is_vague or ledger.seek_until >= begun_at:
                continue
            cards = ledger.cards
            view.maybe_closed[ledger.partition] = {
                card.message.offset
                for card in cards
                if ledger.is_excused(card, entry.time_s, entry.at)
            }
            view.left_out[ledger.partition] = {
                card.message.offset
                for card in cards
                if not card.is_wanted and card.message.at < begun_at and card.moved_until < 0
            }

    # Deliveries.

    def _delivered(self, delivered: Delivered) -> None:
        account = self.accounts.get(delivered.subscription)
        ledger = None if account is None else account.ledgers.get(delivered.partition)
        if account is None or ledger is None:
            where = delivered.subscription, delivered.partition
            self._early.setdefault(where, []).append(delivered)
            return
        if ledger.is_vague:
            return
        account.used_s = delivered.time_s
        ledger.delivered_at[delivered.generation] = delivered.at
        for offset, attempt in zip(delivered.offsets, delivered.attempts, strict=True):
            card = ledger.card(offset)
            if card is None:
                self.violations.append(
                    Violation(
                        "P1",
                        f"offset {offset} came before it was committed",
                        ledger.id,
                        ledger.partition,
                    )
                )
                continue
            self.violations += checkers.is_for_it(account, ledger, card, delivered)
            self.violations += checkers.order_is_kept(ledger, card, delivered)
            self.violations += checkers.exactly_once(ledger, card, delivered)
            self.violations += checkers.aversions_are_kept(ledger, card, delivered)
            self.violations += checkers.key_slots_have_one_holder(account, ledger, card, delivered)
            self.violations += checkers.attempts_are_kept(ledger, card, delivered, attempt)
            ledger.lease(card, delivered)
            card.is_drained = card.is_drained or delivered.is_drain
        if delivered.credit:
            self.violations += checkers.credit_is_kept(account, delivered)

    # Turns of the process.

    def _turn(self, entry: Entry, turn: Turn) -> None:
        if turn.what in ("crashed", "stopped", "commit failed"):
            # What waited for the disk is there or gone; others get the offsets.
            self._cut_seeks.clear()
        for ledger in self.ledgers():
            if turn.what == "frozen":
                ledger.thawed_s = entry.time_s
            elif turn.what == "starting":
                ledger.restart(entry.time_s)
            elif turn.what in ("crashed", "stopped", "commit failed"):
                ledger.seek_generation = max(
                    ledger.seek_generation, entry.generation if ledger.seeks_left else -1
                )
                ledger.seeks_left.clear()
                if ledger.is_at_least_once(entry.at):
                    ledger.end_leases(entry.at, entry.generation)
                elif not ledger.is_exactly_once(entry.at):
                    ledger.doubt_leases()
                ledger.elapse(entry.time_s)
                ledger.recall_all(entry.at, entry.time_s)

    # Verbs.

    def _op(self, entry: Entry, op: Op) -> None:
        is_begin = entry.kind == "begun"
        for account in self.accounts.values():
            if account.name == op.name:
                self._used(account, entry, op)
        match op.verb:
            case "acknowledge" | "modify":
                self._settles.settle(op, op.detail, is_begin=is_begin)
            case "seek":
                self._seek(op, op.detail, is_begin=is_begin)
            case "detach" if is_begin and op.may_have_shown:
                for ledger in self._named(op.name):
                    ledger.seek_until = max(ledger.seek_until, op.ended_at)
                    ledger.seek_begun = op.begun_at
                    ledger.doubt_leases()
                    for card in ledger.cards:
                        card.close(op)
            case "update subscription" if op.may_have_shown:
                for ledger in self._named(op.name):
                    if is_begin:
                        self._update(ledger, op)
                    elif "filter" in op.detail:
                        ledger.filters_asked.discard(op.detail["filter"])
            case "update topic" if op.detail.get("message_retention_s") is not None:
                self._retaining.add(op.name)
            case "delete subscription" if is_begin and op.may_have_shown:
                self._missing.add(op.name)
                if op.may_have_happened:
                    self._deleting.add(op.name)
            case "create snapshot" | "delete snapshot":
                self._snapshot_touched[op.name] = entry.at
            case "reopen":
                self._reopenings.reopen(op, op.detail, is_begin=is_begin)
            case "redrive":
                self._reopenings.redrive(op, op.detail, is_begin=is_begin)
        if is_begin:
            self._running[op.begun_at] = op
        else:
            del self._running[op.begun_at]
            if op.verb in ("seek", "detach") and op.outcome == "cut":
                self._cut_seeks.append(op)

    def _used(self, account: Account, entry: Entry, op: Op) -> None:
        if entry.kind == "begun":
            account.used_s = entry.time_s
        elif (
            op.verb in ("acknowledge", "modify", "pull", "stream", "update subscription", "detach")
            and account.created_at < op.begun_at
            and account.name not in self._missing
            and account.settings.expiration_ttl_s is None
        ):
            self.violations += checkers.found_lawfully(account, op)

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
        if "filter" in op.detail:
            ledger.filters_asked.add(op.detail["filter"])
            for other in self._running.values():
                if other.verb == "seek" and other.name == op.name and other.may_have_shown:
                    ledger.doubt_filters(other)

    # Seeks.

    def _seek(self, op: Op, to: SeekTo, *, is_begin: bool) -> None:
        if not op.may_have_shown:
            return
        if is_begin:
            self._seeks.setdefault(op.name, []).append(op)
        for ledger in self._named(op.name):
            if is_begin:
                overlaps = ledger.seek_until > op.begun_at
                self._begin_seek(ledger, op)
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

    def _begin_seek(self, ledger: Ledger, op: Op) -> None:
        ledger.seek_until = max(ledger.seek_until, op.ended_at)
        ledger.seek_generation = max(ledger.seek_generation, op.ended_generation)
        if op.outcome == "cut":
            ledger.seeks_left.append(op.begun_generation)
        ledger.seek_begun = op.begun_at
        ledger.doubt_leases()
        ledger.doubt_filters(op)
        for card in ledger.cards:
            card.failures = 0
            card.reopened_s = 0.0

    def _end_time_seek(self, ledger: Ledger, op: Op, time_ns: int) -> None:
        """Acknowledged messages that are retained are certainly open again."""
        settings = ledger.settings
        ledger.end_leases(op.ended_at, op.begun_generation)
        start = dict(op.answer).get(ledger.partition)
        if ledger.update_until > op.begun_at or start is None:
            return
        own_s = op.ended_s - settings.message_retention_s + EPSILON_S
        default_s = op.ended_s - (keeps_s := self._default_s(ledger)) + EPSILON_S
        for card in ledger.cards:
            message = card.message
            if message.publish_ns < time_ns or message.at >= op.begun_at:
                continue
            published_s, is_there = message.publish_ns / 1e9, message.offset >= start
            is_own = settings.retain_acked and published_s >= own_s
            is_kept = is_own and (is_there or message.at > ledger.retains_from)
            # Without a default nothing is kept, whatever a clock that was set back says.
            if is_kept or (keeps_s and is_there and published_s >= max(default_s, own_s)):
                card.opened_from = max(card.opened_from, op.begun_at)
        ledger.reopened()

    def _default_s(self, ledger: Ledger) -> float:
        """How long the default keeps messages; 0 where a topic is gone or may say otherwise."""
        is_there = any(ledger.partition in topic.partitions for topic in self._topics.values())
        topic = self._chronicle.topics.get(ledger.partition)
        is_default = is_there and topic not in self._retaining
        return self._chronicle.topic_retention_s if is_default else 0.0

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
            card.is_passed = False
        self._seeking.setdefault(op.begun_at, {})[ledger.id, ledger.partition] = seeking

    def _end_snapshot_seek(self, ledger: Ledger, op: Op, to: SeekTo) -> None:
        key = ledger.id, ledger.partition
        seeking = self._seeking.get(op.begun_at, {}).pop(key, None)
        if seeking is None or not seeking.is_clear or ledger.seek_begun > op.begun_at:
            return
        view = seeking.view
        if view is None or ledger.partition not in view.maybe_closed:
            return
        if self._snapshot_touched.get(to.snapshot, NEVER) > op.begun_at:
            return
        ledger.end_leases(op.ended_at, op.begun_generation)
        maybe_closed = view.maybe_closed[ledger.partition]
        left_out = view.left_out.get(ledger.partition, ())
        for card in ledger.cards:
            offset = card.message.offset
            card.is_passed = offset in left_out
            if offset in seeking.before and offset not in maybe_closed:
                card.closed_until = seeking.before[offset]
                card.opened_from = max(card.opened_from, op.begun_at)
        ledger.reopened()

    def _named(self, name: str) -> list[Ledger]:
        return [
            ledger
            for account in self.accounts.values()
            if account.name == name
            for ledger in account.ledgers.values()
        ]
