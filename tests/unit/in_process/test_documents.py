"""The README's program and those of the guide run, and say what they should."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: Callbacks print from several threads, and Python's own `print` writes a line in pieces.
WHOLE_LINES = """
import builtins, sys
builtins.print = lambda *words: sys.stdout.write(" ".join(map(str, words)) + "\\n")
"""


def said(program: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", WHOLE_LINES + program],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_program_of_the_readme(tmp_path):
    snippets = SNIPPET.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    [program] = [snippet for snippet in snippets if "fanlog.Broker" in snippet]
    assert len([line for line in program.splitlines() if line.strip()]) <= 20
    assert sorted(said(program, tmp_path)) == ["orders.eu two chairs", "orders.us a table"]
    # Once more on the same folder: what was acknowledged does not come again.
    assert len(said(program, tmp_path)) == 2


def test_the_programs_of_the_guide(tmp_path):
    guide = (ROOT / "docs" / "guides" / "in-process.md").read_text(encoding="utf-8")
    lines = said("\n".join(SNIPPET.findall(guide)), tmp_path)
    assert lines[0] == "orders.eu two chairs anna"
    assert sorted(lines[1:6]) == [
        "orders.eu a bed ben",
        "orders.eu a lamp ",
        "orders.eu a shelf ",
        "orders.eu a table ",
        "orders.us a desk ",
    ]
    assert lines.index("orders.eu a table ") < lines.index("orders.eu a lamp ")
    assert lines[6:] == [
        "dead letter: 2 of 2 delivery attempts, the last one nacked: ValueError: no such account",
        "1 1",
    ]
