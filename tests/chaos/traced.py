"""What a process did to its data file and told its clients, in order, as strace saw it.

A call is seen twice: when it begins and when it has returned. What counts here is the careful one
of the two: a write or a sync has happened when it has returned, bytes may be on their way to a
client as soon as the call that sends them has begun. strace writes both moments in the order in
which they came, over all threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fanlog.log.folder import DATA_NAME

#: Longest string of a call that is kept: more than any write of ours.
STRING_BYTES_MAX = 32 * 1024 * 1024

CALLS = (
    "openat,lseek,write,writev,pwrite64,pwritev,pwritev2,ftruncate,fallocate,"
    "fsync,fdatasync,msync,sync_file_range,sendmsg,sendto,recvmsg,recvfrom,read,readv"
)


def strace_command(out: Path, calls: str = CALLS) -> list[str]:
    """Put this before a command to have it traced; its process number stays that of the command."""
    return [
        *["strace", "-D", "-f", "-qq", "-y", "-xx", "-s", str(STRING_BYTES_MAX)],
        *["--seccomp-bpf", "-e", f"trace={calls}", "-e", "signal=none", "-o", str(out)],
    ]


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes went to the data file."""

    offset: int
    data: bytes
    #: Through a descriptor that was opened with O_DSYNC: on the disk when the call returns.
    is_synced: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    """The data file ends here, unless the power goes before the next sync."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Everything written to the data file before is on the disk."""


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes may have left for whoever is at the other end of a descriptor."""

    descriptor: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Received:
    descriptor: int
    data: bytes


Event = Write | Truncate | Sync | Sent | Received

_LINE = re.compile(r"(\d+) +(?:(\w+)\((.*)|<\.\.\. (\w+) resumed>(.*))", re.DOTALL)
_UNFINISHED = " <unfinished ...>"
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_RESULT = re.compile(r"\) += (-?\d+)(?:<[^>]*>)?[^()]*$")
_DESCRIPTOR = re.compile(r"(\d+)<((?:[^>]|->)*)>")
_SENDS = frozenset({"sendmsg", "sendto", "write", "writev"})
_RECEIVES = frozenset({"recvmsg", "recvfrom", "read", "readv"})
#: How strace writes a descriptor of a socket.
_SOCKETS = (b"socket:", b"TCP:", b"TCPv6:")


def read_trace(path: Path) -> list[Event]:
    """Events of the data file and of everything that was sent and received."""
    return list(_Reader().read(path))


class _Reader:
    def __init__(self) -> None:
        self._begun: dict[str, str] = {}
        self._is_dsync: dict[int, bool] = {}
        self._positions: dict[int, int] = {}

    def read(self, path: Path) -> Iterator[Event]:
        with path.open(encoding="ascii") as lines:
            for line in lines:
                match = _LINE.match(line.rstrip("\n"))
                if match is None:
                    continue
                process, name, arguments, resumed, rest = match.groups()
                if name is not None and arguments.endswith(_UNFINISHED):
                    self._begun[process] = arguments.removesuffix(_UNFINISHED)
                    yield from self._on_begin(name, self._begun[process])
                elif name is not None:
                    yield from self._on_begin(name, arguments)
                    yield from self._on_end(name, arguments)
                elif process in self._begun:
                    yield from self._on_end(resumed, self._begun.pop(process) + rest)

    def _on_begin(self, name: str, arguments: str) -> Iterator[Event]:
        if name in _SENDS and (found := _DESCRIPTOR.match(arguments)):
            data = b"".join(_strings(arguments[found.end() :]))
            yield Sent(int(found[1]), data)

    def _on_end(self, name: str, arguments: str) -> Iterator[Event]:
        result = _RESULT.search(arguments)
        if result is None or (value := int(result[1])) < 0:
            return
        if name == "openat":
            if _decode(_STRING.search(arguments)).endswith(DATA_NAME.encode()):
                self._is_dsync[value] = "O_DSYNC" in arguments or "O_SYNC" in arguments
            return
        found = _DESCRIPTOR.match(arguments)
        if found is None:
            return
        descriptor = int(found[1])
        rest = arguments[found.end() : result.start()]
        if name in _RECEIVES:
            # Files are read by the same calls, and are of no interest.
            if _plain_path(found[2]).startswith(_SOCKETS):
                yield Received(descriptor, b"".join(_strings(rest)))
        elif _plain_path(found[2]).endswith(DATA_NAME.encode()):
            yield from self._on_data_file(name, descriptor, rest, value)

    def _on_data_file(self, name: str, descriptor: int, rest: str, value: int) -> Iterator[Event]:
        is_synced = self._is_dsync[descriptor]
        if name == "lseek":
            self._positions[descriptor] = value
        elif name in ("fsync", "fdatasync"):
            yield Sync()
        elif name == "pwrite64":
            (data,) = _strings(rest)
            assert len(data) == value, "a write was cut short"
            yield Write(int(rest.rsplit(",", 1)[1]), data, is_synced)
        elif name == "ftruncate":
            yield Truncate(int(rest.strip(", ")))
        elif name in ("writev", "write"):
            data = b"".join(_strings(rest))
            assert len(data) == value, "a write was cut short"
            yield Write(self._positions[descriptor], data, is_synced)
            self._positions[descriptor] += value
        else:
            raise AssertionError(f"{name} on the data file: teach this module what it means")


def _strings(arguments: str) -> list[bytes]:
    return [_decode(match) for match in _STRING.finditer(arguments)]


def _decode(match: re.Match[str] | None) -> bytes:
    assert match is not None
    assert match[2] is None, "strace cut a string short"
    return bytes.fromhex(match[1].replace("\\x", ""))


def _plain_path(path: str) -> bytes:
    return bytes.fromhex(path.replace("\\x", "")) if path.startswith("\\x") else path.encode()
