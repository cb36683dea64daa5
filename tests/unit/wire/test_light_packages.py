"""Packages that run when one of their own names is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fanlog.wire.light_packages import enter_lightly


@pytest.fixture
def package(tmp_path, monkeypatch) -> str:
    folder = tmp_path / "a_heavy_package"
    folder.mkdir()
    (folder / "__init__.py").write_text("from a_heavy_package.part import VALUE\nRAN = True\n")
    (folder / "part.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in (folder.name, f"{folder.name}.part"):
        sys.modules.pop(name, None)


def test_a_module_is_imported_without_its_package(package):
    enter_lightly(package)
    from a_heavy_package import part

    assert part.VALUE == 1
    assert "RAN" not in vars(sys.modules[package])


def test_the_package_runs_for_its_own_names(package):
    enter_lightly(package)
    from a_heavy_package import RAN

    assert RAN
    with pytest.raises(ImportError, match="NOTHING"):
        from a_heavy_package import NOTHING  # noqa: F401


def test_a_package_that_has_run_is_left_alone(package):
    import a_heavy_package

    enter_lightly(package)
    assert sys.modules[package] is a_heavy_package
    assert a_heavy_package.RAN


def test_a_package_that_is_not_there():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"):
        enter_lightly("no_such_package")


@pytest.mark.parametrize(
    "program",
    [
        "from google.pubsub_v1 import PublisherClient",
        "import google.pubsub_v1; google.pubsub_v1.PublisherClient",
        "import google.pubsub_v1 as p; p.types.PubsubMessage; p.SubscriberClient",
        "from google.cloud import pubsub_v1; pubsub_v1.PublisherClient",
        "from google.pubsub_v1.services.publisher import PublisherClient",
    ],
)
def test_googles_clients_can_be_used_beside_ours(program):
    code = f"from fanlog.wire import types; {program}"
    subprocess.run([sys.executable, "-c", code], check=True)
