"""The source as data: rules that no other tool checks.

A rule that cannot be kept somewhere gets a line in an allowance below, with its reason. Allowances
only shrink: one that is no longer needed fails too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "fanlog"

LINES_MAX = 600
#: Files that are longer, with the length they may not pass and the reason.
LONG_FILES: dict[str, int] = {
    # A table, of which one page is made: every bound of the service with its reason.
    "src/fanlog/limits.py": 750,
}

#: What the rules may not touch: time, chance and the world are arguments there.
PURE = (
    "core", "schema", "routing", "model", "push/rules", "pipeline/export/rules",
    "cluster/announcements.py", "cluster/cards.py", "cluster/standbys.py", "cluster/ownership.py",
    "limits.py", "errors.py", "times.py", "log/api.py", "log/batch.py",
)  # fmt: skip
BANNED_IN_PURE = {
    "asyncio", "random", "open", "print", "input",
    "secrets.token_bytes", "secrets.token_hex", "secrets.choice",
    "time.time", "time.time_ns", "time.monotonic", "time.sleep",
    "datetime.now", "datetime.utcnow", "datetime.datetime.now",
}  # fmt: skip


def modules(*parts: str) -> Iterator[Path]:
    for part in parts or (".",):
        path = SOURCE / part
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path] * path.exists()


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def spoken(path: Path) -> Iterator[tuple[int, str]]:
    """Every name and dotted name in the code, with its line; prose may say what it likes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def test_pure_modules_touch_nothing():
    found = [
        f"{name(path)}:{line}: {word}"
        for path in modules(*PURE)
        for line, word in spoken(path)
        if word in BANNED_IN_PURE
    ]
    assert found == []


def test_only_the_cli_prints():
    found = [
        f"{name(path)}:{line}"
        for path in modules()
        if "cli" not in path.relative_to(SOURCE).parts
        for line, word in spoken(path)
        if word == "print"
    ]
    # The ready line is the server's one word to whoever started it.
    assert [place for place in found if not place.startswith("src/fanlog/server/app.py:")] == []


@pytest.mark.parametrize("folder", ["src", "tests", "bench"])
def test_nothing_is_left_for_later(folder):
    marker = re.compile("TO" + r"DO|FIX" + r"ME|XX" + "X")
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if marker.search(line)
    ]
    assert found == []


def test_files_stay_short():
    lengths = {
        name(path): len(path.read_text(encoding="utf-8").splitlines())
        for folder in ("src", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    too_long = {
        path: length for path, length in lengths.items() if length > LONG_FILES.get(path, LINES_MAX)
    }
    assert too_long == {}
    spent = {path for path in LONG_FILES if lengths.get(path, 0) <= LINES_MAX}
    assert spent == set(), "these are short now: take them out of LONG_FILES"


def test_a_public_class_name_has_one_meaning():
    """Generated code has the names of its contract, and is left out."""
    homes: dict[str, list[str]] = {}
    for path in modules():
        if path.stem.endswith("_pb2"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name(path))
    double = {word: paths for word, paths in homes.items() if len(paths) > 1}
    assert double == {}


def test_every_module_says_what_it_is():
    found = [
        name(path)
        for path in modules()
        if path.read_text(encoding="utf-8").strip()
        and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert found == []


def test_every_word_of_the_package_has_a_reader():
    """A module that nothing imports is dead, unless it is a front door."""
    # The second one is opened by the package `pyspark_fanlog`, which Spark looks for. Of the others
    # a node of a cluster is made, which is not served by a command yet.
    front_doors = {
        *("fanlog.cli.main", "fanlog.spark.source"),
        *("fanlog.cluster.gateway", "fanlog.cluster.link.server"),
    }
    texts = {path: path.read_text(encoding="utf-8") for path in modules()}
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").rglob("*.py"))
    )
    dead = []
    for path in texts:
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = ".".join(parts)
        if path.name in ("__init__.py", "__main__.py") or module in front_doors:
            continue
        if path.stem.endswith("_pb2"):  # Made of a contract, which clients read.
            continue
        parent, stem = ".".join(parts[:-1]), parts[-1]
        imported = re.compile(
            rf"\b{re.escape(module)}\b"
            rf"|from {re.escape(parent)} import (\([^)]*|[^\n]*)\b{re.escape(stem)}\b"
        )
        readers = [text for other, text in texts.items() if other != path]
        # The test tools are public: their readers are the tests.
        if "testing" in parts:
            readers.append(tests)
        # Most do not so much as have the word, which is found out quickly.
        if not any(stem in text and imported.search(text) for text in readers):
            dead.append(module)
    assert dead == []


#: What begins as our names do, and is none of an attribute, a label or metadata.
OTHER_NAMES = {
    "src/fanlog/model/names.py": "a project",
    "src/fanlog/push/rules/web_content.py": "a user agent",
    "src/fanlog/lake/cold.py": "a thread",
    "src/fanlog/broker/committer.py": "a thread",
    "src/fanlog/broker/standby_state.py": "a thread",
    "src/fanlog/cluster/node.py": "a thread",
    "src/fanlog/log/replicated/follower.py": "a thread",
    "src/fanlog/cluster/renewing.py": "a thread",
    "src/fanlog/spark/java.py": "a folder",
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Every text in the code, with its line; docstrings begin otherwise."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            text = node.value
            yield node.lineno, text if isinstance(text, str) else text.decode("latin-1")


def test_names_that_mean_something_are_in_one_module():
    found: dict[str, list[str]] = {}
    for path in modules():
        for line, text in literals(path):
            if re.match("fanlog-|googclient_|CloudPubSub", text):
                found.setdefault(name(path), []).append(f"{line}: {text}")
    assert found.pop("src/fanlog/model/attributes.py")
    assert found.keys() == OTHER_NAMES.keys(), "say it in fanlog.model.attributes"


def test_times_and_ids_are_written_and_read_in_one_module():
    """Dates, which have no zone, and protobuf's own JSON are another matter."""
    banned = {
        "src/fanlog/times.py": re.compile(r"datetime\.fromisoformat|%H:%M:%S|isoformat\(timespec"),
        "src/fanlog/model/ids.py": re.compile(r":0?12[dx]\b|%0?12[dx]"),
    }
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in modules()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        for home, pattern in banned.items()
        if name(path) != home and pattern.search(line)
    ]
    assert found == []


#: Where hard state is changed, and where its records are handed to the writer.
ROAD_TO_STATE = {
    "apply_all": {"src/fanlog/core/hard_state.py", "src/fanlog/broker/transaction.py"},
    "_writer.submit": {"src/fanlog/broker/transaction.py"},
}


@pytest.mark.parametrize("call", ROAD_TO_STATE)
def test_there_is_one_road_to_state(call):
    found = {
        name(path)
        for path in modules()
        for _, word in spoken(path)
        if word.endswith(f".{call}") and not word.startswith("codec")
    }
    assert found == ROAD_TO_STATE[call]


def test_the_broker_hides_no_cycle():
    found = [
        f"{name(path)}:{line}"
        for path in modules("broker")
        for line, word in spoken(path)
        if word in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    ]
    assert found == []
