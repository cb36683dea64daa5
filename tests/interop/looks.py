"""A look at a server's own figures."""

from __future__ import annotations

import re
import ssl
import time
import urllib.request

from acceptance.served import PATIENCE_S, Served


def backlog(server: Served, subscription: str) -> int:
    """Unacknowledged messages of a subscription, by the server's metrics."""
    pattern = rf'^fanlog_backlog_messages{{subscription="{re.escape(subscription)}"}} (\S+)$'
    found = re.search(pattern, _metrics(server), re.MULTILINE)
    assert found, subscription
    return int(float(found[1]))


def await_backlog(server: Served, subscription: str, count_max: int) -> None:
    """Wait until no more than so many messages are unacknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := backlog(server, subscription)) > count_max:
        assert time.monotonic() < deadline, f"{found} messages are not acknowledged"
        time.sleep(0.05)


def _metrics(server: Served) -> str:
    # Who looks is not what is tried here.
    context = ssl._create_unverified_context() if server.is_tls else None
    scheme = "https" if server.is_tls else "http"
    url = f"{scheme}://{server.http}/metrics"
    with urllib.request.urlopen(url, timeout=PATIENCE_S, context=context) as answer:
        return str(answer.read(), "utf-8")
