"""Alerts of a server that is killed: one message for each beginning and end."""

from __future__ import annotations

import signal
import time

import pytest

from acceptance.served import PATIENCE_S, Served
from commands import lines_of

ATTRIBUTES = ("fanlog-alert-state", "fanlog-alert-number")


def state(server: Served) -> dict[str, object]:
    [found] = lines_of(["alert", "describe", "behind"], env=server.environ)
    return found


def await_state(server: Served, *, holding: bool, number: int) -> None:
    late_s = time.monotonic() + PATIENCE_S
    while True:
        found = state(server)
        if (bool(found.get("holding")), int(found.get("messages", 0))) == (holding, number):
            return
        assert time.monotonic() < late_s, found
        time.sleep(0.1)


def told(server: Served) -> list[tuple[str, ...]]:
    """State and number of every message, in order."""
    lines = lines_of(["message", "browse", "fanlog.alerts", "--max", "100"], env=server.environ)
    return [tuple(line["attributes"][name] for name in ATTRIBUTES) for line in lines]


def kill(server: Served) -> None:
    server.stop(signal.SIGKILL)
    server.start()


@pytest.mark.slow
def test_one_message_for_each_begin_and_end(served):
    lines_of(["topic", "create", "orders"], env=served.environ)
    lines_of(["sub", "create", "billing", "--topic", "orders"], env=served.environ)
    limit = ("--subscription", "billing", "--limit", "2", "--clear", "0", "--minimum-time", "0s")
    lines_of(["alert", "create", "behind", "backlog-messages", *limit], env=served.environ)
    lines_of(["publish", "orders", "-"], input="a\nb\nc\n", env=served.environ)
    # At any moment of its beginning: the message and the state are one commit.
    kill(served)
    await_state(served, holding=True, number=1)
    lines_of(["sub", "purge", "billing"], env=served.environ)
    # It held already: that is not told again, and its end is.
    kill(served)
    await_state(served, holding=False, number=2)
    kill(served)
    assert told(served) == [("began", "1"), ("ended", "2")]
