"""The broker as a Spark program talks to it: how long it waits, and how its errors are worded.

The driver makes a connection for each step of a query, a task one for its life: a connection cannot
be sent to another process.
"""

from __future__ import annotations

from typing import Final

from fanlog.client.connection import Connection
from fanlog.client.failures import SPARK

TIMEOUT_S: Final = 60.0
#: How long a broker that was there before may be away.
PATIENCE_S: Final = 60.0


def connect(endpoint: str, *, timeout_s: float = TIMEOUT_S, patience_s: float = 0.0) -> Connection:
    """A connection to the broker. All calls that Spark makes may be made twice.

    Without `patience_s`, a user who forgot to start the broker is told so at once.
    """
    return Connection(endpoint, timeout_s=timeout_s, patience_s=patience_s, wording=SPARK)
