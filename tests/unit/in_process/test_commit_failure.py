"""Commits that fail: the core loads its state again, and callbacks go on."""

from __future__ import annotations

import threading
from collections import defaultdict

import fanlog
from fanlog.errors import CommitFailed, Unavailable
from fanlog.log.api import Commit
from fanlog.log.memory import MemoryLog

PATIENCE_S = 60.0


def test_every_message_comes_in_order_though_commits_fail(monkeypatch):
    commits, commit = 0, MemoryLog.commit

    def fail_sometimes(log: MemoryLog, one: Commit) -> None:
        nonlocal commits
        commits += 1
        # Not the first ones: those start the broker.
        if commits > 20 and commits % 7 == 0:
            raise CommitFailed("no")
        commit(log, one)

    monkeypatch.setattr(MemoryLog, "commit", fail_sometimes)
    seen: defaultdict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def note(message: fanlog.Message) -> None:
        key, number = message.payload
        with lock:
            seen[key].append(number)

    published: defaultdict[str, list[int]] = defaultdict(list)
    with fanlog.Broker() as broker:
        broker.subscribe("orders", note, retry=(0, 0), max_outstanding=10)
        for number in range(150):
            key = ("anna", "ben")[number % 2]
            try:
                broker.publish("orders", [key, number], key=key)
            except Unavailable:
                continue
            published[key].append(number)
        assert broker.join(PATIENCE_S)
        assert broker.metrics().inflight == 0
    assert commits > 100
    for key, numbers in published.items():
        assert list(dict.fromkeys(seen[key])) == numbers
