"""The caretaker: asks for the jobs that keep a lake in shape, each once an hour or once a day.

A job is named by the hour it is for: any number of pipelines may ask for it, and it is done once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from fanlog.client import CallFailed, Client
from fanlog.client.jobs import JobClient
from fanlog.model import names

log = logging.getLogger("fanlog.pipeline")

#: How often the caretaker looks at the clock.
LOOK_S = 60.0
#: Kind of job, and how the time it is for is written: once for each text.
_ASKED = (("compact", "%Y%m%dT%H"), ("expire", "%Y%m%d"))


class Caretaker:
    """Runs in a thread of its own until it is stopped."""

    def __init__(
        self, connect: Callable[[], Client], *, now: Callable[[], float], look_s: float = LOOK_S
    ) -> None:
        self._connect = connect
        self._now = now
        self._look_s = look_s
        self._stopping = threading.Event()
        self._asked: set[str] = set()

    def run(self) -> None:
        # Not at the start: a pipeline that has just begun has nothing to sweep.
        while not self._stopping.wait(self._look_s):
            self.look()

    def stop(self) -> None:
        self._stopping.set()

    def look(self) -> list[str]:
        """Ask for the jobs of the present hour; gives the names of those that are new here."""
        time = datetime.fromtimestamp(self._now(), UTC)
        wanted = {f"{kind}-{time.strftime(form)}": kind for kind, form in _ASKED}
        asked = []
        for job_id, kind in wanted.items():
            if job_id in self._asked:
                continue
            try:
                with self._connect() as client:
                    parent = names.project_name(names.SYSTEM_PROJECT)
                    asked.append(JobClient(client).create(parent, kind, {}, job_id=job_id).name)
            except CallFailed as error:
                log.warning("action=upkeep_not_asked job=%s error=%s", job_id, error)
                continue
            self._asked.add(job_id)
        self._asked &= wanted.keys()
        return asked
