"""Planted credentials: what a server writes, answers and counts has no byte of them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.oauth2 import service_account

from acceptance.served import PATIENCE_S, Served
from fanlog.client.credentials import _KeyFile, _Watched

PAYLOAD = "planted-payload-planted"
WEBHOOK = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA=="
#: Nobody's, and of every kind.
WRONG = (
    "flt_planted-wrong-token-of-nobody",
    "fla_planted-wrong-access-token.of-nobody",
    "eyJhbGciOiJub25lIn0.eyJpc3MiOiJwbGFudGVkIn0.cGxhbnRlZA",
    "planted-rubbish",
)
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
NAME = "projects/p/topics/planted"


class Planted:
    """A server that asks who calls and writes everything down, and the secrets it was shown."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.served = Served(folder / "data", folder / "server.log")
        self.served.token_file = folder / "data" / "auth" / "admin.token"
        self.secrets: list[str] = [PAYLOAD, WEBHOOK[6:30], *WRONG]
        #: All that was answered.
        self.said: list[str] = []

    def http(self, method: str, path: str, body: bytes | None = None, **headers: str) -> str:
        request = urllib.request.Request(
            f"http://{self.served.http}{path}", data=body, headers=headers, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                text = f"{answer.headers}{answer.read().decode()}"
        except urllib.error.HTTPError as refusal:
            with refusal:
                text = f"{refusal.headers}{refusal.read().decode()}"
        self.said.append(text)
        return text

    def call(self, method: str, path: str, token: str, body: object = None) -> str:
        content = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return self.http(method, path, content, **headers)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    found = Planted(tmp_path_factory.mktemp("planted"))
    audit = found.folder / "audit.log"
    try:
        found.served.start(
            *("--auth", "required", "--audit-log", str(audit), "--audit-data-access"),
            *("--log-level", "debug", "--push-allow", "127.0.0.0/8", "--project", "p"),
        )
        _use(found)
        found.served.stop()
        yield found
    finally:
        found.served.close()


def _for_exchange(key_path: Path) -> str:
    """What Google's library posts to a `token_uri`."""
    scopes = ["https://www.googleapis.com/auth/pubsub"]
    found = service_account.Credentials.from_service_account_file(key_path, scopes=scopes)
    made = found._make_authorization_grant_assertion()
    return made.decode() if isinstance(made, bytes) else str(made)


def _use(found: Planted) -> None:
    """Show the server every kind of secret, good ones and bad ones."""
    served, folder = found.served, found.folder
    assert served.token_file is not None
    admin = served.token_file.read_text().strip()
    key_path = folder / "key.json"
    found.said.append(
        served.run("auth", "service-account", "create", "ci", "--key", key_path).stdout
    )
    token = served.run("auth", "token", "create", "ci").stdout.strip()
    private = json.loads(key_path.read_text())["private_key"].splitlines()[1]
    found.secrets += [admin, token, private]
    # What is signed with the key, and what that is exchanged for.
    signed = _KeyFile(_Watched("credentials", str(key_path)), time.time).authorization()
    assertion = signed.removeprefix("Bearer ")
    found.secrets.append(assertion.rpartition(".")[2])
    found.call("GET", "/v1/projects/p/topics", assertion)
    # Failures are slowed down: few of each are enough.
    exchanged = _for_exchange(key_path)
    found.secrets.append(exchanged.rpartition(".")[2])
    for text in (exchanged, WRONG[1]):
        form = urllib.parse.urlencode({"grant_type": GRANT, "assertion": text}).encode()
        kind = "application/x-www-form-urlencoded"
        found.http("POST", "/oauth2/token", form, **{"content-type": kind})
    for text in WRONG:
        found.call("GET", "/v1/projects/p/topics", text)
    # Requests with payloads and webhook secrets, let in and refused.
    push = {
        "pushEndpoint": "http://127.0.0.1:9/hook",
        "attributes": {"fanlog-webhook-secret": WEBHOOK},
    }
    hook = "projects/p/subscriptions/planted"
    message = {"messages": [{"data": "cGxhbnRlZC1wYXlsb2FkLXBsYW50ZWQ="}]}
    found.secrets.append(message["messages"][0]["data"])
    for shown in (admin, token, WRONG[0]):
        found.call("PUT", f"/v1/{NAME}", shown, {})
        found.call("PUT", f"/v1/{hook}", shown, {"topic": NAME, "pushConfig": push})
        found.call("POST", f"/v1/{NAME}:publish", shown, message)
        found.call("POST", f"/v1/{NAME}x:publish", shown, message)
    for path in (f"/v1/{NAME}", f"/v1/{hook}", f"/v1/{hook}:getIamPolicy", "/metrics", "/readyz"):
        found.call("GET", path, admin)
    for words in (
        *(("auth", "service-account", "describe", "ci"), ("auth", "service-account", "list")),
        *(("auth", "token", "list", "ci"), ("auth", "key", "list", "ci"), ("auth", "whoami")),
        *(("auth", "policy", "get", "server"), ("sub", "describe", hook)),
    ):
        done = served.run(*words)
        found.said.append(done.stdout + done.stderr)


def check(planted: Planted, text: str) -> None:
    for secret in planted.secrets:
        assert secret not in text, secret


def test_enough_was_planted(planted: Planted):
    assert len(set(planted.secrets)) >= 11
    assert all(len(secret) >= 10 for secret in planted.secrets)


def test_answers_errors_metrics_and_commands(planted: Planted):
    assert any("fanlog_authentication_failures_total" in text for text in planted.said)
    assert any("UNAUTHENTICATED" in text for text in planted.said)
    assert any("PERMISSION_DENIED" in text for text in planted.said)
    granted = [text for text in planted.said if "access_token" in text]
    assert len(granted) == 1
    for text in planted.said:
        if text not in granted:
            check(planted, text)
    # What was granted is shown to its owner once, and to nobody else.
    secret = json.loads(granted[0].split("\n\n")[-1])["access_token"]
    for text in (planted.served.log_path.read_text(), *planted.said):
        assert text in granted or secret not in text


def test_the_log(planted: Planted):
    text = planted.served.log_path.read_text()
    assert "action=authentication_failed" in text
    check(planted, text)


def test_the_audit_log(planted: Planted):
    text = (planted.folder / "audit.log").read_text()
    results = {json.loads(line)["result"] for line in text.splitlines()}
    assert results >= {"OK", "PERMISSION_DENIED", "UNAUTHENTICATED"}
    assert "Publish" in text
    check(planted, text)


def test_the_data_folder_has_hashes_alone(planted: Planted):
    """Messages and webhook secrets are there, of course: they are what is kept."""
    content = (planted.served.data_dir / "data.mdb").read_bytes()
    kept = {PAYLOAD, WEBHOOK[6:30]}
    shown = planted.secrets[len(WRONG) + 2 :]
    for secret in {*WRONG, *shown[:3]} - kept:
        assert secret.encode() not in content, secret
