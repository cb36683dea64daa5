"""The report of a run, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from bench.results import Entry, Results
from bench.servers import Emulator
from bench.workload import Figure, Workload

NOTHING = "-"


def report(
    results: Results, workloads: Sequence[Workload], servers: Sequence[str], *, is_judged: bool
) -> str:
    """The tables and notes; `is_judged` says whether the targets apply to this run."""
    parts = [
        _grid(
            ["workload", *servers, "ratio", "must reach", "reached"],
            [
                _figure_row(results, workload, figure, servers, is_judged)
                for workload in workloads
                for figure in workload.figures
            ],
        ),
        *(["Ratio: how many times better Fanlog is than the emulator."] * (len(servers) > 1)),
        *_notes(results, workloads, servers, is_judged),
        "",
        _grid(
            [
                "CPU seconds per million messages",
                *servers,
                *(f"generator on {server}" for server in servers),
                "others' share of the CPUs",
            ],
            [_cpu_row(results, workload, servers) for workload in workloads],
        ),
    ]
    return "\n".join(parts)


def _figure_row(
    results: Results, workload: Workload, figure: Figure, servers: Sequence[str], is_judged: bool
) -> list[str]:
    values = {server: results.value(workload, figure, server) for server in servers}
    # Ours comes last; before it, where there is one, the emulator.
    ours, theirs = values[servers[-1]], values.get(Emulator.label)
    ratio = figure.times_better(ours, theirs) if ours and theirs and len(servers) > 1 else None
    return [
        figure.label,
        *(_amount(values[server], figure) for server in servers),
        f"{ratio:.2f}x" if ratio else NOTHING,
        _amount(figure.target, figure),
        _verdict(results, workload, figure, servers[-1]) if is_judged else NOTHING,
    ]


def _verdict(results: Results, workload: Workload, figure: Figure, server: str) -> str:
    if any(entry.problems for entry in results.of(workload, server)):
        return "WRONG"
    value = results.value(workload, figure, server)
    if value is None or figure.target is None:
        return NOTHING
    return "yes" if figure.is_reached(value) else "NO"


def _amount(value: float | None, figure: Figure) -> str:
    if value is None:
        return NOTHING
    is_short = figure.target is not None and figure.target < 0.1
    digits = {"/s": 0, "MiB": 0, "B": 0, "ms": 3 if is_short else 2, "s": 2, "x": 3}[figure.unit]
    space = "" if figure.unit == "/s" else " "
    return f"{value:,.{digits}f}{space}{figure.unit}"


def _cpu_row(results: Results, workload: Workload, servers: Sequence[str]) -> list[str]:
    cores = os.cpu_count() or 1
    used = [results.server_cpu_s_per_million(workload, server) for server in servers]
    own = [results.client_cpu_s_per_million(workload, server) for server in servers]
    others = [results.others_share(workload, server, cores) for server in servers]
    known = [share for share in others if share is not None]
    return [
        workload.name,
        *(NOTHING if value is None else f"{value:,.2f}" for value in (*used, *own)),
        f"{max(known):.0%}" if known else NOTHING,
    ]


def _notes(
    results: Results, workloads: Sequence[Workload], servers: Sequence[str], is_judged: bool
) -> Iterator[str]:
    if not is_judged:
        yield "A quick run has small counts and judges nothing."
    for workload in workloads:
        entries = [entry for server in servers for entry in results.of(workload, server)]
        counts = {entry.server: entry.count for entry in entries}
        if set(counts.values()) - {workload.count}:
            each = ", ".join(f"{server} {count:,}" for server, count in counts.items())
            yield f"{workload.name}, {workload.counted}: {each}."
        for entry in entries:
            yield from _remarks(entry)


def _remarks(entry: Entry) -> Iterator[str]:
    where = f"{entry.workload.name}, {entry.server}, repeat {entry.repeat + 1}"
    for problem in entry.problems:
        yield f"WRONG: {where}: {problem}."
    for note in entry.sample.notes if entry.sample else ():
        yield f"{where}: {note}."


def _grid(head: list[str], rows: list[list[str]]) -> str:
    """First column to the left, the others to the right."""
    lines = [head, ["-" * len(cell) for cell in head], *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    lines[1] = ["-" * width for width in widths]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
