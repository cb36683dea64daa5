"""A command on a pseudo-terminal: what it shows, keys, the size, and the settings it leaves."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from typing import Any

from acceptance.served import FANLOG, PATIENCE_S

#: Sequences of a terminal that are no text.
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs one command. Close it."""

    def __init__(
        self, *args: str, environ: Mapping[str, str], columns: int = 120, lines: int = 20
    ) -> None:
        self._master, slave = pty.openpty()
        self._set_size(columns, lines)
        self.settings = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [*FANLOG, *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environ, "TERM": "xterm-256color"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._slave = slave
        self.output = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        # The kernel tells the processes of the terminal.
        self._set_size(columns, lines)

    def screen(self) -> list[str]:
        """The lines of the latest whole picture."""
        whole = self.output.split("\x1b[H")[1:]
        drawn = [one.split("\x1b[J")[0] for one in whole if "\x1b[J" in one]
        if not drawn:
            return []
        return [_CODES.sub("", line) for line in drawn[-1].split("\r\n")]

    def await_screen(self, fits: Callable[[str], Any]) -> str:
        """Wait until a picture fits; its text."""
        return self._await(lambda: "\n".join(self.screen()), fits)

    def await_output(self, text: str) -> None:
        self._await(lambda: self.output, lambda output: text in output)

    def wait(self) -> int:
        """Wait for the command's end; its exit status."""
        late_s = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            assert time.monotonic() < late_s, self.output
            self._read()
        self._read()
        return self.process.returncode

    @property
    def is_restored(self) -> bool:
        """Whether the settings are as they were, and the cursor and the lines are back."""
        settings = termios.tcgetattr(self._slave)
        return settings == self.settings and self.output.rstrip().endswith("\x1b[?25h\x1b[?1049l")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._slave)
        os.close(self._master)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _set_size(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def _await(self, text: Callable[[], str], fits: Callable[[str], Any]) -> str:
        late_s = time.monotonic() + PATIENCE_S
        while not fits(found := text()):
            assert time.monotonic() < late_s, found
            assert self.process.poll() is None, self.output
            self._read()
        return found

    def _read(self) -> None:
        while select.select([self._master], [], [], 0.1)[0]:
            self.output += os.read(self._master, 65_536).decode()
