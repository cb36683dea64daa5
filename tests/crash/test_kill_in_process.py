"""A program with a broker in it, killed with SIGKILL at random moments, again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("in_process_program.py")
LIVES = 5


def live(folder: Path, life: str, lines_wanted: int | None) -> list[list[str]]:
    """Run the program until it has said so many lines, then kill it; all that it said."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), str(folder), life], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    said: list[list[str]] = []
    for line in process.stdout:
        # The last write may be cut.
        if line.endswith(b"\n"):
            said.append(line.decode().split())
        if lines_wanted is not None and len(said) == lines_wanted:
            os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    assert process.wait(60) == (0 if lines_wanted is None else -signal.SIGKILL)
    return said


@pytest.mark.timeout(200)
def test_killed_again_and_again_it_keeps_every_promise(tmp_path):
    chance = random.Random(20_261)
    said: list[list[str]] = []
    for life in range(LIVES):
        said += live(tmp_path / "data", f"life{life}", chance.randrange(200, 1_200))
    said += live(tmp_path / "data", "drain", None)
    assert ["drained", "True"] in said

    published = [(words[1], words[2]) for words in said if words[0] == "published"]
    assert len(published) > 150
    confirmed: set[str] = set()
    seen: dict[str, defaultdict[str, list[str]]] = {
        name: defaultdict(list) for name in ("least", "once")
    }
    for words in said:
        if words[0] in seen:
            assert not (words[0] == "once" and words[1] in confirmed), words
            seen[words[0]][words[2]].append(words[1])
        elif words[0] == "confirmed":
            confirmed.add(words[1])
    for by_key in seen.values():
        for key, numbers in by_key.items():
            firsts = list(dict.fromkeys(numbers))
            wanted = [number for number, its_key in published if its_key == key]
            # What was published and not said to be, when the kill came, may be there too.
            assert set(wanted) <= set(firsts)
            for life in range(LIVES):
                mine = [number for number in firsts if number.startswith(f"life{life}-")]
                assert mine == sorted(mine, key=lambda n: [int(p) for p in n.split("-")[1:]])
