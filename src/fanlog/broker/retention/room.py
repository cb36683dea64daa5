"""Room for what is published: spare messages go before any publish is refused.

While only the disk's reserve is left, or the hot log is full, a publish waits for messages that
only the server's default retention keeps to be let go of, oldest first. It is refused when there
are none left. How much waits that way is bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fanlog import limits
from fanlog.log.api import Log
from fanlog.log.batch import Body
from fanlog.model.resources import Topic

if TYPE_CHECKING:
    from fanlog.broker.broker import Broker


class Room:
    """Makes room on one broker. Lives on the loop."""

    def __init__(self, broker: Broker, store: Log) -> None:
        self._broker = broker
        self._store = store
        self._lock = asyncio.Lock()
        self._waiting_bytes = 0

    async def admitted(self, topic_name: str, body: Body) -> tuple[Topic, Body]:
        """A topic, and messages as they are appended to it: checked, and with room for them.

        That is so until the caller awaits anything.

        Raises:
            TopicNotFound: There is no such topic.
            SchemaMismatch: A message does not conform to the topic's schema.
            DiskFull: Only the reserve is left, and nothing can be let go of.
        """
        broker = self._broker
        while True:
            topic, checked = broker.hard.catalog.topic(topic_name), body
            if topic.schema_settings is not None:
                topic, checked = await broker.schemas.checked(topic, body)
            size_bytes = len(checked.content)
            if not broker.writer.shortage(size_bytes) or not await self.made(size_bytes):
                broker.writer.check_room(size_bytes)
                return topic, checked

    async def made(self, size_bytes: int) -> bool:
        """Whether there is room, perhaps because spare messages were let go of for it.

        Others may have taken it by the time the caller looks: `Writer.check_room` has the last
        word.
        """
        writer = self._broker.writer
        if not writer.shortage(size_bytes):
            return True
        if (
            not self._broker.retention.has_default
            or self._waiting_bytes + size_bytes > limits.WRITER_BACKLOG_BYTES_MAX
        ):
            return False
        self._waiting_bytes += size_bytes
        try:
            async with self._lock:
                return await self._make(size_bytes)
        finally:
            self._waiting_bytes -= size_bytes

    async def _make(self, size_bytes: int) -> bool:
        broker = self._broker
        while shortage := broker.writer.shortage(size_bytes):
            if self._store.has_garbage:
                # Commits free the trimmed batches, a few each.
                await broker.writer.submit()[0]
            elif not await broker.retention.let_go(shortage):
                return False
            broker.writer.forget_room()
        return True
