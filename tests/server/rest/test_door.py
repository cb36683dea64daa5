"""A web page does not reach a server on loopback, whatever route it tries."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from server.conftest import PATIENCE_S, RunningServer, StartServer
from server.rest.http import Http
from server.unique import unique

EVIL = "https://evil.example"
APP = "https://app.example:3000"
PAGES = (
    "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/.well-known/jwks.json",
    "/.well-known/openid-configuration", "/v1/topics", "/v1/projects/test/topics", "/nowhere",
)  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def open_call(start_server: StartServer) -> Iterator[Http]:
    """A caller of a server that knows an application and a name."""
    server = start_server(
        engine="memory", cors_origins=(APP,), http_hosts=("fanlog.internal",), host="127.0.0.1"
    )
    speaker = Http(server)
    yield speaker
    speaker.close()


def reason(response: Any) -> str:
    return str(response.json()["error"]["details"][0]["reason"])


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_no_route_is_reached_by_another_name(call, method, path):
    response = call(method, path, headers={"Host": "evil.example"})
    assert response.status_code == 403
    if method != "HEAD":
        assert reason(response) == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("origin", [EVIL, "null"])
def test_no_route_is_reached_by_a_foreign_page(call, method, path, origin):
    response = call(method, path, headers={"Origin": origin})
    assert response.status_code == 403
    assert not [name for name in response.headers if name.lower().startswith("access-control-")]
    if method != "HEAD":
        assert reason(response) == "FOREIGN_ORIGIN"


def test_rebinding_lists_and_deletes_nothing(server, call):
    topic = server.topic()
    for method, path in (("GET", "/v1/projects/test/topics"), ("DELETE", f"/v1/{topic}")):
        sentence = call.refused(403, method, path, headers={"Host": "evil.example:8086"})
        assert "evil.example" in sentence
        assert "http_hosts" in sentence
    assert server.publisher.get_topic(topic=topic).name == topic


@pytest.mark.parametrize("verb", [":detach", ":modifyPushConfig", ":pull", "/pull"])
@pytest.mark.parametrize("origin", [EVIL, "null"])
def test_a_foreign_page_without_a_body_does_nothing(server, call, verb, origin):
    topic, name = server.topic_and_subscription()
    server.publish(topic, b"x")
    sentence = call.refused(403, "POST", f"/v1/{name}{verb}", headers={"Origin": origin})
    assert "cors_origins" in sentence
    assert not server.subscriber.get_subscription(subscription=name).detached
    assert len(server.pull(name)) == 1


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_an_empty_form_is_refused_as_a_full_one(server, call, method, media_type):
    topic, name = server.topic_and_subscription()
    path = {"POST": f"/v1/{name}:detach", "PUT": f"/v1/{topic}", "PATCH": f"/v1/{topic}"}[method]
    sentence = call.refused(415, method, path, headers={"content-type": media_type})
    assert "content-type" in sentence
    assert not server.subscriber.get_subscription(subscription=name).detached


def test_a_program_without_a_body_goes_on_working(server, call):
    _, name = server.topic_and_subscription()
    assert call("POST", f"/v1/{name}:detach").status_code == 200
    assert server.subscriber.get_subscription(subscription=name).detached


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "localhost.", "[::1]:8086", "127.1.2.3"]
)
def test_names_of_loopback(call, host):
    assert call("GET", "/healthz", headers={"Host": host}).status_code == 200


def test_its_own_pages_may(server, call):
    own = server.http("")
    name = unique("own")
    assert call("POST", "/v1/topics", {"name": name}, headers={"Origin": own}).status_code == 201
    assert call("GET", "/docs", headers={"Origin": own}).status_code == 200


def test_an_image_of_another_site_pulls_nothing(server, call):
    fetch = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert "Sec-Fetch-Site" in call.refused(403, "GET", "/v1/topics", headers=fetch)
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert "Sec-Fetch-Site" in call.refused(403, "GET", "/v1/topics", headers=link)
    assert call("GET", "/docs", headers=link).status_code == 200
    typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    assert call("GET", "/v1/topics", headers=typed).status_code == 200


def raw(server: RunningServer, request: bytes) -> bytes:
    host, port = server.http("").removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return connection.recv(65_536)


def test_hosts_that_are_odd(server):
    line = b"GET /v1/topics HTTP/1.1\r\n"
    assert b" 403 " in raw(server, line + b"Host: localhost\r\nHost: evil.example\r\n\r\n")
    assert b" 403 " in raw(server, line + b"Host:\r\n\r\n")
    assert b" 200 " in raw(server, b"GET /v1/topics HTTP/1.0\r\n\r\n")


def test_no_answer_lets_a_page_read_it_unless_configured(call):
    response = call("GET", "/v1/topics")
    assert not [name for name in response.headers if name.lower().startswith("access-control-")]


# Configured.


def test_a_preflight_of_an_origin_that_may(open_call):
    asked = {
        "Origin": APP,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,fanlog-reason",
        "Access-Control-Request-Private-Network": "true",
    }
    for path in PAGES:
        response = open_call("OPTIONS", path, headers=asked)
        assert (response.status_code, response.content) == (204, b"")
        said = response.headers
        assert said["access-control-allow-origin"] == APP
        assert "POST" in said["access-control-allow-methods"]
        assert said["access-control-allow-headers"] == "content-type,fanlog-reason"
        assert said["access-control-allow-private-network"] == "true"
        assert "origin" in said["vary"].lower()
        assert "access-control-allow-credentials" not in said


def test_a_preflight_of_another_origin(open_call):
    asked = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
    response = open_call("OPTIONS", "/v1/topics", headers=asked)
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


def test_an_origin_that_may_reads_answers_and_errors(open_call):
    name = unique("cors")
    response = open_call("POST", "/v1/topics", {"name": name}, headers={"Origin": APP})
    assert response.status_code == 201
    assert response.headers["access-control-allow-origin"] == APP
    assert response.headers["vary"].lower() == "origin"
    response = open_call("GET", "/v1/topics/none-such", headers={"Origin": APP})
    assert response.status_code == 404
    assert response.headers["access-control-allow-origin"] == APP
    assert (
        open_call("GET", "/metrics", headers={"Origin": APP}).headers["access-control-allow-origin"]
        == APP
    )
    # A cache must not give a program's answer to the page.
    response = open_call("GET", "/v1/topics")
    assert response.headers["vary"].lower() == "origin"
    assert "access-control-allow-origin" not in response.headers
    assert "cors_origins" in open_call.refused(403, "GET", "/v1/topics", headers={"Origin": EVIL})


def test_a_name_that_is_configured(open_call):
    assert open_call("GET", "/v1/topics", headers={"Host": "fanlog.internal:80"}).ok
    open_call.refused(403, "GET", "/v1/topics", headers={"Host": "evil.example"})


def test_an_address_others_reach_has_any_name(start_server):
    server = start_server(engine="memory", host="0.0.0.0", insecure=True)
    speaker = Http(server)
    assert speaker("GET", "/v1/topics", headers={"Host": "fanlog.example"}).ok
    for origin in (EVIL, "null"):
        headers = {"Host": "fanlog.example", "Origin": origin}
        speaker.refused(403, "POST", "/v1/topics", {"name": "abc"}, headers=headers)
    headers = {"Host": "fanlog.example", "Origin": "https://fanlog.example"}
    assert speaker("GET", "/v1/topics", headers=headers).ok
    speaker.close()
