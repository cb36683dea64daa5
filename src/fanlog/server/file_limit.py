"""How many files, and so connections, this process may have open."""

from __future__ import annotations

import logging
import resource

from fanlog import limits

log = logging.getLogger("fanlog.server")


def raise_file_limit() -> None:
    """Take as many as the machine lets this process have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            log.warning("action=file_limit_stays files=%d error=%s", soft, error)


def caller_connections() -> int:
    """Connections that callers may have: those that push leaves, less some for files and pipes."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.CONNECTIONS_MAX
    return max(16, min(limits.CONNECTIONS_MAX, soft - push_connections() - limits.OTHER_FILES))


def push_connections() -> int:
    """Connections that push may open: half of the files, the rest is for connections of callers."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.PUSH_CONNECTIONS_MAX
    return max(16, min(limits.PUSH_CONNECTIONS_MAX, soft // 2))
