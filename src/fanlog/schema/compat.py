"""Whether a new revision may follow the revisions there are.

`BACKWARD`: programs that read with the new revision can read messages of the old one.
`FORWARD`: programs that read with the old revision can read messages of the new one. `FULL`: both.
Against the latest revision, or (`_TRANSITIVE`) against every one.
"""

from __future__ import annotations

from collections.abc import Sequence

from fanlog.model.resources import Compatibility
from fanlog.schema.budget import budget_to_compare
from fanlog.schema.compiled import Compiled


def breaking_changes(
    level: Compatibility, new: Compiled, earlier: Sequence[tuple[str, Compiled]]
) -> list[str]:
    """List the reasons why `new` may not follow `earlier`: (revision id, schema), the latest last.

    Raises:
        InvalidArgument: The comparison takes more steps than it may.
    """
    if level == "NONE":
        return []
    against = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
    found: list[str] = []
    budget = budget_to_compare()
    for revision, old in reversed(against):
        if not level.startswith("FORWARD"):
            found += [f"reading what {revision} wrote: {one}" for one in new.breaks(old, budget)]
        if not level.startswith("BACKWARD"):
            found += [
                f"{revision} reading what this writes: {one}" for one in old.breaks(new, budget)
            ]
    return found
