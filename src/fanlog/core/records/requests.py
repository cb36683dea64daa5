"""The record of a request that was done, so that it is answered again and not done again."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from fanlog.core.records.codec import Form, Stored, numbers, record

_COUNTS = struct.Struct("<dQQQ")
_REASONS = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedAnswer:
    """The answer to a request that was done: how many messages it was about."""

    reopened: int
    copied: int = 0
    skipped: int = 0
    #: Of the skipped, those that were not acknowledged, and those that were not published yet; None
    #: where that is not known.
    unacked: int | None = None
    ahead: int | None = None


def _pack(answer: RememberedAnswer, expires_s: float) -> bytes:
    packed = _COUNTS.pack(expires_s, answer.reopened, answer.copied, answer.skipped)
    # Reasons came later: an answer that skipped nothing stays readable to builds without them.
    if answer.unacked is None or answer.ahead is None or not answer.skipped:
        return packed
    return packed + _REASONS.pack(answer.unacked, answer.ahead)


def _unpack(body: bytes) -> tuple[RememberedAnswer, float]:
    expires_s, reopened, copied, skipped = _COUNTS.unpack(body[: _COUNTS.size])
    unacked = ahead = None
    if len(body) > _COUNTS.size:
        unacked, ahead = _REASONS.unpack(body[_COUNTS.size :])
        if unacked + ahead > skipped:
            raise ValueError("it has more reasons than messages that were skipped")
    answer = RememberedAnswer(
        reopened=reopened, copied=copied, skipped=skipped, unacked=unacked, ahead=ahead
    )
    return answer, expires_s


@record("Q", key=numbers(">Q16s"), value=Form(_pack, _unpack, 2))
@dataclass(frozen=True, slots=True)
class RequestRecord(Stored):
    """A request that was done, by the hash of its id, and its answer."""

    owner: int
    digest: bytes
    #: None forgets the request.
    answer: RememberedAnswer | None
    expires_s: float
