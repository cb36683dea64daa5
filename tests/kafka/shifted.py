"""`fanlog` on a machine whose wall clock is so many seconds off.

As a launcher it is followed by the command that it replaces.

libfaketime is no help here: Kafka's client waits for moments of the wall clock, and then waits for
an hour.
"""

from __future__ import annotations

import os
import sys
import time

from fanlog.cli.main import main
from fanlog.log.replicated.replicated import MachineClock

SECONDS_VARIABLE = "SHIFTED_SECONDS"


def wall_ns(_: MachineClock) -> int:
    return time.time_ns() + int(os.environ[SECONDS_VARIABLE]) * 1_000_000_000


if __name__ == "__main__":
    MachineClock.wall_ns = wall_ns  # type: ignore[method-assign]
    sys.argv = ["fanlog", *sys.argv[sys.argv.index("serve") :]]
    main()
