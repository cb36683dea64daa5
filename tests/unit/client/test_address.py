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
        ("here:2", {}, {"token_file": "/a b"}, "here:2?token_file=/a%20b"),
        ("here:2", {"FANLOG_TOKEN_FILE": "/t"}, {}, "here:2?token_file=/t"),
        ("here:2", {"FANLOG_CREDENTIALS": "/k"}, {}, "here:2?credentials=/k"),
        ("here:2?credentials=/k", {"FANLOG_TOKEN_FILE": "/t"}, {}, "here:2?credentials=/k"),
        ("here:2?credentials=/k", {}, {"token_file": "/t"}, "here:2?token_file=/t"),
        (
            "https://here:2?token_file=/t",
            {"FANLOG_CA": "/own/ca"},
            {},
            "https://here:2?ca=/own/ca&token_file=/t",
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
        ("h:1?token=x", "'token' is not known"),
        ("h:1?ca=/c", "ca is for TLS; write https://"),
        ("h:1?token_file=/t&credentials=/k", "token_file or credentials, not both"),
    ],
)
def test_addresses_that_are_none(text, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        ServerAddress.parse(text)


def test_one_place_names_one_caller():
    with pytest.raises(InvalidArgument, match="token_file or credentials, not both"):
        resolve_endpoint("h:1", {}, token_file="/t", credentials="/k")
    environ = {"FANLOG_TOKEN": "flt_secret", "FANLOG_CREDENTIALS": "/k"}
    with pytest.raises(InvalidArgument, match="FANLOG_TOKEN or FANLOG_CREDENTIALS") as refused:
        resolve_endpoint("h:1", environ)
    assert "flt_secret" not in str(refused.value)


def test_a_token_itself_is_no_part_of_an_address():
    assert resolve_endpoint("h:1", {"FANLOG_TOKEN": "flt_secret"}) == "h:1"


@pytest.mark.parametrize(
    ("content", "is_ours"),
    [
        ('{"client_email": "ci@0123.fanlog.internal"}', True),
        ('{"client_email": "ci@shop.iam.gserviceaccount.com"}', False),
        ('{"client_email": "ci@evilfanlog.internal"}', False),
        ('{"client_email": 7}', False),
        ('["client_email"]', False),
        ("no JSON", False),
    ],
)
def test_keys_of_google_stay_at_home(tmp_path, content, is_ours):
    path = tmp_path / "key.json"
    path.write_text(content)
    environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(path)}
    assert resolve_endpoint("h:1", environ) == (f"h:1?credentials={path}" if is_ours else "h:1")
    own = environ | {"FANLOG_TOKEN_FILE": "/t"}
    assert resolve_endpoint("h:1", own) == "h:1?token_file=/t"
    missing = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "missing")}
    assert resolve_endpoint("h:1", missing) == "h:1"


@pytest.mark.parametrize(
    ("address", "keeps"),
    [
        ("127.0.0.1:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("https://broker:1", True),
        ("broker:1", False),
        ("10.0.0.1:1", False),
        ("0.0.0.0:1", False),
        ("127.0.0.1.example:1", False),
        ("dns:///127.0.0.1:1", False),
    ],
)
def test_where_secrets_may_go(address, keeps):
    assert ServerAddress.parse(address).keeps_secrets is keeps


def test_a_file_that_is_not_there(tmp_path):
    address = ServerAddress("h:1", is_tls=True, ca=str(tmp_path / "missing"))
    with pytest.raises(InvalidArgument, match=r"ca: .*missing"):
        address.read("ca")
