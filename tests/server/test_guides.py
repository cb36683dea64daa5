"""The programs of the guides run: each guide's snippets one after the other, as one program."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.conftest import PATIENCE_S
from server.unique import unique

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
SNIPPET = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


class Program:
    """The snippets of one guide and the names they have given."""

    def __init__(self, guide: str) -> None:
        found = SNIPPET.findall((GUIDES / guide).read_text(encoding="utf-8"))
        self.snippets = [
            re.sub(f"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found
        ]
        self.names: dict[str, Any] = {}

    def run(self) -> None:
        for number, snippet in enumerate(self.snippets):
            exec(compile(snippet, f"snippet {number}", "exec"), self.names)

    def close(self) -> None:
        for name in ("publisher", "subscriber"):
            if name in self.names:
                self.names[name].transport.close()
        for name in ("ledger", "shop", "client"):
            if name in self.names:
                self.names[name].close()


@pytest.fixture
def program(server, request, tmp_path, monkeypatch) -> Iterator[Program]:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.endpoint)
    monkeypatch.chdir(tmp_path)
    program = Program(request.param)
    yield program
    program.close()


@pytest.mark.parametrize("program", ["concepts.md"], indirect=True)
def test_concepts(program, server):
    assert len(program.snippets) == 1
    program.run()
    path = "/v1/projects/fanlog/subscriptions/billing/snapshot"
    with urllib.request.urlopen(server.http(path), timeout=PATIENCE_S) as answer:
        found = json.load(answer)
    assert found["position"].endswith("000000000003")
    assert (found["unackedMessages"], found["outstandingMessages"]) == (4, 2)


@pytest.mark.parametrize("program", ["consumers.md"], indirect=True)
def test_consumers(program, server):
    assert len(program.snippets) == 8
    program.run()
    hook = program.names["ThreadingHTTPServer"](("127.0.0.1", 0), program.names["Hook"])
    thread = threading.Thread(target=hook.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{hook.server_port}/"
        topic, subscription = server.topic_and_subscription(
            push_config={"push_endpoint": url},
            labels={"fanlog-dead-letter": "auto"},
            dead_letter_policy={"max_delivery_attempts": 1},
        )
        sold, refused = server.publish(topic, b"chair", b"table")
        server.await_drained(subscription)
    finally:
        hook.shutdown()
        hook.server_close()
        thread.join(PATIENCE_S)
    assert program.names["taken"] == [(sold, b"chair")]
    [letter] = server.await_pull(f"{subscription}.dead-letters")
    assert letter.message.attributes["fanlog-source-message-id"] == refused
    assert "422" in letter.message.attributes["fanlog-dead-letter-reason"]


@pytest.mark.parametrize("program", ["idempotent-consumers.md"], indirect=True)
def test_idempotent_consumers(program):
    assert len(program.snippets) == 3
    program.run()


def test_ack_ids_from_before_a_restart(start_server):
    """The table of crashes: leases are lost and late acks count, unless it is exactly once."""
    server = start_server()
    topic, loose = server.topic_and_subscription()
    once = server.subscription(topic, enable_exactly_once_delivery=True)
    server.publish(topic, b"x")
    held = {name: server.pull(name) for name in (loose, once)}
    server.restart()
    assert [one.message.data for one in server.pull(loose)] == [b"x"]
    assert server.pull(once) == []
    for name in (loose, once):
        server.ack(name, held[name])
        server.await_drained(name)


def test_a_sample_by_message_id(server):
    """The guide to filters: every tenth message, and the other nine."""
    topic = server.topic()
    tenth = server.subscription(topic, filter='message_id = "*0"')
    others = server.subscription(topic, filter='NOT message_id = "*0"')
    ids = server.publish(topic, *(b"%d" % number for number in range(100)))
    wanted = {
        name: [m.message.message_id for m in server.drain(name, count)]
        for name, count in ((tenth, 10), (others, 90))
    }
    assert wanted[tenth] == ids[::10]
    assert sorted(wanted[tenth] + wanted[others]) == ids


def test_a_filter_does_not_see_the_attribute_of_patterns(server):
    """The guide to patterns: `fanlog-topic` is added on delivery, `topic` is what filters have."""
    prefix = unique("seen")
    topic = server.topic(name=f"projects/test/topics/{prefix}.eu")
    pattern = f"projects/test/topics/{prefix}.*"
    blind = server.subscription(pattern, filter="attributes:fanlog-topic")
    seeing = server.subscription(pattern, filter=f'topic = "{prefix}.e*"')
    server.publish(topic, b"x")
    [one] = server.pull(seeing)
    assert one.message.attributes["fanlog-topic"] == topic
    assert server.pull(blind) == []


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not on this machine")
def test_the_lines_of_gcloud(server, tmp_path):
    guide = (GUIDES / "clients.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```bash\n(.*?)```", guide, re.DOTALL)
    assert "http://127.0.0.1:8086/" in script
    result = subprocess.run(
        [
            "bash",
            "-euo",
            "pipefail",
            "-c",
            script.replace("http://127.0.0.1:8086", server.http("")),
        ],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
        check=False,
        env={
            "PATH": os.environ["PATH"],
            # Nobody's own configuration, and nothing told to anybody.
            "CLOUDSDK_CONFIG": str(tmp_path),
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "true",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "true",
        },
    )
    assert result.returncode == 0, result.stderr
    assert "two chairs" in result.stdout
