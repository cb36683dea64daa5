"""Reads a topic again and again and throws it away, on one core, until it is stopped.

`python -m bench.log_reader HOST:PORT TOPIC CORE`; it says when it has begun, and, when it is told
to end, how many bytes a second it got.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from bench.bulk_api import BulkApi


def main() -> None:
    endpoint, topic, core = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with BulkApi(endpoint) as api:
        request = api.read_request(topic)
        began, size_bytes = 0.0, 0
        while not over.is_set():
            for answer in api.read(request):
                if not began:
                    began = time.monotonic()
                    print("reading", flush=True)
                size_bytes += len(answer)
                if over.is_set():
                    break
    print(size_bytes / (time.monotonic() - began), flush=True)


if __name__ == "__main__":
    main()
