"""The audit log: who did what, from where, on which resource, and how it ended. JSON lines.

An entry is made of named fields alone: no payload, token, key or secret can come into it. Entries
are written by a thread, so that a slow disk delays no call; when too many wait, they are counted as
lost, and the next line says how many.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fanlog import times
from fanlog.broker.clock import Clock
from fanlog.errors import ConfigError
from fanlog.model.identity import Principal

log = logging.getLogger("fanlog.auth")

_WAITING_MAX: Final = 10_000
_VALUE_LENGTH_MAX: Final = 1_024
#: Entries that are written with one call.
_TOGETHER: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSettings:
    path: Path
    #: Whether calls that read or carry messages are written down, too.
    data_access: bool = False
    #: A file of this size is put aside, and so many of those are kept.
    size_bytes_max: int = 64 * 1024 * 1024
    files_max: int = 10


def make_entry(
    *,
    time_ns: int,
    principal: Principal,
    address: str,
    method: str,
    resource: str,
    result: str,
    lacking: str,
    detail: str = "",
) -> bytes:
    """One line, without its end."""
    entry = {
        "time": times.of_ns(time_ns),
        "principal": principal.member,
        "credential": principal.credential,
        "address": address,
        "method": method,
        "resource": resource,
        "result": result,
    }
    entry |= {name: value for name, value in (("lacking", lacking), ("detail", detail)) if value}
    return json.dumps({name: value[:_VALUE_LENGTH_MAX] for name, value in entry.items()}).encode()


class AuditLog:
    """Appends entries. `write` never waits; `close` waits until all is written."""

    def __init__(
        self,
        settings: AuditSettings,
        clock: Clock,
        on_entry: Callable[[bytes], None] | None = None,
    ) -> None:
        """`on_entry` is called on the loop with each entry.

        Raises:
            ConfigError: The file cannot be written.
        """
        self._settings = settings
        self._clock = clock
        self._on_entry = on_entry
        self.data_access = settings.data_access
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_WAITING_MAX)
        #: Entries that were not written, and how many of them a line has told of.
        self.lost = 0
        self._told_lost = 0
        self._has_failed = False
        try:
            self._file = _open(settings.path)
        except OSError as error:
            raise ConfigError(f"audit_log {str(settings.path)!r}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._run, name="audit-log", daemon=True)
        self._thread.start()

    def write(
        self,
        *,
        principal: Principal,
        address: str,
        method: str,
        resource: str,
        result: str,
        lacking: str,
        detail: str = "",
    ) -> None:
        entry = make_entry(
            time_ns=self._clock.wall_ns(),
            principal=principal,
            address=address,
            method=method,
            resource=resource,
            result=result,
            lacking=lacking,
            detail=detail,
        )
        try:
            self._waiting.put_nowait(entry)
        except queue.Full:
            self.lost += 1
        if self._on_entry is not None:
            self._on_entry(entry)

    def close(self) -> None:
        self._waiting.put(None)
        self._thread.join()
        os.close(self._file)

    def _run(self) -> None:
        is_open = True
        while is_open:
            entries = [self._waiting.get()]
            while len(entries) < _TOGETHER and not self._waiting.empty():
                entries.append(self._waiting.get())
            is_open = None not in entries
            lines = [one for one in entries if one is not None]
            if self.lost > self._told_lost:
                lines.append(json.dumps({"lost": self.lost - self._told_lost}).encode())
                self._told_lost = self.lost
            if lines:
                self._append(lines)

    def _append(self, lines: list[bytes]) -> None:
        try:
            os.write(self._file, b"".join(line + b"\n" for line in lines))
            if os.fstat(self._file).st_size >= self._settings.size_bytes_max:
                self._rotate()
        except OSError as error:
            self.lost += len(lines)
            if not self._has_failed:
                log.error("action=audit_log_failed error=%s; calls go on", error)
            self._has_failed = True
        else:
            self._has_failed = False

    def _rotate(self) -> None:
        """Put the file aside: `audit.log.1` is the newest of those."""
        path, most = self._settings.path, self._settings.files_max
        for number in range(most - 1, 0, -1):
            older = path.with_name(f"{path.name}.{number}")
            if older.exists():
                older.replace(path.with_name(f"{path.name}.{number + 1}"))
        path.replace(path.with_name(f"{path.name}.1"))
        # The new one first: a number that is closed may be that of another file soon.
        new = _open(path)
        os.close(self._file)
        self._file = new


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
