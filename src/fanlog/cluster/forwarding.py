"""A stream between a caller and the owner: messages go on one at a time, in both directions.

The next message of the owner is asked for when the caller has room for it, and the next of the
caller when the one before has left for the owner: a slow reader on either side slows the other.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from fanlog.cluster.link.call import LinkCall, NeverLeft
from fanlog.cluster.link.link import Link
from fanlog.errors import Unavailable
from fanlog.transport.calls import CallEnded
from fanlog.transport.server_call import ServerCall


async def forward_stream(
    link: Link, path: str, call: ServerCall, *, has_many_requests: bool
) -> None:
    """Forward a stream until it ends.

    Raises:
        CallRefused: The owner ended it so.
        NeverLeft: Nothing of it was read or done.
        FanlogError: It is not known what was done.
        CallEnded: The caller is gone.
    """
    onward = await link.stream(path, call)
    requests = _Requests(call, onward, has_many_requests=has_many_requests)
    task = asyncio.get_running_loop().create_task(requests.forward())
    try:
        while (message := await onward.read()) is not None:
            await call.write(message)
            await call.written()
    except NeverLeft as reason:
        if requests.has_read:
            # They are not here any more, to be sent again.
            raise Unavailable(f"{reason}; open the stream again") from None
        raise
    finally:
        task.cancel()
        onward.cancel()
        if onward.trailing:
            call.set_trailing_metadata(onward.trailing)


class _Requests:
    def __init__(self, call: ServerCall, onward: LinkCall, *, has_many_requests: bool) -> None:
        self._call = call
        self._onward = onward
        self._has_many = has_many_requests
        self.has_read = False

    async def forward(self) -> None:
        # When the caller is gone, or the owner has ended the call, whoever reads answers is told.
        with suppress(CallEnded):
            while (message := await self._call.read()) is not None:
                self.has_read = True
                await self._onward.write(message)
                if not self._has_many:
                    break
            self._onward.half_close()
