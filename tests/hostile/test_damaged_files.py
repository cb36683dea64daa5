"""Sixty damaged data files: `doctor` names what is wrong with each, or says that all is well."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.served import clean_environ
from fanlog.log.embedded import EmbeddedLog
from fanlog.testing.conformance import ONE, TWO, Author, make_body

FILES = 60
#: A process that looks at a small file needs no more, whatever is in the file.
MEMORY_MAX = 4 * 1024 * 1024 * 1024

#: Examines folder after folder, and says a line of each.
EXAMINE = f"""
import resource, sys
from pathlib import Path
from fanlog.errors import FanlogError
from fanlog.log.doctor import examine
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY_MAX}, {MEMORY_MAX}))
for name in sys.argv[1:]:
    try:
        report = examine(Path(name))
        said = "well" if report.is_healthy else report.findings[0].text
    except FanlogError as error:
        said = error.message
    print(repr(said), flush=True)
"""


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a small folder, by name."""
    folder = tmp_path_factory.mktemp("sample") / "data"
    log = EmbeddedLog(folder)
    author = Author(log)
    for number in range(40):
        bodies = [make_body(b"%d" % number * 50, b"second" * 100)]
        author.commit({ONE: bodies, TWO: bodies}, state={b"key %d" % number: b"value"})
    log.close()
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def damaged(content: bytes, seed: int) -> bytes:
    """Some of a file changed: bits, runs, pages swapped, numbers made huge, or its end cut off."""
    chance = random.Random(seed)
    made = bytearray(content)
    at = chance.randrange(len(made))
    match seed % 6:
        case 0:
            for _ in range(chance.randrange(1, 40)):
                made[chance.randrange(len(made))] ^= 1 << chance.randrange(8)
        case 1:
            made[at : at + 4_096] = chance.randbytes(len(made[at : at + 4_096]))
        case 2:
            page = at - at % 4_096
            made[page : page + 8] = b"\xff" * len(made[page : page + 8])
        case 3:
            del made[at:]
        case 4:
            page, other = at - at % 4_096, chance.randrange(len(made)) // 4_096 * 4_096
            made[page : page + 4_096] = content[other : other + 4_096]
        case _:
            made[at : at + 4_096] = bytes(len(made[at : at + 4_096]))
    return bytes(made)


def test_every_file_is_judged(sample: dict[str, bytes], tmp_path: Path) -> None:
    folders = []
    large = max(sample, key=lambda name: len(sample[name]))
    for seed in range(FILES):
        folder = tmp_path / f"{seed}"
        folder.mkdir()
        for name, content in sample.items():
            (folder / name).write_bytes(damaged(content, seed) if name == large else content)
        folders.append(str(folder))
    done = subprocess.run(
        [sys.executable, "-c", EXAMINE, *folders],
        capture_output=True,
        text=True,
        env=clean_environ(),
        timeout=200,
        check=False,
    )
    said = done.stdout.splitlines()
    assert done.returncode == 0, (len(said), done.stderr[-2_000:])
    assert len(said) == FILES
    assert all(len(line) < 1_000 for line in said)
    # Much of the file is free: damage there is none. Where it is some, it is found.
    assert sum(line != "'well'" for line in said) > FILES // 4
