"""Patience: how many frames that bring nothing a connection takes before it is ended.

One bucket for all of them, since attacks mix and invent kinds: resets of requests just begun,
pings, settings, empty data, priorities, updates of windows. Each kind costs by the work it makes;
time and frames that bring something fill the bucket again. So a client under full load, which
probes the bandwidth with a ping a round trip and updates windows all the time, never runs out.
"""

from __future__ import annotations

import math
from typing import Final

from fanlog.http2.codes import ErrorCode, Fault

#: Tokens of a full bucket, and how many come back in a second.
TOKENS: Final = 10_000.0
TOKENS_A_SECOND: Final = 2_000.0

#: All streams of a connection (1,100) may be reset at once, by a client that closes.
COST_RESET: Final = 8.0
COST_SETTINGS: Final = 50.0
COST_PING: Final = 4.0
COST_EMPTY_DATA: Final = 10.0
COST_WINDOW_UPDATE: Final = 1.0
COST_PRIORITY: Final = 4.0
COST_UNKNOWN: Final = 4.0
COST_CONTINUATION: Final = 10.0
COST_REFUSED: Final = 10.0
#: A block of too many headers: a few bytes may stand for thousands of them, and all are walked.
COST_HEADERS: Final = 200.0
#: A frame of data below so many bytes, that does not end its stream.
COST_CRUMB: Final = 1.0
CRUMB_BYTES: Final = 16
#: A frame of a stream that is over: its sender may not know yet. One of so much data that it costs
#: its sender more than us is for nothing.
COST_LATE: Final = 2.0
LATE_BYTES: Final = 1_024
#: Tokens that an answered request gives back; a frame of data, one for so many bytes up to a most.
GAIN_REQUEST: Final = 10.0
GAIN_BYTES: Final = 256
GAIN_DATA: Final = 4.0


class Patience:
    """One connection's bucket. Soft state."""

    def __init__(self, now: float) -> None:
        self._tokens = self._tokens_max = TOKENS
        self._now = now

    def trust(self) -> None:
        """The peer is one of ours: it works for many callers, who may all leave at once."""
        self._tokens = self._tokens_max = math.inf

    def pass_time(self, now: float) -> None:
        if now > self._now:
            back = (now - self._now) * TOKENS_A_SECOND
            self._tokens = min(self._tokens_max, self._tokens + back)
            self._now = now

    def spend(self, cost: float, what: str) -> None:
        """Raises Fault (ENHANCE_YOUR_CALM) when there is none left."""
        self._tokens -= cost
        if self._tokens < 0:
            raise Fault(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what}")

    def gain(self, tokens: float) -> None:
        self._tokens = min(self._tokens_max, self._tokens + tokens)
