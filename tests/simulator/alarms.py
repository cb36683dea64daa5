"""Alerts as the disk has them, and what it must say of their messages.

A rule that begins or ends to hold is a commit with its new state and one message of the same
number. So none is told twice, over whatever crashes, and none without its message. States follow
each other: what ends had begun. When all faults are over, no rule is behind its condition.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from fanlog.core import records as codec
from fanlog.core.records.alerts import AlertRecord, AlertStateRecord
from fanlog.model.alerts import AlertState
from fanlog.model.attributes import ALERT, ALERT_NUMBER, ALERT_STATE, REDRIVEN_FROM
from simulator.chronicle import Message

#: A rule is told of within so long when nothing is wrong: some looks, a try, a commit.
LATE_S = 60.0


class Alarms:
    """What the disk of a world says of alerts."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"{seed}: alerts at work")
        self.told = 0
        self._states: dict[bytes, AlertState] = {}

    def committed(
        self, state: Mapping[bytes, bytes | None], messages: Sequence[Message]
    ) -> Iterator[str]:
        """Learn of a commit; gives the sentences of what it breaks."""
        told = self._messages(messages)
        made = {key[1:] for key, value in state.items() if key[:1] == AlertRecord.KIND and value}
        for key, value in state.items():
            if key[:1] != AlertStateRecord.KIND:
                continue
            digest = key[1:]
            before = None if digest in made else self._states.get(digest)
            self._states.pop(digest, None)
            if value is not None:
                record = codec.decode(key, value)
                assert isinstance(record, AlertStateRecord)
                assert record.stored is not None
                now = self._states[digest] = record.stored.state
                # One that was deleted and made anew may have told of its end in the same commit.
                found = told.pop(record.name, []) if digest not in made or now.number else []
                yield from _check(record.name, before, now, found)
            else:
                # It was deleted, and may have been told of right before.
                told = {name: of for name, of in told.items() if codec.digest_of(name) != digest}
        for name, found in told.items():
            if codec.digest_of(name) not in made:
                yield f"alert: {name} told {found} and did not note it in the same commit"

    def _messages(self, messages: Sequence[Message]) -> dict[str, list[tuple[str, int]]]:
        told: dict[str, list[tuple[str, int]]] = {}
        for message in messages:
            said = message.attributes
            if ALERT in said and not message.source_id and REDRIVEN_FROM not in said:
                word, number = said[ALERT_STATE], int(said[ALERT_NUMBER])
                told.setdefault(said[ALERT], []).append((word, number))
                self.told += 1
        return told


def _check(
    name: str, before: AlertState | None, now: AlertState, found: Sequence[tuple[str, int]]
) -> Iterator[str]:
    if before is None:
        # One commit gathers what came together: it may have begun at once.
        before = AlertState(since_s=now.since_s)
    word, number = before.is_holding, before.number
    expected: list[tuple[str, int]] = []
    while number < now.number:
        word, number = not word, number + 1
        expected.append(("began" if word else "ended", number))
    if number != now.number or word != now.is_holding:
        yield f"alert: {name} went from {before} to {now}"
    if list(found) != expected:
        yield f"alert: {name} told {list(found)} from {before} to {now}"
