"""One profile for all that Hypothesis tries: the same examples every time, in whichever order tests
run, and no clock in the verdict.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "fanlog",
    derandomize=True,
    database=None,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
#: What a search uses (`make nightly`): the examples of `--hypothesis-seed`.
settings.register_profile("search", parent=settings.get_profile("fanlog"), derandomize=False)
settings.load_profile(os.environ.get("FANLOG_HYPOTHESIS", "fanlog"))

#: Hypothesis also tries numbers and words that it finds in the modules of the program that are
#: imported. Which those are depends on the tests that this process ran before, and with them the
#: examples: without this even a derandomized test differs from run to run.
providers._get_local_constants = lambda: providers.Constants()
