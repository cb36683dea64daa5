"""Planted bugs of a cluster that brokers and their clients notice.

Some are bugs of the broker that worlds of one process find, too: here a term ends, not a life.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fanlog.broker.standby_state import StandbyState
from fanlog.cluster import node
from fanlog.cluster.guard import TenureGuard
from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.term_clock import TermClock
from fanlog.core.warm_state import WarmState
from fanlog.errors import Fenced, OutcomeUnknown
from fanlog.log.replicated import steps
from fanlog.log.replicated.partition import Produced
from fanlog.log.replicated.replicated import ReplicatedLog
from fanlog.log.replicated.steps import AppendOutcome
from simulator import mutants as single
from simulator.cluster.planting import always, mutant


def of_brokers(name: str, seeds_max: int, *patches: Any, needs: str = "", first: int = 0) -> None:
    mutant(name, seeds_max, *patches, needs=needs, has_brokers=True, first=first or 2)


def as_with_one_process(name: str, seeds_max: int, *, first: int = 0) -> None:
    """A bug of the broker, planted in every term."""
    of_brokers(f"{name}, in a cluster", seeds_max, *single.MUTANTS[name].patches, first=first)


# Validity.


def _swallowing(*errors: type[Exception]) -> Callable[[Any], Any]:
    def make(commit: Any) -> Any:
        def hopeful(self: ReplicatedLog, one: Any) -> None:
            with suppress(*errors):
                commit(self, one)

        return hopeful

    return make


def _believing(append: Any) -> Any:
    """Whatever an acknowledgement says, the record lies where it should."""

    def other(story: Any, body: Any) -> Any:
        value, entry = story.encode(body)
        answer = yield steps.Produce(value)
        if isinstance(answer, Produced):
            told = story.hear(story.facts.next_offset, answer.append_time_ms, entry)
            yield steps.Apply([told])
            return AppendOutcome.HAPPENED
        yield steps.ResetProducer()
        return AppendOutcome.UNKNOWN

    return other


of_brokers(
    "a commit of unknown outcome is answered",
    60,
    (ReplicatedLog, "commit", _swallowing(OutcomeUnknown)),
    needs="doubt",
)
of_brokers("a fenced commit is answered", 60, (ReplicatedLog, "commit", _swallowing(Fenced)))
of_brokers("clients meet an acknowledged place that is ignored", 40, (steps, "append", _believing))


# Answers of owners that are not sure.


def _open(_: Any) -> Any:
    return lambda self, verb: verb


def _tireless(_: Any) -> Any:
    return property(lambda self: 3 * self.length_s)


def _boastful(_: Any) -> Any:
    """A tenure begins with the take-over, whoever may answer still."""
    return lambda session, before, term, now: now


of_brokers("the guard lets every answer out", 60, (TenureGuard, "_unary", _open))
of_brokers(
    "an owner with clients answers for three sessions",
    60,
    (OwnerSession, "answer_s", _tireless),
    needs="cuts",
)
of_brokers(
    "clients are answered at once after every take-over",
    60,
    (node, "serve_from", _boastful),
    needs="rivals",
)


# Clocks.


def _own_time(init: Any) -> Any:
    return lambda self, clock, ahead_s: init(self, clock, 0.0)


of_brokers(
    "deadlines are counted by the clock of each node",
    100,
    (TermClock, "__init__", _own_time),
    needs="clocks",
)


# Brokers.

as_with_one_process("a publish is answered before its commit", 20)
as_with_one_process("leases are forgotten at a start", 40)
as_with_one_process("generations begin anew with each life", 60)
as_with_one_process("attempts are lost with the process", 100)
as_with_one_process("a dead letter and its ack are two commits", 100)
as_with_one_process("an ack is answered before its commit", 60)


# What a standby keeps ready.


def _keeping(put: Any) -> Any:
    """What is gone stays."""
    return lambda self, changes: put(self, [one for one in changes if one[1] is not None])


def _one_behind(put: Any) -> Any:
    """The last change of each commit is not told."""
    return lambda self, changes: put(self, changes[:-1] if len(changes) > 1 else changes)


of_brokers("a standby keeps what is gone", 20, (StandbyState, "put", _keeping))
of_brokers("a standby misses a change", 20, (StandbyState, "put", _one_behind))
of_brokers(
    "a standby keeps the leases of another time",
    20,
    (WarmState, "_touch", always(lambda self, record: None)),
)
