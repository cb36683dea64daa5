"""All workloads, in the order of the table.

The targets are for a quiet machine with two cores and a disk that syncs in well under a
millisecond; elsewhere the ratio to the emulator, measured in the same run, is what to read.
"""

from __future__ import annotations

from bench.workload import Workload
from bench.workloads.broker import BROKER
from bench.workloads.cluster import CLUSTER
from bench.workloads.looking import LOOKING
from bench.workloads.rules import RULES
from bench.workloads.spark import SPARK

WORKLOADS = (*BROKER, *LOOKING, *RULES, *CLUSTER, *SPARK)


def matching(prefixes: list[str] | None) -> tuple[Workload, ...]:
    """The workloads of these names, or whose names start so: `publish` names both of its kind.

    Raises:
        KeyError: A prefix that fits none; it is the error's argument.
    """
    if not prefixes:
        return WORKLOADS
    names = [workload.name for workload in WORKLOADS]
    wanted: set[str] = set()
    for prefix in prefixes:
        # A whole name means itself, and not also the longer ones.
        found = [prefix] if prefix in names else [name for name in names if name.startswith(prefix)]
        if not found:
            raise KeyError(prefix)
        wanted.update(found)
    return tuple(workload for workload in WORKLOADS if workload.name in wanted)
