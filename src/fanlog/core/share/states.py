"""The states of a message on one share, and every way from one to another.

`TRANSITIONS` is the whole table. The share does not look anything up in it: where a message stands
follows from the cursor, the leases and the sets of the share (`Share.offsets_by_state`). The tests
hold the share to the table: no verb may move a message in a way that is not listed, and every row
is reached. `docs/internals/states.md` is written from it.

Two rules are not rows, for they are about more than one message:

- With ordering, a message that leaves OUTSTANDING other than by an acknowledgement takes the later
  outstanding ones of its key along (RECALLED), and an acknowledgement is hard (ACKED) only when all
  earlier messages of the key are (EARLY until then). A message that is outstanding when an earlier
  one of its key is reopened is neither taken away nor held up; it is acknowledged as it would have
  been, and the reopened message is the next one of the key. Should the outstanding one fail, it
  comes back behind the reopened one.
- A message that a stream nacked is not delivered to that stream's client, in whichever state,
  until its aversion is over (`fanlog.core.share.aversion`); with ordering, nor are the later
  messages of its key.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Where a message stands on one share. ACKED is hard state, and OUTSTANDING exactly once."""

    #: Not to be delivered before a time that its publisher gave, or while it is held back behind a
    #: gap in its publisher's numbers.
    PENDING = "PENDING"
    #: Unacknowledged, and free to be delivered, as far as the filter and the key's order allow.
    BACKLOG = "BACKLOG"
    #: Leased to a consumer.
    OUTSTANDING = "OUTSTANDING"
    #: Acknowledged ahead of an earlier message of its key, which is still outstanding.
    EARLY = "EARLY"
    #: Waits for its back-off.
    DELAYED = "DELAYED"
    #: Waits until messages that it depends on are acknowledged.
    DEPENDING = "DEPENDING"
    #: Has no attempts left; its dead letter is being made.
    FORWARDING = "FORWARDING"
    #: Left out by the filter, or addressed to another subscription; not in the cursor yet.
    PASSED_OVER = "PASSED_OVER"
    #: Acknowledged in the cursor, by a subscriber or in one of the other ways below.
    ACKED = "ACKED"


