"""What is attacked: where its ports are, how much memory it takes, and whether it still answers.

The tests of this folder act as somebody does who may reach the ports and means harm. Each sends a
bounded amount, and measures what the server does with it: bytes of memory, bytes read, calls made.
Time is not measured. `docs/internals/threats.md` says who may be hostile, and which test of which
folder holds what.
"""

from __future__ import annotations

import socket
from pathlib import Path

import grpc

from acceptance.served import PATIENCE_S, Served
from chaos.measure import metrics
from fanlog.wire import types

#: More memory than any attack of a few megabytes may cost.
MEMORY_MAX = 32 * 1024 * 1024


class Victim:
    """A running server."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def connect(self, *, http: bool = False, timeout_s: float = 10.0) -> socket.socket:
        """A plain connection to the gRPC port, or to the HTTP port."""
        host, _, port = (self.served.http if http else self.served.endpoint).rpartition(":")
        return socket.create_connection((host, int(port)), timeout=timeout_s)

    def memory(self) -> int:
        """The memory it has now."""
        return self._status("VmRSS")

    def peak(self) -> int:
        """The most memory it ever had."""
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        lines = Path(f"/proc/{self.served.pid}/status").read_text().splitlines()
        [found] = [line for line in lines if line.startswith(f"{name}:")]
        return int(found.split()[1]) * 1024

    def forget_peak(self) -> None:
        Path(f"/proc/{self.served.pid}/clear_refs").write_text("5")

    def call(self, method: str, request: bytes) -> bytes:
        """A unary call of another client, on a connection of its own."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.served.endpoint, options=options) as channel:
            answer: bytes = channel.unary_unary(f"/google.pubsub.v1.{method}")(
                request, timeout=PATIENCE_S
            )
        return answer

    def still_serves(self) -> None:
        """Another client is answered at its first try."""
        self.topics("p")

    def count(self, name: str, label: str = "") -> float:
        """A counter of `/metrics`; 0 before its first event. A label is named by its value."""
        for line in metrics(self.served).splitlines():
            if line.startswith((f"{name} ", f"{name}{{")) and f'"{label}"' in f'{line}""':
                return float(line.rpartition(" ")[2])
        return 0.0

    def topics(self, project: str) -> list[str]:
        raw = types.ListTopicsRequest(project=f"projects/{project}").SerializeToString()
        found = types.ListTopicsResponse.FromString(self.call("Publisher/ListTopics", raw))
        return [topic.name for topic in found.topics]
