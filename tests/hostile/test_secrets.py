"""Planted secrets: they are in no answer, no page, no log line, and in no output of a command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from acceptance.served import PATIENCE_S, clean_environ
from hostile.victim import Victim

SECRET = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA=="
OTHER = "whsec_b3RoZXItb3RoZXItb3RoZXItb3RoZXItb3RoZXItMTI="
#: Neither as they are given, nor as what they stand for.
TRACES = (
    *(SECRET[6:30], OTHER[6:30]),
    *("planted-planted", "other-other-other"),
    *(b"planted-planted".hex(), b"other-other-other".hex()),
)
TOPIC = "projects/p/topics/secretive"
NAME = "projects/p/subscriptions/hooked"
PUSH = {
    "pushEndpoint": "http://127.0.0.1:9/hook",
    "attributes": {"fanlog-webhook-secret": f"{SECRET} {OTHER}"},
    "oidcToken": {"serviceAccountEmail": "me@example.org"},
}


def http(victim: Victim, method: str, path: str, body: object = None) -> str:
    """All that an answer says, its headers too; a refusal is an answer."""
    request = urllib.request.Request(
        f"http://{victim.served.http}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as refusal:
        with refusal:
            return f"{refusal.headers}{refusal.read().decode()}"


def fanlog(*arguments: str) -> str:
    """What a command says, on both outputs."""
    done = subprocess.run(
        [sys.executable, "-m", "fanlog", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environ(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def keys_of(victim: Victim) -> list[str]:
    """Traces of the private key that signs tokens: lines of it, and as it is stored, in hex."""
    content = (Path(victim.served.data_dir) / "data.mdb").read_bytes()
    begin = b"-----BEGIN PRIVATE KEY-----".hex().encode()
    found: list[str] = []
    for stored in re.findall(begin + b"[0-9a-f]+", content):
        lines = bytes.fromhex(stored.decode()[: len(stored) // 2 * 2]).decode().splitlines()
        keys = [line for line in lines if len(line) > 40 and "-" not in line]
        found += [*keys, *(line.encode().hex() for line in keys)]
    return found


def published_keys(victim: Victim) -> str:
    """The key set as receivers see it; whoever asks has the key made, if there is none yet."""
    found = json.loads(http(victim, "GET", "/.well-known/openid-configuration").split("\n\n")[-1])
    return http(victim, "GET", "/" + found["jwks_uri"].split("/", 3)[3])


@pytest.fixture(scope="module")
def hooked(victim: Victim) -> Victim:
    published_keys(victim)
    assert "name" in http(victim, "PUT", f"/v1/{TOPIC}", {})
    body = {"topic": TOPIC, "pushConfig": PUSH}
    assert "hooked" in http(victim, "PUT", f"/v1/{NAME}", body)
    # It fails, and is tried again: that is told of.
    http(victim, "POST", f"/v1/{TOPIC}:publish", {"messages": [{"data": "eA=="}]})
    return victim


def check(victim: Victim, said: str) -> None:
    assert said
    for trace in (*TRACES, *keys_of(victim)):
        assert trace not in said, said


READS = [
    f"/v1/{NAME}",
    "/v1/projects/p/subscriptions",
    f"/v1/{TOPIC}/subscriptions",
    f"/v1/{NAME}:getIamPolicy",
    "/v1/subscriptions",
    "/v1/projects/p/jobs",
    "/metrics",
    "/readyz",
    "/healthz",
    "/openapi.json",
    "/.well-known/openid-configuration",
    "/v1/projects/p/nothing",
]


@pytest.mark.parametrize("path", READS)
def test_pages_and_answers(hooked: Victim, path: str) -> None:
    check(hooked, http(hooked, "GET", path))


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", f"/v1/{NAME}", {"topic": TOPIC, "pushConfig": PUSH}),
        ("PUT", f"/v1/{NAME}x", {"topic": "projects/p/topics/none", "pushConfig": PUSH}),
        ("PUT", f"/v1/{NAME}x", {"topic": TOPIC, "pushConfig": PUSH | {"noSuch": 1}}),
        ("PUT", f"/v1/{NAME}x", {"topic": TOPIC, "pushConfig": PUSH, "filter": "((("}),
        ("PUT", f"/v1/{NAME}x", {"topic": TOPIC, "pushConfig": PUSH | {"pushEndpoint": "x"}}),
        ("POST", f"/v1/{NAME}:modifyPushConfig", {"pushConfig": PUSH | {"pushEndpoint": "no"}}),
        (
            "PUT",
            f"/v1/{NAME}x",
            {
                "topic": TOPIC,
                "pushConfig": PUSH | {"attributes": {"fanlog-webhook-secret": SECRET + "!"}},
            },
        ),
        (
            "PATCH",
            f"/v1/{NAME}",
            {"subscription": {"pushConfig": PUSH}, "updateMask": "pushConfig,labels.x"},
        ),
    ],
)
def test_changes_and_refusals(hooked: Victim, method: str, path: str, body: object) -> None:
    check(hooked, http(hooked, method, path, body))


@pytest.mark.parametrize(
    "arguments",
    [
        ("sub", "describe", NAME),
        ("sub", "describe", NAME, "--json"),
        ("sub", "list", "--project", "p"),
    ],
)
def test_commands(hooked: Victim, arguments: tuple[str, ...]) -> None:
    check(hooked, fanlog(*arguments, "--endpoint", hooked.served.endpoint))


def test_the_key_that_is_published_is_the_public_one(hooked: Victim) -> None:
    assert keys_of(hooked), "there is a private key, or this test sees nothing"
    said = published_keys(hooked)
    check(hooked, said)
    [key] = json.loads(said.split("\n\n")[-1])["keys"]
    assert set(key).isdisjoint({"d", "p", "q", "dp", "dq", "qi"})


def test_the_log_and_what_doctor_says(hooked: Victim) -> None:
    """The last: it stops the server, and starts it with resources that differ."""
    served = hooked.served
    resources = served.data_dir.parent / "resources.json"
    other = PUSH | {"pushEndpoint": "http://127.0.0.1:9/other"}
    wanted = {
        "topics": {"secretive": {}},
        "subscriptions": {"hooked": {"topic": "secretive", "push_config": other}},
    }
    resources.write_text(json.dumps(wanted))
    served.stop()
    check(hooked, fanlog("doctor", "--data-dir", str(served.data_dir)))
    served.start(
        *("--push-allow", "127.0.0.0/8", "--project", "p", "--log-level", "debug"),
        *("--resources", str(resources)),
    )
    assert "http://127.0.0.1:9/other" in served.log_path.read_text()
    check(hooked, served.log_path.read_text())
