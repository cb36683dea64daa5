"""The checker of states: every move of a message on a share is a row of the table, or several.

`WatchedShare` notes which verbs ran; `Transitions` looks at the states of all messages after each
decision, and finds rows of `TRANSITIONS` that the verbs may cause for every difference.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from pyroaring import BitMap64

from fanlog.core.share import Share, State
from fanlog.core.share.states import TRANSITIONS, StateEvent

#: One row, for one source.
Row = tuple[State, StateEvent, State]

ROWS: tuple[Row, ...] = tuple(
    (source, row.event, row.target) for row in TRANSITIONS for source in row.sources
)

#: After a change of a key, its next message may turn out to be exhausted.
_KEY_MOVES = {StateEvent.EXHAUSTED, StateEvent.EARLIER_SETTLED}
#: Every acknowledgement takes along the messages that are passed over, and lets those go that
#: waited for it.
_ACKNOWLEDGES = _KEY_MOVES | {StateEvent.SETTLED, StateEvent.CAUSE_CLOSED}

#: The events that each verb may cause.
EVENTS: dict[str, set[StateEvent]] = {
    "abandon": set(),
    "acknowledge": {StateEvent.ACKNOWLEDGED, StateEvent.ACKNOWLEDGED_LATE, *_ACKNOWLEDGES},
    "acknowledge_exported": {StateEvent.EXPORTED, *_ACKNOWLEDGES},
    "acknowledge_forwarded": {StateEvent.FORWARDED, *_ACKNOWLEDGES},
    "address": {StateEvent.LEFT_OUT, StateEvent.ADDRESSED, StateEvent.CAUSE_CLOSED},
    "advance": {StateEvent.RETENTION_ENDED, *_ACKNOWLEDGES},
    "claim": {StateEvent.CLAIMED, *_ACKNOWLEDGES},
    "come_due": {StateEvent.DUE},
    "configure": {StateEvent.SETTLED, StateEvent.EXHAUSTED},
    "discard": {StateEvent.DISCARDED, *_ACKNOWLEDGES},
    "expire": {
        StateEvent.EXPIRED,
        StateEvent.OVERDUE,
        StateEvent.BACKOFF_OVER,
        StateEvent.RECALLED,
        StateEvent.EXHAUSTED,
    },
    "give_back": {StateEvent.GIVEN_BACK, StateEvent.RECALLED, StateEvent.EXHAUSTED},
    "lease": {
        StateEvent.LEASED,
        StateEvent.RECALLED,
        StateEvent.EXHAUSTED,
        StateEvent.LAPSED,
        StateEvent.CAUSE_OPEN,
        StateEvent.CAUSE_CLOSED,
        StateEvent.SETTLED,
    },
    "modify_ack_deadline": {StateEvent.NACKED, StateEvent.RECALLED, StateEvent.EXHAUSTED},
    "pass_over": {StateEvent.LEFT_OUT, StateEvent.CAUSE_CLOSED},
    "purge": {StateEvent.PURGED, *_ACKNOWLEDGES},
    "relieve": {StateEvent.DROPPED, *_ACKNOWLEDGES},
    "reopen": {StateEvent.REOPENED, StateEvent.EXHAUSTED},
    "restore": {StateEvent.SOUGHT_PAST, StateEvent.SOUGHT_BEFORE},
    "return_unforwarded": {StateEvent.NOT_FORWARDED},
    "route": {StateEvent.LEFT_OUT, StateEvent.CAUSE_CLOSED},
    "scan": {StateEvent.RECALLED},
    "seek": {StateEvent.SOUGHT_PAST, StateEvent.SOUGHT_BEFORE},
    "settle_passed": {StateEvent.SETTLED, StateEvent.CAUSE_CLOSED},
    "skip": {StateEvent.UNREADABLE},
    "start": {StateEvent.RESTARTED},
    "take_places": {StateEvent.GAP_ENDED},
}


class WatchedShare(Share):
    """A share that notes which of its verbs ran."""

    def __init__(self, *args: Any) -> None:
        self.ran: list[str] = []
        super().__init__(*args)


def _noting(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    def noted(self: WatchedShare, *args: Any, **kwargs: Any) -> Any:
        self.ran.append(name)
        return verb(self, *args, **kwargs)

    return noted


for _name in EVENTS:
    setattr(WatchedShare, _name, _noting(_name, getattr(Share, _name)))


class Transitions:
    """The transitions of all messages of one share, from one look to the next."""

    def __init__(self) -> None:
        self._before: dict[State, BitMap64] = {}
        #: Rows that were seen so far.
        self.seen: set[Row] = set()

    def look(self, share: WatchedShare, end: int) -> None:
        """Check what changed since the last look; `end` is the end of the log."""
        after = share.offsets_by_state(end)
        assert sum(len(offsets) for offsets in after.values()) == end
        ran, share.ran = share.ran, []
        events = {event for name in ran for event in EVENTS[name]}
        for source, offsets in self._before.items():
            for target, others in after.items():
                if source is not target and (moved := offsets & others):
                    rows = path(source, target, events)
                    what = f"{list(moved)} went from {source.name} to {target.name} in {ran}"
                    assert rows is not None, what
                    self.seen |= set(rows)
        self._before = after


def path(source: State, target: State, events: Iterable[StateEvent]) -> list[Row] | None:
    """The fewest rows from `source` to `target` by `events`; None if there are none."""
    allowed = set(events)
    waiting: deque[tuple[State, list[Row]]] = deque([(source, [])])
    met = {source}
    while waiting:
        state, rows = waiting.popleft()
        if state is target:
            return rows
        for row in ROWS:
            if row[0] is state and row[1] in allowed and row[2] not in met:
                met.add(row[2])
                waiting.append((row[2], [*rows, row]))
    return None
