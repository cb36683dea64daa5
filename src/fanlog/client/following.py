"""Messages as they are published: those of a topic, or those that a subscription reads.

Nothing is leased and no cursor moves. The broker is asked, again and again, where the log ends, and
what lies between is browsed: each message once, those of one partition in their order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from fanlog import limits
from fanlog.client.browse import BrowseClient, BrowseCriteria
from fanlog.client.connection import Connection
from fanlog.client.failures import CallFailed
from fanlog.client.log import LogClient
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.model.ids import message_id
from fanlog.v1 import browse_pb2, log_pb2

#: Between two questions where the log ends; and so much more for each partition that is followed.
PERIOD_S: Final = 0.5
PARTITION_S: Final = 0.001
#: Topics of which the latest messages are gathered, at most.
LATEST_TOPICS_MAX: Final = 100


class TopicFollower:
    """Follows from the moment of its construction on. Not safe to share between threads.

    Args:
        criteria: `topic`, or `subscription`; and which messages of it, as for a page of browsing.
        sleep: Waits until the next question.
        tell: Called with a sentence when the server is away, which is asked again, and when
            messages cannot be shown.
    """

    def __init__(
        self,
        connection: Connection,
        criteria: BrowseCriteria,
        *,
        sleep: Callable[[float], None] = time.sleep,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._browse = BrowseClient(connection)
        self._log = LogClient(connection)
        self._criteria = criteria
        self._sleep = sleep
        self._tell = tell
        if "subscription" in criteria:
            self._selection = log_pb2.TopicSelection(subscription=criteria["subscription"])
        else:
            self._selection = log_pb2.TopicSelection(topics=[criteria["topic"]])
        began = self._log.get_offsets(self._selection)
        self._log_id, self._sequence = began.log_id, began.sequence
        self._began = began.partitions

    def latest(self, count: int) -> list[browse_pb2.BrowsedMessage]:
        """The last `count` messages before it began, the oldest of them first.

        Raises:
            InvalidArgument: A pattern reads too many topics for that.
        """
        holding = [one for one in self._began if one.end > one.start]
        if len(holding) > LATEST_TOPICS_MAX:
            raise InvalidArgument(
                f"the latest messages of {len(holding)} topics cannot be gathered, but of "
                f"{LATEST_TOPICS_MAX} at most; follow without them, or name a topic"
            )
        found = [one for place in holding for one in self._latest_of(place, count)]
        found.sort(key=_order)
        return found[-count:] if count else []

    def __iter__(self) -> Iterator[browse_pb2.BrowsedMessage]:
        """Yield messages as they come, for ever.

        Raises:
            CallFailed: A call was refused: the topic is gone, say.
            FailedPrecondition: The server has another log now.
        """
        is_away = False
        while True:
            period_s = PERIOD_S
            try:
                offsets = self._log.get_offsets(self._selection)
                period_s += PARTITION_S * len(offsets.partitions)
                if offsets.log_id != self._log_id:
                    raise FailedPrecondition("the server has another log now; follow anew")
                is_away = False
                if offsets.sequence > self._sequence:
                    yield from self._between(offsets.sequence)
            except CallFailed as failure:
                if failure.status != "UNAVAILABLE":
                    raise
                if not is_away:
                    self._tell(f"{failure.message}; trying again")
                is_away = True
            self._sleep(period_s)

    def _between(self, sequence: int) -> Iterator[browse_pb2.BrowsedMessage]:
        """Messages of the commits up to one; commits that were shown whole are done with."""
        while self._sequence < sequence:
            answer = self._log.get_ranges(
                self._selection,
                self._sequence,
                sequence,
                max_messages=limits.BROWSE_MESSAGES_MAX,
            )
            found = [one for each in answer.ranges for one in self._of(each)]
            found.sort(key=_order)
            if answer.hot_after_sequence > self._sequence:
                self._tell("some messages left the hot log before they could be shown")
            # Before they are shown: none of them is shown twice.
            self._sequence = answer.sequence
            yield from found

    def _of(self, wanted: log_pb2.Range) -> Sequence[browse_pb2.BrowsedMessage]:
        found: list[browse_pb2.BrowsedMessage] = []
        criteria = self._starting(wanted.partition, wanted.start) | BrowseCriteria(
            max_messages=min(wanted.end - wanted.start, limits.BROWSE_MESSAGES_MAX)
        )
        for page in self._browse.pages(**criteria):
            found += [one for one in page.messages if one.offset < wanted.end]
            is_past = any(one.offset >= wanted.end for one in page.messages)
            if is_past or len(found) >= wanted.end - wanted.start:
                break
        return found

    def _latest_of(
        self, place: log_pb2.PartitionOffsets, count: int
    ) -> Sequence[browse_pb2.BrowsedMessage]:
        found: list[browse_pb2.BrowsedMessage] = []
        if not count:
            return found
        criteria = self._starting(place.partition, place.end - 1) | BrowseCriteria(
            newest_first=True, max_messages=min(count, limits.BROWSE_MESSAGES_MAX)
        )
        for page in self._browse.pages(**criteria):
            found += page.messages
            if len(found) >= count:
                break
        return found[:count]

    def _starting(self, partition: int, offset: int) -> BrowseCriteria:
        return self._criteria | BrowseCriteria(message_id=message_id(partition, offset))


def _order(one: browse_pb2.BrowsedMessage) -> tuple[int, int, str]:
    time_ns = one.message.publish_time.ToNanoseconds()
    return time_ns, len(one.message.message_id), one.message.message_id
