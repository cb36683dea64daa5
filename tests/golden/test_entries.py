"""Entries of a replicated partition, of every format version there was: read for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from entry_samples import samples
from fanlog.log.replicated import entries

HERE = Path(__file__).parent
TAG = entries.cluster_tag("golden")


@pytest.mark.parametrize("name", samples())
def test_entries(name: str):
    head, body = samples()[name]
    value = (HERE / f"entry-v1-{name}.bin").read_bytes()
    assert entries.encode(TAG, head, body)[0] == value
    entry = entries.decode(TAG, value)
    assert (entry.head, entry.body) == (head, body)
