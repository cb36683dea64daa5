"""The stubs of Google's messages say what their descriptors say."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "stubs.py"
MADE = runpy.run_path(str(SCRIPT))


def test_they_are_current() -> None:
    assert MADE["PATH"].read_text() == MADE["stubs"](), "stale: run `make protos`"


def test_every_class_is_there() -> None:
    names = [line.split("(")[0] for line in MADE["stubs"]().splitlines() if "(Message):" in line]
    assert {"class PublishRequest", "class Subscription", "    class OidcToken"} <= set(names)
