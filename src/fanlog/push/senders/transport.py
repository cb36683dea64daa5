"""The contract of a transport: requests of one kind are packed, and sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fanlog.push.rules.outcome import Outcome
from fanlog.push.rules.packing import Destination, LeasedMessage, Request


class Transport(Protocol):
    """All senders of one kind share a transport. Lives on one loop."""

    @property
    def messages_max(self) -> int:
        """Messages of one request at most."""

    @property
    def bytes_max(self) -> int:
        """Bytes of messages to lease at once at most."""

    def pack(self, messages: Sequence[LeasedMessage], destination: Destination) -> Request:
        """Make the request for one group of messages. Does no I/O."""

    async def send(self, request: Request) -> Outcome:
        """Send a request; failures of any kind are outcomes, not exceptions."""

    async def close(self) -> None:
        """Close all connections. Nothing is sent afterwards."""
