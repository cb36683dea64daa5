"""A log that several nodes have, one of which owns it: what a node sees of it.

A *term* is the time of one owner; it is named by the offset of the take-over record that began it.
The node that owns calls `commit` as on any other log. The others *follow*: they apply what the
owner appends, and may be asked for nothing but their standing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from fanlog.log.api import Log

#: The term of a log that never had an owner.
NO_TERM = -1

#: `following`: another node owns, or none does; `owning`: `commit` may be called; `failed`: the
#: story of the partition cannot be followed by this node, and `Standing.sentence` says why.
Role = Literal["following", "owning", "failed"]


class ReplicaClock(Protocol):
    """The clocks of a node."""

    def boottime_s(self) -> float:
        """Seconds by a clock that never jumps and goes on while the machine sleeps."""

    def wall_ns(self) -> int:
        """Nanoseconds since the epoch."""


class Member(NamedTuple):
    """A node that follows, as the owner knows it."""

    #: The node's card, in the bytes that it gave its own log; the log never looks into it.
    card: bytes
    #: First offset of the partition that it has not applied.
    applied_offset: int


class Standing(NamedTuple):
    """All that a node can know of the log without asking. A value; times by `boottime_s`."""

    role: Role
    #: Why the role is `failed`, why the last term ended or the last take-over led to none, or that
    #: the cache cannot be written just now; else empty.
    sentence: str
    #: Offset of the take-over record of the present term, whoever has it; `NO_TERM` before one.
    term: int
    #: Card of the node that began the term; None before there was one.
    owner: bytes | None
    #: Name of the node that the owner left the log to; empty if it left it to any node; None while
    #: the term goes on.
    successor: str | None
    #: The nodes that follow, as of the owner's last renewal that named some.
    members: tuple[Member, ...]
    #: First offset of the partition that is not applied to the cache.
    applied_offset: int
    #: The partition's end when it was last asked for; 0 before.
    end_offset: int
    #: Sequence of the last commit applied.
    sequence: int
    #: Whether the cache has all of the log. A new node's has not, until it has read a snapshot;
    #: such a node cannot take over.
    is_whole: bool
    #: When an entry that counts was last read, or this node last stepped down; -inf before.
    heard_s: float
    #: When the last question for records was *asked* that was answered, be it with none; -inf
    #: before. If nothing was heard since, nothing had been appended by then.
    fetched_s: float
    #: The moment before the last record that was acknowledged in order was *sent*; -inf if this
    #: node does not own. No other node owned before that moment.
    renewed_s: float
    #: How far the node's wall clock is ahead of the append times, as of the last record that was
    #: read as soon as it was there; None before one.
    clock_ahead_s: float | None
    #: How often the cache was discarded since this object was made.
    started_over: int
    #: Records of the partition that were read and are no entries of the cluster, since this object
    #: was made; where the last one lies, and what it is.
    stray_records: int = 0
    stray_sentence: str = ""


class ReplicatedEngine(Log, Protocol):
    """A `Log` with a life cycle. Made with the role `following`, and not reading yet.

    The methods below may be called on any thread, and block, but for `standing` and `step_down`.
    These two, `commit`, `renew` and what is about stages may run beside others; of the rest, no two
    at once. Each change
    of role, term or successor calls the `on_change` that the engine was made with: on any thread,
    after `standing` says so; it must not block, nor call back. Renewals and commits change the
    standing without a call.

    A term ends by itself when `commit`, `renew` or `hand_over` finds that it is over. The cache
    stands still from then on, so that a broker on it can be taken down, until `start_following`.
    """

    @property
    def standing(self) -> Standing:
        """Read on any thread; never blocks."""

    def start_following(self) -> None:
        """Have a thread read and apply what is appended. Does nothing if one does already.

        Raises:
            AssertionError: This node owns: step down first.
        """

    def stop_following(self) -> None:
        """Return when that thread has ended. Does nothing if there is none."""

    def take_over(self) -> bool:
        """Append a take-over record, read up to it, and apply all of it.

        True: this node owns, and nothing that was ever answered is missing in the cache. False:
        another node was faster, the partition did not answer, the cache is not whole, or the node's
        clock is more than 5 s from the partition's (`standing.sentence` says which); then the log
        goes on following if it did before the call.
        """

    def renew(self, members: Sequence[Member]) -> None:
        """Append a renewal that names `members`; waits for the commit that is under way.

        Does nothing when this node does not own.
        """

    def hand_over(self, successor: str) -> bool:
        """Append a record that leaves the log to the node of that name ("": to any), and step down.

        False: the record may not be there. The role is `following` in both cases. The broker must
        have ended: a commit that is called afterwards raises `Fenced`.
        """

    def step_down(self) -> None:
        """Stop owning without a word to the others. Commits raise `Fenced` from then on.

        A commit that is under way may still happen, and is answered as it turns out.
        """

    def distrust(self, reason: str) -> None:
        """The cache gave something damaged: begin again from the partition, when this node follows.

        Does nothing to a node that owns, until it steps down. Never blocks.
        """

    # Stages: files that each node has (`stages.py`). On any thread; each blocks as `commit` does,
    # and raises Fenced, OutcomeUnknown or CommitTooLarge as it does.

    @property
    def stages_dir(self) -> Path:
        """Where finished stages lie, as `ID.stage`."""

    def unfinished_stages(self) -> list[str]:
        """Ids of the stages that were begun and not finished."""

    def write_stage(self, stage_id: str, position: int, content: bytes) -> None:
        """Add to a stage that is not finished, at its present end."""

    def end_stage(self, stage_id: str, position: int, said: bytes) -> None:
        """Add the last bytes and finish it; all nodes have it, or will, when this returns."""

    def remove_stages(self, stage_ids: Sequence[str]) -> None:
        """Forget stages, finished or not; some may be gone already."""
