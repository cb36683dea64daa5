"""A network of its own for a test: namespaces of Linux on one switch, cut and mended in pairs.

Kafka and each node have a namespace; the test itself is on the switch as a client, and listens on
nothing there. A cut is silent, as that of a real network is: packets between the two go to an
address of no machine, and connections that are there wait.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

#: Of RFC 2544, for tests of networks: nothing else is there.
_NETWORK = "198.18"
_NOBODY = "02:00:00:00:00:fe"
#: The test itself.
CLIENT = "client"


class NetworksMissing(Exception):
    """This machine, or this user, cannot make network namespaces."""


class Network:
    """Machines by name, each an address; a context manager's value (`new_network`)."""

    def __init__(self) -> None:
        #: Short: names of interfaces have 15 letters.
        self._tag = f"fl{os.getpid() % 100_000}x{random.randrange(36**2):03d}"
        self._subnet = f"{_NETWORK}.{random.randrange(1, 255)}"
        self._numbers = itertools.count(1)
        self._addresses: dict[str, str] = {}
        self._cuts: set[tuple[str, str]] = set()

    def open(self) -> None:
        """
        Raises:
            NetworksMissing: See there.
        """
        try:
            _ip("netns", "add", self._switch)
            _ip("-n", self._switch, "link", "add", "switch", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "switch", "up")
            self._plug(CLIENT)
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            said = getattr(error, "stderr", "") or str(error)
            raise NetworksMissing(f"no network namespaces here: {said.strip()}") from error

    def add(self, name: str) -> str:
        """A new machine; its address."""
        _ip("netns", "add", self._space(name))
        self._plug(name)
        return self._addresses[name]

    def address(self, name: str) -> str:
        return self._addresses[name]

    def launcher(self, name: str) -> list[str]:
        """The command that runs another one on this machine."""
        return ["ip", "netns", "exec", self._space(name)]

    def cut(self, one: str, other: str) -> None:
        """Nothing passes between the two any more, in either direction, and nobody is told."""
        for here, there in ((one, other), (other, one)):
            self._cuts.add((here, there))
            self._neighbour(here, "replace", there, "lladdr", _NOBODY, "nud", "permanent")

    def mend(self) -> None:
        """All pairs hear each other again."""
        for here, there in self._cuts:
            self._neighbour(here, "del", there)
        self._cuts.clear()

    def close(self) -> None:
        """Take it all down; processes on it must have ended."""
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("link", "del", self._interface)
        for name in [name for name in self._addresses if name != CLIENT]:
            with suppress(OSError, subprocess.CalledProcessError):
                _ip("netns", "del", self._space(name))
        with suppress(OSError, subprocess.CalledProcessError):
            _ip("netns", "del", self._switch)

    def _plug(self, name: str) -> None:
        number = next(self._numbers)
        port = f"port{number}"
        address = self._addresses[name] = f"{self._subnet}.{number}"
        inside = "eth0" if name != CLIENT else self._interface
        space = self._space(name) if name != CLIENT else str(os.getpid())
        _ip(
            "-n",
            self._switch,
            "link",
            "add",
            port,
            "type",
            "veth",
            "peer",
            "name",
            inside,
            "netns",
            space,
        )
        _ip("-n", self._switch, "link", "set", port, "master", "switch", "up")
        at = self._at(name)
        _ip(*at, "addr", "add", f"{address}/24", "dev", inside)
        _ip(*at, "link", "set", inside, "up")
        if name != CLIENT:
            _ip(*at, "link", "set", "lo", "up")

    def _neighbour(self, here: str, verb: str, there: str, *more: str) -> None:
        inside = "eth0" if here != CLIENT else self._interface
        _ip(*self._at(here), "neigh", verb, self._addresses[there], *more, "dev", inside)

    def _at(self, name: str) -> list[str]:
        return [] if name == CLIENT else ["-n", self._space(name)]

    def _space(self, name: str) -> str:
        return f"{self._tag}-{name}"

    @property
    def _switch(self) -> str:
        return f"{self._tag}-switch"

    @property
    def _interface(self) -> str:
        """Of the test itself, among those of the machine."""
        return f"{self._tag}c"


@contextmanager
def new_network() -> Iterator[Network]:
    """
    Raises:
        NetworksMissing: See there.
    """
    network = Network()
    network.open()
    try:
        yield network
    finally:
        network.close()


def _ip(*arguments: str) -> None:
    subprocess.run(
        ["ip", *arguments], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
