"""A look at a server's own figures."""

from __future__ import annotations

import re
import time

from acceptance.served import PATIENCE_S, Served
from interop.rest_calls import ask


def backlog(server: Served, subscription: str) -> int:
    """Unacknowledged messages of a subscription, by the server's metrics."""
    pattern = rf'^fanlog_backlog_messages{{subscription="{re.escape(subscription)}"}} (\S+)$'
    found = re.search(pattern, str(ask(server, "GET", "/metrics"), "utf-8"), re.MULTILINE)
    assert found, subscription
    return int(float(found[1]))


def await_backlog(server: Served, subscription: str, count_max: int) -> None:
    """Wait until no more than so many messages are unacknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := backlog(server, subscription)) > count_max:
        assert time.monotonic() < deadline, f"{found} messages are not acknowledged"
        time.sleep(0.05)
