"""All workloads, in the order of the table.

The targets are for a quiet machine with two cores and a disk that syncs in well under a
millisecond; elsewhere the ratio to the emulator, measured in the same run, is what to read.
"""

from __future__ import annotations

from bench.workload import Workload
from bench.workloads.broker import BROKER
from bench.workloads.rules import RULES
from bench.workloads.spark import SPARK

WORKLOADS = (*BROKER, *RULES, *SPARK)


def matching(prefixes: list[str] | None) -> tuple[Workload, ...]:
    """The workloads whose names start with one of these: `publish` names both of its kind.

    Raises:
        KeyError: A prefix that fits none; it is the error's argument.
    """
    if not prefixes:
        return WORKLOADS
    for prefix in prefixes:
        if not any(workload.name.startswith(prefix) for workload in WORKLOADS):
            raise KeyError(prefix)
    return tuple(each for each in WORKLOADS if each.name.startswith(tuple(prefixes)))
