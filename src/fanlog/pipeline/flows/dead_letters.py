"""The flow that keeps the table `dead_letters`: from the archive's table, not from the log.

There are few of them, so the driver looks for them itself. The table says which ones it has; how
far it was searched without finding any is noted now and then, so as not to search there again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fanlog.client import Client
from fanlog.client.log import LogClient
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.dead_letters import LettersCollected, collect_letters
from fanlog.lake.location import Location
from fanlog.lake.tables import ensure_lake

log = logging.getLogger("fanlog.pipeline")

EVERY_S = 5.0
#: How often it is written down that there was nothing.
NOTE_S = 600.0


class DeadLetterFlow:
    """Looks for dead letters again and again; has the face of a query of Spark's."""

    def __init__(
        self,
        endpoint: str,
        location: Location,
        *,
        monotonic: Callable[[], float],
        every_s: float = EVERY_S,
    ) -> None:
        self._endpoint = endpoint
        self._location = location
        self._monotonic = monotonic
        self._every_s = every_s
        self._sequence = 0
        self._noted_s = monotonic()
        self._stopping = threading.Event()

    def start(self) -> DeadLetterFlow:
        # The archive, which makes it too, may not be there yet.
        ensure_lake(self._location)
        return self

    def stop(self) -> None:
        self._stopping.set()

    def awaitTermination(self) -> None:  # noqa: N802
        while not self._stopping.wait(self._every_s):
            self.step()

    def step(self) -> LettersCollected:
        """Look once."""
        with Client(self._endpoint) as client:
            log_id = LogClient(client).describe().log_id
        now = self._monotonic()
        is_noted = now - self._noted_s >= NOTE_S
        try:
            looked = collect_letters(
                self._location, log_id, after=self._sequence, is_noted=is_noted
            )
        except CommitLost:
            # Another pipeline has them; the table says how far.
            return LettersCollected(0, self._sequence)
        self._sequence = looked.sequence
        if looked.letters or is_noted:
            self._noted_s = now
        if looked.letters:
            log.info("action=dead_letters_collected letters=%d", looked.letters)
        return looked
