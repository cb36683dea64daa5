"""How far Spark is with a job, by the tasks that have ended."""

from __future__ import annotations

import threading
from types import TracebackType

from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs.work import Stopped, Work

#: How often Spark is asked.
LOOK_S = 0.5


class TaskProgress:
    """While inside, moves `work.done` towards `total` as the tasks of this thread's queries end.

    Without a total, tasks are counted.
    """

    def __init__(self, context: Context, work: Work, *, phase: str, total: int = 0) -> None:
        self._driver = context.driver
        self._work = work
        self._phase = phase
        self._total = total
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="job-progress", daemon=True)
        self._before: set[int] = set()

    def __enter__(self) -> None:
        self._before = set(self._driver.stages(self._work))
        self._work.progress(0, self._total, self._phase)
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None:
            self._work.progress(self._work.total, self._work.total)

    def _look_on(self) -> None:
        while not self._ended.wait(LOOK_S):
            ended, tasks = self._tasks()
            if not tasks:
                continue
            try:
                if self._total:
                    self._work.progress(self._total * ended // tasks, self._total)
                else:
                    self._work.progress(ended, tasks)
            except Stopped:
                return

    def _tasks(self) -> tuple[int, int]:
        stages = self._driver.stages(self._work).items()
        found = [counts for number, counts in stages if number not in self._before]
        return sum(ended for ended, _ in found), sum(tasks for _, tasks in found)
