"""A server is stopped and started again under clients that publish and stream."""

from __future__ import annotations

from acceptance.served import Served
from interop.cases import LANGUAGES, tries
from interop.conftest import Certificates
from interop.looks import await_backlog
from interop.puppet import Puppet

#: Received before the server is stopped, and again after it is back.
COUNT = 300
SIZE_BYTES = 100
AHEAD = 50


@tries("reconnect through a drain", *LANGUAGES)
def test_reconnect_through_a_drain(client, transport, tmp_path, certificates: Certificates, names):
    """Nothing that was published is lost; nothing comes again whose ack was confirmed."""
    server = Served(tmp_path / "data", tmp_path / "server.log")
    flags = ("--http-port", "off", *certificates.flags(transport))
    server.start(*flags)
    puppet = Puppet(client, server.endpoint, certificates.trusted(transport), tmp_path / "log")
    try:
        puppet.do("create", topic=names.topic, subscription=names.subscription, exactly_once=True)
        flow = {"topic": names.topic, "subscription": names.subscription}
        puppet.do("flow", **flow, size=SIZE_BYTES, ahead=AHEAD)
        puppet.await_received(COUNT)
        exit_status, _ = server.stop()
        assert exit_status == 0, server.log_path.read_text()
        before = puppet.do("count")["received"]
        server.start(*flags, "--port", server.endpoint.rpartition(":")[2])
        puppet.await_received(before + COUNT)
        puppet.do("pause")
        await_backlog(server, names.subscription, 0)
        found = puppet.do("end")
        assert (found["failed"], found["lost"], found["again"]) == ([], 0, 0)
        assert found["published"] <= found["received"] <= found["delivered"]
    finally:
        puppet.close()
        server.close()
