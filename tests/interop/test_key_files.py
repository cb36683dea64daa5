"""Official clients with the key file of a service account, over TLS, against a server that asks.

Their programs know the server's address and nothing else of it: the key file is named by the
environment, as for Google.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acceptance.served import Served
from interop.cases import LANGUAGES, tries
from interop.conftest import Certificates, Names
from interop.puppet import Puppet

DATA = [f"message {number}" for number in range(20)]
SCOPE = "https://www.googleapis.com/auth/pubsub"
TLS = ("TLS",)


@pytest.fixture(scope="session")
def asking(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[Served]:
    """A server that authenticates its callers."""
    folder = tmp_path_factory.mktemp("asking")
    served = Served(folder / "data", folder / "server.log")
    served.ca = certificates.ca
    served.token_file = served.data_dir / "auth" / "admin.token"
    served.start("--http-port", "off", "--auth", "required", *certificates.flags("TLS"))
    yield served
    served.close()


@pytest.fixture(scope="session")
def key_file(asking: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an account that may do what programs do, in their project alone."""
    path = tmp_path_factory.mktemp("keys") / "key.json"
    asking.run("auth", "service-account", "create", "ci", "--key", path)
    member = asking.run("auth", "service-account", "describe", "ci").stdout
    asking.run("auth", "policy", "add", "projects/interop", "roles/pubsub.editor", _email(member))
    return path


def _email(described: str) -> str:
    [found] = [word for word in described.split() if "@" in word]
    return f"serviceAccount:{found}"


@pytest.fixture(scope="session")
def known(
    asking: Served,
    certificates: Certificates,
    key_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], Puppet]]:
    """The program of a client that has a key file, started when it is first asked for."""
    started: dict[str, Puppet] = {}
    logs = tmp_path_factory.mktemp("known")

    def give(client: str) -> Puppet:
        if client not in started:
            started[client] = Puppet(
                *(client, asking.endpoint, certificates.ca, logs / f"{client}.log"),
                key_file=key_file,
            )
        return started[client]

    yield give
    for puppet in started.values():
        puppet.close()


@pytest.fixture
def puppet(known: Callable[[str], Puppet], client: str, transport: str) -> Puppet:
    return known(client)


@tries("key file: publish, stream, ack", *LANGUAGES, transports=TLS)
def test_publish_stream_ack(puppet: Puppet, names: Names):
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=True)
    ids = puppet.do("publish", topic=names.topic, data=DATA)["ids"]
    assert len(set(ids)) == len(DATA)
    received = puppet.do("receive", subscription=names.subscription, count=len(DATA))["received"]
    assert sorted(received) == sorted(DATA)


@tries("key file: REST", *LANGUAGES, transports=TLS)
def test_rest(puppet: Puppet, names: Names):
    answer = puppet.do("rest", topic=names.topic, subscription=names.subscription, data="over REST")
    assert answer["received"] == ["over REST"]


@tries("key file: `exists()`", *LANGUAGES, transports=TLS)
def test_what_may_be_seen(puppet: Puppet, names: Names):
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    assert puppet.do("look", topic=names.topic)["code"] == "OK"
    assert puppet.do("look", topic=f"{names.topic}-x")["code"] == "NOT_FOUND"
    hidden = "projects/other/topics/there"
    assert puppet.do("look", topic=hidden)["code"] == "PERMISSION_DENIED"


@tries("key file: `token_uri`", "Python", "Go", "Java", transports=TLS)
def test_the_exchange(puppet: Puppet, names: Names):
    """Node's library posts to Google whatever the key file says, and so never exchanges here."""
    puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=False)
    answer = puppet.do("exchange", scope=SCOPE, path=f"/v1/{names.topic}")
    assert (answer["kind"], answer["status"]) == ("fla_", 200)
    assert puppet.do("exchange", scope=SCOPE, path="/v1/projects/other/topics")["status"] == 403
