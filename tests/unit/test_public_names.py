"""The names that `import fanlog` gives a program: all there, and imported when they are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fanlog

HEAVY = {"grpc", "google.protobuf", "pyarrow", "pyspark", "deltalake", "lmdb", "numpy", "asyncio"}


def imported_by(program: str) -> set[str]:
    script = f"import sys; before = set(sys.modules); {program}; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_importing_the_package_imports_nothing_heavy():
    found = imported_by("import fanlog")
    assert found & HEAVY == set()
    assert {name for name in found if name.startswith("fanlog.")} == set()


def test_importing_an_error_imports_no_client():
    assert imported_by("from fanlog import FanlogError") & HEAVY == set()


def test_a_spark_task_waits_for_no_message_classes_of_google():
    found = imported_by("import fanlog.client.log, fanlog.client.sink")
    assert {name for name in found if name.startswith("google.pubsub")} == set()


@pytest.mark.parametrize("name", fanlog.__all__)
def test_every_name_is_there(name):
    assert getattr(fanlog, name) is not None


def test_they_are_listed():
    assert dir(fanlog) == sorted(fanlog.__all__)


def test_no_other_name_is():
    with pytest.raises(AttributeError, match="no attribute 'Server'"):
        _ = fanlog.Server


def test_the_client_raises_errors_of_the_tree():
    assert issubclass(fanlog.CallFailed, fanlog.FanlogError)
    assert fanlog.types.Topic(name="a").name == "a"
    assert fanlog.__version__
