"""The price of authentication: single publishes with a token and without, in turns.

Two servers of this checkout run beside each other, and one at a time has the load. The caller has a
role on the server, so that every policy on the way is looked at: the topic's, its project's and the
server's own.
"""

from __future__ import annotations

import statistics

from bench import closed_loop
from bench.servers import Fanlog, Launched, Server
from bench.session import Sample

ROUNDS = 5


class Asking(Fanlog):
    """Fanlog that asks who calls; callers show the administrator's token."""

    def _command(self) -> list[str]:
        return [*super()._command(), "--auth", "required"]

    def _answers(self) -> bool:
        path = self.folder / "data" / "auth" / "admin.token"
        self.token = path.read_text().strip() if path.exists() else ""
        return bool(self.token) and super()._answers()


def measure(open_server: Server, count: int) -> Sample:
    """`count` requests with a token and as many without; the rates, and how much lower one is."""
    assert isinstance(open_server, Launched)
    folder = open_server.folder / "asking"
    folder.mkdir(exist_ok=True)
    asking = Asking(folder)
    asking.start()
    try:
        turns = [(_load(open_server, count), _load(asking, count)) for _ in range(ROUNDS)]
    finally:
        asking.stop()
    plain, authenticated = (
        statistics.median(sample.figures["rate"] or 0.0 for sample in samples)
        for samples in zip(*turns, strict=True)
    )
    return Sample(
        figures={
            "plain": plain,
            "authenticated": authenticated,
            "ratio": plain / authenticated,
        },
        problems=tuple(problem for turn in turns for sample in turn for problem in sample.problems),
    )


def _load(server: Server, count: int) -> Sample:
    return closed_loop.measure(server, max(1, count // ROUNDS), publish=closed_loop.publish_lean)
