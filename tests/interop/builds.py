"""The client programs, built once into `build/interop/` and again when their sources change."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaos.conftest import missing

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
BUILT = ROOT / "build" / "interop"
#: Of one build on a busy machine that has to fetch everything, in seconds.
BUILD_S = 600


@dataclass(frozen=True, slots=True)
class Build:
    """How one language's program is built, in a copy of its folder, and then run there."""

    tools: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    run: tuple[str, ...] = ()


_LIBRARIES = "-DoutputDirectory=target/lib"
BUILDS = {
    "Python": Build(run=(sys.executable, "program.py")),
    "Go": Build(("go",), (("go", "build", "-o", "program", "."),), ("./program",)),
    "Node": Build(
        ("node", "npm"),
        (("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"),),
        ("node", "program.js"),
    ),
    "Java": Build(
        ("java", "mvn"),
        (("mvn", "-q", "-B", "compile", "dependency:copy-dependencies", _LIBRARIES),),
        # Small and quick to start rather than fast in the end.
        (
            *("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"),
            *("-cp", "target/classes:target/lib/*", "Program"),
        ),
    ),
}


def built(language: str) -> tuple[Path, tuple[str, ...]]:
    """The folder of a language's program and the command that runs it there.

    Skips on a laptop without the language, fails in CI.
    """
    build = BUILDS[language]
    for tool in build.tools:
        if shutil.which(tool) is None:
            missing(f"{tool} is not installed, which the {language} client needs")
    folder = BUILT / language.lower()
    sources = PROGRAMS / language.lower()
    digest = _digest(sources)
    stamp = folder / ".built"
    BUILT.mkdir(parents=True, exist_ok=True)
    # Workers of one run, or two runs: one of them builds, the others wait for it.
    with _locked(BUILT / f"{language.lower()}.lock"):
        if not stamp.exists() or stamp.read_text() != digest:
            stamp.unlink(missing_ok=True)
            shutil.copytree(sources, folder, dirs_exist_ok=True)
            for step in build.steps:
                _run(step, folder)
            stamp.write_text(digest)
    return folder, build.run


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(step: tuple[str, ...], folder: Path) -> None:
    result = subprocess.run(
        step,
        cwd=folder,
        env=os.environ | {"GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert result.returncode == 0, f"{' '.join(step)}: {result.stdout}{result.stderr}"
