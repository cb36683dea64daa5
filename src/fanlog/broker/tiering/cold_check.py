"""The check of a log that is opened without a lake."""

from __future__ import annotations

from fanlog.core.hard_state import HardState
from fanlog.errors import FailedPrecondition
from fanlog.log.api import Log


def check_nothing_cold(hard: HardState, store: Log, advice: str) -> None:
    """Refuse to serve a log whose older messages are in a lake that was not named.

    Subscriptions would lose what they have there. `advice` ends the sentence.

    Raises:
        FailedPrecondition: Some messages are in a lake alone.
    """
    for partition, record in hard.archived.items():
        if record.start is not None and record.start < min(
            record.end, store.bounds(partition).start
        ):
            raise FailedPrecondition(
                f"messages of this log are in lake {hard.lake.id if hard.lake else ''!r} alone, "
                f"and no lake is given; {advice}"
            )
