"""How far a log is archived in a lake: the table `messages` itself says so.

The application of an archive is the log, by its id; the number of a commit is the commit sequence
of the log that it reaches. So an archive that forgot everything, or a second one, begins where the
table ends, and adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from fanlog.lake import commits
from fanlog.lake.commits import Committed
from fanlog.lake.files import DataFile
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES


def archived_sequence(location: Location, log_id: str) -> int:
    """Commits of the log up to and with this one are in the lake; 0 when none is.

    Raises:
        LakeError: There is no lake.
    """
    return commits.last_version(location, MESSAGES, log_id) or 0


def commit_archive(
    location: Location,
    log_id: str,
    files: Sequence[DataFile],
    *,
    after_sequence: int,
    to_sequence: int,
) -> Committed:
    """Add the messages of the commits after one sequence up to and with another.

    Repeated, it changes nothing.

    Raises:
        CommitLost: Another archive of this log came first; nothing changed.
        LakeError: The lake cannot be written.
    """
    assert after_sequence < to_sequence
    return commits.add_files(
        location,
        MESSAGES,
        files,
        app_id=log_id,
        app_version=to_sequence,
        after=after_sequence,
        note={"fanlogAfter": str(after_sequence), "fanlogTo": str(to_sequence)},
    )
