"""The receivers of push: each has a mood for a while, and answers by it.

A receiver is an address on the simulated network. It may be well, refuse some messages, fail with
or without saying when to come again, take too long or for ever, be down, change with every request,
cut the connection after it has worked, or be gone for good.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from email.utils import formatdate

from fanlog.model.names import topic_name
from fanlog.model.resources import PushConfig
from fanlog.push.rules.outcome import Outcome, of_error, of_status, of_timeout
from simulator.meanings import PROJECT

#: Receivers of one subscription; which of them it has is changed now and then.
RECEIVERS = 2
#: An address that no request may go to.
PRIVATE = "http://127.0.0.1/hook"

MOODS = {
    "well": 6.0,
    "picky": 1.0,
    "failing": 1.5,
    "busy": 1.0,
    "slow": 1.0,
    "hanging": 0.5,
    "down": 1.0,
    "flapping": 1.0,
    "cutting": 1.0,
    "gone": 0.6,
}
#: How long a mood lasts, in paces of the world.
MOOD_PACES = 15.0
#: How long an answer takes at most while a receiver is well.
WELL_S = 0.02
FOR_EVER_S = 1e9

_FAILURES = (500, 502, 504, 408, 302, 301)
_REFUSALS = (400, 403, 404, 422)
_LATER = ("0", "3", "45", "700", "soon", "date")


def endpoint(number: int, which: int) -> str:
    """The address of a receiver of the subscription of that number; each is a host of its own."""
    return f"http://8.8.{which}.{number}/hook"


def some_push(rng: random.Random, subscription: str, forwards: float) -> PushConfig:
    """Where a subscription may push to."""
    number = int(subscription.rpartition("-")[2])
    if rng.random() < forwards:
        return PushConfig(endpoint=f"topic:forward-{number}")
    no_wrapper = rng.random() < 0.2
    return PushConfig(
        endpoint=endpoint(number, rng.randrange(RECEIVERS)),
        no_wrapper=no_wrapper,
        write_metadata=no_wrapper and rng.random() < 0.5,
    )


def forward_topic(subscription: str) -> str:
    """Each subscription that forwards has a topic of its own to do so to."""
    return topic_name(PROJECT, f"forward-{subscription.rpartition('-')[2]}")


def forwarder_of(topic: str) -> str:
    """Id of the subscription that forwards to a topic; empty if no subscription forwards to it."""
    head, _, number = topic.rpartition("-")
    return f"subscription-{number}" if head == "forward" else ""


@dataclass(frozen=True, slots=True)
class Reply:
    """The outcome of one request, and when it comes."""

    after_s: float
    outcome: Outcome


class Receiver:
    """The receiver at one address."""

    def __init__(self, rng: random.Random, pace_s: float) -> None:
        self._rng = rng
        self._pace_s = pace_s
        self._until_s = 0.0
        self._count = 0
        self.mood = "well"

    def reply(self, now: float, wall_s: float, timeout_s: float) -> Reply:
        """Decide the outcome of a request that comes now."""
        if now >= self._until_s:
            self.mood = self._rng.choices(list(MOODS), list(MOODS.values()))[0]
            self._until_s = now + self._rng.expovariate(1.0) * self._pace_s * MOOD_PACES
        reply = self._in_mood(wall_s, timeout_s)
        if reply.after_s > timeout_s:
            return Reply(timeout_s, of_timeout(timeout_s))
        return reply

    def settle_down(self, mood: str = "well") -> None:
        """Be like that from now on."""
        self.mood, self._until_s = mood, float("inf")

    def _in_mood(self, wall_s: float, timeout_s: float) -> Reply:
        rng = self._rng
        soon_s = rng.random() * WELL_S
        self._count += 1
        match self.mood:
            case "picky" if rng.random() < 0.5:
                later = rng.choice((None, "45"))
                return Reply(soon_s, of_status(rng.choice(_REFUSALS), later, wall_s))
            case "failing":
                later = rng.choice((None, None, "20"))
                return Reply(soon_s, of_status(rng.choice(_FAILURES), later, wall_s))
            case "busy":
                later = rng.choice(_LATER)
                if later == "date":
                    later = formatdate(wall_s + 60.0, usegmt=True)
                return Reply(soon_s, of_status(rng.choice((429, 503)), later, wall_s))
            case "slow":
                return Reply(rng.random() * timeout_s * 1.5, of_status(204, None, wall_s))
            case "hanging":
                return Reply(FOR_EVER_S, of_error("never"))
            case "down":
                # It takes a moment: a policy without waits would otherwise try for ever in none.
                return Reply(soon_s, of_error("ConnectionRefusedError"))
            case "flapping" if self._count % 2:
                return Reply(soon_s, of_status(503, None, wall_s))
            case "cutting" if rng.random() < 0.7:
                return Reply(soon_s, of_error("ServerDisconnectedError"))
            case "gone":
                return Reply(soon_s, of_status(410, None, wall_s))
        return Reply(soon_s, of_status(rng.choice((200, 202, 204)), None, wall_s))
