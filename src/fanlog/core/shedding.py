"""Load shedding: while the writer or the disk is behind, publishes of low priority are refused.

*Pressure* is how far behind they are: 0 when nothing waits, 1 when no more may wait. From a part
of it on, publishes without a priority are refused; the higher the priority of a publish, the higher
the pressure that refuses it, in ten even steps up to 1. Pure.
"""

from __future__ import annotations

from fanlog import limits
from fanlog.errors import LoadShed
from fanlog.model.attributes import PRIORITY
from fanlog.model.terms import PRIORITY_MAX, TermKind, Terms


def pressure(waiting_bytes: int, commit_s: float) -> float:
    """From the bytes that wait for the disk, and how long the commit under way has taken."""
    return max(waiting_bytes / limits.WRITER_BACKLOG_BYTES_MAX, commit_s / limits.SHED_COMMIT_S)


def check(shed_at: float, terms: Terms | None, found: float, commit_s: float) -> None:
    """Check that a publish is not refused under the pressure that was `found`.

    A request is taken or refused whole, so the highest priority of its messages counts.

    Args:
        shed_at: The pressure from which publishes of no priority are refused.
        commit_s: How long the commit under way has taken: it may well take as long again.

    Raises:
        LoadShed: It is; names the priority that would be taken.
    """
    if found < shed_at:
        return
    values = () if terms is None else terms.column(TermKind.PRIORITY).values
    priority = max(values, default=0)
    steps = PRIORITY_MAX + 1
    if found < shed_at + (1.0 - shed_at) * priority / steps:
        return
    taken = int((found - shed_at) * steps / (1.0 - shed_at)) + 1
    what = f"{PRIORITY} {taken} or more" if taken <= PRIORITY_MAX else "no publish"
    wait_s = min(max(commit_s, limits.SHED_RETRY_S_MIN), limits.SHED_COMMIT_S)
    raise LoadShed(
        f"the disk is behind, and publishes of priority {priority} wait until it has caught up; "
        f"it takes {what} now",
        wait_s,
    )
