"""`make bench`: every workload against Fanlog and the emulator, in turn, and a table of both.

`--before` adds an earlier Fanlog, started from its own commit, as a third server.

Each measurement has a server of its own, started fresh in a folder of its own and warmed up by a
tenth of the workload; only one server runs at a time. Ctrl-C stops it and removes the folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

import grpc
import psutil

from bench import before, machine, table, workloads
from bench.before import Before
from bench.results import Entry, Results
from bench.servers import (
    Emulator,
    Fanlog,
    Launch,
    Running,
    Server,
    ServerFailed,
    find_emulator,
)
from bench.session import Sample, Stalled
from bench.workload import Workload

BUILD = Path(__file__).resolve().parent.parent / "build"
#: The emulator needs about 4 GiB for a million messages of 1 KiB: not on a machine that lacks them.
EMULATOR_MEMORY_BYTES = 6 * 2**30
#: Load per core before the start from which on a run is called noisy.
NOISY_LOAD = 0.25


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    BUILD.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=BUILD))
    try:
        return _run(options, folder)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = ", ".join(workload.name for workload in workloads.WORKLOADS)
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="WORKLOAD", help=f"names, or how they start: {names}"
    )
    parser.add_argument("--quick", action="store_true", help="small counts; judges nothing")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="medians of N")
    parser.add_argument("--no-emulator", action="store_true", help="Fanlog alone")
    parser.add_argument(
        "--before",
        nargs="?",
        const=before.COMMIT,
        metavar="COMMIT",
        help=f"also Fanlog of this commit; {before.COMMIT} when none is named",
    )
    parser.add_argument("--endpoint", metavar="HOST:PORT", help="a server that already runs, alone")
    parser.add_argument("--pid", type=int, help="its process, for CPU and memory (with --endpoint)")
    parser.add_argument(
        "--results",
        type=Path,
        default=BUILD / "bench-results.jsonl",
        metavar="FILE",
        help="JSON lines are added to it; build/bench-results.jsonl when not given",
    )
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error("--repeat must be 1 or more")
    if options.pid and not options.endpoint:
        parser.error("--pid is for --endpoint")
    if options.before and options.endpoint:
        parser.error("--before starts servers, --endpoint does not")
    try:
        options.workloads = workloads.matching(options.only)
    except KeyError as unknown:
        parser.error(f"no workload starts with {unknown}; there are {names}")
    return options


def _run(options: argparse.Namespace, folder: Path) -> int:
    facts = machine.facts(folder)
    launches = _launches(options)
    results = Results(options.results, run=uuid.uuid4().hex[:12])
    results.begin(
        facts,
        quick=options.quick,
        repeat=options.repeat,
        endpoint=options.endpoint,
        before=options.before,
    )
    load_before = machine.load()
    for workload in options.workloads:
        if workload.restarts and options.endpoint:
            print(f"{workload.name}: left out, it would have to restart the server")
            continue
        if (workload.is_serverless or workload.needs_own_servers) and options.endpoint:
            print(f"{workload.name}: left out, it measures no server but this checkout")
            continue
        for repeat in range(options.repeat):
            # Turn and turn about, so that a machine that slows down does so for both.
            for label in list(launches) if repeat % 2 == 0 else reversed(launches):
                _measure(options, workload, label, launches[label], repeat, folder, results)
    shown = [each for each in options.workloads if any(results.of(each, name) for name in launches)]
    print()
    print(table.report(results, shown, list(launches), is_judged=not options.quick))
    _print_facts(facts, load_before, options)
    return 1 if any(entry.problems for entry in results.entries) else 0


def _launches(options: argparse.Namespace) -> dict[str, Launch]:
    """The servers to measure by label; ours comes last."""
    if options.endpoint:
        return {Running.label: lambda _: Running(options.endpoint, options.pid)}
    launches: dict[str, Launch] = {}
    if not options.no_emulator:
        if find_emulator() is None:
            print("Google's emulator (cloud-pubsub-emulator, and a Java) is not on this machine.")
        else:
            launches[Emulator.label] = Emulator
    if options.before:
        try:
            sources = before.unpack(options.before, BUILD)
            launches[Before.label] = lambda folder: Before(folder, sources)
        except before.NoHistory as reason:
            print(f"The server before ({options.before}) is left out: {reason}.")
    return {**launches, Fanlog.label: Fanlog}


def _measure(
    options: argparse.Namespace,
    workload: Workload,
    label: str,
    launch: Launch,
    repeat: int,
    folder: Path,
    results: Results,
) -> None:
    if (workload.is_serverless or workload.needs_own_servers) and label != Fanlog.label:
        return
    if workload.needs_filters and label == Emulator.label:
        return
    count = workload.count_for(label, is_quick=options.quick)
    if _is_too_large(workload, label, count):
        print(f"{workload.name}, {label}: left out, it needs more memory than is free")
        return
    print(f"{workload.name}, {label}: {count:,} {workload.counted} ...", flush=True)
    home = folder / f"{workload.name}-{label}-{repeat}"
    home.mkdir()
    load_before, sample, failure = machine.load(), None, ""
    try:
        sample = _sample(workload, launch(home), count)
    except (grpc.RpcError, psutil.Error, ServerFailed, Stalled, OSError) as error:
        failure = _sentence(error)
        print(f"{workload.name}, {label}: failed: {failure}")
    finally:
        shutil.rmtree(home, ignore_errors=True)
    results.add(
        Entry(
            workload=workload,
            server=label,
            count=count,
            repeat=repeat,
            sample=sample,
            failure=failure,
            load_before=load_before,
            load_after=machine.load(),
        )
    )


def _is_too_large(workload: Workload, label: str, count: int) -> bool:
    is_large = workload.name == "memory" and count >= workload.count
    available = psutil.virtual_memory().available
    return label == Emulator.label and is_large and available < EMULATOR_MEMORY_BYTES


def _sample(workload: Workload, server: Server, count: int) -> Sample:
    if workload.is_serverless:
        return workload.measure(server, count)
    try:
        server.start()
        if warm_up := workload.warm_up_count(count):
            workload.measure(server, warm_up)
        return workload.measure(server, count)
    finally:
        server.stop()


def _sentence(error: Exception) -> str:
    if isinstance(error, grpc.Call):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__


def _print_facts(facts: dict[str, str], load_before: float, options: argparse.Namespace) -> None:
    print()
    for name, fact in facts.items():
        print(f"{name + ':':16}{fact}")
    repeats = f"medians of {options.repeat}" if options.repeat > 1 else "one measurement each"
    print(f"{'run:':16}{'quick, ' if options.quick else ''}{repeats}")
    print(f"{'load average:':16}{load_before:.2f} before, {machine.load():.2f} after")
    if load_before > NOISY_LOAD * (os.cpu_count() or 1):
        print("The machine was busy before the run began: these figures say little.")


if __name__ == "__main__":
    sys.exit(main())
