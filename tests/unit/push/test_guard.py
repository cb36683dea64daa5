"""Which endpoints and addresses requests may go to."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from fanlog.errors import InvalidArgument
from fanlog.model import endpoints
from fanlog.push.rules.guard import Guard

SUBSCRIPTION = "projects/p/subscriptions/sub"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16",
        "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1", "203.0.113.9",
        "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1",
        "2002:7f00:1::", "2001::1", "2001:db8::1", "::127.0.0.1", "fec0::1",
    ],
)  # fmt: skip
def test_addresses_that_are_refused(address):
    assert not Guard().permits_text(address)


@pytest.mark.parametrize(
    "address",
    [
        "8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "168.63.129.17",
        "2606:4700::1111", "2a00:1450:4001::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
    ],
)  # fmt: skip
def test_addresses_that_are_fine(address):
    assert Guard().permits_text(address)


def test_an_allow_list_names_networks():
    guard = Guard([ip_network("127.0.0.0/8"), ip_network("fd00::/8")])
    for fine in ("127.0.0.1", "::ffff:127.0.0.1", "fd00::7", "8.8.8.8"):
        assert guard.permits(ip_address(fine))
    for refused in ("::1", "10.0.0.1", "169.254.169.254", "fe80::1"):
        assert not guard.permits(ip_address(refused))


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://example.com/hook?x=1", "example.com", 443),
        ("http://example.com", "example.com", 80),
        ("http://Example.COM:8080/", "example.com", 8080),
        ("http://[2606:4700::1111]:81/", "2606:4700::1111", 81),
        ("http://8.8.8.8/", "8.8.8.8", 80),
        ("http://my_service.internal./x", "my_service.internal.", 80),
    ],
)
def test_endpoints(url, host, port):
    found = endpoints.parse_web(url)
    assert (found.host, found.port, found.url) == (host, port, url)
    endpoints.check(url, SUBSCRIPTION)


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "ftp://example.com", "file:///etc/passwd", "gopher://x/", "http://",
        "http:///x", "http://user:secret@example.com/", "http://@example.com/",
        "http://example.com/#x", "http://exa mple.com/", "http://example.com/\r\nX: 1",
        "http://example.com\\@127.0.0.1/", "http://example.com:0/", "http://example.com:99999/",
        "http://2130706433/", "http://0x7f000001/", "http://0177.0.0.1/", "http://127.1/",
        "http://0x7f.0.0.1/", "http://127.0.0.01/", "http://1.2.3.4.5/", "http://[::1",
        "http://[fe80::1%25eth0]/", "http://[1.2.3.4]/", "http://-x.com/", "http://a..b/",
        "http://exämple.com/", "http://" + "a" * 3000, "http://a%2eb/", "javascript:alert(1)",
        "unix:/run/x.sock", "topic:", "topic:a b", "topic:projects/p/subscriptions/x",
    ],
)  # fmt: skip
def test_endpoints_that_are_refused(url):
    with pytest.raises(InvalidArgument):
        endpoints.check(url, SUBSCRIPTION)


def test_a_password_is_not_repeated():
    with pytest.raises(InvalidArgument) as refused:
        endpoints.parse_web("http://user:hunter2@example.com/")
    assert "hunter2" not in refused.value.message


def test_grpc_has_a_port_and_nothing_else():
    for url in ("grpc://example.com:50051", "grpcs://[2001:4860::1]:443/"):
        endpoints.check(url, SUBSCRIPTION)
        assert endpoints.is_grpc(url)
    for url in ("grpc://example.com", "grpcs://example.com/", "grpc://a.b:1/x", "grpc://a.b:1?"):
        with pytest.raises(InvalidArgument, match="port"):
            endpoints.check(url, SUBSCRIPTION)
    assert not endpoints.is_grpc("https://example.com")


def test_topics():
    assert endpoints.forward_topic("https://x/", SUBSCRIPTION) is None
    assert endpoints.forward_topic("topic:orders", SUBSCRIPTION) == "projects/p/topics/orders"
    full = "projects/other/topics/orders"
    assert endpoints.forward_topic(f"topic:{full}", SUBSCRIPTION) == full
    endpoints.check("topic:orders", SUBSCRIPTION)
