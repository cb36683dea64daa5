"""The process of a server, as the live numbers show it."""

from __future__ import annotations

import os
import resource
import sys
import time
from importlib.metadata import version

from fanlog.broker.ports import NodeFacts, NodeState
from fanlog.config import Config
from fanlog.transport.counts import TransportCounts


class ServerNode:
    """See `ports.Node`."""

    def __init__(self, config: Config, counts: TransportCounts) -> None:
        self._counts = counts
        self.facts = NodeFacts(
            version=version("fanlog"),
            project=config.project,
            auth=config.auth,
            in_memory=config.memory,
        )

    def state(self) -> NodeState:
        return NodeState(
            cpu_s=time.process_time(),
            memory_bytes=memory_bytes(),
            grpc_connections=self._counts.connections["grpc"],
            http_connections=self._counts.connections["http"],
            calls=self._counts.calls,
        )


def memory_bytes() -> int:
    """Memory that the process has now; where the system does not say that, the most it had."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # In bytes there, in kilobytes elsewhere.
        return peak if sys.platform == "darwin" else peak * 1024
