"""Which web pages may reach the HTTP port: the rule, without a server."""

from __future__ import annotations

import pytest

from fanlog.errors import ForeignOrigin, HostNotAllowed
from fanlog.model.origins import Doorkeeper, Visit, is_loopback, parse_host, parse_origin

LOOPBACK = Doorkeeper(on_loopback=True)
EVERYWHERE = Doorkeeper(on_loopback=False)
OPEN = Doorkeeper(
    on_loopback=True,
    hosts=frozenset({"fanlog.internal"}),
    origins=frozenset({"https://app.example"}),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", ("localhost", None)),
        ("LocalHost:8086", ("localhost", 8086)),
        ("localhost.", ("localhost", None)),
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("[::1]:8086", ("::1", 8086)),
        ("[0:0:0:0:0:0:0:1]", ("::1", None)),
        ("[fe80::1%eth0]:1", ("fe80::1", 1)),
    ],
)
def test_hosts(text, expected):
    assert parse_host(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":80", "::1", "[::1", "a b", "a/b", "user@host", "host:99999", "host:x", "[evil]", "a..b",
     "localhost..", "localhost,evil.example", "h\u00f6st"],
)  # fmt: skip
def test_what_is_no_host(text):
    with pytest.raises(ValueError):
        parse_host(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://App.Example:443", "https://app.example"),
        ("http://app.example:3000", "http://app.example:3000"),
        ("http://[::1]:80", "http://[::1]"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
    ],
)
def test_origins(text, expected):
    assert parse_origin(text) == expected


@pytest.mark.parametrize(
    "text", ["null", "*", "", "app.example", "https://app.example/", "https://*.example"]
)
def test_what_is_no_origin(text):
    with pytest.raises(ValueError):
        parse_origin(text)


@pytest.mark.parametrize("name", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_names_of_loopback(name):
    assert is_loopback(name)


def test_an_address_of_ipv4_in_ipv6():
    assert is_loopback(parse_host("[::ffff:127.0.0.1]")[0])


@pytest.mark.parametrize(
    "name",
    ["evil.example", "localhost.evil.example", "notlocalhost", "10.0.0.1", "127.0.0.1.nip.io"],
)
def test_other_names(name):
    assert not is_loopback(name)
    with pytest.raises(HostNotAllowed, match="http_hosts"):
        LOOPBACK.admit(Visit(host=name))
    # On other addresses others give the names.
    assert EVERYWHERE.admit(Visit(host=name)) is None


def test_a_host_that_is_named():
    assert OPEN.admit(Visit(host="Fanlog.Internal.:8086")) is None
    with pytest.raises(HostNotAllowed):
        OPEN.admit(Visit(host="other.internal"))


def test_names_that_are_given_hold_on_every_address():
    keeper = Doorkeeper(on_loopback=False, hosts=frozenset({"fanlog.internal"}))
    assert keeper.admit(Visit(host="fanlog.internal")) is None
    assert keeper.admit(Visit(host="127.0.0.1:8086")) is None
    with pytest.raises(HostNotAllowed):
        keeper.admit(Visit(host="evil.example"))


def test_a_program_that_says_no_host():
    assert LOOPBACK.admit(Visit()) is None
    with pytest.raises(HostNotAllowed):
        LOOPBACK.admit(Visit(host=""))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8086", "http://localhost:8086"),
        ("LOCALHOST:8086", "http://localhost:8086"),
        ("[::1]:8086", "http://[::1]:8086"),
        ("localhost", "http://localhost"),
        ("localhost", "https://localhost"),
        ("localhost:80", "http://localhost"),
    ],
)
def test_its_own_pages(host, origin):
    assert LOOPBACK.admit(Visit(host=host, origin=origin)) is None


@pytest.mark.parametrize("keeper", [LOOPBACK, EVERYWHERE, OPEN])
@pytest.mark.parametrize(
    "origin",
    ["null", "", "https://evil.example", "http://localhost:3000", "http://localhost",
     "http://127.0.0.1:8086", "https://app.example.evil.example", "ftp://localhost:8086"],
)  # fmt: skip
def test_foreign_pages(keeper, origin):
    with pytest.raises(ForeignOrigin, match="cors_origins"):
        keeper.admit(Visit(host="localhost:8086", origin=origin))


def test_a_page_that_may():
    origin = "https://app.example"
    assert OPEN.admit(Visit(host="localhost:8086", origin=origin)) == origin
    # A name that points here makes it no page of ours.
    with pytest.raises(HostNotAllowed):
        OPEN.admit(Visit(host="evil.example", origin=origin))


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_request_without_origin_of_another_site(site):
    with pytest.raises(ForeignOrigin, match=site):
        LOOPBACK.admit(Visit(host="localhost", site=site))
    assert LOOPBACK.admit(Visit(host="localhost", site=site, is_look=True)) is None


@pytest.mark.parametrize("site", [None, "same-origin", "none"])
def test_a_request_of_nobody_else(site):
    assert LOOPBACK.admit(Visit(host="localhost", site=site)) is None
