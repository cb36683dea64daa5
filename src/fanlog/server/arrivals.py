"""Who still comes while the server stops.

gRPC ends a call that it has received and nobody has taken up yet with CANCELLED when the server is
shut down (grpc/grpc issue 41785). An official subscriber takes that for its own wish to leave and
never comes again. So a stop first answers those who are on their way, which are told
UNAVAILABLE, until nobody came for a moment.
"""

from __future__ import annotations

import asyncio

#: Nobody came for so long: nobody is on the way, in seconds.
QUIET_S = 0.1
#: Longest that a stop waits for quiet: some clients come again at once, for ever, in seconds.
QUIET_WAIT_S_MAX = 1.0


class Arrivals:
    """How many calls have come."""

    def __init__(self) -> None:
        self.count = 0

    async def ceased(self, patience_s: float) -> float:
        """Return when no calls come any more, or soon although they do; the patience left."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        late_s = began_s + min(patience_s, QUIET_WAIT_S_MAX)
        before = -1
        while before != self.count and loop.time() < late_s:
            before = self.count
            await asyncio.sleep(QUIET_S)
        return max(0.0, began_s + patience_s - loop.time())
