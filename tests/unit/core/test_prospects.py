"""The prospects of a message say what deliveries do."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from fanlog.core.lapse import lapsed_in
from fanlog.core.prospects import prospects
from fanlog.model.terms import TermKind, Terms

MS = 1_000_000


@dataclass(frozen=True)
class Dated:
    base_offset: int
    end_offset: int
    publish_time_ns: int
    terms: Terms | None


def some(rng: random.Random) -> Dated:
    asked: list[tuple[int, TermKind, int]] = []
    publish_ns = rng.randrange(10**6) * 1_000 + rng.choice([0, 1, 999])
    for index in range(8):
        due = rng.choice([None, TermKind.DELAY, TermKind.DELIVER_AT])
        if due is not None:
            asked.append((index, due, rng.randrange(1, 2_000)))
        if rng.random() < 0.5:
            asked.append((index, TermKind.TTL, rng.randrange(1, 2_000)))
        if rng.random() < 0.3:
            asked.append((index, TermKind.PRIORITY, rng.randint(1, 9)))
    return Dated(100, 108, publish_ns, Terms.of(asked))


@pytest.mark.parametrize("seed", range(50))
def test_as_batches_are_asked(seed):
    rng = random.Random(seed)
    batch = some(rng) if seed else Dated(100, 108, 5, None)
    default_s = rng.choice([None, 1.0])
    dues_ms = {} if batch.terms is None else dict(batch.terms.dues_ms(batch.publish_time_ns))
    for offset in range(100, 108):
        found = prospects(batch, offset, default_s)
        due_ms = dues_ms.get(offset - 100)
        assert found.due_ns == (None if due_ms is None else due_ms * MS)
        moments = [rng.randrange(5_000 * MS)]
        if found.expires_ns is not None:
            moments += [found.expires_ns - 1, found.expires_ns]
        for now_ns in moments:
            lapsed = lapsed_in([batch], default_s, now_ns) or ()
            assert found.has_lapsed(now_ns) == (offset in lapsed)


def test_priority():
    batch = Dated(0, 2, 0, Terms.of([(1, TermKind.PRIORITY, 7)]))
    assert [prospects(batch, offset, None).priority for offset in range(2)] == [0, 7]
