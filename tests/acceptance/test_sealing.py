"""Secrets at rest: planted by callers, sealed by a start with a key, in no byte of the folder then.

A receiver of webhooks tells whether the server still knows them.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from acceptance.served import FANLOG, PATIENCE_S, PORTS, Served, clean_environ
from fanlog.core import records as codec
from fanlog.core.records import SecretRecord, SubscriptionRecord
from fanlog.log.api import Commit
from fanlog.log.embedded import EmbeddedLog
from fanlog.push.senders.tokens import FORMER_NAME
from server.receiver import Received, Receiver, receiving

FORMER = "whsec_Zm9ybWVyLWZvcm1lci1mb3JtZXItZm9ybWVyLWZvcm1lcg=="
SECRET = "whsec_cGxhbnRlZC1wbGFudGVkLXBsYW50ZWQtcGxhbnRlZA=="
COUNT = 12
TOPIC = "projects/fanlog/topics/hooked"
ALLOW = ("--push-allow", "127.0.0.0/8")


def call(served: Served, method: str, path: str, body: object = None) -> Any:
    request = urllib.request.Request(
        f"http://{served.http}{path}",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def name_of(number: int) -> str:
    return f"projects/fanlog/subscriptions/hook-{number}"


class Planted:
    """A server with secrets of every kind, and the receiver of its webhooks."""

    def __init__(self, served: Served, receiver: Receiver, folder: Path) -> None:
        self.served = served
        self.receiver = receiver
        self.folder = folder
        self.data_dir = served.data_dir

    def plant(self) -> None:
        """As callers do, with secrets that are replaced later; and the key of OIDC tokens."""
        call(self.served, "PUT", f"/v1/{TOPIC}", {})
        for number in range(COUNT):
            push = {
                "pushEndpoint": self.receiver.url(f"/{number}"),
                "attributes": {"fanlog-webhook-secret": FORMER},
                "oidcToken": {"serviceAccountEmail": "me@example.org"},
            }
            # Records of several sizes: small ones share a page, large ones have one of their own.
            labels = {f"l{label}": "x" * 60 for label in range(5 * number)}
            body = {"topic": TOPIC, "pushConfig": push, "labels": labels}
            call(self.served, "PUT", f"/v1/{name_of(number)}", body)
        for number in range(COUNT):
            push = {
                "pushEndpoint": self.receiver.url(f"/{number}"),
                "attributes": {"fanlog-webhook-secret": SECRET},
                "oidcToken": {"serviceAccountEmail": "me@example.org"},
            }
            path = f"/v1/{name_of(number)}:modifyPushConfig"
            call(self.served, "POST", path, {"pushConfig": push})

    def start(self, *flags: str) -> str:
        return self.served.start(*ALLOW, *flags)

    def refused(self, *flags: str, leaves_all: bool = True) -> str:
        """The sentence of a server that does not start; the folder is as it was."""
        before = (self.data_dir / "data.mdb").read_bytes()
        done = subprocess.run(
            [*FANLOG, "serve", *PORTS, "--data-dir", str(self.data_dir), *flags],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=clean_environ(),
            check=False,
        )
        assert done.returncode == 1, done.stdout
        assert "Traceback" not in done.stderr
        assert ((self.data_dir / "data.mdb").read_bytes() == before) is leaves_all
        return done.stderr

    def new_key(self, name: str) -> tuple[Path, str]:
        """The file of a new key, and the key's id."""
        path = self.folder / name
        [made] = self.served.lines("auth", "seal-key", "create", path)
        return path, made["seal_key"]

    def serves_as_before(self) -> str:
        """Signs webhooks with the secret that was planted last; the id of the key of its tokens."""
        self.receiver.received.clear()
        message = {"messages": [{"data": base64.b64encode(b"x").decode()}]}
        call(self.served, "POST", f"/v1/{TOPIC}:publish", message)
        self.receiver.wait_until(lambda got: len({one.path for one in got}) == COUNT)
        for got in list(self.receiver.received):
            Webhook(SECRET).verify(got.body, {k.lower(): v for k, v in got.headers.items()})
        kids = {_kid(got) for got in self.receiver.received}
        [key] = call(self.served, "GET", "/.well-known/jwks.json")["keys"]
        assert kids == {key["kid"]}
        return str(key["kid"])

    def own_secrets(self) -> list[str]:
        """The texts of the server's own secrets, as they are stored."""
        store = EmbeddedLog(self.data_dir)
        found = [codec.decode(*entry) for entry in store.state() if entry[0][:1] == b"s"]
        store.close()
        return [one.secret.text for one in found if isinstance(one, SecretRecord) and one.secret]

    def traces(self) -> list[bytes]:
        """Parts of all secrets, as they are given, stored and meant; before they are sealed."""
        own = self.own_secrets()
        assert len(own) == 3
        texts = [FORMER[6:30], SECRET[6:30], "planted-planted", "former-former", "PRIVATE KEY"]
        # A key in PEM begins like every other.
        stored = [text[120:160] if len(text) > 200 else text[:40] for text in own]
        pieces = [bytes.fromhex(text) for text in stored]
        return [*(text.encode() for text in (*texts, *stored)), *pieces]


