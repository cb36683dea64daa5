"""What a stretch of work cost: time, and the processor time of server, generator and others."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType

import psutil

from bench.servers import Server

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What was used between two moments."""

    seconds: float
    #: None when the server's process is not known.
    server_cpu_s: float | None
    #: The load generator's own, its helper process included once it ended.
    client_cpu_s: float
    #: Everything else on the machine, the kernel's own threads included: noise, if it is much.
    others_cpu_s: float

    def with_helpers(self, cpu_s: float) -> Cost:
        """Count processor time of the generator's processes that have not ended."""
        return replace(
            self,
            client_cpu_s=self.client_cpu_s + cpu_s,
            others_cpu_s=max(0.0, self.others_cpu_s - cpu_s),
        )


class Meter:
    """Measures its `with` block; `cost` is there afterwards."""

    cost: Cost

    def __init__(self, server: Server) -> None:
        self._processes = server.processes()

    def __enter__(self) -> Meter:
        self._server, self._client, self._machine = self._read()
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._began
        if error is not None:
            return
        server, client, machine = self._read()
        server_s, client_s = server - self._server, client - self._client
        self.cost = Cost(
            seconds=seconds,
            server_cpu_s=server_s if self._processes else None,
            client_cpu_s=client_s,
            others_cpu_s=max(0.0, machine - self._machine - server_s - client_s),
        )

    def _read(self) -> tuple[float, float, float]:
        server = sum(sum(process.cpu_times()[:2]) for process in self._processes)
        return server, _own_cpu_s(), _machine_cpu_s()


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that `percent` of all values are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def anonymous_mib(server: Server) -> float | None:
    """Memory that is the server's own and no file's: RssAnon; None where that cannot be known."""
    total_kib = 0
    for process in server.processes():
        try:
            with open(f"/proc/{process.pid}/status", encoding="ascii", errors="replace") as status:
                lines = [line for line in status if line.startswith("RssAnon:")]
        except OSError:
            return None
        total_kib += sum(int(line.split()[1]) for line in lines)
    return total_kib * 1024 / MIB or None


def _own_cpu_s() -> float:
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _machine_cpu_s() -> float:
    times = psutil.cpu_times()
    idle: float = times.idle + getattr(times, "iowait", 0.0)
    # Time of guests is part of `user` and `nice` already.
    guests: float = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times)) - idle - guests
