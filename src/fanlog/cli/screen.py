"""A terminal as a screen: keys as they are pressed, lines in place, and all put back at the end.

However the program ends, the terminal is as it was: the settings, the cursor, and the lines that
stood there. So it is, too, while it is suspended (Ctrl-Z).
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

from fanlog.cli.top_table import Line, Style

#: Another page of the terminal, and no cursor; and back.
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"
_STYLES: Final[dict[Style, str]] = {
    "": "",
    "bold": "\x1b[1m",
    "dim": "\x1b[2m",
    "reverse": "\x1b[7m",
}
_KEYS: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x1b": "escape",
}


class Screen:
    """Standard input and output, which must be a terminal. Use `with`; of the main thread alone."""

    def __init__(self) -> None:
        self._input = sys.stdin.fileno()
        self._settings: list[Any] = []
        self._wakes, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._settings = termios.tcgetattr(self._input)
        for number, handler in (
            (signal.SIGWINCH, self._resized),
            (signal.SIGTSTP, self._suspend),
            (signal.SIGTERM, _end),
            (signal.SIGHUP, _end),
        ):
            self._handlers[number] = signal.signal(number, handler)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._give_back()
        os.close(self._wakes)
        os.close(self._waker)

    def wake(self) -> None:
        """Have `keys` return. Safe to call from any thread."""
        # It may be awake already, or over.
        with suppress(OSError):
            os.write(self._waker, b"x")

    def keys(self, timeout_s: float) -> list[str]:
        """Wait for keys, a call of `wake` or the time; the keys, by name or as they are."""
        ready, _, _ = select.select([self._input, self._wakes], [], [], timeout_s)
        if self._wakes in ready:
            os.read(self._wakes, 4096)
        if self._input not in ready:
            return []
        pressed = os.read(self._input, 1024)
        # A terminal that is gone has no more keys.
        return read_keys(pressed) if pressed else ["q"]

    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        found = shutil.get_terminal_size()
        with suppress(OSError):
            found = os.get_terminal_size(sys.stdout.fileno())
        return max(1, found.columns), max(1, found.lines)

    def draw(self, lines: Sequence[Line]) -> None:
        """Show lines from the top on, and nothing below."""
        styled = (f"{_STYLES[style]}{text}\x1b[0m\x1b[K" for text, style in lines)
        sys.stdout.write("\x1b[H" + "\n".join(styled) + "\x1b[J")
        sys.stdout.flush()

    def _take(self) -> None:
        tty.setcbreak(self._input)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _give_back(self) -> None:
        # The terminal may be gone.
        with suppress(OSError):
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        with suppress(termios.error):
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._settings)

    def _resized(self, _: int, __: FrameType | None) -> None:
        self.wake()

    def _suspend(self, _: int, __: FrameType | None) -> None:
        self._give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        # Here it goes on after SIGCONT.
        self._take()
        self.wake()


def read_keys(pressed: bytes) -> list[str]:
    """The keys of some bytes of a terminal: names of those that are no character."""
    found: list[str] = []
    while pressed:
        known = next((one for one in _KEYS if pressed.startswith(one)), None)
        if known == b"\x1b" and pressed[1:2] in (b"[", b"O"):
            # A key that has no meaning here, with its parameters.
            end = next((n for n in range(2, len(pressed)) if 0x40 <= pressed[n] <= 0x7E), None)
            pressed = b"" if end is None else pressed[end + 1 :]
        elif known is not None:
            found.append(_KEYS[known])
            pressed = pressed[len(known) :]
        else:
            character = pressed[:1].decode("ascii", "ignore")
            found += [character] if character.isprintable() and character else []
            pressed = pressed[1:]
    return found


def _end(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
