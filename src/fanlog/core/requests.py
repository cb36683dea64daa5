"""Requests that were done: asked for again, they are answered again and not done again. Hard state.

A client that got no answer sends its request again with the same request id. Ids are kept as
128-bit hashes, by the subscription that the request was about, until a time; a subscription has at
most so many, and beyond that its oldest are forgotten early.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from fanlog.core.records import RememberedAnswer, RequestRecord, digest_of


class Requests:
    """Answers by subscription and request. Not safe to share between threads."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        #: By owner, then by digest: the answer and when it is forgotten, the earliest first.
        self._done: dict[int, dict[bytes, tuple[RememberedAnswer, float]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._done.values()))

    def find(self, owner: int, request_id: str, now: float) -> RememberedAnswer | None:
        """The answer to a request; None if it was not done yet, or too long ago."""
        if not request_id:
            return None
        found = self._done.get(owner, {}).get(digest_of(request_id))
        return found[0] if found is not None and found[1] > now else None

    def remember(
        self, owner: int, request_id: str, answer: RememberedAnswer, *, expires_s: float, most: int
    ) -> list[RequestRecord]:
        """The records that remember a request and its answer; none when it has no id."""
        if not request_id:
            return []
        known = self._done.get(owner, {})
        excess = islice(known, max(0, len(known) + 1 - most))
        record = RequestRecord(owner, digest_of(request_id), answer, expires_s)
        return [*_forget(owner, excess), record]

    def expire(self, now: float, *, limit: int) -> list[RequestRecord]:
        """The records that forget requests at the end of their time."""
        over = (
            (owner, digest)
            for owner, known in self._done.items()
            for digest, (_, expires_s) in known.items()
            if expires_s <= now
        )
        return [RequestRecord(owner, digest, None, 0.0) for owner, digest in islice(over, limit)]

    def forget(self, owner: int) -> list[RequestRecord]:
        """The records that forget all requests about a subscription that is deleted."""
        return _forget(owner, self._done.get(owner, {}))

    def apply(self, record: RequestRecord) -> None:
        known = self._done.setdefault(record.owner, {})
        known.pop(record.digest, None)
        if record.answer is not None:
            known[record.digest] = (record.answer, record.expires_s)
        elif not known:
            del self._done[record.owner]

    def sort(self) -> None:
        """Bring requests into the order of their ends, after recovery."""
        for owner, known in self._done.items():
            self._done[owner] = dict(sorted(known.items(), key=lambda item: item[1][1]))


def _forget(owner: int, digests: Iterable[bytes]) -> list[RequestRecord]:
    return [RequestRecord(owner, digest, None, 0.0) for digest in digests]
