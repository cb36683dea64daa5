"""Reopening and dead letters over a `Client`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fanlog.client.client import Client
from fanlog.v1 import replay_pb2

_SERVICE = "fanlog.v1.Replay"


class Replays:
    """Names are full, `projects/p/subscriptions/s`. Errors as of `Client`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def reopen(self, subscription: str, **what: Any) -> Any:
        """Reopen `offsets`, `message_ids`, or a window of `start_time` and `end_time`.

        Gives how many were reopened, and how many skipped for which reason. With a `request_id`,
        asking twice is asking once.
        """
        request = replay_pb2.ReopenRequest(subscription=subscription, **what)
        return self._call("Reopen", request, replay_pb2.ReopenResponse)

    def seek(self, subscription: str, **target: Any) -> Any:
        """Move a subscription to a `time`, a `snapshot`, a `position` or a `message_id`.

        Gives how many messages were reopened, and from when, and how many acknowledged; and why, if
        nothing was reopened.
        """
        request = replay_pb2.SeekSubscriptionRequest(subscription=subscription, **target)
        return self._call("Seek", request, replay_pb2.SeekSubscriptionResponse)

    def letters(self, subscription: str, *, page_size: int = 0, **selection: Any) -> Iterator[Any]:
        """Yield dead letters: all, or by source_subscription, reason, start_time and end_time."""
        request = replay_pb2.ListDeadLettersRequest(
            subscription=subscription, page_size=page_size, **selection
        )
        while True:
            page = self._call("ListDeadLetters", request, replay_pb2.ListDeadLettersResponse)
            yield from page.letters
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def redrive(
        self,
        subscription: str,
        message_ids: Sequence[str],
        *,
        request_id: str = "",
        copies: bool = False,
    ) -> Any:
        """Redrive dead letters by their ids; with `copies`, also those without an original."""
        request = replay_pb2.RedriveRequest(
            subscription=subscription,
            message_ids=message_ids,
            request_id=request_id,
            copies=copies,
        )
        return self._call("Redrive", request, replay_pb2.RedriveResponse)

    def redrive_all(self, subscription: str, **selection: Any) -> Iterator[Any]:
        """Redrive all, or what is selected as for `letters`; yield what became of each portion.

        What fails again meanwhile is left alone. `copies` as for `redrive`.
        """
        request = replay_pb2.RedriveRequest(subscription=subscription, all=True, **selection)
        return self._portions("Redrive", request, replay_pb2.RedriveResponse)

    def discard(self, subscription: str, message_ids: Sequence[str]) -> Any:
        """Acknowledge dead letters by their ids."""
        request = replay_pb2.DiscardRequest(subscription=subscription, message_ids=message_ids)
        return self._call("Discard", request, replay_pb2.DiscardResponse)

    def discard_all(self, subscription: str, **selection: Any) -> Iterator[Any]:
        """Acknowledge all, or what is selected as for `letters`; yield as `redrive_all` does."""
        request = replay_pb2.DiscardRequest(subscription=subscription, all=True, **selection)
        return self._portions("Discard", request, replay_pb2.DiscardResponse)

    def _portions(self, method: str, request: Any, answer_type: Any) -> Iterator[Any]:
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

    def _call(self, method: str, request: Any, answer_type: Any) -> Any:
        return self._client.call(f"{_SERVICE}/{method}", request, answer_type)
