"""Schedules: messages that are published at the ticks of a cron expression, and how far each is.

Pure: times are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import term_attributes
from fanlog.model.attributes import (
    DEDUP_PREFIX,
    DELAY,
    DELIVER_AT,
    SCHEDULE,
    SEQUENCES,
    TICK,
)
from fanlog.model.names import shown

#: What becomes of ticks that passed while the broker did not run: none of them is published, the
#: latest is, or all are, up to a limit.
MissedPolicy = Literal["SKIP", "LATEST", "ALL"]
MISSED_POLICIES: Final[tuple[MissedPolicy, ...]] = get_args(MissedPolicy)

#: The fields that say when a schedule ticks.
WHEN: Final = frozenset({"cron", "time_zone"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    #: projects/p/schedules/s
    name: str
    topic: str
    cron: str
    #: A name of the IANA database, such as Europe/Berlin.
    time_zone: str = "UTC"
    data: bytes = b""
    attributes: Mapping[str, str] = field(default_factory=dict)
    ordering_key: str = ""
    missed: MissedPolicy = "SKIP"
    is_paused: bool = False
    created_s: float = 0.0

    def check(self) -> None:
        """Check the message of one that is made or changed; stored ones are what they are.

        Raises:
            InvalidArgument: An attribute that is not the caller's, an empty message or a large one.
        """
        for name in self.attributes:
            if name in (SCHEDULE, TICK):
                raise InvalidArgument(f"attributes: {name!r} is set by the schedule at each tick")
            if name.startswith(DEDUP_PREFIX) or name in SEQUENCES:
                raise InvalidArgument(
                    f"attributes: {name!r} would let one tick pass for another; a tick is "
                    "published once without it"
                )
        if DELIVER_AT in self.attributes:
            raise InvalidArgument(
                f"attributes: {DELIVER_AT!r} is one time for all ticks; {DELAY!r} counts from each"
            )
        try:
            term_attributes.terms_of([(self.attributes, self.ordering_key)])
        except InvalidArgument as error:
            raise InvalidArgument(error.message.removeprefix("messages[0].")) from error
        if not self.data and not self.attributes:
            raise InvalidArgument("data: empty, and so are attributes; a message has one of them")
        if self.size_bytes > limits.SCHEDULE_BYTES_MAX:
            raise InvalidArgument(
                f"data: the message has {self.size_bytes} bytes; that of a schedule may have "
                f"{limits.SCHEDULE_BYTES_MAX}"
            )

    @property
    def size_bytes(self) -> int:
        """Bytes of the message, without framing."""
        texts = (self.ordering_key, *self.attributes, *self.attributes.values())
        return len(self.data) + sum(len(text.encode()) for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a schedule is. A tick is decided when it is published, missed, or not wanted."""

    #: All ticks up to this second are decided, and none after it.
    decided_s: int
    #: The last tick that was published, and its message; 0 and empty before one was.
    last_tick_s: int = 0
    last_message_id: str = ""
    published: int = 0
    missed: int = 0
    #: Why a tick could not be published when it came; the last time that was so, 0 for never.
    error: str = ""
    error_s: float = 0.0

    def begin_anew(self, now_s: float) -> Progress:
        """Progress whose next tick is the first from now on.

        No tick that was decided comes again, unless it lies so far ahead that the clock must have
        been wrong when it was.
        """
        now = int(now_s)
        is_wrong = self.decided_s > now + limits.SCHEDULE_AHEAD_S
        return replace(self, decided_s=now if is_wrong else max(now, self.decided_s))

    def publish(self, tick_s: int, message_id: str) -> Progress:
        """A tick is published."""
        return replace(
            self,
            decided_s=tick_s,
            last_tick_s=tick_s,
            last_message_id=message_id,
            published=self.published + 1,
        )

    def miss(self, tick_s: int, missed: int) -> Progress:
        """The ticks up to one are given up: so many."""
        return replace(self, decided_s=tick_s, missed=self.missed + missed)

    def fail(self, error: str, now_s: float) -> Progress:
        return replace(self, error=error, error_s=now_s)


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule as it is now."""

    schedule: Schedule
    #: With the error of a tick that is still tried.
    progress: Progress
    #: None for one that is paused, or cannot tick.
    next_tick_s: int | None


def check_policy(text: str, field: str = "missed") -> MissedPolicy:
    """Raises InvalidArgument: No policy has that name."""
    for policy in MISSED_POLICIES:
        if policy == text:
            return policy
    raise InvalidArgument(f"{field}: {shown(text)} is not one of {', '.join(MISSED_POLICIES)}")
