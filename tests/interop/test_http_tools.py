"""`curl` and `h2load`, which know HTTP/2 and nothing of gRPC."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from google.pubsub_v1 import PublishRequest

from acceptance.served import PATIENCE_S, Served, clean_environ
from interop.cases import tries
from interop.conftest import Certificates, Names
from interop.looks import backlog
from interop.rest_calls import ask, url

#: Requests that h2load sends in all, its connections, and streams of each at a time.
REQUESTS, CONNECTIONS, STREAMS = 2_000, 4, 16
PUBLISH = "/google.pubsub.v1.Publisher/Publish"
GRPC_HEADERS = ("-H", "content-type: application/grpc", "-H", "te: trailers")


def run(*command: str) -> str:
    result = subprocess.run(
        command, capture_output=True, text=True, env=clean_environ(), timeout=PATIENCE_S
    )
    assert result.returncode == 0, (result.stdout, result.stderr)
    return result.stdout


@pytest.fixture
def curl(tool: str, certificates: Certificates, transport: str) -> Callable[..., str]:
    """Runs curl; it gives an answer's head and body."""
    ca = certificates.trusted(transport)
    trust = ("--cacert", str(ca)) if ca else ()
    return lambda *arguments: run(tool, "-sS", "-i", "--max-time", "20", *trust, *arguments)


@pytest.fixture
def publish_body(tmp_path: Path, names: Names) -> Path:
    """A file with one message of gRPC that publishes one message."""
    request = PublishRequest(topic=names.topic, messages=[{"data": b"by a tool"}])
    content = PublishRequest.serialize(request)
    path = tmp_path / "publish"
    path.write_bytes(b"\0" + len(content).to_bytes(4) + content)
    return path


def make(server: Served, names: Names) -> None:
    ask(server, "PUT", f"/v1/{names.topic}", b"{}")
    body = json.dumps({"topic": names.topic}).encode()
    ask(server, "PUT", f"/v1/{names.subscription}", body)


@tries("REST with `--http2`", "curl")
def test_curl_asks_for_http2_and_gets_rest(curl, server: Served, names: Names):
    """Plain, it offers an upgrade, which is passed over; over TLS it takes HTTP/1.1 as well."""
    creation = ("-X", "PUT", "-H", "content-type: application/json", "-d", "{}")
    created = curl("--http2", *creation, url(server, f"/v1/{names.topic}"))
    assert created.startswith("HTTP/1.1 200 ")
    assert names.topic in created
    found = curl("--http2", url(server, f"/v1/{names.topic}"))
    assert found.startswith("HTTP/1.1 200 ")
    assert "upgrade" not in found.lower()


@tries("gRPC with `--http2-prior-knowledge`", "curl", transports=["plain"])
def test_curl_publishes_by_grpc(curl, server: Served, names: Names, publish_body: Path):
    make(server, names)
    called = curl(
        *("--http2-prior-knowledge", *GRPC_HEADERS, "--data-binary", f"@{publish_body}"),
        *("--output", str(publish_body.with_suffix(".answer")), "--dump-header", "-"),
        url(server, PUBLISH),
    )
    assert called.startswith("HTTP/2 200")
    assert re.search(r"^grpc-status: 0\r?$", called, re.MULTILINE), called
    assert backlog(server, names.subscription) == 1


@tries("REST with `--http2-prior-knowledge` is refused", "curl", transports=["plain"])
def test_curl_is_told_that_rest_is_http1(curl, server: Served):
    refused = curl("--http2-prior-knowledge", url(server, "/healthz"))
    assert refused.startswith("HTTP/2 415")
    assert "this port speaks gRPC over HTTP/2, and HTTP over HTTP/1.1" in refused
    # Another connection, of another kind, is served.
    assert curl(url(server, "/healthz")).startswith("HTTP/1.1 200 ")


@tries("unary calls under load", "h2load")
def test_h2load_publishes(tool, server: Served, names: Names, publish_body: Path):
    """A call that fails has a 2xx as well: the messages say that all were served."""
    make(server, names)
    said = run(
        *(tool, "-n", str(REQUESTS), "-c", str(CONNECTIONS), "-m", str(STREAMS)),
        *("--npn-list=h2", *GRPC_HEADERS, "-d", str(publish_body), url(server, PUBLISH)),
    )
    assert f"{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout" in said, said
    assert f"status codes: {REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx" in said, said
    assert f"Application protocol: {'h2' if server.is_tls else 'h2c'}\n" in said
    assert backlog(server, names.subscription) == REQUESTS
