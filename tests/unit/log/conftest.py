"""What the tests of the log share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanlog.log.embedded import EmbeddedLog


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def log(data_dir: Path) -> Iterator[EmbeddedLog]:
    log = EmbeddedLog(data_dir)
    yield log
    log.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    if os.geteuid() != 0 and "CI" not in os.environ:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


class Child:
    """A Python program in another process, told what to do through its standard input."""

    def __init__(self, program: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        print(word, file=self.process.stdin, flush=True)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def start_child() -> Iterator[type[Child]]:
    children: list[Child] = []

    class Started(Child):
        def __init__(self, program: str, *arguments: object) -> None:
            super().__init__(program, *arguments)
            children.append(self)

    yield Started
    for child in children:
        child.end()
