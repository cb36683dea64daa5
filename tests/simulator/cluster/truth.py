"""The story that worlds are judged by: the rules of validity, said another way.

`Truth` reads all that was ever appended, and knows nothing of what nodes read of it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated import entries
from fanlog.log.replicated.bodies import HandOver, TakeOver

if TYPE_CHECKING:
    from simulator.cluster.topic import SimTopic


class Truth:
    """All that counts of what was appended so far."""

    def __init__(self, topic: SimTopic) -> None:
        self._topic = topic
        self._tag = entries.cluster_tag(topic.cluster)
        self._next = 0
        self.term = -1
        self.owner = b""
        self.is_open = False
        self.terms = 0
        self._chain = entries.NO_CHAIN
        self._time_ns = 0
        #: Of the last commit that counts.
        self.sequence = 0
        self.mistakes: list[str] = []
        #: When the entries that count were appended.
        self._appended_s: list[float] = [0.0]

    def last_s(self, before_s: float) -> float:
        """When the last entry was appended that counts and was there before a time."""
        return self._appended_s[max(0, bisect_left(self._appended_s, before_s) - 1)]

    def catch_up(self) -> None:
        while self._next < len(self._topic.history):
            record = self._topic.history[self._next]
            self._read(record.offset, entries.decode(self._tag, record.value))
            self._next += 1

    def _read(self, offset: int, entry: entries.LogEntry) -> None:
        head, body = entry.head, entry.body
        if head.term != self.term:
            return
        if isinstance(body, TakeOver):
            self.term, self.owner, self.is_open = offset, body.card, True
            self.terms += 1
        elif head.expected != offset or not self.is_open:
            return
        elif head.chain != self._chain:
            self.mistakes.append(f"J2: the chain forks at {offset}")
        self._appended_s.append(self._topic.appended_s[offset])
        if isinstance(body, HandOver):
            self.is_open = False
        elif isinstance(body, EncodedCommit):
            self._check(offset, body)
            self._commit(offset, body)
        self._chain = entries.chain_after(self._chain, offset, entry.head_bytes)

    def _check(self, offset: int, body: EncodedCommit) -> None:
        if body.sequence != self.sequence + 1:
            self.mistakes.append(f"J2: commit {body.sequence} at {offset} is {self.sequence + 1}")
        if body.publish_time_ns < self._time_ns:
            self.mistakes.append(f"J2: publish time runs backwards at {offset}")
        self.sequence += 1
        self._time_ns = body.publish_time_ns

    def _commit(self, offset: int, body: EncodedCommit) -> None:
        """A commit that counts: it is the next one, of the present term."""
        raise NotImplementedError
