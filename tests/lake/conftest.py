"""A lake in a folder, and one in S3 storage that this machine plays itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from pyarrow import fs

from fanlog.lake.location import Location

# In a process of its own: some calls of deltalake hold the interpreter while they wait for it.
_STORAGE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _STORAGE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.stdin.close()


@pytest.fixture
def s3_environ(s3_endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3_endpoint,
    }


@pytest.fixture
def folder(tmp_path) -> Location:
    return Location.parse(str(tmp_path / "lake"))


@pytest.fixture
def storage(s3_environ, request) -> Location:
    """A lake of this test's own in S3 storage."""
    # Brackets in a path are more than all parts of deltalake can read.
    name = re.sub(r"[^A-Za-z0-9_-]", "-", request.node.name)
    location = Location.parse(f"s3://lakes/{name}", s3_environ)
    options = {
        "access_key": "somebody",
        "secret_key": "secret",
        "region": "us-east-1",
        "endpoint_override": s3_environ["AWS_ENDPOINT_URL"],
    }
    fs.S3FileSystem(**options, allow_bucket_creation=True).create_dir("lakes")
    return location


@pytest.fixture(params=["folder", "storage"])
def location(request) -> Location:
    """The same test on both kinds of lake."""
    return request.getfixturevalue(request.param)