def _kid(got: Received) -> str:
    head = got.headers["Authorization"].removeprefix("Bearer ").split(".")[0]
    return str(json.loads(base64.urlsafe_b64decode(head + "=="))["kid"])


def found_in(folder: Path, traces: list[bytes]) -> set[bytes]:
    """The traces that are in a file of a folder."""
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert contents
    return {trace for trace in traces if any(trace in content for content in contents)}


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Planted]:
    served = Served(tmp_path / "data", tmp_path / "server.log")
    with receiving() as receiver:
        try:
            found = Planted(served, receiver, tmp_path)
            found.start()
            found.plant()
            yield found
        finally:
            served.close()


def test_a_start_with_a_key_seals_and_a_compacted_folder_has_no_secret(planted: Planted):
    served, data_dir = planted.served, planted.data_dir
    kid = planted.serves_as_before()
    served.stop()
    traces = planted.traces()
    assert len(found_in(data_dir, traces)) >= 4, "they are plain, or this sees nothing"
    key, key_id = planted.new_key("seal.key")
    assert "secrets: sealed" in planted.start("--seal-key-file", str(key))
    assert planted.serves_as_before() == kid
    # A copy of the running server has them no more.
    backup = planted.folder / "backup"
    served.run("backup", backup, "--data-dir", data_dir)
    assert found_in(backup, traces) == set()
    served.stop()
    assert f"action=secrets_sealed records={COUNT + 3} seal_key={key_id}" in (
        served.log_path.read_text()
    )
    served.run("compact", "--data-dir", data_dir)
    assert found_in(data_dir, traces) == set()
    assert "no damage found" in served.run("doctor", "--data-dir", data_dir).stdout
    planted.start("--seal-key-file", str(key))
    assert planted.serves_as_before() == kid
    served.stop()
    # Sealed once: later starts have nothing to seal.
    said = served.log_path.read_text()
    assert said.count("action=secrets_sealed") == 1
    assert found_in(data_dir, traces) == set()
    for secret in (key.read_text().strip()[5:], SECRET[6:30], FORMER[6:30]):
        assert secret not in said

    # What was restored, and what was salvaged, opens with the same key.
    for name, command in (("restored", ["restore", backup]), ("saved", ["doctor"])):
        place = planted.folder / name
        flags = ["--data-dir", place] if name == "restored" else ["--data-dir", data_dir]
        served.run(*command, *flags, *(["--salvage", place] if name == "saved" else []))
        other = Planted(Served(place, served.log_path), planted.receiver, planted.folder)
        try:
            other.start("--seal-key-file", str(key))
            assert other.serves_as_before() == kid
        finally:
            other.served.close()
        assert found_in(place, traces) == set()


def test_a_server_with_a_key_from_its_first_start_never_writes_a_secret(tmp_path: Path):
    """Not even to pages that are free by now: nothing is compacted here."""
    served = Served(tmp_path / "data", tmp_path / "server.log")
    with receiving() as receiver:
        try:
            found = Planted(served, receiver, tmp_path)
            key, _ = found.new_key("seal.key")
            found.start("--seal-key-file", str(key))
            found.plant()
            found.serves_as_before()
            served.stop()
        finally:
            served.close()
        sealed = found.own_secrets()
        assert len(sealed) == 3
        assert all(text.startswith("sealed:") for text in sealed)
        begin = b"-----BEGIN PRIVATE KEY-----"
        words = (FORMER[6:30].encode(), SECRET[6:30].encode(), begin, begin.hex().encode())
        assert found_in(tmp_path / "data", list(words)) == set()


def test_a_missing_and_a_wrong_key_are_refused(planted: Planted):
    served = planted.served
    served.stop()
    (key, key_id), (wrong, wrong_id) = planted.new_key("seal.key"), planted.new_key("wrong.key")
    planted.start("--seal-key-file", str(key))
    served.stop()
    for said in (planted.refused(), planted.refused("--seal-key-file", str(wrong))):
        assert f"sealed with the seal key {key_id}" in said
        assert "--seal-key-file" in said
        assert key.read_text().strip()[5:] not in said
    assert wrong_id in said
    assert "cannot be read" in planted.refused("--seal-key-file", str(planted.folder / "none"))
    # Keys of the environment open, too, and are not handed on.
    environ = {"FANLOG_SEAL_KEY": key.read_text().strip()}
    other = Served(planted.data_dir, served.log_path, environ=environ)
    try:
        other.start(*ALLOW)
        Planted(other, planted.receiver, planted.folder).serves_as_before()
    finally:
        other.close()


