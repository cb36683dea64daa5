"""A reader in bulk pauses while others publish, and only then."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from fanlog import limits
from fanlog.broker.verbs import log_reads


def test_a_commit_slows_readers_down_for_a_while(monkeypatch):
    slept: list[float] = []
    now_s = 0.0

    async def sleep(seconds):
        slept.append(seconds)

    async def run():
        nonlocal now_s
        monkeypatch.setattr(log_reads.asyncio, "sleep", sleep)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now_s)
        ledger = SimpleNamespace(committed_sequence=7)
        pace = log_reads._Pace(ledger)
        await pace.wait()
        ledger.committed_sequence = 8
        await pace.wait()
        now_s += limits.LOG_READ_LIVE_S / 2
        await pace.wait()
        now_s += limits.LOG_READ_LIVE_S
        await pace.wait()

    asyncio.run(run())
    assert slept == [0, limits.LOG_READ_PAUSE_S, limits.LOG_READ_PAUSE_S, 0]
