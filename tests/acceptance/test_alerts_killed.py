"""Alerts of a server that is killed: one message for each beginning and end."""

from __future__ import annotations

import signal
import time

import pytest

from acceptance.served import PATIENCE_S, Served

ATTRIBUTES = ("fanlog-alert-state", "fanlog-alert-number")


def state(server: Served) -> dict[str, object]:
    [found] = server.lines("alert", "describe", "behind")
    return found


def await_state(server: Served, *, holding: bool, number: int) -> None:
    late_s = time.monotonic() + PATIENCE_S
    while True:
        found = state(server)
        if (bool(found.get("holding")), int(found.get("number", 0))) == (holding, number):
            return
        assert time.monotonic() < late_s, found
        time.sleep(0.1)


def told(server: Served) -> list[tuple[str, ...]]:
    """State and number of every message, in order."""
    lines = server.lines("message", "browse", "fanlog.alerts", "--max", "100")
    return [tuple(line["attributes"][name] for name in ATTRIBUTES) for line in lines]


def kill(server: Served) -> None:
    server.stop(signal.SIGKILL)
    server.start()


@pytest.mark.slow
def test_one_message_for_each_begin_and_end(served):
    served.run("topic", "create", "orders")
    served.run("sub", "create", "billing", "--topic", "orders")
    limit = ("--subscription", "billing", "--limit", "2", "--clear", "0", "--minimum-time", "0s")
    served.run("alert", "create", "behind", "backlog-messages", *limit)
    for number in (0, 2):
        served.run("publish", "orders", "-", stdin="a\nb\nc\n")
        # At any moment of its beginning: the message and the state are one commit.
        kill(served)
        await_state(served, holding=True, number=number + 1)
        # It holds already: nothing is told again, however often the server starts.
        kill(served)
        served.run("sub", "purge", "billing")
        kill(served)
        await_state(served, holding=False, number=number + 2)
        kill(served)
    expected = [("began", "1"), ("ended", "2"), ("began", "3"), ("ended", "4")]
    assert told(served) == expected
