"""A TCP proxy between clients and a server that cuts, stalls and half-closes connections."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress

CHUNK_BYTES = 16 * 1024
#: Linger for no time: closing sends a reset, and what was on its way is gone.
_RESET = struct.pack("ii", 1, 0)


class Proxy:
    """Listens on a port, of its own if none is given, and passes bytes on, until told otherwise.

    The server may move (a restart takes a new port): set `target`. Close it to end its threads.
    """

    def __init__(self, target: str, port: int = 0) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self.endpoint = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        #: Connections made since the start.
        self.count = 0
        self._flowing = threading.Event()
        self._answering = threading.Event()
        self.flow()
        self._is_closed = False
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)
        self._thread.start()

    def cut(self, *, reset: bool) -> int:
        """End every connection at once, with a reset or in order; how many."""
        return self._each(lambda link: link.cut(reset=reset))

    def half_close(self) -> int:
        """Say to every server that its client has nothing more to say, and to no client."""
        return self._each(lambda link: link.half_close())

    def stall(self) -> None:
        """Pass nothing on in either direction, as a network without a word would."""
        self._flowing.clear()
        self._answering.clear()

    def mute(self) -> None:
        """Pass on what clients say, and keep the server's answers."""
        self._answering.clear()

    def flow(self) -> None:
        self._flowing.set()
        self._answering.set()

    def close(self) -> None:
        self._is_closed = True
        self.flow()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut(reset=True)
        self._thread.join(10)

    def harass(self, chance: random.Random) -> str:
        """Do one of these things, by chance; its name."""
        deed = chance.choice(["reset", "cut", "half-close", "stall and cut"])
        if deed == "half-close":
            self.half_close()
        elif deed == "stall and cut":
            self.stall()
            threading.Event().wait(chance.uniform(0.05, 0.3))
            self.cut(reset=True)
            self.flow()
        else:
            self.cut(reset=deed == "reset")
        return deed

    def _each(self, deed: Callable[[_Link], None]) -> int:
        with self._lock:
            links = [link for link in self._links if link.is_open]
            self._links = links
        for link in links:
            deed(link)
        return len(links)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            host, port = self.target.rsplit(":", 1)
            try:
                server = socket.create_connection((host, int(port)), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self.count += 1
                self._links.append(_Link(client, server, self._flowing, self._answering))


class _Link:
    """One connection: two sockets, and a thread for each direction."""

    def __init__(
        self,
        client: socket.socket,
        server: socket.socket,
        flowing: threading.Event,
        answering: threading.Event,
    ) -> None:
        self._client, self._server = client, server
        self.is_open = True
        for way in ((client, server, flowing), (server, client, answering)):
            threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def cut(self, *, reset: bool) -> None:
        self.is_open = False
        for side in (self._client, self._server):
            with suppress(OSError):
                if reset:
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                # Wakes the threads that wait for this socket, which closing would not.
                side.shutdown(socket.SHUT_RDWR)
            side.close()

    def half_close(self) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    def _pass_on(self, source: socket.socket, sink: socket.socket, flow: threading.Event) -> None:
        try:
            while data := source.recv(CHUNK_BYTES):
                flow.wait()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self.cut(reset=True)
