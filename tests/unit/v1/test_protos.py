"""The modules of `fanlog.v1` are what the compiler makes of the `.proto` files beside them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fanlog.v1

FOLDER = Path(fanlog.v1.__file__).parent
PROTOS = sorted(FOLDER.glob("*.proto"))


def test_they_are_current(tmp_path):
    source = FOLDER.parent.parent
    subprocess.run(
        [
            *(sys.executable, "-m", "grpc_tools.protoc", f"-I{source}"),
            *(f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"),
            *map(str, PROTOS),
        ],
        check=True,
    )
    made = {path.name: path.read_bytes() for path in (tmp_path / "fanlog" / "v1").iterdir()}
    there = {path.name: path.read_bytes() for path in FOLDER.glob("*_pb2.py*")}
    assert PROTOS
    assert made == there, "run `make protos`"
