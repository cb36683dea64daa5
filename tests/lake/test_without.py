"""A server without a lake needs nothing that a lake needs; one with a lake says what it lacks."""

from __future__ import annotations

import subprocess
import sys


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )


def test_the_server_alone_imports_neither_arrow_nor_delta():
    done = run(
        "import sys, fanlog.server.app\n"
        "sys.exit(str([n for n in ('pyarrow', 'deltalake', 'numpy') if n in sys.modules]))"
    )
    assert done.stderr.strip() == "[]"


def test_a_lake_without_the_extra_is_refused_by_its_name(tmp_path):
    done = run(
        "import sys\n"
        "sys.modules['deltalake'] = None\n"
        "from fanlog.config import Config\n"
        "from fanlog.server.app import serve\n"
        f"config = Config(memory=True, port=0, http_port=0, lake={str(tmp_path / 'lake')!r})\n"
        "sys.exit(serve(config))"
    )
    assert done.returncode == 1
    assert "fanlog[lake]" in done.stderr
