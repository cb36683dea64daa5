"""A stranger's mistakes fill no disk."""

from __future__ import annotations

import logging

from fanlog.transport.line_limit import LINES_A_SECOND, LineLimit


def record(created: float, text: str = "action=late peer=%s", peer: str = "p") -> logging.LogRecord:
    made = logging.LogRecord("x", logging.WARNING, "", 0, text, (peer,), None)
    made.created = created
    return made


def test_a_few_lines_a_second_of_each_kind():
    limit = LineLimit()
    assert sum(limit.filter(record(5.0 + n / 1_000, peer=str(n))) for n in range(900)) == (
        LINES_A_SECOND
    )
    assert limit.filter(record(5.9, "action=other peer=%s"))


def test_the_next_line_says_how_many_were_left_out():
    limit = LineLimit()
    for _ in range(LINES_A_SECOND + 3):
        limit.filter(record(5.0))
    told = record(6.0)
    assert limit.filter(told)
    assert told.getMessage() == "action=late peer=p (and 3 more like it)"
    told = record(6.1)
    assert limit.filter(told)
    assert told.getMessage() == "action=late peer=p"
