"""The head of a request."""

from __future__ import annotations

import pytest

from fanlog.model.endpoints import parse_web
from fanlog.push.rules.web_request import write_head


@pytest.mark.parametrize(
    ("url", "target", "host"),
    [
        ("http://a.org", "/", "a.org"),
        ("http://A.org:80/x/%C3%A9?b=c&d", "/x/%C3%A9?b=c&d", "a.org"),
        ("https://a.org:443/x", "/x", "a.org"),
        ("https://a.org:80/x?", "/x", "a.org:80"),
        ("http://a.org./?q", "/?q", "a.org"),
        ("http://[2001:db8::1]:8080/", "/", "[2001:db8::1]:8080"),
        ("http://127.0.0.1/", "/", "127.0.0.1"),
    ],
)
def test_the_request_line_and_the_host(url, target, host):
    head = write_head(parse_web(url), {"X-A": "b"}, 7)
    assert (
        head
        == (
            f"POST {target} HTTP/1.1\r\nHost: {host}\r\nX-A: b\r\nAccept: */*\r\n"
            "Content-Length: 7\r\n\r\n"
        ).encode()
    )


def test_an_accept_of_the_message_takes_the_place_of_ours():
    head = write_head(parse_web("http://a.org/"), {"accept": "text/plain"}, 0)
    assert head.lower().count(b"accept:") == 1


@pytest.mark.parametrize("evil", ["b\r\nHost: evil", "b\nX-B: c", "b\rc", "b\0c"])
@pytest.mark.parametrize("is_name", [True, False])
def test_no_header_has_the_end_of_a_line_in_it(evil, is_name):
    headers = {evil: "x"} if is_name else {"X-A": evil}
    with pytest.raises(ValueError, match="end of a line"):
        write_head(parse_web("http://a.org/"), headers, 0)
