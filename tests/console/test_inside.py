"""Data that only its schema can read, and an endpoint that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import expect

from acceptance.served import PATIENCE_S, Served
from console.project import ORDER, P, call, data, make, publish
from server.receiver import Receiver

DEFINITIONS = {
    "AVRO": json.dumps(ORDER),
    "PROTOCOL_BUFFER": 'syntax = "proto3"; message Order { string id = 1; }',
}
#: An order whose id is `tea & cake`.
ENCODED = {"AVRO": b"\x14tea & cake", "PROTOCOL_BUFFER": b"\x0a\x0atea & cake"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that may push to this machine."""
    folder = tmp_path_factory.mktemp("inside")
    server = Served(folder / "data", folder / "server.log")
    server.start("--push-allow", "127.0.0.0/8")
    yield server
    server.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver(lambda _: (503, {}, b"<b>closed</b> for lunch"))
    yield receiver
    receiver.close()


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_data_is_read_by_the_schema(look, server: Served, kind):
    topic = f"read-{kind.lower()}"
    call(server, "POST", f"/v1/{P}/schemas?schemaId={topic}", {
        "type": kind, "definition": DEFINITIONS[kind],
    })  # fmt: skip
    settings = {"schema": f"{P}/schemas/{topic}", "encoding": "BINARY"}
    call(server, "PUT", f"/v1/{P}/topics/{topic}", {"schemaSettings": settings})
    make(server, topic, f"{topic}-reader")
    publish(server, topic, {"data": data(ENCODED[kind])})
    tab = look().open(f"{P}/messages?topic={topic}").sees("1 message of 1 looked at")
    tab.page.locator("main tbody tr").first.get_by_role("button").click()
    decoded = tab.dialog.get_by_role("tab", name="Decoded")
    expect(decoded).to_have_attribute("aria-selected", "true")
    tab.sees('"id": "tea & cake"', "dialog").accessible()
    tab.dialog.get_by_role("tab", name="Hex").click()
    tab.sees(ENCODED[kind].hex(" ")[:20], "dialog")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
def test_an_endpoint_that_fails(look, server: Served, receiver, width, scheme):
    name = f"lunch-{width}"
    make(server, "lunch", name, pushConfig={"pushEndpoint": receiver.url()})
    publish(server, "lunch", {"data": data({"order": 1})})
    receiver.wait(2)
    tab = look(width, scheme).open(f"{P}/subscriptions/{name}").titled(name)
    failures = tab.page.get_by_role("region", name="Last failures")
    expect(failures.locator("tbody tr").first).to_contain_text("503")
    tab.sees("Push endpoint").sees("under way").sees(receiver.url())
    assert failures.locator("b").count() == 0
    tab.accessible().fits()
    tab.page.get_by_role("heading", name="Push endpoint").scroll_into_view_if_needed()
    tab.keep(f"subscription-push-{width}-{scheme}")
    requests.delete(f"http://{server.http}/v1/{P}/subscriptions/{name}", timeout=PATIENCE_S)
