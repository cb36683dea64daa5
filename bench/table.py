"""The report of a run, as text."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from bench.before import Before
from bench.results import Entry, Results
from bench.servers import Emulator
from bench.workload import Figure, Workload

NOTHING = "-"
_DIGITS = {"/s": 0, "µs": 0, "ms": 2, "s": 2, "MiB": 0, "KiB": 1, "B": 0, "x": 3, "%": 2}
_BETTER, _OF_BEFORE = "ratio", "of before"
_RATIOS = {
    _BETTER: "Ratio: how many times better Fanlog is than the emulator.",
    _OF_BEFORE: "Of before: Fanlog's value divided by that of the server before.",
}


def report(
    results: Results, workloads: Sequence[Workload], servers: Sequence[str], *, is_judged: bool
) -> str:
    """The tables and notes; `is_judged` says whether the targets apply to this run."""
    parts = [
        _grid(
            ["workload", *servers, *_ratio_heads(servers), "must reach", "reached"],
            [
                _figure_row(results, workload, figure, servers, is_judged)
                for workload in workloads
                for figure in workload.figures
            ],
        ),
        *(_RATIOS[head] for head in _ratio_heads(servers)),
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
    # Ours comes last.
    ours = values[servers[-1]]
    return [
        figure.label,
        *(_amount(values[server], figure) for server in servers),
        *(_ratio(figure, head, ours, values) for head in _ratio_heads(servers)),
        _wanted(figure),
        _verdict(results, workload, figure, values) if is_judged else NOTHING,
    ]


def _ratio_heads(servers: Sequence[str]) -> list[str]:
    others = {Emulator.label: _BETTER, Before.label: _OF_BEFORE}
    return [head for label, head in others.items() if label in servers[:-1]]


def _ratio(
    figure: Figure, head: str, ours: float | None, values: Mapping[str, float | None]
) -> str:
    theirs = values[Emulator.label if head == _BETTER else Before.label]
    if not ours or not theirs:
        return NOTHING
    ratio = figure.times_better(ours, theirs) if head == _BETTER else ours / theirs
    return f"{ratio:.2f}x"


def _wanted(figure: Figure) -> str:
    relative = [f"{each.times:g}x {each.server}" for each in figure.against]
    absolute = [] if figure.target is None else [_amount(figure.target, figure)]
    return ", ".join([*absolute, *relative]) or NOTHING


def _verdict(
    results: Results, workload: Workload, figure: Figure, values: Mapping[str, float | None]
) -> str:
    server = list(values)[-1]
    if any(entry.problems for entry in results.of(workload, server)):
        return "WRONG"
    ours = values[server]
    is_reached = None if ours is None else figure.is_reached(ours, values)
    return NOTHING if is_reached is None else "yes" if is_reached else "NO"


def _amount(value: float | None, figure: Figure) -> str:
    if value is None:
        return NOTHING
    is_short = figure.target is not None and figure.target < 0.1
    digits = _DIGITS[figure.unit] + is_short * (figure.unit == "ms")
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