def test_rotation_by_a_command_and_by_several_keys(planted: Planted):
    served = planted.served
    planted.serves_as_before()
    served.stop()
    old, old_id = planted.new_key("old.key")
    new, new_id = planted.new_key("new.key")
    last, last_id = planted.new_key("last.key")
    planted.start("--seal-key-file", str(old))
    served.stop()

    rotate = ["auth", "seal-key", "rotate", "--data-dir", planted.data_dir, "--old", old]
    [done] = served.lines(*rotate, "--new", new)
    assert done["records"] == COUNT + 3
    assert new_id in planted.refused("--seal-key-file", str(old))
    planted.start("--seal-key-file", str(new))
    planted.serves_as_before()
    served.stop()

    # Or with a start: the first of several seals, all open.
    both = planted.folder / "both.key"
    both.touch(0o600)
    both.write_text(last.read_text() + new.read_text())
    planted.start("--seal-key-file", str(both))
    planted.serves_as_before()
    served.stop()
    assert last_id in planted.refused("--seal-key-file", str(new))
    planted.start("--seal-key-file", str(last))
    planted.serves_as_before()
    served.stop()
    assert old_id not in {new_id, last_id}

    remove = ["auth", "seal-key", "remove", "--data-dir", planted.data_dir, "--old", last]
    assert served.lines(*remove)[0]["records"] == COUNT + 3
    assert "secrets: sealed" not in planted.start()
    planted.serves_as_before()


def test_a_sealed_secret_that_was_moved_is_noticed(planted: Planted):
    planted.served.stop()
    key, _ = planted.new_key("seal.key")
    planted.start("--seal-key-file", str(key))
    planted.served.stop()
    store = EmbeddedLog(planted.data_dir)
    stored = {k: codec.decode(k, v) for k, v in store.state() if k[:1] == b"S"}
    [one, other] = [
        found
        for found in stored.values()
        if isinstance(found, SubscriptionRecord)
        and found.subscription is not None
        and found.subscription.name in (name_of(1), name_of(2))
    ]
    texts = [re.findall(rb"sealed:[^\"]+", found.value() or b"")[0] for found in (one, other)]
    moved = (one.value() or b"").replace(*texts)
    store.commit(
        Commit(
            sequence=store.last_sequence + 1,
            publish_time_ns=store.last_publish_time_ns,
            state={one.key(): moved},
        )
    )
    store.close()
    said = planted.refused("--seal-key-file", str(key))
    assert f"state record {one.key().hex()}" in said
    assert "moved here from another place" in said


def test_a_lost_key_costs_the_secrets_alone(planted: Planted):
    served = planted.served
    planted.serves_as_before()
    served.stop()
    key, _ = planted.new_key("seal.key")
    planted.start("--seal-key-file", str(key))
    served.stop()
    key.unlink()
    [done] = served.lines("auth", "seal-key", "give-up", "--data-dir", planted.data_dir, "--yes")
    assert sorted(done["subscriptions"]) == sorted(map(name_of, range(COUNT)))
    planted.start()
    assert "hook-1" in call(served, "GET", f"/v1/{name_of(1)}")["name"]
    # Push goes on when the secrets are set again.
    for number in range(COUNT):
        push = {
            "pushEndpoint": planted.receiver.url(f"/{number}"),
            "attributes": {"fanlog-webhook-secret": SECRET},
            "oidcToken": {"serviceAccountEmail": "me@example.org"},
        }
        call(served, "POST", f"/v1/{name_of(number)}:modifyPushConfig", {"pushConfig": push})
    planted.serves_as_before()


def test_the_key_of_tokens_that_an_earlier_build_kept_in_a_file(planted: Planted):
    """It becomes hard state at the next start, and the file goes."""
    kid = planted.serves_as_before()
    planted.served.stop()
    [pem] = [bytes.fromhex(text) for text in planted.own_secrets() if len(text) > 200]
    fresh = planted.folder / "fresh"
    fresh.mkdir(0o700)
    (fresh / FORMER_NAME).write_bytes(pem)
    served = Served(fresh, planted.served.log_path)
    try:
        served.start()
        assert not (fresh / FORMER_NAME).exists()
        [key] = call(served, "GET", "/.well-known/jwks.json")["keys"]
        assert key["kid"] == kid
        served.stop()
        # Left by a crash between the two.
        (fresh / FORMER_NAME).write_bytes(pem)
        served.start()
        assert not (fresh / FORMER_NAME).exists()
        served.stop()
    finally:
        served.close()
    (fresh / FORMER_NAME).write_bytes(b"nothing")
    shutil.rmtree(planted.data_dir)
    fresh.rename(planted.data_dir)
    # Its start is counted by then.
    assert FORMER_NAME in planted.refused(leaves_all=False)
