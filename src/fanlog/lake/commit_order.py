"""The order of commits to a table, by the numbers that an application gives them.

A table remembers the number of the last commit of each application. From that alone it follows
whether another commit is new, has happened already, or was planned on a table that has changed.
"""

from __future__ import annotations

from fanlog.errors import Aborted


class CommitLost(Aborted):
    """Another committer came first: read the table again, and plan the commit anew."""

    code = "COMMIT_LOST"


def has_happened(who: str, last: int | None, app_version: int, *, after: int | None) -> bool:
    """Whether a commit is in the table already; when it is not, it may be made.

    Args:
        who: The table and the application, for the sentence.
        last: The number of the application's last commit; None when it never made one.
        after: The number of the commit that this one was planned on, 0 for none; None when that
            does not matter.

    Raises:
        CommitLost: Another committer of this application came first.
    """
    if last is not None and last >= app_version:
        if after is not None and last > app_version:
            raise CommitLost(
                f"{who} is at {last} already, past {app_version}: another committer came first"
            )
        return True
    if after is not None and (last or 0) != after:
        raise CommitLost(f"{who} is at {last or 0}, and this commit follows {after}")
    return False
