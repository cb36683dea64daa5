"""Programs that end themselves at a step: `python -m server.databases.crashing PROGRAM STEP …`.

A step is a word, such as `open`, with `before:` or `after:` in front of it. A program that comes to
it ends at once, as one that was killed does: nothing is closed and nobody is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fanlog import Client
from fanlog.consumers import once
from fanlog.outbox import Relay
from fanlog.outbox.lanes import Lanes
from fanlog.outbox.publisher import SinkPublisher

KILLED = 9
TESTS = Path(__file__).parents[2]


def run(program: str, step: str, *args: str) -> subprocess.CompletedProcess[str]:
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, "-m", "server.databases.crashing", program, step, *args],
        cwd=TESTS,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class Steps:
    """The steps of a program; it ends at one of them."""

    def __init__(self, last: str) -> None:
        self._last = last
        #: What a commit of the database is part of.
        self.name = ""

    def come_to(self, step: str) -> None:
        if step == self._last:
            os._exit(KILLED)

    def around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.come_to(f"before:{name}")
            result = call(*args, **kwargs)
            self.come_to(f"after:{name}")
            return result

        return called

    def named(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.name = name
            return call(*args, **kwargs)

        return called


class Connection:
    """A connection whose commits are steps."""

    def __init__(self, inner: Any, steps: Steps) -> None:
        self.driver_connection = inner
        self._steps = steps

    def commit(self) -> None:
        self._steps.around(self._steps.name, self.driver_connection.commit)()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver_connection, name)


def connect(kind: str, address: str) -> Any:
    from server.databases.conftest import connect as connected

    return connected(kind, address)


def relay(steps: Steps, kind: str, address: str, endpoint: str, now_s: str) -> None:
    """Publish what there is."""
    for name in ("take", "refuse", "open", "close", "release"):
        setattr(Lanes, name, steps.named(name, getattr(Lanes, name)))
    with Client(endpoint) as client:
        publisher = SinkPublisher(client)
        for name in ("stage", "commit", "abort", "last_epoch"):
            word = "publish" if name == "commit" else name
            setattr(publisher, name, steps.around(word, getattr(publisher, name)))
        Relay(
            lambda: Connection(connect(kind, address), steps),
            publisher,
            clock=lambda: float(now_s),
            rows_max=4,
        ).drain()


def consumer(steps: Steps, kind: str, address: str, endpoint: str, subscription: str) -> None:
    """Work on what there is, once each."""
    connection = Connection(connect(kind, address), steps)
    steps.name = "commit"
    mark = "?" if kind == "sqlite" else "%s"
    ids = once(connection)

    def work(data: str) -> None:
        connection.cursor().execute(f"INSERT INTO work VALUES ({mark})", (data,))

    with Client(endpoint) as client:
        for received in client.pull(subscription, max_messages=100):
            if steps.around("add", ids.add)(received):
                steps.around("work", work)(received.message.data.decode())
            connection.commit()
            steps.around("acknowledge", client.acknowledge)(subscription, [received.ack_id])


def main(argv: Sequence[str]) -> None:
    program, step, *args = argv
    {"relay": relay, "consumer": consumer}[program](Steps(step), *args)


if __name__ == "__main__":
    main(sys.argv[1:])
