"""Lines of the log that anybody who reaches the port can cause: a few a second of each kind.

The others are counted, and the next line says how many they were. Otherwise a stranger could fill
the disk with complaints about itself.
"""

from __future__ import annotations

import logging
from typing import Final

LINES_A_SECOND: Final = 10


class LineLimit(logging.Filter):
    """A filter for loggers of strangers' mistakes. Time is that of the records."""

    def __init__(self) -> None:
        super().__init__()
        #: By the text before its values: the second, lines in it, and lines left out since.
        self._seen: dict[str, tuple[int, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        text = str(record.msg)
        second, count, left_out = self._seen.get(text, (0, 0, 0))
        if int(record.created) != second:
            second, count = int(record.created), 0
        is_told = count < LINES_A_SECOND
        if is_told and left_out:
            record.msg = f"{text} (and {left_out} more like it)"
        self._seen[text] = (second, count + 1, 0 if is_told else left_out + 1)
        return is_told
