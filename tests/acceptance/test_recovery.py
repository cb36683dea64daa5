"""A lost administrator: `fanlog auth init` on the folder of a broker that is down."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.served import Served

INIT = ("auth", "init", "--data-dir")
AUTH = ("--auth", "required")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "data", tmp_path / "server.log")
    server.token_file = server.data_dir / "auth" / "admin.token"
    try:
        server.start(*AUTH)
        yield server
    finally:
        server.close()


def whoami(served: Served, token_file: Path, exit_code: int = 0) -> str:
    """Whom the server takes the owner of a token for; empty for nobody."""
    done = served.run("--token-file", token_file, "auth", "whoami", "--json", exit_code=exit_code)
    if exit_code:
        assert "was revoked" in done.stderr
        return ""
    return str(json.loads(done.stdout)["member"])


def token_ids(served: Served) -> list[str]:
    done = served.run("auth", "token", "list", "admin", "--json")
    return [one["id"] for one in map(json.loads, done.stdout.splitlines())]


def test_a_lost_administrator(served: Served, tmp_path: Path):
    assert served.token_file is not None
    former = tmp_path / "former.token"
    admin = whoami(served, served.token_file)
    assert admin.startswith("serviceAccount:admin@")
    [former_id] = token_ids(served)
    served.run("topic", "create", "orders")
    # Not beside the broker, which would not know of it.
    refused = served.run(*INIT, served.data_dir, "--token-file", tmp_path / "new", exit_code=1)
    assert "in use" in refused.stderr
    assert not (tmp_path / "new").exists()
    assert served.stop()[0] == 0

    served.token_file.rename(former)
    made = served.run(*INIT, served.data_dir)
    assert served.token_file.stat().st_mode & 0o777 == 0o600
    token = served.token_file.read_text().strip()
    assert token != former.read_text().strip()

    served.start(*AUTH)
    assert whoami(served, served.token_file) == admin
    assert "projects/fanlog/topics/orders" in served.run("topic", "list").stdout
    # The lost one is good until it is revoked: nobody knows whether a program has it.
    assert whoami(served, former) == admin
    served.run("auth", "token", "revoke", "admin", former_id)
    assert whoami(served, former, exit_code=1) == ""
    assert whoami(served, served.token_file) == admin
    assert former_id not in token_ids(served)
    assert token not in made.stdout + made.stderr + served.log_path.read_text()


def test_an_administrator_whose_role_is_gone(served: Served):
    """Only somebody who cannot be had may give it back over the network."""
    assert served.token_file is not None
    member = whoami(served, served.token_file)
    policy = ("auth", "policy")
    served.run(*policy, "add", "server", "roles/owner", "user:nobody@example.com")
    served.run(*policy, "remove", "server", "roles/owner", member)
    denied = served.run("topic", "list", exit_code=1)
    assert "lacks the permission pubsub.topics.list" in denied.stderr
    assert served.stop()[0] == 0
    served.run(*INIT, served.data_dir)
    served.start(*AUTH)
    served.run("topic", "list")
