"""`fanlog auth` against a server of a few lines."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from google.oauth2 import service_account

from auth_server import SERVER_ID, AuthServer, serving

EMAIL = f"ci@{SERVER_ID}.fanlog.internal"


@pytest.fixture
def auth_server() -> Iterator[AuthServer]:
    with serving() as server:
        yield server


@pytest.fixture
def shell(auth_server, new_shell, monkeypatch):
    # The command line leaves some of them behind.
    for name in ("FANLOG_TOKEN", "FANLOG_TOKEN_FILE", "FANLOG_CREDENTIALS"):
        monkeypatch.setenv(name, "")
    return new_shell({"PUBSUB_EMULATOR_HOST": auth_server.endpoint, "FANLOG_PROJECT": "shop"})


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestAccounts:
    def test_create_list_describe_delete(self, shell, auth_server):
        output = shell.run("auth", "service-account", "create", "ci")
        assert output == f"created service account {EMAIL}\n"
        shell.run("auth", "service-account", "create", "web")
        listed = shell.lines("auth", "service-account", "list")
        assert [one["name"] for one in listed] == ["ci", "web"]
        assert EMAIL in shell.run("auth", "service-account", "list")
        assert EMAIL in shell.run("auth", "service-account", "describe", "ci")
        shell.run("auth", "service-account", "delete", "ci")
        assert list(auth_server.accounts) == ["web"]

    def test_refusals(self, shell, auth_server):
        shell.run("auth", "service-account", "create", "ci")
        refusal = shell.refusal("auth", "service-account", "create", "ci")
        assert "exists already" in refusal
        assert "does not exist" in shell.refusal("auth", "service-account", "describe", "web")
        calls = len(auth_server.callers)
        assert "'Ci'" in shell.refusal("auth", "service-account", "create", "Ci")
        refusal = shell.refusal("auth", "service-account", "create", "web", "--expires", "1d")
        assert "give --key" in refusal
        assert len(auth_server.callers) == calls


class TestKeys:
    def test_an_account_with_a_key_that_googles_library_takes(self, shell, auth_server, tmp_path):
        path = tmp_path / "key.json"
        output = shell.run("auth", "service-account", "create", "ci", "--key", str(path))
        assert output == f"created service account {EMAIL}; its key is in {path}\n"
        assert mode(path) == 0o600
        found = service_account.Credentials.from_service_account_file(str(path))
        assert (found.service_account_email, found.project_id) == (EMAIL, "shop")
        assert found._token_uri == f"http://{auth_server.endpoint}/oauth2/token"
        [key] = auth_server.accounts["ci"].keys
        assert key.id == found.signer.key_id
        assert "PUBLIC KEY" in key.public_key
        assert not key.HasField("expire_time")

    def test_rotation(self, shell, auth_server, tmp_path):
        shell.run("auth", "service-account", "create", "ci", "--key", str(tmp_path / "old.json"))
        [key] = shell.lines(
            *("auth", "key", "create", "ci", "--key", str(tmp_path / "new.json")),
            *("--expires", "90d"),
        )
        listed = shell.lines("auth", "key", "list", "ci")
        assert len(listed) == 2
        assert listed[1] == key
        left = datetime.fromisoformat(key["expire_time"]) - datetime.now(UTC)
        assert 89 <= left.days <= 90
        assert "public_key" not in key
        shell.run("auth", "key", "revoke", "ci", listed[0]["id"])
        assert [one.id for one in auth_server.accounts["ci"].keys] == [key["id"]]
        assert key["id"] in shell.run("auth", "key", "list", "ci")

    def test_a_file_that_is_there_stays(self, shell, auth_server, tmp_path):
        path = tmp_path / "key.json"
        path.write_text("mine")
        for command in (("service-account", "create"), ("key", "create")):
            refusal = shell.refusal("auth", *command, "ci", "--key", str(path))
            assert "is there already and is not overwritten" in refusal
        assert path.read_text() == "mine"
        assert auth_server.accounts == {}
        missing = str(tmp_path / "none" / "key.json")
        refusal = shell.refusal("auth", "key", "create", "ci", "--key", missing)
        assert "No such file or directory" in refusal

    def test_a_refusal_leaves_nothing_behind(self, shell, auth_server, tmp_path):
        path = tmp_path / "key.json"
        refusal = shell.refusal("auth", "key", "create", "ci", "--key", str(path))
        assert "does not exist" in refusal
        auth_server.refusals["AddKey"] = [grpc.StatusCode.PERMISSION_DENIED]
        refusal = shell.refusal("auth", "service-account", "create", "ci", "--key", str(path))
        assert refusal.startswith("fanlog: refused; ")
        assert not path.exists()
        assert auth_server.accounts == {}

    @pytest.mark.parametrize("text", ["0", "soon", "999999999d", "9999999d"])
    def test_bad_ends(self, shell, text, tmp_path):
        path = str(tmp_path / "key.json")
        assert "--expires" in shell.refusal(
            "auth", "key", "create", "ci", "--key", path, "--expires", text
        )


class TestTokens:
    def test_shown_once(self, shell, auth_server):
        assert shell.run("auth", "token", "create", "ci") == "flt_secret0\n"
        assert shell.stderr == f"token token1 of {EMAIL}; it is not shown again\n"
        [made] = shell.lines("auth", "token", "create", "ci", "--expires", "1h")
        assert (made["token"], made["id"], made["account"]) == ("flt_secret1", "token2", EMAIL)
        listed = shell.lines("auth", "token", "list", "ci")
        assert [one["id"] for one in listed] == ["token1", "token2"]
        shell.run("auth", "token", "revoke", "ci", "token1")
        assert [one.id for one in auth_server.accounts["ci"].tokens] == ["token2"]
        assert "not of ci" in shell.refusal("auth", "token", "revoke", "ci", "token1")

    def test_to_a_file(self, shell, auth_server, tmp_path):
        path = tmp_path / "token"
        output = shell.run("auth", "token", "create", "ci", "--output", str(path))
        assert output == f"created token token1 of {EMAIL} in {path}\n"
        assert path.read_text() == "flt_secret0\n"
        assert mode(path) == 0o600
        [told] = shell.lines("auth", "token", "create", "ci", "--output", f"{path}.2")
        assert "token" not in told
        refusal = shell.refusal("auth", "token", "create", "ci", "--output", str(path))
        assert "is there already" in refusal
        assert len(auth_server.made_tokens) == 2
        auth_server.refusals["CreateToken"] = [grpc.StatusCode.INTERNAL]
        shell.refusal("auth", "token", "create", "ci", "--output", f"{path}.3")
        assert not Path(f"{path}.3").exists()

    def test_a_token_that_cannot_be_kept_is_revoked(
        self, shell, auth_server, tmp_path, monkeypatch
    ):
        def fail(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", fail)
        path = tmp_path / "token"
        refusal = shell.refusal("auth", "token", "create", "ci", "--output", str(path))
        assert "No space left" in refusal
        assert not path.exists()
        assert list(auth_server.accounts["ci"].tokens) == []


class TestPolicies:
    @pytest.mark.parametrize(
        ("given", "name"),
        [
            ("server", "server"),
            ("projects/p", "projects/p"),
            ("topics/orders", "projects/shop/topics/orders"),
            ("projects/p/subscriptions/mine", "projects/p/subscriptions/mine"),
            ("snapshots/before", "projects/shop/snapshots/before"),
            ("schemas/order", "projects/shop/schemas/order"),
        ],
    )
    def test_add_and_remove(self, shell, auth_server, given, name):
        role = "roles/pubsub.publisher"
        shell.run("auth", "policy", "add", given, role, "user:a@b.c", "user:d@e.f")
        shell.run("auth", "policy", "add", given, role, "user:a@b.c")
        [policy] = shell.lines("auth", "policy", "get", given)
        assert policy["bindings"] == [{"role": role, "members": ["user:a@b.c", "user:d@e.f"]}]
        assert auth_server.policies.keys() == {name}
        assert auth_server.policies[name].etag == b"1"
        shell.run("auth", "policy", "remove", given, role, "user:a@b.c")
        assert "user:d@e.f" in shell.run("auth", "policy", "get", given)
        shell.run("auth", "policy", "remove", given, role, "user:d@e.f", "user:g@h.i")
        assert list(auth_server.policies[name].bindings) == []
        assert shell.run("auth", "policy", "get", given) == ""

    def test_other_bindings_stay_and_others_may_come_between(self, shell, auth_server):
        auth_server.replace("server", {"roles/owner": ["user:a@b.c"]})
        others = iter(["roles/viewer", "roles/editor"])

        def between() -> None:
            for role in others:
                present = {
                    one.role: list(one.members) for one in auth_server.policies["server"].bindings
                }
                auth_server.replace("server", present | {role: ["user:x@y.z"]})
                return

        auth_server.between = between
        shell.run("auth", "policy", "add", "server", "roles/pubsub.admin", "user:d@e.f")
        roles = [one.role for one in auth_server.policies["server"].bindings]
        assert roles == ["roles/owner", "roles/viewer", "roles/editor", "roles/pubsub.admin"]

    def test_it_does_not_try_for_ever(self, shell, auth_server):
        auth_server.refusals["SetPolicy"] = [grpc.StatusCode.ABORTED] * 100
        shell.refusal("auth", "policy", "add", "server", "roles/owner", "user:a@b.c")
        assert len(auth_server.refusals["SetPolicy"]) == 95

    def test_set(self, shell, auth_server, tmp_path):
        path = tmp_path / "policy.json"
        path.write_text('{"bindings": [{"role": "roles/owner", "members": ["user:a@b.c"]}]}')
        shell.run("auth", "policy", "set", "server", str(path))
        read = shell.run("auth", "policy", "get", "server", "--json")
        path.write_text(read)
        shell.run("auth", "policy", "set", "server", str(path))
        assert auth_server.policies["server"].etag == b"2"
        assert json.loads(read)["bindings"][0]["role"] == "roles/owner"
        refusal = shell.refusal("auth", "policy", "set", "server", str(path))
        assert "was changed" in refusal

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("{", "is not JSON"),
            ("[]", "is not a policy"),
            ('{"bindings": [7]}', "is not a policy"),
            ('{"bindings": [{"role": "roles/owner"}]}', "is not a policy"),
            ('{"bindings": [{"role": 7, "members": []}]}', "is not a policy"),
            ('{"bindings": [], "etag": "?"}', "is not a policy"),
            ('{"binding": []}', "'binding' is not known"),
            ('{"bindings": [{"role": "r", "members": [], "condition": {}}]}', "'condition'"),
        ],
    )
    def test_files_that_are_no_policy(self, shell, auth_server, tmp_path, content, words):
        path = tmp_path / "policy.json"
        path.write_text(content)
        assert words in shell.refusal("auth", "policy", "set", "server", str(path))
        assert auth_server.callers == []

    @pytest.mark.parametrize("name", ["", "orders", "queues/q", "projects/", "topics/1", "a/b/c"])
    def test_names_of_nothing(self, shell, auth_server, name):
        shell.refusal("auth", "policy", "get", name)
        assert auth_server.callers == []


def test_roles_and_whoami(shell, tmp_path):
    assert "pubsub.topics.publish" in shell.run("auth", "roles")
    assert SERVER_ID in shell.run("auth", "whoami")
    assert "does not authenticate" in shell.stderr
    path = tmp_path / "token"
    path.write_text("flt_secret")
    [found] = shell.lines("--token-file", str(path), "auth", "whoami")
    assert found == {"member": "user:ann@example.com", "server_id": SERVER_ID}


def test_the_option_comes_before_the_environment(shell, auth_server, tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_text("flt_secret")
    monkeypatch.setenv("FANLOG_TOKEN", "flt_other")
    shell.run("--token-file", str(path), "auth", "whoami")
    assert auth_server.callers == ["Bearer flt_secret"]
    refusal = shell.refusal("--token-file", "a", "--credentials", "b", "auth", "whoami")
    assert "not both" in refusal


def test_no_error_has_the_token(shell, auth_server):
    shell.environ["FANLOG_TOKEN"] = "flt_secret"
    auth_server.refusals["WhoAmI"] = [
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
    ]
    refusal = shell.refusal("auth", "whoami")
    assert "does not accept the token of FANLOG_TOKEN" in refusal
    assert "flt_secret" not in refusal
    assert "flt_secret" not in shell.refusal("auth", "whoami")
    shell.environ["PUBSUB_EMULATOR_HOST"] = "broker.example:1"
    refusal = shell.refusal("auth", "whoami")
    assert "in plain text" in refusal
    assert "flt_secret" not in refusal
