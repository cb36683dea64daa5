"""The server's processor time for the same publishes by the official clients of three languages.

Go's and Java's send another `grpc-timeout` with each request, which a cache of header blocks may
not know; C-core's is rounded. Their programs are in `clients/`; they are built into `build/` with
the libraries that the package registries have, and left out where the language is missing. Each
client has one process, one connection, and 64 requests in flight.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench import closed_loop
from bench.meter import Meter
from bench.servers import Server
from bench.session import STEP_S, Sample, Session, Stalled

ROUNDS = 3
BUILD_S = 600
C, GO, JAVA = "c", "go", "java"
_SOURCES = Path(__file__).resolve().parent / "clients"
_BUILT = _SOURCES.parent.parent / "build" / "bench-clients"


class _Unbuilt(Exception):
    """A client is not to be had here; the message says why."""


def measure(server: Server, count: int) -> Sample:
    """`count` single publishes by each client, in turns."""
    commands, notes = _commands()
    each = max(closed_loop.IN_FLIGHT, count // ROUNDS)
    used_us: dict[str, list[float]] = {C: [], **{language: [] for language in commands}}
    problems: list[str] = []
    with Session(server) as session:
        for _ in range(ROUNDS):
            for language, found in used_us.items():
                topic = session.topic()
                subscription = session.subscription(topic)
                found.append(_cpu_us(server, topic, each, commands.get(language)))
                received = session.pull_all(subscription, each)
                if len(set(received)) != each:
                    problems.append(f"{language}: {len(set(received)):,} of {each:,} came")
    medians = {language: statistics.median(found) for language, found in used_us.items()}
    ratios = {f"{name}-ratio": medians[name] / medians[C] for name in commands if medians[C]}
    return Sample(figures={**medians, **ratios}, problems=tuple(problems), notes=notes)


def _cpu_us(server: Server, topic: str, count: int, command: Sequence[str] | None) -> float:
    if command is None:
        publish = closed_loop.publish_official
        _, cost = closed_loop.load(server, topic, count, publish, processes=1)
    else:
        words = [server.endpoint, topic, count, closed_loop.IN_FLIGHT, closed_loop.SIZE_BYTES]
        with Meter(server) as meter:
            _run([*command, *map(str, words)], timeout_s=STEP_S)
        cost = meter.cost
    return closed_loop.cpu_us(cost, count) or 0.0


def _commands() -> tuple[dict[str, list[str]], tuple[str, ...]]:
    """How the clients are started, and a sentence for each that is not there."""
    commands: dict[str, list[str]] = {}
    notes: list[str] = []
    for language, build in {GO: _build_go, JAVA: _build_java}.items():
        try:
            commands[language] = build()
        except _Unbuilt as reason:
            notes.append(f"without {language}'s client: {reason}")
    return commands, tuple(notes)


def _build_go() -> list[str]:
    go = _found("go")
    program = _BUILT / "go" / "publish"
    _build([go, "build", "-C", str(_SOURCES / "go"), "-o", str(program), "."])
    return [str(program)]


def _build_java() -> list[str]:
    java, mvn = _found("java"), _found("mvn")
    built = _BUILT / "java"
    goals = ["compile", "dependency:copy-dependencies"]
    project = ["-f", str(_SOURCES / "java" / "pom.xml"), f"-Dbench.build={built}"]
    _build([mvn, "-q", "-B", *project, *goals])
    return [java, "-cp", f"{built / 'classes'}:{built / 'libraries'}/*", "bench.Publish"]


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise _Unbuilt(f"{program} is not on this machine")
    return path


def _build(command: list[str]) -> None:
    try:
        _run(command, timeout_s=BUILD_S)
    except (OSError, Stalled) as error:
        raise _Unbuilt(f"it could not be built: {error}") from error


def _run(command: list[str], *, timeout_s: float) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Stalled(f"{Path(command[0]).name} was not done after {timeout_s:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise OSError(f"{Path(command[0]).name}: {said[0] if said else done.returncode}")
