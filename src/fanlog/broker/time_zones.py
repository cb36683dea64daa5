"""Time zones of the IANA database, by name: the machine's, or that of the package `tzdata`."""

from __future__ import annotations

import re
from datetime import tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from fanlog.errors import InvalidArgument
from fanlog.model.names import shown

#: Such as Europe/Berlin, Etc/GMT+5 or UTC.
_NAME = re.compile(r"[A-Z][A-Za-z0-9_+\-]*(/[A-Za-z0-9_+\-]+){0,2}", re.ASCII)
_LENGTH_MAX = 64
#: What lies beside the zones in folders of them, and means another on each machine.
_NO_ZONES = frozenset({"Factory"})


@lru_cache(maxsize=1024)
def time_zone(name: str, field: str = "time_zone") -> tzinfo:
    """A time zone; read from its file the first time it is asked for, which has some kilobytes.

    Raises:
        InvalidArgument: There is none of that name.
    """
    if len(name) <= _LENGTH_MAX and _NAME.fullmatch(name) and name not in _NO_ZONES:
        try:
            return ZoneInfo(name)
        except (LookupError, OSError, ValueError):
            # No such file, a folder, or a file that is no zone.
            pass
    raise InvalidArgument(
        f"{field}: {shown(name)} is not a time zone of the IANA database, such as Europe/Berlin"
    )
