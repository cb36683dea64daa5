"""`fanlog serve` up to the point where the server takes over."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from commands import invoke
from fanlog.config import Config


@pytest.fixture
def served(monkeypatch):
    """What the server was started with."""
    configs: list[Config] = []

    def serve(config: Config) -> int:
        configs.append(config)
        return 3

    module = ModuleType("fanlog.server.app")
    module.serve = serve
    monkeypatch.setitem(sys.modules, "fanlog.server.app", module)
    return configs


def run(*args: str, environ: dict[str, str] | None = None):
    return invoke(["serve", *args], env=environ)


def test_flags_become_a_config_and_the_exit_code_is_the_servers(served):
    result = run("--host", "::1", "--port", "0", "--http-port", "1", "--data-dir", "d")
    assert result.exit_code == 3
    assert served == [Config(host="::1", port=0, http_port=1, data_dir=Path("d"))]


def test_a_seal_key_is_not_handed_on(served, monkeypatch):
    key = "flsk_" + "A" * 43
    monkeypatch.setenv("FANLOG_SEAL_KEY", key)
    run()
    assert served[0].seal_key == key
    assert "FANLOG_SEAL_KEY" not in os.environ


def test_memory(served):
    run("--memory")
    assert served[0].memory


def test_variables(served):
    run("--port", "5", environ={"FANLOG_PORT": "6", "FANLOG_HTTP_PORT": "7"})
    assert (served[0].port, served[0].http_port) == (5, 7)


def test_file(served, tmp_path):
    path = tmp_path / "fanlog.toml"
    path.write_text("port = 9\n")
    run("--config", str(path))
    assert served[0].port == 9


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--memory", "--data-dir", "d"], "exclude each other"),
        (["--host", "0.0.0.0"], "--insecure"),
        (["--port", "70000"], "--port must be a whole number"),
        (["--config", "none.toml"], "none.toml"),
    ],
)
def test_refusals_are_one_sentence(served, args, words):
    result = run(*args)
    assert result.exit_code == 1
    assert words in result.stderr
    assert result.stderr.count("\n") == 1
    assert served == []


def test_version():
    assert invoke(["--version"]).stdout.startswith("fanlog ")


def test_a_node_of_a_cluster(served):
    run("--kafka", "k1:9092,k2:9092", "--cluster", "shop", "--node", "a", "--session", "1.5")
    assert served[0].kafka == ("k1:9092", "k2:9092")
    assert (served[0].cluster, served[0].node, served[0].session) == ("shop", "a", 1.5)


def test_up_is_for_a_server_that_is_alone():
    result = invoke(["up"], env={"FANLOG_KAFKA": "k1:9092"})
    assert result.exit_code == 1
    assert "runs a server that is alone" in result.output
