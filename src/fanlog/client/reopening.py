"""Reopening, seeking and dead letters, `fanlog.v1.Replay`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypedDict, TypeVar, Unpack

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.client.connection import Connection, ReplyT
from fanlog.v1 import replay_pb2

_SERVICE: Final = "fanlog.v1.Replay"


class LetterCriteria(TypedDict, total=False):
    """Which dead letters of a subscription are meant; without any key, all."""

    #: Full name of the subscription that they failed on.
    source_subscription: str
    #: A text that their reason contains.
    reason: str
    start_time: Timestamp | datetime
    end_time: Timestamp | datetime
    #: A filter that matches the letters as they are on the dead letter topic.
    filter: str


class SeekTarget(TypedDict, total=False):
    """The place that a seek goes to: one of these keys."""

    time: Timestamp
    snapshot: str
    position: str
    message_id: str


class ReopenClient:
    """Names are full, `projects/p/subscriptions/s`. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reopen(
        self,
        subscription: str,
        *,
        offsets: Sequence[replay_pb2.OffsetSet] = (),
        message_ids: Sequence[str] = (),
        start_time: Timestamp | None = None,
        end_time: Timestamp | None = None,
        request_id: str = "",
    ) -> replay_pb2.ReopenResponse:
        """Reopen `offsets`, `message_ids`, or a window of `start_time` and `end_time`.

        Gives how many were reopened, and how many skipped for which reason. With a `request_id`,
        asking twice is asking once.
        """
        request = replay_pb2.ReopenRequest(
            subscription=subscription,
            offsets=offsets,
            message_ids=message_ids,
            start_time=start_time,
            end_time=end_time,
            request_id=request_id,
        )
        return self._call("Reopen", request, replay_pb2.ReopenResponse)

    def seek(
        self, subscription: str, **target: Unpack[SeekTarget]
    ) -> replay_pb2.SeekSubscriptionResponse:
        """Move a subscription to a time, a snapshot, a position or a message.

        Gives how many messages were reopened, and from when, and how many acknowledged; and why, if
        nothing was reopened.
        """
        request = replay_pb2.SeekSubscriptionRequest(subscription=subscription, **target)
        return self._call("Seek", request, replay_pb2.SeekSubscriptionResponse)

    def list_letters(
        self, subscription: str, *, page_size: int = 0, **selection: Unpack[LetterCriteria]
    ) -> Iterator[replay_pb2.DeadLetter]:
        """Yield the selected dead letters."""
        request = replay_pb2.ListDeadLettersRequest(
            subscription=subscription, page_size=page_size, **selection
        )
        method, reply_type = f"{_SERVICE}/ListDeadLetters", replay_pb2.ListDeadLettersResponse
        for page in self._connection.pages(method, request, reply_type):
            yield from page.letters

    def count_letters(
        self, subscription: str, **selection: Unpack[LetterCriteria]
    ) -> list[replay_pb2.LetterGroup]:
        """Give the selected dead letters by where and why they failed, the most first.

        Those of groups that are too many to tell apart are one without a reason or a source.
        """
        request = replay_pb2.CountDeadLettersRequest(subscription=subscription, **selection)
        groups: dict[tuple[str, str], replay_pb2.LetterGroup] = {}
        method = f"{_SERVICE}/CountDeadLetters"
        for page in self._connection.pages(method, request, replay_pb2.CountDeadLettersResponse):
            rest = [replay_pb2.LetterGroup(letters=page.rest)] if page.rest else []
            for one in (*page.groups, *rest):
                known = groups.setdefault((one.source_subscription, one.reason), one)
                if known is not one:
                    known.letters += one.letters
                    known.last_time.CopyFrom(one.last_time)
        return sorted(groups.values(), key=lambda one: -one.letters)

    def redrive(
        self,
        subscription: str,
        message_ids: Sequence[str],
        *,
        request_id: str = "",
        copies: bool = False,
    ) -> replay_pb2.RedriveResponse:
        """Redrive dead letters by their ids; with `copies`, also those without an original."""
        request = replay_pb2.RedriveRequest(
            subscription=subscription,
            message_ids=message_ids,
            request_id=request_id,
            copies=copies,
        )
        return self._call("Redrive", request, replay_pb2.RedriveResponse)

    def redrive_all(
        self,
        subscription: str,
        *,
        max_messages: int = 0,
        copies: bool = False,
        **selection: Unpack[LetterCriteria],
    ) -> Iterator[replay_pb2.RedriveResponse]:
        """Redrive the selected dead letters; yield one answer for each portion of them.

        Messages that fail again meanwhile are left alone. `copies` as for `redrive`.
        """
        request = replay_pb2.RedriveRequest(
            subscription=subscription,
            all=True,
            max_messages=max_messages,
            copies=copies,
            **selection,
        )
        return self._portions("Redrive", request, replay_pb2.RedriveResponse)

    def discard(self, subscription: str, message_ids: Sequence[str]) -> replay_pb2.DiscardResponse:
        """Acknowledge dead letters by their ids."""
        request = replay_pb2.DiscardRequest(subscription=subscription, message_ids=message_ids)
        return self._call("Discard", request, replay_pb2.DiscardResponse)

    def discard_all(
        self, subscription: str, *, max_messages: int = 0, **selection: Unpack[LetterCriteria]
    ) -> Iterator[replay_pb2.DiscardResponse]:
        """Acknowledge the selected dead letters; yield as `redrive_all` does."""
        request = replay_pb2.DiscardRequest(
            subscription=subscription, all=True, max_messages=max_messages, **selection
        )
        return self._portions("Discard", request, replay_pb2.DiscardResponse)

    def _portions(
        self,
        method: str,
        request: replay_pb2.RedriveRequest | replay_pb2.DiscardRequest,
        answer_type: type[_PortionT],
    ) -> Iterator[_PortionT]:
        left = request.max_messages
        while True:
            answer = self._call(method, request, answer_type)
            yield answer
            if left:
                names = ("reopened", "copied", "discarded", "skipped")
                left -= sum(getattr(answer, name, 0) for name in names)
                request.max_messages = max(0, left)
                if left <= 0:
                    return
            if not answer.next_page_token:
                return
            request.page_token = answer.next_page_token

    def _call(self, method: str, request: Message, answer_type: type[ReplyT]) -> ReplyT:
        return self._connection.call(f"{_SERVICE}/{method}", request, answer_type)


_PortionT = TypeVar("_PortionT", replay_pb2.RedriveResponse, replay_pb2.DiscardResponse)
