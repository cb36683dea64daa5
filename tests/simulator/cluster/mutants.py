"""Planted bugs of a cluster, each of which some promise must notice.

Those of the log are here; those that only brokers and their clients notice, in `broker_mutants`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from fanlog.cluster import ownership
from fanlog.cluster.ownership import OwnerSession, Vigil
from fanlog.log.replicated import checkpoints, filling, replicated, steps, upkeep
from fanlog.log.replicated.bodies import TakeOver
from fanlog.log.replicated.partition import Fetched, Produced
from fanlog.log.replicated.stages import StageFiles
from fanlog.log.replicated.steps import AppendOutcome, Apply, Produce, ReadEnd, ResetProducer
from fanlog.log.replicated.story import Story, ToldEntry
from simulator.cluster import broker_mutants
from simulator.cluster.machines import NodeClock
from simulator.cluster.planting import MUTANTS, always, mutant, planted
from simulator.cluster.topic import SimPartition

__all__ = ["MUTANTS", "broker_mutants", "mutant", "planted"]


# Validity.


def _believing(_: Any) -> Any:
    def append(story: Story, body: Any) -> Any:
        value, entry = story.encode(body)
        answer = yield Produce(value)
        if isinstance(answer, Produced):
            told = story.hear(story.facts.next_offset, answer.append_time_ms, entry)
            yield Apply([told])
            return AppendOutcome.HAPPENED
        yield ResetProducer()
        return AppendOutcome.UNKNOWN

    return append


def _hasty(_: Any) -> Any:
    """What is not there at once is said never to have happened."""

    def append(story: Story, body: Any) -> Any:
        term = story.facts.term
        expected = story.facts.next_offset
        value, entry = story.encode(body)
        answer = yield Produce(value)
        if isinstance(answer, Produced) and answer.offset == expected:
            yield Apply([story.hear(expected, answer.append_time_ms, entry)])
            return AppendOutcome.HAPPENED
        yield ResetProducer()
        found = yield from steps._find(story, term, entry, answer)
        return found if found is AppendOutcome.HAPPENED else AppendOutcome.FENCED

    return append


def _queueing(_: Any) -> Any:
    """A record whose outcome is not known is taken for there, and the next one built upon it."""

    def append(story: Story, body: Any) -> Any:
        expected = story.facts.next_offset
        value, entry = story.encode(body)
        answer = yield Produce(value)
        if isinstance(answer, Produced) and answer.offset not in (expected, -1):
            yield ResetProducer()
            return AppendOutcome.UNKNOWN
        yield Apply([story.hear(expected, 0, entry)])
        return AppendOutcome.HAPPENED

    return append


def _termless(_: Any) -> Any:
    def void(self: Story, offset: int, entry: Any) -> str:
        if isinstance(entry.body, TakeOver) or entry.head.expected == offset:
            return ""
        return "it lies elsewhere"

    return void


def _nameless(void: Any) -> Any:
    """A take-over replaces whatever term there is."""

    def other(self: Story, offset: int, entry: Any) -> str:
        if isinstance(entry.body, TakeOver):
            return ""
        found: str = void(self, offset, entry)
        return found

    return other


def _placeless(_: Any) -> Any:
    def void(self: Story, offset: int, entry: Any) -> str:
        return "" if entry.head.term == self.facts.term else "it is of another term"

    return void


mutant("the place in an acknowledgement is ignored", 40, (steps, "append", _believing))
mutant("what is not there did not happen", 100, (steps, "append", _hasty), needs="doubt")
mutant(
    "a place is enough, whatever the term",
    60,
    (steps, "append", _queueing),
    (Story, "_void", _termless),
    (Story, "_check", always(lambda *_: None)),
    needs="doubt",
)
mutant("a term is enough, whatever the place", 60, (Story, "_void", _placeless), needs="doubt")
mutant("a take-over names no term", 100, (Story, "_void", _nameless))


# Take-overs.


def _unread(_: Any) -> Any:
    """A take-over that was acknowledged is believed, and not read back."""

    def take_over(story: Story, *, card: bytes, identity: bytes, nonce: bytes) -> Any:
        yield from steps.read_to(story, (yield ReadEnd()))
        value, _entry = story.encode(TakeOver(identity=identity, nonce=nonce, card=card))
        answer = yield Produce(value)
        if not isinstance(answer, Produced):
            return None
        yield from steps.read_to(story, story.facts.next_offset + 1)
        return answer.append_time_ms

    return take_over


def _expected(_: Any) -> Any:
    """A take-over that may come is believed."""

    def take_over(story: Story, *, card: bytes, identity: bytes, nonce: bytes) -> Any:
        yield from steps.read_to(story, (yield ReadEnd()))
        value, _entry = story.encode(TakeOver(identity=identity, nonce=nonce, card=card))
        answer = yield Produce(value)
        yield from steps.read_to(story, steps._end(answer, (yield ReadEnd())))
        return answer.append_time_ms if isinstance(answer, Produced) else story.facts.append_time_ms

    return take_over


mutant("a take-over is not read back", 60, (steps, "take_over", _unread))
mutant("a take-over that may come is believed", 60, (steps, "take_over", _expected), needs="doubt")
mutant(
    "who is second to a free log serves at once",
    100,
    (ownership, "serve_from", always(lambda session, before, term, now: now)),
)


# Checkpoints.


def _boundless(_: Any) -> Any:
    def trim_offset(marks: Any, live: Any) -> int | None:
        return marks.checkpoints[-1].offset if marks.checkpoints else None

    return trim_offset


def _batchless(trim_offset: Any) -> Any:
    """Nothing but the last whole snapshot is looked at."""

    def other(marks: Any, live: Any) -> Any:
        kept = replace(marks, stages={})
        return trim_offset(kept, checkpoints.LiveBatches(None, None, live.size_bytes))

    return other


def _stageless(trim_offset: Any) -> Any:
    return lambda marks, live: trim_offset(replace(marks, stages={}), live)


def _pieceless(_: Any) -> Any:
    return lambda writing, piece: None


mutant("the last checkpoint is enough to begin at", 40, (upkeep, "trim_offset", _boundless))
mutant("live batches do not hold the partition", 60, (upkeep, "trim_offset", _batchless))
mutant("stages do not hold the partition", 100, (upkeep, "trim_offset", _stageless))
mutant("carried batches are lost", 60, (filling, "put_batches", _pieceless))
mutant("pieces of snapshots are lost", 60, (filling, "put_piece", _pieceless))


# Clocks.


def _wall(_: Any) -> Any:
    return lambda self: self.boottime_s() + self.ahead_s


mutant(
    "answers are timed by the wall clock", 100, (NodeClock, "answer_s", _wall), needs="clocks cuts"
)
mutant(
    "whoever takes over serves, whatever its clock says",
    60,
    (replicated, "CLOCK_TOLERANCE_S", always(1e9)),
    (ownership, "CLOCK_S_MAX", always(1e9)),
    needs="clocks",
)


# Following.


def _all_bodies(_: Any) -> Any:
    return property(lambda self: None if self.entry is None else self.entry.body)


def _forgetful(fetch: Any) -> Any:
    """One record in a hundred is passed over."""

    def other(self: SimPartition, offset: int, *, max_bytes: int, wait_s: float) -> list[Fetched]:
        found: list[Fetched] = fetch(self, offset, max_bytes=max_bytes, wait_s=wait_s)
        if found and offset % 97 == 96:
            return found[1:]
        return found

    return other


def _gapless(_: Any) -> Any:
    def check(self: Story, offset: int) -> None:
        self._facts = replace(self._facts, next_offset=offset)

    return check


mutant("what is void is applied", 40, (ToldEntry, "body", _all_bodies), needs="doubt")
mutant(
    "a gap is skipped",
    100,
    (SimPartition, "fetch", _forgetful),
    (Story, "_check_place", _gapless),
    (Story, "_check", always(lambda *_: None)),
)


# Ownership.


def _eager(_: Any) -> Any:
    """Silence is counted until now, whether this node could read or not."""

    def is_time(self: Vigil, seen: Any, now: float) -> bool:
        if seen.term < 0 or seen.successor == self._name or self.obstacle(seen):
            return not self.obstacle(seen)
        silent_s: float = now - seen.heard_s
        return silent_s >= self._session.length_s

    return is_time


mutant("a standby that cannot read takes over", 60, (Vigil, "is_time", _eager), needs="cuts")
mutant(
    "a standby waits for half a session",
    60,
    (OwnerSession, "disturbed_s", always(property(lambda self: self.length_s / 8))),
    (
        Vigil,
        "is_time",
        lambda is_time: (
            lambda self, seen, now: (
                is_time(self, seen, now)
                or (
                    seen.term >= 0
                    and seen.successor is None
                    and seen.applied_offset >= seen.end_offset
                    and not self.obstacle(seen)
                    and now - seen.heard_s >= self._session.length_s / 2
                )
            )
        ),
    ),
)
mutant(
    "the owner answers as long as it likes",
    60,
    (OwnerSession, "answer_s", always(property(lambda self: math.inf))),
)
mutant(
    "the owner answers for three sessions",
    100,
    (OwnerSession, "answer_s", always(property(lambda self: 3 * self.length_s))),
)


# Stages.


def _draftless(apply: Any) -> Any:
    """What comes by a checkpoint's side is not kept: the first piece of each stage."""

    def other(self: StageFiles, body: Any) -> None:
        if getattr(body, "position", 1) != 0:
            apply(self, body)

    return other


mutant("the first piece of a stage is lost", 40, (StageFiles, "apply", _draftless))


# Those that the simulator found.


def _unlooked(_: Any) -> Any:
    return lambda self, body: self._append_quietly(body)


mutant(
    "who is deposed writes on in the term of another",
    200,
    (replicated.ReplicatedLog, "_try_append", _unlooked),
    (steps, "_is_over", always(lambda story, term: story.facts.term != term)),
    needs="doubt moves",
)
