"""Expressions of PromQL that name metrics by the table.

In a template `<fanlog_published>` stands for the samples of a metric: of a counter with the
`_total` that Prometheus knows it by. `<fanlog_commit_seconds.bucket>` is one of a histogram, and
labels are matched inside: `<fanlog_jobs state="failed">`. A name or a label that the table does not
have is a KeyError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fanlog.server.metric_families import FAMILIES
from fanlog.server.metrics.family import Family

_PLACE: Final = re.compile(r'<([a-z_]+)(?:\.(bucket|sum|count))?((?: [a-z_]+(?:=|!=|=~)"[^"]*")*)>')
_MATCHER: Final = re.compile(r' ([a-z_]+)((?:=|!=|=~)"[^"]*")')
#: Labels that Prometheus itself sets.
TARGET_LABELS: Final = ("job", "instance")


def families_of(template: str) -> Iterator[Family]:
    """The metrics that a template names, in its order."""
    for found in _PLACE.finditer(template):
        yield FAMILIES[found[1]]


def expression(template: str, *matchers: str) -> str:
    """The expression of a template; the matchers are those of every metric in it."""

    def written(found: re.Match[str]) -> str:
        family, part = FAMILIES[found[1]], found[2]
        if (part is not None) != (family.kind == "histogram"):
            raise KeyError(f"{found[0]}: {family.name} is a {family.kind}")
        name = f"{family.name}_{part}" if part else family.sample_names[0]
        own = _MATCHER.findall(found[3])
        for label, _ in own:
            if label not in (*family.labels, *TARGET_LABELS):
                raise KeyError(f"{found[0]}: there is no label {label}")
        shown = ",".join([*(label + match for label, match in own), *matchers])
        return f"{name}{{{shown}}}" if shown else name

    return _PLACE.sub(written, template)
