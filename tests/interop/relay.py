"""A relay between a client and a server that counts the HTTP/2 frames it passes on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import Counter

from fanlog.http2.codes import PREFACE

PING, GOAWAY = 0x6, 0x7
_ACK = 0x1
_HEAD_BYTES = 9
_READ_BYTES = 256 * 1024


class Frames:
    """Walks over one direction of one connection; payloads are passed over."""

    def __init__(self, skip: int = 0) -> None:
        self._skip = skip
        self._head = b""
        #: By type; pings that are answers are not counted.
        self.counts: Counter[int] = Counter()

    def feed(self, content: bytes) -> None:
        at = 0
        while at < len(content):
            if self._skip:
                step = min(self._skip, len(content) - at)
                self._skip -= step
                at += step
                continue
            taken = content[at : at + _HEAD_BYTES - len(self._head)]
            self._head += taken
            at += len(taken)
            if len(self._head) == _HEAD_BYTES:
                self._skip = int.from_bytes(self._head[:3])
                kind, flags = self._head[3], self._head[4]
                if not (kind == PING and flags & _ACK):
                    self.counts[kind] += 1
                self._head = b""


class Relay:
    """Listens on a port of its own and passes everything on to `endpoint`, in plain text."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._target = host, int(port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._from_clients: list[Frames] = []
        self._from_server: list[Frames] = []
        self._start(self._accept)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            for one in (near, far):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            asked, answered = Frames(len(PREFACE)), Frames()
            self._from_clients.append(asked)
            self._from_server.append(answered)
            self._start(self._pass_on, near, far, asked)
            self._start(self._pass_on, far, near, answered)

    def _pass_on(self, source: socket.socket, sink: socket.socket, frames: Frames) -> None:
        try:
            while content := source.recv(_READ_BYTES):
                frames.feed(content)
                sink.sendall(content)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return

    @property
    def connections(self) -> int:
        return len(self._from_clients)

    def from_clients(self, kind: int) -> int:
        return sum(frames.counts[kind] for frames in self._from_clients)

    def from_server(self, kind: int) -> int:
        return sum(frames.counts[kind] for frames in self._from_server)

    def close(self) -> None:
        # Closing alone does not wake a thread that waits in accept or recv.
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)
