"""The price of authentication: single publishes with a token and without, in turns.

Two servers of this checkout run beside each other, and one at a time has the load. The caller has a
role on the server, so that every policy on the way is looked at: the topic's, its project's and the
server's own.
"""

from __future__ import annotations

import statistics
import timeit

from bench import closed_loop
from bench.servers import Fanlog, Launched, Server
from bench.session import Sample
from fanlog.auth.authenticator import Authenticator, AuthSettings
from fanlog.broker.clock import SystemClock
from fanlog.model.identity import Principal

ROUNDS = 5
#: Of a token that a service account signed itself.
TOKEN_BYTES = 800
KNOWN_CALLS = 20_000


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
    without, with_token = zip(*turns, strict=True)
    plain, authenticated = _median(without, "rate"), _median(with_token, "rate")
    return Sample(
        figures={
            "plain": plain,
            "authenticated": authenticated,
            "ratio": plain / authenticated,
            "plain-cpu": _median(without, "cpu"),
            "authenticated-cpu": _median(with_token, "cpu"),
            "known": known_us(),
        },
        problems=tuple(problem for turn in turns for sample in turn for problem in sample.problems),
    )


def _median(samples: tuple[Sample, ...], key: str) -> float:
    return statistics.median(sample.figures[key] or 0.0 for sample in samples)


class _Nobody:
    """A server without accounts: none is looked up for a token that is known."""

    server_id = "0" * 16
    version = 0

    def account(self, _: str) -> None:
        return None

    def token_owner(self, _: str) -> None:
        return None


def known_us() -> float:
    """The time to know the caller of a token that was verified before, the best of five."""
    found = Authenticator(_Nobody(), AuthSettings(), SystemClock(), lambda: b"")
    header = "Bearer " + "x" * TOKEN_BYTES
    found.known(header)
    found._remember(header, Principal(member="user:bench@example.com"))
    assert found.known(header)
    times = timeit.repeat(lambda: found.known(header), number=KNOWN_CALLS, repeat=5)
    return min(times) / KNOWN_CALLS * 1e6


def _load(server: Server, count: int) -> Sample:
    return closed_loop.measure(server, max(1, count // ROUNDS), publish=closed_loop.publish_lean)
