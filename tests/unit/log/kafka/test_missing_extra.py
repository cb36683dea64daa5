"""A node of a cluster without the extra `kafka` says what to install."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["confluent_kafka"] = None
from fanlog.errors import ConfigError
try:
    import fanlog.log.kafka.partition
except ConfigError as error:
    print(error)
"""


def test_a_missing_extra_is_an_error_of_the_configuration():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == (
        "a cluster needs confluent-kafka, which is not installed: pip install 'fanlog[kafka]'\n"
    )
