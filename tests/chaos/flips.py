"""Flip bits in copies of a data folder, one at a time, and see what the engine makes of it.

A program of its own: `python -m chaos.flips FOLDER` reads a line of JSON for each flip and writes
one for its outcome. Each flip is judged in a child of its own, so that one that kills the engine is
an outcome like any other.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from chaos.sample import Content, difference, read_content
from fanlog.core.hard_state import HardState
from fanlog.errors import FanlogError
from fanlog.log import doctor, salvage
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import DATA_NAME
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import Author, make_body

#: Written after each flip, so that damaged lists of free pages come to light.
COMMITS = 8
WRITTEN = PartitionId(1_000_000)
#: A child that hangs is ended by SIGALRM: that too is an outcome.
CHILD_S = 20


def flip(data_dir: Path, position: int, bit: int) -> None:
    with (data_dir / DATA_NAME).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def judge(data_dir: Path, expected: Content) -> tuple[str, str]:
    """Open, read everything, write something, open and read again: the outcome and its sentence."""
    try:
        log = EmbeddedLog(data_dir)
        try:
            if wrong := difference(read_content(log), expected):
                return "wrong", wrong
            author = Author(log)
            for number in range(COMMITS):
                bodies = [make_body(bytes([number]) * 3_000)]
                author.commit({WRITTEN: bodies}, publish_time_ns=log.last_publish_time_ns)
        finally:
            log.close()
        log = EmbeddedLog(data_dir)
        try:
            content = read_content(log)
        finally:
            log.close()
        del content.partitions[WRITTEN]
        if wrong := difference(content, expected):
            return "wrong", f"after {COMMITS} commits: {wrong}"
    except FanlogError as error:
        return "stopped", f"{type(error).__name__}: {error}"
    except Exception:
        return "error", traceback.format_exc()
    if content.damaged:
        return "quarantined", str(content.damaged[0])
    return "untouched", ""


def inspect_state(state: list[tuple[bytes, bytes]]) -> list[str]:
    """What would keep a broker from starting; as `fanlog doctor` asks it."""
    try:
        HardState.load(state)
    except FanlogError as error:
        return [error.message]
    return []


def examine(data_dir: Path) -> tuple[bool, str]:
    """Whether doctor finds the folder healthy, and its first complaint."""
    try:
        report = doctor.examine(data_dir, inspect_state=inspect_state)
    except FanlogError as error:
        return False, str(error)
    complaints = [finding.text for finding in report.findings if finding.severity == "error"]
    return report.is_healthy, complaints[0] if complaints else ""


def rescue(data_dir: Path, out_dir: Path, expected: Content) -> tuple[int, str]:
    """Salvage: how many batches of those expected come back, and what is wrong with the result."""
    salvage.salvage(data_dir, out_dir, inspect_state=inspect_state)
    log = EmbeddedLog(out_dir)
    try:
        content = read_content(log)
    finally:
        log.close()
    kept = 0
    for partition, (_, _, batches) in expected.partitions.items():
        found = content.partitions.get(partition, (0, 0, {}))[2]
        kept += sum(found.get(base) == value for base, value in batches.items())
        if any(base in found and found[base] != value for base, value in batches.items()):
            return kept, f"partition {partition} came back with other bytes"
    return kept, ""


def _child(work: Path, expected: Content, out: int) -> None:
    signal.alarm(CHILD_S)
    damaged, judged, saved = work / "damaged", work / "judged", work / "saved"
    is_healthy, complaint = examine(damaged)
    _say(out, "healthy", is_healthy)
    _say(out, "complaint", complaint)
    if not is_healthy:
        kept, wrong = rescue(damaged, saved, expected)
        _say(out, "kept", kept)
        _say(out, "rescue", wrong)
    # Last: what kills the process has been preceded by the rest.
    outcome, sentence = judge(judged, expected)
    _say(out, "outcome", outcome)
    _say(out, "sentence", sentence)


def _say(out: int, name: str, value: object) -> None:
    os.write(out, json.dumps([name, value]).encode() + b"\n")


def _judge_in_child(work: Path, expected: Content) -> dict[str, object]:
    read_end, write_end = os.pipe()
    if (child := os.fork()) == 0:
        try:
            _child(work, expected, write_end)
        except BaseException:
            _say(write_end, "failure", traceback.format_exc())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, encoding="utf-8") as lines:
        answer = dict(json.loads(line) for line in lines)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        answer["outcome"] = "killed"
        answer["sentence"] = signal.Signals(os.WTERMSIG(status)).name
    return answer


def main(template: Path) -> None:
    log = EmbeddedLog(template)
    expected = read_content(log)
    log.close()
    assert not expected.damaged
    # In memory where there is such a place: thousands of syncs tell nothing here.
    memory = Path("/dev/shm")
    work = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    for line in sys.stdin:
        asked = json.loads(line)
        for name in ("damaged", "judged"):
            (work / name).mkdir(parents=True)
            shutil.copyfile(template / DATA_NAME, work / name / DATA_NAME)
            flip(work / name, asked["position"], asked["bit"])
        sys.stdout.write(json.dumps(asked | _judge_in_child(work, expected)) + "\n")
        sys.stdout.flush()
        shutil.rmtree(work)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
