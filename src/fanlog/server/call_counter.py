"""Calls that arrive while the server stops.

gRPC ends a call that it has received and not yet started with CANCELLED when the server is shut
down (grpc/grpc issue 41785). An official subscriber takes that for its own wish to leave and never
comes again. So a stop first answers the calls that are on their way, with UNAVAILABLE, until none
has arrived for a moment.
"""

from __future__ import annotations

import asyncio

#: With no call for so long, no call is on its way, in seconds.
QUIET_S = 0.1
#: Longest that a stop waits for quiet: some clients come again at once, for ever, in seconds.
QUIET_WAIT_S_MAX = 1.0


class CallCounter:
    """The number of calls that have arrived."""

    def __init__(self) -> None:
        self.count = 0

    async def wait_for_quiet(self, patience_s: float) -> float:
        """Return when no calls arrive any more, or soon although they do; the patience left."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        late_s = began_s + min(patience_s, QUIET_WAIT_S_MAX)
        before = -1
        while before != self.count and loop.time() < late_s:
            before = self.count
            await asyncio.sleep(QUIET_S)
        return max(0.0, began_s + patience_s - loop.time())
