"""A recorded trace of writes and syncs, cut at every point, and opened again."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from chaos.power import Disk
from chaos.sample import Content, difference, read_content
from chaos.traced import Event, Received, Sent, Sync, Truncate, Write, read_trace, strace_command
from chaos.writes import COMMITS, commits
from fanlog.errors import FanlogError
from fanlog.log import doctor
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import DATA_NAME
from fanlog.log.memory import MemoryLog

SEED = 31
TESTS = Path(__file__).resolve().parent.parent
ANSWERED = re.compile(rb"answered (\d+)\n")


def record(tmp_path: Path, seed: int) -> list[Event]:
    """Let a process write a life, and tell what it did."""
    out = tmp_path / "trace"
    subprocess.run(
        [*strace_command(out), sys.executable, "-m", "chaos.writes", tmp_path / "life", str(seed)],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    events = [event for event in read_trace(out) if not isinstance(event, Received)]
    disk = Disk()
    for event in events:
        if isinstance(event, Write | Truncate | Sync):
            disk.add(event)
    # Nothing was overlooked: replaying all of it gives the very file.
    assert disk.whole() == (tmp_path / "life" / DATA_NAME).read_bytes()
    return events


def contents(seed: int) -> list[Content]:
    """What a log holds after each commit, by the reference engine; first, before all of them."""
    log = MemoryLog()
    found = [read_content(log, load=False)]
    for commit in commits(log, seed):
        log.commit(commit)
        found.append(read_content(log, load=False))
    return found


def cuts(events: Iterable[Event], seed: int, tears: int) -> Iterator[tuple[int, bytes]]:
    """Every point at which the power may go: last commit answered by then, and a file."""
    chance = random.Random(seed)
    disk, answered, seen = Disk(), 0, set()
    for event in events:
        if isinstance(event, Sent):
            for number in ANSWERED.findall(event.data):
                answered = int(number)
            continue
        if not isinstance(event, Write | Truncate | Sync):
            continue
        under_way = None if isinstance(event, Sync) else event
        for image in disk.images(chance, under_way, tears):
            if (answered, image) not in seen:
                seen.add((answered, image))
                yield answered, image
        disk.add(event)
    yield answered, disk.synced()


def judge(data_dir: Path, image: bytes, answered: int, expected: list[Content]) -> str:
    """What is wrong with a file that was found after a cut; empty when nothing is."""
    (data_dir / DATA_NAME).write_bytes(image)
    try:
        log = EmbeddedLog(data_dir)
    except FanlogError as error:
        return f"it does not open: {error}"
    try:
        sequence = log.last_sequence
        if sequence not in (answered, answered + 1):
            return f"commit {answered} was answered, and {sequence} is the last one there"
        content = read_content(log, load=False)
    finally:
        log.close()
    if content.damaged:
        return f"damaged: {content.damaged}"
    if wrong := difference(content, expected[sequence]):
        return f"commit {sequence} is not whole: {wrong}"
    report = doctor.examine(data_dir)
    return "" if not report.findings else f"doctor: {report.findings[0].text}"


def check(tmp_path: Path, events: list[Event], seed: int, tears: int) -> tuple[int, list[str]]:
    data_dir = tmp_path / "cut"
    data_dir.mkdir(exist_ok=True)
    expected = contents(seed)
    count, wrong = 0, []
    for answered, image in cuts(events, seed, tears):
        count += 1
        if sentence := judge(data_dir, image, answered, expected):
            wrong.append(f"cut {count} after answer {answered}: {sentence}")
    return count, wrong


def test_a_power_cut_at_any_point_loses_nothing_that_was_answered(strace, tmp_path):
    events = record(tmp_path, SEED)
    assert sum(isinstance(event, Sent) for event in events) >= COMMITS
    count, wrong = check(tmp_path, events, SEED, tears=1)
    assert wrong == []
    assert count > 10 * COMMITS


def test_the_cuts_would_notice_a_missing_sync(strace, tmp_path):
    """A disk that takes a sync for done at once: cuts must find that out."""
    events = [
        Write(event.offset, event.data, is_synced=False) if isinstance(event, Write) else event
        for event in record(tmp_path, SEED)
        if not isinstance(event, Sync)
    ]
    _, wrong = check(tmp_path, events[: len(events) // 2], SEED, tears=1)
    assert any("was answered" in sentence for sentence in wrong)
    assert any("does not open" in sentence or "not whole" in sentence for sentence in wrong)


@pytest.mark.nightly
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(20))
def test_a_power_cut_at_any_point_of_many_lives(strace, tmp_path, seed):
    _, wrong = check(tmp_path, record(tmp_path, seed), seed, tears=4)
    assert wrong == []
