"""A share against the naive model: any verbs in any order, with crashes in between."""

from __future__ import annotations

import math

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.assignment import Assignment
from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit
from fanlog.core.redelivery import NACKED, Nack, backoff_s
from fanlog.core.share import State
from fanlog.model.resources import Ordering, RetryPolicy
from property.core_model import NACKS, Held, Model, consumers
from unit.core.world import Id, World, subscription

RETRY = RetryPolicy(minimum_backoff_s=4.0, maximum_backoff_s=20.0)
DEADLINE_S = 10.0
index = st.integers(0, 10_000)
messages = st.lists(st.tuples(st.integers(0, 2), st.integers(5, 40)), min_size=4, max_size=10)
picks = st.lists(st.integers(0, 20), min_size=1, max_size=6)


class OpenToAll(Assignment):
    """Every consumer may take messages of every key slot."""

    def open_to(self, member: object) -> frozenset[int]:
        return frozenset(range(self.slot_count))

    def hold(self, slot: int, holder: object, count: int = 1) -> None:
        pass

    def settle(self, slot: int, count: int = 1) -> None:
        pass


#: A key's hash is its number, in both halves: the upper one says the slot.
HASH = 2**32 + 1


class ShareMachine(RuleBasedStateMachine):
    def __init__(self, ordering: Ordering, exactly_once: bool, slots: int = 0) -> None:
        super().__init__()
        self.slots = slots
        self.ordering: Ordering = ordering
        self.exactly_once = exactly_once

    @initialize(has_retry=st.booleans(), attempts=st.sampled_from([None, 1, 2]), first=messages)
    def create(self, has_retry: bool, attempts: int | None, first: list[tuple[int, int]]) -> None:
        chosen = subscription(
            self.ordering,
            exactly_once=self.exactly_once,
            retry=RETRY if has_retry else None,
            attempts=attempts,
            slots=self.slots,
        )
        assignment = OpenToAll(self.slots) if self.slots else None
        self.world, self.model = World(chosen, assignment=assignment), Model(chosen)
        self.now = 1_000.0
        self.consumers = consumers()
        #: Every ack id ever handed out.
        self.ids: list[Id] = []
        self.snapshot: Cursor | None = None
        self.snapshot_unacked: set[int] = set()
        self.snapshot_reopened: dict[int, tuple[float, int]] = {}
        self.publish(first)

    # Rules.

    @rule(messages=messages)
    def publish(self, messages: list[tuple[int, int]]) -> None:
        keys, sizes = zip(*messages, strict=True)
        hashes = [key * HASH for key in keys]
        self.model.unacked |= set(self.world.publish(*hashes, sizes=sizes))
        self.model.keys += keys
        self.model.sizes += sizes

    @rule(which=st.sampled_from([0, 0, 1]), messages=st.integers(2, 8))
    def lease_a_run(self, which: int, messages: int) -> None:
        self.lease(which, messages, 1_000)

    @rule(which=st.integers(0, 3), messages=st.integers(1, 6), size=st.integers(1, 120))
    def lease(self, which: int, messages: int, size: int) -> None:
        model, consumer = self.model, self.consumers[which]
        budget = consumer.budget(messages, size)
        deadline_s = self.now + DEADLINE_S
        ids = self.world.lease(consumer, messages, max_bytes=size, deadline_s=deadline_s)
        self.take_letters()
        granted_bytes = sum(model.sizes[o] for _, o in ids)
        assert len(ids) <= budget.messages
        assert granted_bytes <= budget.size_bytes or len(ids) == 1
        for generation, offset in ids:
            # In the order of the answer: each must be next when its turn comes.
            assert offset in model.available(consumer, may=True)
            model.leased[offset] = Held(generation, deadline_s, consumer)
            model.behind.discard(offset)
        if not ids:
            fitting = [
                o
                for o in model.available(consumer)
                if budget.at_least_one
                or model.sizes[o] <= max(budget.size_bytes, budget.first_bytes)
            ]
            assert not budget.messages or not fitting or self.is_held_up(consumer, fitting)
        self.ids += ids

    def is_held_up(self, consumer: Credit, fitting: list[int]) -> bool:
        """A message that does not fit yet may hold up smaller ones behind it: no byte is free."""
        return bool(self.model.available(consumer) - set(fitting))

    @precondition(lambda self: self.model.leased)
    @rule(picks=picks, partial=st.booleans())
    def acknowledge_live(self, picks: list[int], partial: bool) -> None:
        self.acknowledge(self.pick_live(picks), partial)

    @precondition(lambda self: self.ids)
    @rule(picks=picks, partial=st.booleans())
    def acknowledge_any(self, picks: list[int], partial: bool) -> None:
        self.acknowledge(self.pick_any(picks), partial)

    def pick_live(self, picks: list[int]) -> list[Id]:
        live = [(held.generation, o) for o, held in sorted(self.model.leased.items())]
        return [live[pick % len(live)] for pick in picks]

    def pick_any(self, picks: list[int]) -> list[Id]:
        """Whatever was handed out once, the latest first."""
        return [self.ids[-1 - pick % len(self.ids)] for pick in picks]

    def acknowledge(self, ids: list[Id], partial: bool) -> None:
        model = self.model
        if not self.exactly_once:
            counted = self.not_void(ids)
            expected = self.acked_at_least_once(ids)
            self.world.ack(self.now, ids, partial=partial)
            self.take_late(counted)
        else:
            unplaced = set(self.world.share.unplaced)
            invalid = {i for i in ids if not self.is_live(i)}
            wanted = {o for _, o in set(ids) - invalid}
            if self.ordering == "none":
                unplaced.clear()
            early = {o for o in wanted if o in unplaced or self.is_early(o, wanted)}
            decision = self.world.ack(self.now, ids, partial=partial)
            assert set(decision.invalid) == invalid
            assert {o for _, o in decision.early} == early
            is_refused = bool(invalid or early)
            expected = [] if is_refused and not partial else sorted(wanted - early)
            for offset in expected:
                # Accepted is final.
                assert offset in self.world.share.cursor
        for offset in expected:
            if offset in model.leased:
                model.ack(offset)
        self.take_letters()

    @precondition(lambda self: self.ids and not self.exactly_once)
    @rule(picks=picks, is_live=st.booleans())
    def claim(self, picks: list[int], is_live: bool) -> None:
        model = self.model
        ids = self.pick_live(picks) if is_live and model.leased else self.pick_any(picks)
        invalid = {i for i in ids if not self.is_live(i)}
        wanted = {o for _, o in set(ids) - invalid}
        early = {o for o in wanted if self.is_early(o, wanted | model.soft)}
        decision = self.world.claim(self.now, ids)
        assert (set(decision.invalid), {o for _, o in decision.early}) == (invalid, early)
        assert all(offset in self.world.share.cursor for offset in wanted - early)
        for offset in sorted(wanted - early):
            model.ack(offset)
        self.take_letters()

    @precondition(lambda self: self.model.leased)
    @rule(picks=picks, nack=st.sampled_from([*[NACKED] * 5, *NACKS]))
    def nack(self, picks: list[int], nack: Nack) -> None:
        self.modify_ack_deadline(self.pick_live(picks), 0, nack)

    @precondition(lambda self: self.ids)
    @rule(picks=picks, seconds=st.sampled_from([0, 3, 30]), is_live=st.booleans())
    def modify(self, picks: list[int], seconds: int, is_live: bool) -> None:
        is_live = is_live and bool(self.model.leased)
        self.modify_ack_deadline(
            self.pick_live(picks) if is_live else self.pick_any(picks), seconds
        )

    def modify_ack_deadline(self, ids: list[Id], seconds: int, nack: Nack = NACKED) -> None:
        model = self.model
        live = sorted({o for g, o in ids if self.is_live((g, o))})
        unplaced = set(self.world.share.unplaced)
        if not seconds:
            model.nacked(live, self.now)
        decision = self.world.modify(self.now, ids, seconds, partial=True, nack=nack)
        assert decision.count == len(live)
        if seconds:
            for offset in live:
                model.leased[offset].deadline_s = self.now + seconds
        else:
            self.put_back(live, unplaced, nack)
        self.take_letters()

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 11.0, 40.0]))
    def expire(self, seconds: float) -> None:
        self.now += seconds
        model, unplaced = self.model, set(self.world.share.unplaced)
        due = [o for o, held in model.leased.items() if held.deadline_s <= self.now]
        decision = self.world.expire(self.now)
        assert decision.count == len(due)
        self.put_back(due, unplaced)
        for offset in [o for o, due_s in model.delayed.items() if due_s <= self.now]:
            del model.delayed[offset]
        model.averse = {who: due_s for who, due_s in model.averse.items() if due_s > self.now}
        self.take_letters()

    @precondition(lambda self: self.model.forwarding)
    @rule(pick=index, is_found=st.booleans())
    def forward(self, pick: int, is_found: bool) -> None:
        model = self.model
        offset = sorted(model.forwarding)[pick % len(model.forwarding)]
        if is_found:
            decision = self.world.share.acknowledge_forwarded(BitMap64([offset]))
            model.close([offset])
        else:
            decision = self.world.share.return_unforwarded(self.now, BitMap64([offset]))
            model.forget(offset)
            model.given_up.discard(offset)
            model.spared.add(offset)
            model.delayed[offset] = self.now + limits.DEAD_LETTER_RETRY_S
        self.world.letters = [x for x in self.world.letters if x.offset != offset]
        self.world.decided(decision)
        self.take_letters()

    @rule(picks=st.sets(st.integers(0, 40), min_size=1, max_size=12), is_wanted=st.booleans())
    def reopen(self, picks: set[int], is_wanted: bool) -> None:
        asked = {o for o in picks if self.world.log_start <= o < self.model.end}
        expected = asked - self.model.unacked
        generation = self.world.next_generation()
        unplaced = set(self.world.share.unplaced)
        decision = self.world.decided(
            self.world.share.reopen(
                self.now, BitMap64(asked), generation=generation, is_wanted=is_wanted
            )
        )
        assert decision.count == len(expected)
        self.model.reopen(expected, self.now, generation, unplaced)
        self.take_letters()

    @rule(picks=st.sets(st.integers(0, 40), min_size=1, max_size=3))
    def discard(self, picks: set[int]) -> None:
        model = self.model
        picks = {o for o in picks if o < model.end}
        free = {o for o in picks if o in model.unacked and not model.is_taken(o)}
        # One without attempts left may be on its way to be a dead letter.
        exhausted = set(filter(model.is_exhausted, free))
        free = set(self.world.share.free(BitMap64(picks))) | free - exhausted
        assert free <= model.unacked
        decision = self.world.decided(self.world.share.discard(BitMap64(picks)))
        assert decision.count == len(free)
        model.close(free)
        for offset in sorted(model.soft):
            model.harden(offset)
        self.take_letters()

    # One rule for all that voids leases: there would be none left to try the rest on.
    @rule(
        what=st.sampled_from(
            ["seek", "snapshot", "restore", "advance", "purge", "abandon", "leave"]
        ),
        first=st.floats(0, 1),
        second=st.floats(0, 1),
    )
    def disturb(self, what: str, first: float, second: float) -> None:
        match what:
            case "seek":
                self.seek(first, second)
            case "snapshot":
                self.take_snapshot()
            case "restore" if self.snapshot is not None:
                self.restore()
            case "advance":
                self.advance(first / 2, 0.0 if second < 0.5 else 30.0)
            case "purge":
                self.purge(first)
            case "abandon":
                self.abandon(round(first * 3))
            case "leave":
                self.leave(round(first * 3), second)

    def seek(self, where: float, retained: float) -> None:
        start, end = self.world.log_start, self.model.end
        target = start + round(where * (end - start))
        retained_from = start + round(retained * (end - start))
        generation = self.world.next_generation()
        self.world.letters.clear()
        self.world.decided(self.world.share.seek(target, retained_from, generation=generation))
        unacked = {o for o in range(target, end) if o >= retained_from or o in self.model.unacked}
        reopened = {o: at for o, at in self.model.reopened.items() if o < retained_from}
        self.model.move(unacked, generation, reopened)

    def take_snapshot(self) -> None:
        cursor = self.world.share.cursor
        self.snapshot = Cursor(cursor.mark, cursor.chunks)
        for chunk, opened in cursor.reopened.chunks.items():
            self.snapshot.apply_reopened(chunk, opened)
        self.snapshot_unacked = set(self.model.unacked) | {self.model.end}
        self.snapshot_reopened = dict(self.model.reopened)

    def restore(self) -> None:
        assert self.snapshot is not None
        generation, start = self.world.next_generation(), self.world.log_start
        self.world.letters.clear()
        self.world.decided(self.world.share.restore(self.snapshot, start, generation=generation))
        later = max(self.snapshot_unacked)
        unacked = self.snapshot_unacked - {later} | set(range(later, self.model.end))
        unacked = {o for o in unacked if o >= start}
        self.model.move(unacked, generation, self.snapshot_reopened)

    def advance(self, share: float, kept_s: float) -> None:
        start = self.world.log_start
        floor = start + round(share * (self.model.end - start))
        since_s = self.now - kept_s if kept_s else math.inf
        kept = {o for o, (at_s, _) in self.model.reopened.items() if at_s >= since_s}
        decision = self.world.share.advance(floor, reopened_since_s=since_s, start=start)
        self.world.decided(decision)
        gone = {o for o in self.model.unacked if o < floor} - kept
        # One that was reopened earlier stays with a neighbour that was later.
        if kept:
            gone -= {o for o in gone & self.model.reopened.keys() if o in self.world.unacked}
        self.close(gone)
        self.trim()

    def purge(self, share: float) -> None:
        """Everything before a place goes, whoever has it; what is behind it stays as it is."""
        end = self.world.log_start + round(share * (self.model.end - self.world.log_start))
        decision = self.world.decided(self.world.share.purge(end))
        gone = {o for o in self.model.unacked if o < end}
        assert decision.count == len(gone)
        assert self.world.share.open_count(end) == 0
        self.close(gone)
        self.trim()

    def close(self, gone: set[int]) -> None:
        self.world.letters = [x for x in self.world.letters if x.offset not in gone]
        self.model.close(gone)
        for offset in sorted(self.model.soft):
            self.model.harden(offset)
        self.take_letters()

    def trim(self) -> None:
        start = self.world.log_start
        # The log lets go of what nobody has unacknowledged.
        floors = [self.world.share.cursor.floor]
        if self.snapshot is not None:
            floors.append(self.snapshot.floor)
        self.world.log_start = max(start, min(*floors, self.model.end))

    def abandon(self, which: int) -> None:
        consumer = self.consumers[which]
        self.world.share.abandon(consumer)
        for held in self.model.leased.values():
            if held.consumer is consumer:
                held.consumer = None
        window = consumer.max_messages, consumer.max_bytes
        self.consumers[which] = Credit(*window, client=consumer.client)

    def leave(self, which: int, share: float) -> None:
        """Half-close: what was leased after the last write is free at once."""
        model, consumer = self.model, self.consumers[which]
        mine = {o: held for o, held in model.leased.items() if held.consumer is consumer}
        generations = sorted({held.generation for held in mine.values()})
        written = ([0, *generations])[round(share * len(generations))]
        unsent = [o for o, held in mine.items() if held.generation > written]
        decision = self.world.share.give_back(self.now, consumer, written)
        self.world.decided(decision)
        assert decision.count == len(unsent)
        model.give_back(unsent)
        self.take_letters()
        self.abandon(which)

    @rule(scan=st.booleans())
    def crash(self, scan: bool) -> None:
        self.world.restart(scan=False)
        self.model.restart()
        if scan:
            self.world.place_restored()
        self.consumers = consumers()
        self.settle_doomed()
        self.take_letters()

    @precondition(lambda self: self.world.share.unplaced)
    @rule()
    def place_restored(self) -> None:
        self.world.place_restored()
        self.settle_doomed()
        self.take_letters()

    # What the model needs to be told.

    def put_back(self, failed: list[int], unplaced: set[int], nack: Nack = NACKED) -> None:
        model = self.model
        if nack.is_terminal and model.settings.dead_letter is not None:
            model.given_up |= set(failed)
        for offset in model.fail(failed, unplaced, is_attempt=nack.is_counted):
            wait_s = backoff_s(model.settings.retry, model.failures.get(offset, 0), 0.0)
            if nack.delay_s is not None:
                wait_s = nack.delay_s
            if wait_s and not model.is_exhausted(offset):
                model.delayed[offset] = self.now + wait_s

    def take_letters(self) -> None:
        """Dead letters must be lawful, and for unordered ones also immediate."""
        model = self.model
        for letter in self.world.letters:
            if letter.offset in model.forwarding:
                continue
            assert letter.offset in model.unacked
            assert model.is_exhausted(letter.offset)
            assert not model.is_taken(letter.offset)
            assert letter.attempts == model.failures[letter.offset]
            if model.key(letter.offset):
                assert set(model.earlier(letter.offset)) <= model.behind
            model.forwarding.add(letter.offset)
        self.settle_doomed()

    def settle_doomed(self) -> None:
        """Restored leases behind a failed message end when the share has met them."""
        share, model = self.world.share, self.model
        if model.doomed:
            self.world.expire(-1.0)  # Writes down what a scan found out.
            for offset in list(model.doomed):
                if offset not in share.unplaced:
                    model.doomed.discard(offset)
                    if offset not in self.world.held:
                        model.forget(offset)

    def acked_at_least_once(self, ids: list[Id]) -> list[int]:
        return sorted({o for g, o in self.not_void(ids) if o in self.model.leased})

    def not_void(self, ids: list[Id]) -> list[Id]:
        """Leave out what names a delivery from before a seek, or before it was reopened."""
        reopened, kept = self.world.share.cursor.reopened, []
        for generation, offset in ids:
            held = self.model.leased.get(offset)
            is_void = bool(reopened.void(generation, BitMap64([offset])))
            _, fence = self.model.reopened.get(offset, (0.0, 0))
            assert is_void or generation >= fence
            is_live = held is not None and held.generation == generation
            if generation >= self.model.fence and (is_live or not is_void):
                kept.append((generation, offset))
        return kept

    def take_late(self, ids: list[Id]) -> None:
        """Nobody holds it, nobody forwards it: accepted late, unless its key's order forbids."""
        model = self.model
        for offset in {o for _, o in ids if o in model.unacked}:
            if model.is_taken(offset):
                continue
            is_acked = offset in self.world.share.cursor
            assert is_acked or self.ordering != "none"
            assert not (is_acked and model.key(offset))
            if is_acked:
                model.close([offset])

    def is_live(self, id_: Id) -> bool:
        held = self.model.leased.get(id_[1])
        if held is None or held.generation != id_[0]:
            return False
        return held.deadline_s > self.now or not self.exactly_once

    def is_early(self, offset: int, wanted: set[int]) -> bool:
        if not self.model.key(offset):
            return False
        earlier = filter(self.model.is_taken, self.model.earlier(offset))
        return any(o not in wanted for o in earlier)

    # Invariants.

    @invariant()
    def the_cursor_is_the_set(self) -> None:
        cursor = self.world.share.cursor
        assert set(self.world.unacked) == self.model.unacked
        assert cursor.mark not in BitMap64().union(*cursor.chunks.values())
        for bits in cursor.chunks.values():
            assert bits
            assert bits.min() > cursor.mark

    @invariant()
    def the_stats_agree(self) -> None:
        stats, model = self.world.share.stats(self.model.end), self.model
        assert stats.backlog == len(model.unacked)
        assert stats.outstanding == len(model.leased)
        assert stats.delayed == len(model.delayed)
        assert stats.forwarding == len(model.forwarding)

    @invariant()
    def a_look_says_until_when(self) -> None:
        model = self.model
        found = self.world.share.look(BitMap64(range(model.end)))
        assert {o: found[o].until_s for o in model.delayed} == model.delayed
        for offset, held in model.leased.items():
            assert found[offset].until_s == held.deadline_s
            assert found[offset].state is State.OUTSTANDING

    @invariant()
    def credit_is_exact(self) -> None:
        for consumer in self.consumers:
            mine = [o for o, held in self.model.leased.items() if held.consumer is consumer]
            assert consumer.messages == len(mine)
            if consumer.max_messages:
                assert consumer.messages <= consumer.max_messages
            if consumer.max_bytes:
                assert consumer.size_bytes == sum(self.model.sizes[o] for o in mine)
                assert consumer.size_bytes <= consumer.max_bytes or len(mine) == 1

    @invariant()
    def what_may_go_is_announced(self) -> None:
        if any(self.model.available(consumer) for consumer in self.consumers):
            assert self.world.share.has_some(self.model.end)

    @invariant()
    def somebody_will_look_in_time(self) -> None:
        times = [held.deadline_s for held in self.model.leased.values()]
        times += [*self.model.delayed.values(), *self.model.averse.values()]
        next_s = self.world.share.next_deadline()
        if times:
            assert next_s is not None
            assert next_s <= min(times)

    @invariant()
    def one_run_of_a_key_is_out(self) -> None:
        model = self.model
        for first in {model.of_key(o)[0] for o in model.unacked if model.key(o)}:
            # What was not judged again since a restart may not be wanted, and then is not there.
            of_key = [o for o in model.of_key(first) if o < model.routed_to]
            of_key = [o for o in of_key if o not in model.behind]
            taken = [model.is_taken(o) and o not in model.doomed for o in of_key]
            if not model.doomed:
                assert taken == sorted(taken, reverse=True)
            if self.ordering == "strict":
                assert sum(taken) <= 1 or self.exactly_once

    @invariant()
    def exactly_once_leases_are_written_down(self) -> None:
        held = self.world.held
        assert held == (set(self.model.leased) if self.exactly_once else set()) or self.model.doomed

    def teardown(self) -> None:
        """Whatever happened, everything unacknowledged is delivered in the end."""
        if not hasattr(self, "world"):
            return
        consumer = Credit()
        for _ in range(200):
            if not self.model.unacked:
                return
            self.now += 1_000.0
            self.expire(0.0)
            while self.model.forwarding:
                self.forward(0, True)
            ids = self.world.lease(consumer, 1_000, deadline_s=self.now + DEADLINE_S)
            self.take_letters()
            for generation, offset in ids:
                assert offset in self.model.available(consumer, may=True)
                self.model.leased[offset] = Held(generation, self.now + DEADLINE_S, consumer)
                self.model.behind.discard(offset)
            assert not self.world.ack(self.now, ids).is_refused
            for _, offset in ids:
                self.model.ack(offset)
            self.take_letters()
            self.the_cursor_is_the_set()
        raise AssertionError(f"never delivered: {sorted(self.model.unacked)}")


@pytest.mark.parametrize("slots", [0, 3], ids=["whole", "slotted"])
@pytest.mark.parametrize("exactly_once", [False, True], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("ordering", ["none", "key", "strict"])
def test_a_share_behaves_like_the_model(ordering, exactly_once, slots, monkeypatch):
    monkeypatch.setattr("fanlog.core.cursor.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.reopening.CURSOR_CHUNK_OFFSETS", 8)
    monkeypatch.setattr("fanlog.core.attempts.ATTEMPTS_CHUNK_OFFSETS", 4)
    monkeypatch.setattr(limits, "KEY_WAITING_MAX", 3)
    monkeypatch.setattr(limits, "WAITING_MAX", 6)
    run_state_machine_as_test(
        lambda: ShareMachine(ordering, exactly_once, slots),
        # Shrinking a long run takes minutes: add Phase.shrink to look into a failure.
        settings=settings(
            max_examples=40 if slots else 80,
            stateful_step_count=50,
            phases=[Phase.explicit, Phase.generate],
        ),
    )
