"""Processes that this one has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fanlog.pipeline import child_processes

SCRIPT = """
import subprocess, sys
from fanlog.pipeline.child_processes import end_children
sleep = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
below = subprocess.Popen(sleep, stdout=subprocess.PIPE)
below.stdout.readline()
end_children()
sys.exit(-below.wait(60))
"""


@pytest.mark.parametrize("has_proc", [True, False])
def test_they_are_ended(has_proc):
    script = SCRIPT
    if not has_proc:
        script = script.replace(
            "end_children()",
            "from fanlog.pipeline import child_processes as c; c._PROC = c.Path('/none'); "
            "end_children()",
        )
    done = subprocess.run([sys.executable, "-c", script], timeout=120)
    assert done.returncode == signal.SIGKILL


def test_nobody_else_is(monkeypatch):
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    monkeypatch.setattr(child_processes, "_PROC", Path("/proc"))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as below:
        child_processes.end_children()
        assert below.stdin is not None
        below.stdin.write(b"\n")
    assert below.pid in killed
    assert os.getppid() not in killed
    assert os.getpid() not in killed
