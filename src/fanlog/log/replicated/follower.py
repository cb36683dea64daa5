"""The thread that follows: it applies what another node appends, until it is told to stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fanlog.errors import DiskFull, FanlogError
from fanlog.log.replicated.partition import OffsetGone, PartitionUnavailable
from fanlog.log.replicated.story import StoryBroken

log = logging.getLogger("fanlog.replica")

#: Pause after an error: of the partition, of the cache.
PARTITION_PAUSE_S = 0.1
CACHE_PAUSE_S = 1.0
#: A cache that fails so often, one time behind the other, is made anew.
FAILURES_MAX = 3


class Follower:
    """Runs from `start` to `stop`, or until the story is broken for good.

    Args:
        read: Reads and applies some entries, waits for the first of them; raises as
            `Replica.follow` does.
        begin_again: Makes the next `read` look first whether the cache can be believed.
        distrust: Makes the next `read` begin with an empty cache, for that reason.
        on_trouble: Called with a sentence each time the cache fails.
        on_broken: Called with the sentence, as the last thing.
    """

    def __init__(
        self,
        read: Callable[[], None],
        *,
        begin_again: Callable[[], None],
        distrust: Callable[[str], None],
        on_trouble: Callable[[str], None],
        on_broken: Callable[[str], None],
    ) -> None:
        self._read = read
        self._begin_again = begin_again
        self._distrust = distrust
        self._on_trouble = on_trouble
        self._on_broken = on_broken
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fanlog-follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:
            # The outermost loop of the thread: a mistake of ours must not be silence.
            log.exception("action=follower_failed; this node follows no more")
            self._on_broken(f"following failed unexpectedly: {error!r}")

    def _follow(self) -> None:
        is_doubted, failures = False, 0
        while not self._stopping.is_set():
            pause_s = 0.0
            try:
                self._read()
                is_doubted, failures = False, 0
            except (PartitionUnavailable, OffsetGone) as error:
                log.info("action=follow_again error=%s", error)
                pause_s = PARTITION_PAUSE_S
            except StoryBroken as error:
                # Perhaps it is the cache that is wrong: it is looked at before the next read.
                if is_doubted:
                    log.error("action=story_broken error=%s", error)
                    self._on_broken(str(error))
                    return
                is_doubted = True
                self._begin_again()
            except FanlogError as error:
                log.error("action=cache_failed error=%s", error)
                self._on_trouble(str(error))
                pause_s = CACHE_PAUSE_S
                # A disk that is full may have room again; pages that make no sense stay so.
                failures += not isinstance(error, DiskFull)
                if failures == FAILURES_MAX:
                    self._distrust(str(error))
                    failures = 0
            if pause_s:
                self._stopping.wait(pause_s)
