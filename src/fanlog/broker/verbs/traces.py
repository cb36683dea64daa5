"""Traces: where one message stands on every subscription that reads it, and what became of it.

What is pending comes from hard state and leases, as it is now. The past comes from recent events,
which are kept in memory (`fanlog.core.recent_events`): failures, dead letters, and a sample of the
rest. A letter names its original by its own attributes; the letter of an original is looked for on
the dead letter topic once that is forgotten, among so many messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyroaring import BitMap64

from fanlog import limits, times
from fanlog.broker.access import Access
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.ports import Candidates
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.letter_search import EVERYTHING
from fanlog.broker.verbs.pending_keys import PendingKeys
from fanlog.core.dead_letter import Letter
from fanlog.core.prospects import NOTHING, Prospects, prospects
from fanlog.core.publishers import Gap
from fanlog.core.recent_events import DEAD_LETTERED, REDRIVEN, Happened, RecentEvents
from fanlog.core.share import Look, Share, State
from fanlog.errors import InvalidArgument, LakeUnavailable, MessageNotFound
from fanlog.log.api import Damaged, Log
from fanlog.log.batch import Batch
from fanlog.model import attributes as words
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId

FILTERED_OUT, ADDRESSED_ELSEWHERE = "FILTERED_OUT", "ADDRESSED_ELSEWHERE"
DEAD_LETTER, EXPORTED, GONE = "DEAD_LETTERED", "EXPORTED", "GONE"
ACKNOWLEDGED = "ACKNOWLEDGED"

_NEXT = {
    State.BACKLOG: "now, to the next subscriber that asks",
    State.OUTSTANDING: "when its lease ends, unless it is acknowledged before",
    State.DELAYED: "when its wait is over",
    State.PENDING: "when it is due",
    State.DEPENDING: "when the message that it depends on is acknowledged, or after the time-out",
    State.EARLY: "only if the earlier message of its ordering key fails",
}

_HELD = "when number {} of its publisher comes, or is given up"
_LAPSED = "never: its time-to-live is over, and it is dropped when its turn comes"
_LAPSED_LETTER = "never: its time-to-live is over, and it becomes a dead letter when its turn comes"
_BEHIND = "after the earlier message of its ordering key, or to the subscriber that holds that"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionTrace:
    """Where a message stands on one subscription."""

    subscription: str
    state: str
    look: Look
    #: In words; empty for never.
    next_delivery: str = ""
    #: The earlier message of its ordering key that it waits for.
    behind: Offset | None = None
    letter_id: str = ""
    prospects: Prospects = NOTHING
    has_lapsed: bool = False
    #: What it waits for while it is held back.
    gap: Gap | None = None
    events: tuple[Happened, ...] = ()


@dataclass(slots=True, kw_only=True)
class MessageTrace:
    """One message, and where it stands."""

    partition: PartitionId
    offset: Offset
    topic: str
    #: hot, lake or gone.
    tier: str
    #: None when it cannot be read; then `hint` says why.
    batch: Batch | None = None
    hint: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""
    #: The message as a dead letter, if it is one.
    letter: Letter | None = None
    #: Of a redriven copy: the id that the message was published under.
    copy_of: str = ""
    addressee: str = ""
    subscriptions: list[SubscriptionTrace] = field(default_factory=list)
    left_off: int = 0
    since_s: float = 0.0
    is_sampled: bool = False

    @property
    def prospects(self) -> Prospects:
        """The terms of the message itself, whatever subscriptions say."""
        return NOTHING if self.batch is None else prospects(self.batch, self.offset, None)

    @property
    def key_hash(self) -> int:
        """0 when it has no key, or cannot be read."""
        if self.batch is None or self.batch.key_hashes is None:
            return 0
        return self.batch.key_hashes[self.offset - self.batch.base_offset]

    @property
    def size_bytes(self) -> int:
        if self.batch is None:
            return 0
        index = self.offset - self.batch.base_offset
        return self.batch.starts[index + 1] - self.batch.starts[index]


@dataclass(slots=True)
class _Search:
    """How many messages may still be looked at for letters."""

    left: int = limits.TRACE_LETTERS_SEEN_MAX


@dataclass(eq=False)
class Traces:
    """The verb that traces. Lives on the loop."""

    _ledger: Ledger
    _store: Log
    _clock: Clock
    _access: Access
    _filtering: Filtering
    _tiers: Tiers
    _recent: RecentEvents
    _candidates: Candidates

    async def trace(
        self, partition: PartitionId, offset: Offset, subscription: str = ""
    ) -> MessageTrace:
        """Where a message stands, on one subscription or on all. Nothing changes.

        Raises:
            MessageNotFound: No topic has it, or it is not published yet.
            SubscriptionNotFound: There is no such subscription.
            InvalidArgument: The subscription does not read its topic.
        """
        self._access.check_serving()
        shares = self._shares(partition, offset, subscription)
        found = await self._message(partition, offset)
        found.left_off = max(0, len(shares) - limits.TRACE_SUBSCRIPTIONS_MAX)
        search = _Search()
        for share in shares[: limits.TRACE_SUBSCRIPTIONS_MAX]:
            found.subscriptions.append(await self._on(share, found, search))
        return found

    # Private: the message.

    async def _message(self, partition: PartitionId, offset: Offset) -> MessageTrace:
        ledger = self._ledger
        found = MessageTrace(
            partition=partition,
            offset=offset,
            topic=ledger.hard.catalog.topic_name_of(partition),
            tier="hot" if offset >= self._tiers.hot_start(partition) else "lake",
            since_s=self._recent.since_s,
            is_sampled=self._recent.is_sampled(partition, offset),
        )
        start = ledger.start_of(partition)
        if offset < start:
            found.tier = "gone"
            found.hint = f"it is gone: nothing before {message_id(partition, start)} is kept"
            return found
        try:
            items = await self._store.read(partition, offset, max_bytes=1)
        except LakeUnavailable as error:
            found.hint = f"it is in the lake: {error.message}"
            return found
        item = items[0] if items else None
        if isinstance(item, Batch) and item.base_offset <= offset:
            self._describe(found, item)
        elif isinstance(item, Damaged) and item.base_offset <= offset:
            found.hint = f"it cannot be read: {item.reason}"
        else:
            found.tier, found.hint = "gone", "it is gone: it was let go of just now"
        return found

    def _describe(self, found: MessageTrace, batch: Batch) -> None:
        index, seal = found.offset - batch.base_offset, batch.seal
        [message] = self._candidates(batch, index, index + 1, "", EVERYTHING)
        found.batch = batch
        found.attributes, found.ordering_key = message.attributes, message.ordering_key
        letter = Letter(
            found.partition,
            found.offset,
            message,
            batch.publish_time_ns,
            is_believed=seal is None or seal.is_letter,
            is_of_copy=seal is not None and seal.is_copy,
        )
        found.letter = letter if letter.source_subscription else None
        if seal is not None and seal.is_copy:
            found.copy_of = message.attributes.get(words.ORIGINAL_ID, "")
        if seal is not None and seal.addressee:
            addressees = self._ledger.hard.catalog.subscriptions()
            found.addressee = next((s.name for s in addressees if s.id == seal.addressee), "")

    # Private: its subscriptions.

    def _shares(self, partition: PartitionId, offset: Offset, name: str) -> list[Share]:
        ledger, id_ = self._ledger, message_id(partition, offset)
        topic = ledger.hard.catalog.topic_name_of(partition)
        if not topic:
            raise MessageNotFound(f"message {id_} is of no topic of this server")
        if offset >= (end := ledger.end(partition)):
            raise MessageNotFound(
                f"message {id_} is not published yet: {topic} has {end} messages so far"
            )
        if name:
            subscription = self._access.find(name)
            share = ledger.hard.share(subscription.id, partition)
            if share is None:
                raise InvalidArgument(
                    f"message {id_} is of topic {topic}, which {name!r} does not read"
                )
            return [share]
        shares = [s for s in ledger.hard.shares_on(partition) if not s.settings.detached]
        return sorted(shares, key=lambda share: share.settings.name)

    async def _on(self, share: Share, found: MessageTrace, search: _Search) -> SubscriptionTrace:
        partition, offset, owner = found.partition, found.offset, share.settings
        is_wanted = await self._is_wanted(share, found)
        # It may be another share by now.
        share = self._ledger.hard.share(owner.id, partition) or share
        look = share.look(BitMap64([offset]))[offset]
        events = self._recent.of(owner.id, partition, offset)
        letter_id = _letter_of(events)
        state, next_delivery, behind = look.state.value, _NEXT.get(look.state, ""), None
        gap: Gap | None = None
        if look.state in (State.ACKED, State.PASSED_OVER) or not is_wanted:
            if look.state is State.ACKED and is_wanted and not letter_id:
                letter_id = await self._find_letter(share, found, search)
            state, next_delivery = self._settled(share, found, is_wanted, letter_id), ""
        elif look.state is State.PENDING:
            gap = self._ledger.hard.gap_before(partition, offset)
            next_delivery = _due(found) or next_delivery
            if gap is not None:
                next_delivery = _HELD.format(gap.number)
        elif look.state is State.BACKLOG:
            behind = await self._behind(share, found)
            if behind is not None:
                next_delivery = _BEHIND
            elif owner.push_off:
                next_delivery = f"not before its push config is set anew: {owner.push_off}"
        expected, has_lapsed = found.prospects, False
        if next_delivery and found.batch is not None and not share.never_lapses(offset):
            expected = prospects(found.batch, offset, owner.message_ttl_s)
            has_lapsed = expected.has_lapsed(self._clock.wall_ns())
            if has_lapsed and look.state in (State.BACKLOG, State.DELAYED, State.OUTSTANDING):
                is_letter = owner.forwards_lapsed and owner.dead_letter is not None
                next_delivery = _LAPSED_LETTER if is_letter else _LAPSED
        else:
            expected = replace(expected, expires_ns=None)
        return SubscriptionTrace(
            prospects=expected,
            has_lapsed=has_lapsed,
            gap=gap,
            subscription=owner.name,
            state=state,
            look=look,
            next_delivery=next_delivery,
            behind=behind,
            letter_id=letter_id,
            events=tuple(events),
        )

    async def _behind(self, share: Share, found: MessageTrace) -> Offset | None:
        """The earlier message of its ordering key that it waits for."""
        if not found.key_hash:
            return None
        behind = share.behind(found.offset, found.key_hash)
        if behind is not None:
            return behind
        held = PendingKeys(self._store, self._filtering, share)
        try:
            await held.look_before(found.offset)
        except LakeUnavailable:
            return None
        return held.behind(found.offset, found.key_hash)

    def _settled(self, share: Share, found: MessageTrace, is_wanted: bool, letter_id: str) -> str:
        """The state of a message that is not to be delivered any more."""
        seal = None if found.batch is None else found.batch.seal
        addressee = 0 if seal is None else seal.addressee
        if found.offset in share.addressed.others or addressee not in (0, share.settings.id):
            return ADDRESSED_ELSEWHERE
        if not is_wanted:
            return FILTERED_OUT
        if letter_id:
            return DEAD_LETTER
        if found.tier == "gone":
            return GONE
        return EXPORTED if share.settings.mode == "export" else ACKNOWLEDGED

    async def _is_wanted(self, share: Share, found: MessageTrace) -> bool:
        """Whether the filter and the address let it through; True where it cannot be read."""
        offset = found.offset
        if offset in share.addressed.others:
            return False
        if not share.settings.is_filtered or found.batch is None or offset in share.addressed.own:
            return True
        end = self._ledger.end(found.partition)
        try:
            _, wanted = await self._filtering.preview(share, offset, end)
        except LakeUnavailable:
            return True
        return offset in wanted

    async def _find_letter(self, share: Share, found: MessageTrace, search: _Search) -> str:
        """The letter of an acknowledged message, if it is one of the first that came since."""
        policy = share.settings.dead_letter
        hard = self._ledger.hard
        topic = None if policy is None else hard.catalog.find_topic(policy.dead_letter_topic)
        if topic is None or found.batch is None:
            return ""
        wanted = message_id(found.partition, found.offset)
        for partition in topic.partitions:
            offset = await self._ledger.offset_for_time(partition, found.batch.publish_time_ns)
            while search.left > 0 and offset < self._ledger.end(partition):
                try:
                    items = await self._store.read(partition, offset, max_bytes=1)
                except LakeUnavailable:
                    return ""
                if not items:
                    break
                item, offset = items[0], items[0].base_offset + items[0].count
                search.left -= item.count
                if isinstance(item, Batch) and item.seal is not None and item.seal.is_letter:
                    for one in self._candidates(item, 0, item.count, "", EVERYTHING):
                        letter = Letter(partition, 0, one, 0, is_believed=True)
                        is_here = letter.source_subscription == share.settings.name
                        if is_here and letter.source_id == wanted:
                            return one.message_id
                await asyncio.sleep(0)
        return ""


def _letter_of(events: list[Happened]) -> str:
    """The letter that it is now, unless that was redriven."""
    for one in reversed(events):
        if one.what == REDRIVEN:
            return ""
        if one.what == DEAD_LETTERED:
            return one.message_id
    return ""


def _due(found: MessageTrace) -> str:
    """When a message is due, as its batch says; empty if that cannot be read."""
    due_ns = found.prospects.due_ns
    return "" if due_ns is None else f"at {times.of_ns(due_ns)}, as its publisher asked"
