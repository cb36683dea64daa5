"""The samples of a run: kept, summed up by medians, and written as JSON lines."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.session import Sample
from bench.workload import Figure, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One sample, and what it is a sample of."""

    workload: Workload
    server: str
    count: int
    repeat: int
    #: None when the measurement failed; `failure` then says how.
    sample: Sample | None
    failure: str = ""
    load_before: float
    load_after: float

    @property
    def problems(self) -> tuple[str, ...]:
        return self.sample.problems if self.sample else (self.failure,)


@dataclass(slots=True)
class Results:
    """Everything a run found, also in a file that later runs add to."""

    path: Path
    run: str
    entries: list[Entry] = field(default_factory=list)

    def begin(self, facts: dict[str, str], **settings: Any) -> None:
        self._write({"kind": "run", "run": self.run, "machine": facts, **settings})

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)
        sample = entry.sample
        self._write(
            {
                "kind": "sample",
                "run": self.run,
                "workload": entry.workload.name,
                "server": entry.server,
                "counted": entry.workload.counted,
                "count": entry.count,
                "repeat": entry.repeat,
                "figures": sample.figures if sample else None,
                "messages": sample.messages if sample else 0,
                "cost": asdict(sample.cost) if sample and sample.cost else None,
                "problems": entry.problems,
                "notes": sample.notes if sample else (),
                "load_before": entry.load_before,
                "load_after": entry.load_after,
            }
        )

    def of(self, workload: Workload, server: str) -> list[Entry]:
        return [
            entry for entry in self.entries if (entry.workload, entry.server) == (workload, server)
        ]

    def value(self, workload: Workload, figure: Figure, server: str) -> float | None:
        """The median over the repeats; None when there is none."""
        return _median(
            entry.sample.figures.get(figure.key)
            for entry in self.of(workload, server)
            if entry.sample
        )

    def server_cpu_s_per_million(self, workload: Workload, server: str) -> float | None:
        return self._cpu_s_per_million(workload, server, "server_cpu_s")

    def client_cpu_s_per_million(self, workload: Workload, server: str) -> float | None:
        return self._cpu_s_per_million(workload, server, "client_cpu_s")

    def others_share(self, workload: Workload, server: str, cores: int) -> float | None:
        """How much of the machine others used meanwhile, 0 to 1."""
        return _median(
            cost.others_cpu_s / (cost.seconds * cores)
            for entry in self.of(workload, server)
            if entry.sample and (cost := entry.sample.cost)
        )

    def _cpu_s_per_million(self, workload: Workload, server: str, field_name: str) -> float | None:
        return _median(
            used / entry.sample.messages * 1e6
            for entry in self.of(workload, server)
            if entry.sample
            and entry.sample.messages
            and entry.sample.cost
            and (used := getattr(entry.sample.cost, field_name)) is not None
        )

    def _write(self, fields: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fields) + "\n")


def _median(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
