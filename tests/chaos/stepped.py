"""`fanlog` with a clock that steps, where there is no libfaketime.

The wall clock is off by the seconds that a file says; the steady clock is left alone. As a launcher
it is followed by the command it replaces.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from fanlog.broker import clock
from fanlog.cli.main import main

OFFSET_VARIABLE = "STEPPED_OFFSET_FILE"


class _Time:
    """The module `time`, with another wall clock."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return time.time() + float(self._path.read_text())

    def time_ns(self) -> int:
        return time.time_ns() + int(float(self._path.read_text()) * 1e9)


if __name__ == "__main__":
    clock.time = _Time(Path(os.environ[OFFSET_VARIABLE]))  # type: ignore[assignment]
    sys.argv = ["fanlog", *sys.argv[sys.argv.index("serve") :]]
    main()
