"""The start of a server: modules that it does not import."""

from __future__ import annotations

import signal
import subprocess
import sys

#: Slow to import, and needed by other commands, by few servers, or by nobody but clients.
NOT_NEEDED = {
    "cryptography",
    "deltalake",
    "fanlog.cli.commands",
    "fanlog.cli.options",
    "fanlog.client",
    "fanlog.lake",
    "fanlog.schema.avro",
    "fanlog.schema.json_schema",
    "fanlog.schema.protobuf",
    "fastavro",
    "google.api_core",
    "google.auth",
    "google.pubsub_v1.services",
    "grpc",
    "jsonschema_rs",
    "opentelemetry",
    "pyarrow",
    "pyspark",
    "requests",
    "rich",
    "yaml",
}
SERVE = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, sep="\\n"))
from fanlog.cli.main import main
sys.argv = ["fanlog", "serve", "--memory", "--port", "0", "--http-port", "off"]
main()
"""


def test_nothing_heavy_is_imported_before_it_is_needed():
    command = [sys.executable, "-c", SERVE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            assert "fanlog ready" in server.stdout.readline()
        finally:
            server.send_signal(signal.SIGTERM)
        modules = set(server.stdout.read().split("\n"))
    assert "fanlog.server.app" in modules
    assert modules & NOT_NEEDED == set()