class StateEvent(Enum):
    """An event of a message; its value is the words for it in the documents."""

    DUE = "it is due"
    GAP_ENDED = "the gap before it is filled or given up"
    LEASED = "leased"
    ACKNOWLEDGED = "acknowledged"
    CLAIMED = "about to be sent, at most once"
    ACKNOWLEDGED_LATE = "acknowledged late, at least once"
    EARLIER_SETTLED = "all earlier ones of its key are acknowledged"
    NACKED = "nacked"
    EXPIRED = "its lease expires"
    RECALLED = "an earlier one of its key came back"
    GIVEN_BACK = "given back: it was never written to its stream"
    BACKOFF_OVER = "its back-off is over"
    CAUSE_OPEN = "found to depend on an unacknowledged message when its turn comes"
    CAUSE_CLOSED = "the message that it waits for is acknowledged"
    OVERDUE = "it has waited for another message for too long"
    LAPSED = "found with its time-to-live over when its turn comes"
    EXHAUSTED = "found without attempts left when its turn comes"
    FORWARDED = "its dead letter is committed"
    NOT_FORWARDED = "there is no dead letter topic"
    LEFT_OUT = "left out by the filter, or addressed to another subscription"
    ADDRESSED = "addressed to this subscription"
    SETTLED = "written to the cursor with the next acknowledgement or sweep"
    EXPORTED = "committed to the table of an export"
    DISCARDED = "discarded by an administrator"
    DROPPED = "dropped: the backlog has no room for it"
    RETENTION_ENDED = "its retention ends"
    PURGED = "purged by an administrator"
    SOUGHT_PAST = "a seek goes past it"
    SOUGHT_BEFORE = "a seek goes before it, and it is retained"
    REOPENED = "reopened"
    UNREADABLE = "cannot be read"
    RESTARTED = "the broker restarts"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row: a message in any of `sources` goes to `target` at `event`."""

    sources: tuple[State, ...]
    event: StateEvent
    target: State
    #: Under which condition, where one event has several targets.
    condition: str = ""


_B, _O, _E, _D = State.BACKLOG, State.OUTSTANDING, State.EARLY, State.DELAYED
_F, _P, _A = State.FORWARDING, State.PASSED_OVER, State.ACKED
_N, _W = State.PENDING, State.DEPENDING

TRANSITIONS = (
    # Published with a time, or behind a gap: the same for all shares, whatever these do.
    Transition((_N,), StateEvent.DUE, _B),
    Transition((_N,), StateEvent.GAP_ENDED, _B),
    Transition((_B,), StateEvent.LEASED, _O),
    # A subscriber settles.
    Transition((_O,), StateEvent.ACKNOWLEDGED, _A, "no earlier one of its key is outstanding"),
    Transition((_O,), StateEvent.ACKNOWLEDGED, _E, "an earlier one of its key is outstanding"),
    Transition((_E,), StateEvent.EARLIER_SETTLED, _A),
    # At most once, sending settles it: after a crash in between it is lost, and never sent twice.
    Transition((_O,), StateEvent.CLAIMED, _A, "no earlier one of its key is outstanding"),
    # An ack id that is no longer live still proves that the message was processed. Exactly once,
    # and of a key, it would contradict the answer that the next consumer gets, and is refused.
    Transition((_B, _D, _W), StateEvent.ACKNOWLEDGED_LATE, _A),
    # A delivery fails.
    Transition((_O,), StateEvent.NACKED, _B, "attempts left, no back-off"),
    Transition((_O,), StateEvent.NACKED, _D, "attempts left, back-off"),
    Transition((_O,), StateEvent.NACKED, _F, "no attempts left"),
    Transition((_O,), StateEvent.EXPIRED, _B, "attempts left, no back-off"),
    Transition((_O,), StateEvent.EXPIRED, _D, "attempts left, back-off"),
    Transition((_O,), StateEvent.EXPIRED, _F, "no attempts left"),
    Transition((_O, _E), StateEvent.RECALLED, _B),
    Transition((_O,), StateEvent.GIVEN_BACK, _B),
    Transition((_D,), StateEvent.BACKOFF_OVER, _B),
    # It depends on others. Whether it becomes a dead letter then is seen when its turn comes.
    Transition((_B,), StateEvent.CAUSE_OPEN, _W),
    Transition((_W,), StateEvent.CAUSE_CLOSED, _B),
    Transition((_W,), StateEvent.OVERDUE, _B),
    # Dead letters. A restart or a smaller policy leaves exhausted messages in the backlog.
    Transition((_B,), StateEvent.LAPSED, _A, "dropped: `fanlog-expired` does not say otherwise"),
    Transition((_B,), StateEvent.LAPSED, _F, "`fanlog-expired` says `dead-letter`"),
    Transition((_B,), StateEvent.EXHAUSTED, _F),
    Transition((_F,), StateEvent.FORWARDED, _A),
    Transition((_F,), StateEvent.NOT_FORWARDED, _D),
    # Filters and addresses. Passing over costs no commit of its own, hence a state of its own.
    Transition((_B, _N), StateEvent.LEFT_OUT, _P),
    Transition((_P,), StateEvent.ADDRESSED, _B),
    Transition((_P,), StateEvent.SETTLED, _A),
    # Acknowledged without a subscriber.
    Transition((_B,), StateEvent.EXPORTED, _A),
    Transition((_B, _N, _D, _W), StateEvent.DISCARDED, _A),
    Transition((_B, _N, _D, _W), StateEvent.DROPPED, _A),
    Transition((_B, _N, _O, _E, _D, _W, _F, _P), StateEvent.RETENTION_ENDED, _A),
    Transition((_B, _N, _O, _E, _D, _W, _F, _P), StateEvent.PURGED, _A),
    Transition((_B, _N, _O, _E, _D, _W, _F, _P), StateEvent.SOUGHT_PAST, _A),
    # Open again.
    Transition((_O, _E, _D, _W, _F), StateEvent.SOUGHT_BEFORE, _B),
    Transition((_P, _A), StateEvent.SOUGHT_BEFORE, _B, "it has no time, or is due"),
    Transition((_P, _A), StateEvent.SOUGHT_BEFORE, _N, "it is not due"),
    Transition((_A,), StateEvent.REOPENED, _B, "it has no time, or is due"),
    Transition((_A,), StateEvent.REOPENED, _N, "it is not due"),
    # Soft state is lost: messages are delivered again. A lost lease is a redelivery.
    Transition((_D, _W), StateEvent.UNREADABLE, _B),
    Transition((_O, _E, _D, _W, _F), StateEvent.RESTARTED, _B, "exactly once, OUTSTANDING stays"),
    Transition((_P,), StateEvent.RESTARTED, _B, "it has no time, or is due"),
    Transition((_P,), StateEvent.RESTARTED, _N, "it is not due"),
)
