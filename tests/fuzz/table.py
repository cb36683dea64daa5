"""All fuzz targets by name, and where their corpus lies."""

from __future__ import annotations

from pathlib import Path

from fuzz.bounds import Target
from fuzz.targets import (
    budgets,
    credentials,
    events,
    filters,
    formats,
    http2,
    patterns,
    replays,
    rest,
    schema_work,
    schemas,
    server,
    texts,
    wire,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (
        budgets,
        formats,
        replays,
        wire,
        http2,
        patterns,
        server,
        rest,
        events,
        schemas,
        schema_work,
        texts,
        filters,
        credentials,
    )
    for target in module.TARGETS
}

CORPUS = Path(__file__).resolve().parent / "corpus"


def corpus_of(name: str) -> list[Path]:
    """The saved inputs of a target, in the order of their names."""
    folder = CORPUS / name
    return sorted(folder.iterdir()) if folder.is_dir() else []
