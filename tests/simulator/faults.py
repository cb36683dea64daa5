"""How unkind a world is: the odds of each fault, all drawn from the world's own seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

TIMER_LATE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Odds:
    """Chance of each fault, per commit, read, call, stream or pause of the chaos actor."""

    commit_fails: float = 0.0
    #: The commit is cut off by a crash: it happened or not, and nobody was told.
    commit_crashes: float = 0.0
    commit_slow: float = 0.1
    #: A read gives way to others before it answers.
    read_slow: float = 0.0
    #: A timer is late, as under load, by up to `TIMER_LATE_S`.
    timer_late: float = 0.0
    #: A batch fails its checksum when it is read back, from its commit on or later.
    batch_damaged: float = 0.0
    request_lost: float = 0.0
    answer_lost: float = 0.0
    request_repeated: float = 0.0
    #: The connection is cut while the verb runs.
    call_cut: float = 0.0
    #: Answers of a stream wait for a client that reads slowly.
    stream_slow: float = 0.0
    #: A client is gone and the server does not notice for a while.
    stream_half_open: float = 0.0
    #: The process is killed the moment an answer leaves.
    answer_crashes: float = 0.0
    #: These are what the chaos actor does at each of its turns.
    crash: float = 0.0
    stop: float = 0.0
    disk_full: float = 0.0
    clock_step: float = 0.0
    #: The process stands still for minutes to days, and all its timers are late.
    freeze: float = 0.0


KIND = Odds(commit_slow=0.0)


def drawn(rng: random.Random) -> Odds:
    """The odds of one world: most faults are absent from most worlds, so that each is met alone."""

    def maybe(most: float, often: float = 0.4) -> float:
        return rng.random() * most if rng.random() < often else 0.0

    return Odds(
        commit_fails=maybe(0.03, 0.3),
        commit_crashes=maybe(0.01),
        commit_slow=maybe(0.3),
        read_slow=maybe(0.5, 0.3),
        timer_late=maybe(1.0, 0.5),
        batch_damaged=maybe(0.02, 0.15),
        request_lost=maybe(0.05),
        answer_lost=maybe(0.05),
        request_repeated=maybe(0.1),
        call_cut=maybe(0.05),
        stream_slow=maybe(0.3, 0.3),
        stream_half_open=maybe(0.3),
        answer_crashes=maybe(0.01),
        crash=maybe(0.5, 0.6),
        stop=maybe(0.2, 0.3),
        disk_full=maybe(0.2, 0.2),
        clock_step=maybe(0.3, 0.2),
        freeze=maybe(0.3, 0.3),
    )
