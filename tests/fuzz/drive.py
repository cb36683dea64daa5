"""`make fuzz`: search with Atheris, or with Hypothesis where Atheris cannot be had.

    python -m fuzz.drive [--seconds N] [--keep] [target ...]

Each target gets `--seconds`, one after the other, in a process of its own. What Atheris finds
interesting gathers in `build/fuzz/corpus`; an input that fails is written to `build/fuzz/found`,
and the command that replays it is printed. `--keep` then adds to the saved corpus those inputs
that reach code which the saved ones do not.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "fuzz"
#: How much slower than usual code runs that is instrumented.
SLOWNESS = 5.0
#: One input in so many is weighed too.
WEIGHED_EVERY = 50
RSS_MIB_MAX = 1_500
#: Inputs that a target may keep beyond its seeds, and how large they may be.
KEPT_MAX, KEPT_BYTES_MAX = 60, 1_024

Arc = tuple[CodeType, int, int]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.drive", description="Search for bad inputs.")
    parser.add_argument("targets", nargs="*", help="names; all when none is given")
    parser.add_argument("--seconds", type=int, default=30, help="for each target")
    parser.add_argument("--keep", action="store_true", help="add what was found to the corpus")
    parser.add_argument("--replay", type=Path, help="run one input and stop")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return _one(args.targets[0], args.seconds)

    from fuzz.table import TARGETS

    unknown = set(args.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"no target {min(unknown)!r}; there are {', '.join(TARGETS)}")
    if args.replay is not None:
        _replay(args.targets or [args.replay.resolve().parent.name], args.replay)
        return 0
    failed = [name for name in args.targets or TARGETS if not _search(name, args.seconds)]
    if args.keep:
        for name in args.targets or TARGETS:
            _say(f"{name}: {_keep(name)} inputs kept")
    for name in failed:
        _say(f"{name}: found something, see above; inputs in {_shown(BUILD / 'found' / name)}")
    return 1 if failed else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _shown(path: Path) -> str:
    return os.path.relpath(path, ROOT)


def _replay(names: Iterable[str], path: Path) -> None:
    from fuzz.bounds import check
    from fuzz.table import TARGETS

    for name in names:
        check(TARGETS[name], path.read_bytes())
        _say(f"{name}: {path.name} is fine")


def _search(name: str, seconds: int) -> bool:
    """Search in a process of its own, since libFuzzer ends the one it runs in."""
    command = [sys.executable, "-m", "fuzz.drive", "--one", "--seconds", str(seconds), name]
    began = time.monotonic()
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    lines = ended.stdout.splitlines()
    runs = [
        int(n) for line in lines for n in re.findall(r"(\d+) runs|#(\d+)\t", line) for n in n if n
    ]
    took = time.monotonic() - began
    _say(f"{name}: {max(runs, default=0)} runs in {took:.0f} s")
    if ended.returncode != 0:
        _say("\n".join(line for line in lines if not re.match(r"#\d+\t|INFO", line)))
    return ended.returncode == 0


def _one(name: str, seconds: int) -> int:
    if importlib.util.find_spec("atheris") is None:
        return _with_hypothesis(name, seconds)
    _with_atheris(name, seconds)
    return 0


def _with_atheris(name: str, seconds: int) -> None:
    import atheris

    with atheris.instrument_imports(include=["fanlog"]):
        from fuzz.table import CORPUS, TARGETS
    from fuzz.bounds import check

    target = TARGETS[name]
    found, gathered = BUILD / "found" / name, BUILD / "corpus" / name
    for folder in (found, gathered):
        folder.mkdir(parents=True, exist_ok=True)
    count = 0
    # What is made once is nobody's in particular.
    target.run(b"")

    def run(data: bytes) -> None:
        nonlocal count
        count += 1
        check(target, data, slowness=SLOWNESS, memory=count % WEIGHED_EVERY == 0)

    options = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={target.size_max}",
        f"-artifact_prefix={found}/",
        f"-rss_limit_mb={RSS_MIB_MAX}",
        f"-timeout={int(target.seconds_max * SLOWNESS * 6)}",
        str(gathered),
        str(CORPUS / name),
    ]
    atheris.Setup(options, run)
    atheris.Fuzz()


def _with_hypothesis(name: str, seconds: int) -> int:
    from hypothesis import HealthCheck, given, seed, settings

    from fuzz.bounds import check
    from fuzz.mutate import inputs
    from fuzz.table import TARGETS

    target = TARGETS[name]
    found = BUILD / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    count = 0
    last = b""

    @settings(
        max_examples=500, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(inputs(target))
    def search(data: bytes) -> None:
        nonlocal count, last
        count += 1
        last = data
        check(target, data, memory=count % WEIGHED_EVERY == 0)

    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        try:
            seed(time.time_ns())(search)()
        except BaseException:
            (found / f"crash-{_hash(last)}").write_bytes(last)
            raise
    _say(f"Done {count} runs; Atheris is not here, Hypothesis searched")
    return 0


def _keep(name: str) -> int:
    """Save the shortest inputs that together reach all that was reached."""
    from fuzz.table import CORPUS, TARGETS, corpus_of

    run = TARGETS[name].run
    run(b"")
    known: set[Arc] = set()
    for path in corpus_of(name):
        known |= _arcs(run, path.read_bytes())
    gathered = [path.read_bytes() for path in (BUILD / "corpus" / name).glob("*")]
    kept = 0
    for data in sorted(gathered, key=lambda data: (len(data), data)):
        if len(data) > KEPT_BYTES_MAX or kept == KEPT_MAX:
            break
        arcs = _arcs(run, data)
        if arcs - known:
            known |= arcs
            kept += 1
            (CORPUS / name / _hash(data)).write_bytes(data)
    return kept


def _arcs(run: Any, data: bytes) -> set[Arc]:
    """Steps from line to line that an input takes in the product's code."""
    arcs: set[Arc] = set()

    def enter(frame: FrameType, _event: str, _arg: object) -> Any:
        if "/fanlog/" not in frame.f_code.co_filename:
            return None
        last = 0

        def line(frame: FrameType, event: str, _arg: object) -> Any:
            nonlocal last
            if event in ("line", "return"):
                here = frame.f_lineno if event == "line" else -1
                arcs.add((frame.f_code, last, here))
                last = here
            return line

        return line

    sys.settrace(enter)
    try:
        run(data)
    finally:
        sys.settrace(None)
    return arcs


def _hash(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
