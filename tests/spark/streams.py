"""Streaming queries that end by themselves."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

#: Longest that one may take on a busy machine.
PATIENCE_S = 100
#: Spark gives the process that a Python source runs in ten seconds to start, and no setting for
#: it; on a busy machine that is sometimes too little. Nothing has happened by then.
_NOT_STARTED = "failed to connect back"
_ATTEMPTS = 6


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Start a query and wait for its end."""
    for attempt in range(1, _ATTEMPTS + 1):
        query = start()
        try:
            assert query.awaitTermination(PATIENCE_S)
            return query
        except StreamingQueryException as error:
            if _NOT_STARTED not in str(error) or attempt == _ATTEMPTS:
                raise
        finally:
            query.stop()
    raise AssertionError("unreachable")
