"""The commands of the guide about alerts, as they stand there: rules, a webhook, a chat's hook."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from fanlog.model.alerts import CONDITIONS
from fanlog.server.resource_file import ensure_resources, read_resources
from server.conftest import PATIENCE_S
from server.receiver import receiving
from server.test_alerts import look
from server.test_glance_cli import Shell

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "alerts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
NO_LIMIT = "\u2013"
WEBHOOK = "https://ops.example.com/alerts"
CHAT = "https://chat.example.com/hooks/SECRET"


@pytest.fixture(scope="module")
def engine():
    return "memory"


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def shell(server):
    return Shell(server, "shop")


def commands() -> list[list[str]]:
    """The lines of the guide that call `fanlog`, as words behind it."""
    lines = [line for _, block in BLOCKS for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("fanlog ")]


def run_all(shell, **urls):
    shell.run("sub", "create", "billing", "--topic", "orders")
    pushed = ("--topic", "orders", "--push", urls["webhook"].replace("alerts", "orders"))
    shell.run("sub", "create", "billing-push", *pushed)
    for words in commands():
        shell.run(*(urls["webhook"] if word == WEBHOOK else word for word in words))


def make_hold(server, shell):
    """A rule of the test's own, which begins to hold at the next look."""
    limit = ("--subscription", "billing", "--limit", "1", "--minimum-time", "0s")
    shell.run("alert", "create", "behind", "backlog-messages", *limit)
    server.publish("projects/shop/topics/orders", b"0", b"1")
    look(server)


def test_every_line_works_and_the_webhook_gets_what_is_said(server, shell):
    shell.run("topic", "create", "orders")
    with receiving() as receiver:
        run_all(shell, webhook=receiver.url("/alerts"))
        make_hold(server, shell)
        [got] = receiver.wait(1, "/alerts")
        message = got.json["message"]
        assert json.loads(got.data) == {"text": "behind: 2 messages wait for billing (limit 1)"}
        attributes = message["attributes"]
        assert attributes["fanlog-alert"] == "projects/shop/alerts/behind"
        assert attributes["fanlog-alert-state"] == "began"
        assert attributes["fanlog-alert-number"] == "1"
        for name in ("alerts-hook", "billing-push"):
            shell.run("sub", "delete", name)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not on this machine")
def test_the_hook_of_a_chat_system_gets_its_body(server, shell):
    shell.run("topic", "create", "orders")
    shell.run("sub", "create", "billing", "--topic", "orders")
    [line] = [line for _, block in BLOCKS for line in block.splitlines() if CHAT in line]
    limit = ("--subscription", "billing", "--limit", "1", "--minimum-time", "0s")
    shell.run("alert", "create", "behind", "backlog-messages", *limit)
    with receiving() as receiver:
        done = subprocess.run(
            [
                "bash",
                "-euc",
                line.replace("curl ", "curl --silent --show-error --fail-with-body ").replace(
                    CHAT, receiver.url("/hooks/SECRET")
                ),
            ],
            env=os.environ | {"PROJECT": server.http("/v1/projects/shop")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        server.publish("projects/shop/topics/orders", b"0", b"1")
        look(server)
        [got] = receiver.wait(1)
        # As it is: what a chat's hook takes.
        assert json.loads(got.body) == {"text": "behind: 2 messages wait for billing (limit 1)"}
        shell.run("sub", "delete", "alerts-chat")


def test_the_file(server, shell, tmp_path):
    [block] = [block for kind, block in BLOCKS if kind == "toml"]
    shell.run("topic", "create", "orders")
    shell.run("sub", "create", "billing", "--topic", "orders")
    path = tmp_path / "resources.toml"
    path.write_text(block, encoding="utf-8")
    server.run(ensure_resources(server.broker, read_resources(path, "shop")))
    [found] = shell.lines("alert", "list")
    assert found["name"] == "projects/shop/alerts/billing-behind"
    told = tomllib.loads(block)["alerts"]["billing-behind"]
    assert (found["condition"], int(found["limit"])) == (told["condition"], told["limit"])


def test_the_table_has_every_condition_with_its_unit():
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| ([^|]*) \|$", GUIDE, re.MULTILINE))
    expected = {
        name.lower().replace("_", "-"): kind.unit or NO_LIMIT for name, kind in CONDITIONS.items()
    }
    assert rows == expected
