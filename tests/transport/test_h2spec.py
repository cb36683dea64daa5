"""h2spec, the conformance suite of HTTP/2 and HPACK, against a running port."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chaos.conftest import missing
from fanlog.transport.grpc_connection import FRAME_BYTES_MAX
from transport.conftest import World

ROOT = Path(__file__).resolve().parents[2]
MODULE = "github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible"
MINUTES_S = 300


@pytest.fixture(scope="module")
def h2spec() -> Path:
    """The program; built once, by Go, from its module proxy."""
    folder = ROOT / "build" / "h2spec"
    program = folder / "h2spec"
    if not program.exists():
        go = shutil.which("go")
        if go is None:
            missing("h2spec is built by Go, which is not here")
        folder.mkdir(parents=True, exist_ok=True)
        environ = os.environ | {"GOBIN": str(folder)}
        subprocess.run([go, "install", MODULE], env=environ, check=True, timeout=MINUTES_S)
    return program


async def test_h2spec_passes_whole(h2spec: Path, world: World):
    process = await asyncio.create_subprocess_exec(
        *(h2spec, "--host", "127.0.0.1", "--port", str(world.port), "--strict", "--timeout", "5"),
        # Five headers of this length, compressed, are longer than a frame may be, as h2spec takes
        # five of its own length to be.
        *("--max-header-length", str(FRAME_BYTES_MAX // 3)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await asyncio.wait_for(process.communicate(), MINUTES_S)
    text = output.decode()
    totals = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", text)
    assert totals is not None, text
    tests, passed, skipped, failed = map(int, totals.groups())
    assert (passed, skipped, failed) == (tests, 0, 0), text
    assert tests >= 145
