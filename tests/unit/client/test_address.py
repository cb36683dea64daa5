"""Addresses of servers: one text with everything, from options, variables or the text itself."""

from __future__ import annotations

import pytest

from fanlog.client.address import ServerAddress, resolve_endpoint
from fanlog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("given", "environ", "files", "address"),
    [
        (None, {}, {}, "127.0.0.1:8085"),
        (None, {"PUBSUB_EMULATOR_HOST": "there:1"}, {}, "there:1"),
        ("here:2", {"PUBSUB_EMULATOR_HOST": "there:1"}, {}, "here:2"),
        ("here:2", {"SSL_CERT_FILE": "/etc/ca"}, {}, "here:2"),
        ("https://here:2", {}, {}, "https://here:2"),
        ("https://here:2", {"SSL_CERT_FILE": "/etc/ca"}, {}, "https://here:2?ca=/etc/ca"),
        ("here:2", {"FANLOG_CA": "/own/ca"}, {}, "https://here:2?ca=/own/ca"),
        ("here:2", {"FANLOG_CA": "/own/ca"}, {"ca": "/x"}, "https://here:2?ca=/x"),
        (
            "here:2",
            {},
            {"ca": "/a b", "cert": "/c", "key": "/k"},
            "https://here:2?ca=/a%20b&cert=/c&key=/k",
        ),
    ],
)
def test_an_address_is_one_text(given, environ, files, address):
    assert resolve_endpoint(given, environ, **files) == address
    assert str(ServerAddress.parse(address)) == address


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("https://h:1?cert=/c", "cert and key go together"),
        ("https://h:1?to=/c", "'to' is not known"),
    ],
)
def test_addresses_that_are_none(text, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        ServerAddress.parse(text)


def test_a_file_that_is_not_there(tmp_path):
    address = ServerAddress("h:1", is_tls=True, ca=str(tmp_path / "missing"))
    with pytest.raises(InvalidArgument, match=r"ca: .*missing"):
        address.read("ca")
