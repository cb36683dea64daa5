"""The meaning of an answer for the message: the status decides; its first words are kept.

Over HTTP:

| answer                  | message             | endpoint        |
|-------------------------|---------------------|-----------------|
| 2xx                     | acknowledged        | well            |
| 410                     | nacked              | push turned off |
| 408, 425, 429, 5xx      | nacked              | failing         |
| 3xx                     | nacked              | failing         |
| other 4xx               | nacked              | well: it is this message that it refuses |
| none in time, or broken | nacked              | failing         |

`Retry-After` of anything but a 2xx says when the message may come again; with 429 and 503 it says
so for all messages. The words of a nack (`fanlog.core.nack_words`) may be headers of anything but a
2xx, and trailing metadata of a call that failed. They go before `Retry-After` and before the first
words of the answer. An answer cannot be refused: of words that make no sense none is followed, and
the reason says what was wrong with them.

Over gRPC, for all messages of a call:

| status                                              | messages              | endpoint        |
|-----------------------------------------------------|-----------------------|-----------------|
| OK                                                  | as the answer says    | well            |
| any other, with `fanlog-gone: true`                 | nacked                | push turned off |
| INVALID_ARGUMENT and others that are a 4xx in HTTP  | nacked                | well            |
| RESOURCE_EXHAUSTED, CANCELLED, all others           | nacked                | failing         |

RetryInfo has the part of `Retry-After`; with RESOURCE_EXHAUSTED and UNAVAILABLE it speaks of all
messages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime

from fanlog import limits
from fanlog.core import nack_words
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import InvalidArgument
from fanlog.push.rules.answers import printable
from fanlog.wire.receiver import refusals

#: Classes that outcomes are counted by.
CLASSES = ("2xx", "3xx", "4xx", "5xx", "timeout", "error")

_FAILING_4XX = frozenset({408, 425, 429})
_HOLDING = frozenset({429, 503})
_GONE = 410

#: Statuses of gRPC that `google.rpc.Code` gives an HTTP status below 500.
_GRPC_4XX = frozenset(
    {
        "ABORTED", "ALREADY_EXISTS", "CANCELLED", "FAILED_PRECONDITION", "INVALID_ARGUMENT",
        "NOT_FOUND", "OUT_OF_RANGE", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "UNAUTHENTICATED",
    }
)  # fmt: skip
_GRPC_FAILING_4XX = frozenset({"CANCELLED", "RESOURCE_EXHAUSTED"})
_GRPC_HOLDING = frozenset({"RESOURCE_EXHAUSTED", "UNAVAILABLE"})


@dataclass(frozen=True, slots=True)
class Outcome:
    #: One of CLASSES.
    kind: str
    is_ack: bool = False
    #: Whether the endpoint is to be left alone for this, not only the message.
    is_failing: bool = False
    #: Whether push is to be turned off.
    is_gone: bool = False
    #: The status or the exception.
    reason: str = ""
    #: The first words of the answer, printable; empty for none.
    said: str = ""
    #: The endpoint's own wish.
    delay_s: float | None = None
    #: The words of a nack that came with the answer.
    wish: Nack = NACKED
    #: How long it wishes to be left alone by all messages.
    hold_s: float = 0.0
    #: Of a call that was answered: the messages that its receiver refuses, by ack id.
    refused: Mapping[str, Nack] = field(default_factory=dict)

    @property
    def nack(self) -> Nack:
        """The nack of all messages of the request, with the reason that a dead letter keeps."""
        said = printable(self.wish.reason) or self.said
        delay_s = self.delay_s if self.wish.delay_s is None else self.wish.delay_s
        return replace(
            self.wish,
            delay_s=None if self.wish.is_terminal else delay_s,
            reason=f"{self.reason}: {said}" if said else self.reason,
        )


#: The endpoint took all messages of the request.
TAKEN = Outcome("2xx", is_ack=True)


def of_status(
    status: int,
    retry_after: str | None,
    wall_s: float,
    said: str = "",
    words: Iterable[tuple[str, str | bytes]] = (),
) -> Outcome:
    """Judge an answer by its status; `wall_s` is the time, for a Retry-After that is a date.

    `said` are its first words, `words` those of a nack among its headers.
    """
    if 200 <= status < 300:
        return TAKEN
    hundreds = status // 100
    delay_s = None if retry_after is None else retry_after_s(retry_after, wall_s)
    wish, said = _wish(words, said)
    return Outcome(
        f"{hundreds}xx" if hundreds in (3, 4, 5) else "error",
        is_failing=hundreds != 4 or status in _FAILING_4XX,
        is_gone=status == _GONE,
        reason=f"HTTP {status}",
        said=said,
        wish=wish,
        delay_s=delay_s,
        hold_s=(delay_s or 0.0) if status in _HOLDING else 0.0,
    )


def of_grpc(
    status: str,
    delay_s: float | None,
    *,
    is_gone: bool,
    said: str = "",
    words: Iterable[tuple[str, str | bytes]] = (),
) -> Outcome:
    """Judge a call that failed by the name of its status; `delay_s` is the endpoint's wish.

    `said` are the first words of its message, `words` those of a nack in its trailing metadata.
    """
    wish, said = _wish(words, said)
    if delay_s is not None:
        delay_s = min(max(0.0, delay_s), limits.PUSH_RETRY_AFTER_S_MAX)
    return Outcome(
        "4xx" if status in _GRPC_4XX else "5xx",
        is_failing=status not in _GRPC_4XX or status in _GRPC_FAILING_4XX,
        is_gone=is_gone,
        reason=f"gRPC {status}",
        said=said,
        wish=wish,
        delay_s=delay_s,
        hold_s=(delay_s or 0.0) if status in _GRPC_HOLDING else 0.0,
    )


def of_answer(answer: bytes, ack_ids: Collection[str]) -> Outcome:
    """Judge a call that succeeded by its ReceiveResponse: messages may be refused one by one."""
    try:
        found = refusals(answer, ack_ids)
    except InvalidArgument as error:
        return of_error(error.message)
    if not found:
        return TAKEN
    return replace(
        TAKEN,
        refused={
            ack_id: Nack(
                delay_s=one.delay_s,
                is_terminal=one.is_terminal,
                reason=printable(one.reason),
                is_counted=one.is_counted,
            )
            for ack_id, one in found.items()
        },
    )


def _wish(words: Iterable[tuple[str, str | bytes]], said: str) -> tuple[Nack, str]:
    """The nack that an answer asks for, and what it said; of words without sense, only that."""
    try:
        return nack_words.nack_of(words), said
    except InvalidArgument as error:
        return NACKED, printable(error.message)


def of_timeout(seconds: float) -> Outcome:
    return Outcome("timeout", is_failing=True, reason=f"no answer within {seconds:g} s")


def of_error(name: str) -> Outcome:
    """The request could not be made or broke off; `name` is the exception's."""
    return Outcome("error", is_failing=True, reason=name)


def retry_after_s(text: str, wall_s: float) -> float | None:
    """Seconds that a Retry-After asks for, within bounds; None when it says nothing sensible."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        # Longer numbers than this are beyond the bound, and some beyond a float.
        seconds = float(text) if len(text) < 10 else limits.PUSH_RETRY_AFTER_S_MAX
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - wall_s
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(0.0, seconds), limits.PUSH_RETRY_AFTER_S_MAX)
