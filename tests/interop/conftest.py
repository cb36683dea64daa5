"""Servers with and without TLS, and client programs against them, for as many tests as possible."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from acceptance.served import Served
from chaos.conftest import missing
from interop.puppet import Puppet
from transport.certificates import Authority

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Certificates:
    ca: Path
    certificate: Path
    key: Path

    def flags(self, transport: str) -> tuple[str, ...]:
        if transport == "plain":
            return ()
        return ("--tls-cert", str(self.certificate), "--tls-key", str(self.key))

    def trusted(self, transport: str) -> Path | None:
        """The authority that a client has to trust."""
        return self.ca if transport == "TLS" else None


@dataclass(frozen=True, slots=True)
class Names:
    topic: str
    subscription: str


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority.make("interop authority")
    certificate, key = authority.issue("server", folder)
    return Certificates(authority.write(folder / "ca.pem"), certificate, key)


@pytest.fixture(scope="session")
def servers(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Callable[[str], Served]]:
    """The server of a transport, started when it is first asked for."""
    started: dict[str, Served] = {}

    def give(transport: str) -> Served:
        if transport not in started:
            folder = tmp_path_factory.mktemp(transport)
            started[transport] = Served(folder / "data", folder / "server.log")
            started[transport].start("--http-port", "off", *certificates.flags(transport))
        return started[transport]

    yield give
    for server in started.values():
        server.close()


@pytest.fixture
def server(servers: Callable[[str], Served], transport: str) -> Served:
    return servers(transport)


@pytest.fixture(scope="session")
def puppets(
    servers: Callable[[str], Served],
    certificates: Certificates,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, str], Puppet]]:
    """The program of a client over a transport, started when it is first asked for."""
    started: dict[tuple[str, str], Puppet] = {}

    def give(client: str, transport: str) -> Puppet:
        if (client, transport) not in started:
            ca = certificates.trusted(transport)
            log_path = tmp_path_factory.mktemp("puppet") / f"{client}.log"
            endpoint = servers(transport).endpoint
            started[client, transport] = Puppet(client, endpoint, ca, log_path)
        return started[client, transport]

    yield give
    for puppet in started.values():
        puppet.close()


@pytest.fixture
def puppet(puppets: Callable[[str, str], Puppet], client: str, transport: str) -> Puppet:
    return puppets(client, transport)


@pytest.fixture
def tool(client: str) -> str:
    """The path of a client that is a command."""
    path = shutil.which(client.lower())
    if path is None:
        missing(f"{client} is not installed")
    assert path is not None
    return path


@pytest.fixture
def names() -> Names:
    """A topic and a subscription of the test's own."""
    number = next(_numbers)
    return Names(
        f"projects/interop/topics/topic-{number}", f"projects/interop/subscriptions/sub-{number}"
    )
