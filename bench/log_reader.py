"""Reads a topic again and again and throws it away, on one core, until it is stopped.

`python -m bench.log_reader HOST:PORT TOPIC CORE`; it says when it has begun.
"""

from __future__ import annotations

import os
import sys

from bench.bulk_api import BulkApi


def main() -> None:
    endpoint, topic, core = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    with BulkApi(endpoint) as api:
        request = api.read_request(topic)
        has_begun = False
        while True:
            for _ in api.read(request):
                if not has_begun:
                    has_begun = True
                    print("reading", flush=True)


if __name__ == "__main__":
    main()
