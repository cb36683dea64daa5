"""One profile for all property tests: the same examples every time, and no clock in the verdict."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fanlog",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: What a long search by hand uses: other examples every time.
settings.register_profile("search", parent=settings.get_profile("fanlog"), derandomize=False)
settings.load_profile(os.environ.get("FANLOG_HYPOTHESIS", "fanlog"))
