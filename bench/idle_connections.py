"""Connections that do nothing: each has a StreamingPull open, and no message comes.

One process holds all of them, on plain sockets with the lean client; it answers settings and pings
as they come. That every stream was open is seen afterwards: one message reaches all of them.
"""

from __future__ import annotations

import resource
import selectors
import time

from bench.api import StreamingPullRequest, StreamingPullResponse, message_ids, publish_request
from bench.lean import Lean
from bench.meter import MIB, Cost, Meter, anonymous_mib
from bench.servers import Server
from bench.session import Patience, Sample, Session

WORKERS = 8
SIZE_BYTES = 100
#: Time for a server to finish what it put off until after its answers: that subscriptions are in
#: use is written down by the next sweep, and looked at by the one after that.
SETTLE_S = 12
#: Whatever comes once a minute is in it: keep-alive pings, and sweeps of a server that is idle.
IDLE_S = 60
#: Files of this process that are no connections.
FILES_SPARE = 200


def measure(server: Server, count: int) -> Sample:
    """`count` connections, each with the stream of a subscription of its own."""
    _allow_files(count + FILES_SPARE)
    with Session(server) as session:
        topic = session.topic()
        names = session.api.in_parallel(WORKERS, session.subscription, [topic] * count)
        time.sleep(SETTLE_S)
        with Meter(server) as alone:
            time.sleep(IDLE_S)
        before_mib = anonymous_mib(server)
        with _Connections() as connections:
            for name in names:
                connections.open(server.endpoint, name)
            connections.serve(SETTLE_S)
            with Meter(server) as meter:
                connections.serve(IDLE_S)
            after_mib = anonymous_mib(server)
            answer = session.api.publish(publish_request(topic, count=1, size_bytes=SIZE_BYTES))
            (published,) = message_ids([answer])
            wrong = connections.wait_for(published)
        alone_percent, percent = _percent(alone.cost), _percent(meter.cost)
        return Sample(
            figures={
                "memory": (after_mib - before_mib) * MIB / 1024 / count
                if before_mib and after_mib
                else None,
                "cpu": percent,
            },
            problems=(f"{wrong:,} streams got something else",) if wrong else (),
            notes=()
            if alone_percent is None
            else (f"{alone_percent:.2f} % of a core with the subscriptions and no connection",),
        )


def _percent(cost: Cost) -> float | None:
    return None if cost.server_cpu_s is None else cost.server_cpu_s / cost.seconds * 100


class _Connections:
    """Open connections; closed on exit."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._all: list[Lean] = []
        self._received: list[str] = []

    def __enter__(self) -> _Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for connection in self._all:
            connection.close()

    def open(self, endpoint: str, subscription: str) -> None:
        connection = Lean(endpoint)
        self._all.append(connection)
        self._selector.register(connection, selectors.EVENT_READ)
        request = StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=600)
        stream = connection.open("Subscriber/StreamingPull")
        connection.send(stream, request.SerializeToString())
        connection.flush()

    def serve(self, seconds: float) -> None:
        """Answer the server for so long."""
        end = time.monotonic() + seconds
        while (left_s := end - time.monotonic()) > 0:
            self._take(left_s)

    def wait_for(self, message_id: str) -> int:
        """Wait until as many messages came as there are streams; how many are not this one."""
        patience = Patience(len(self._all))
        while len(self._received) < len(self._all):
            patience.check(len(self._received))
            self._take(1)
        return sum(received != message_id for received in self._received)

    def _take(self, timeout_s: float) -> None:
        for key, _ in self._selector.select(timeout_s):
            connection = key.fileobj
            assert isinstance(connection, Lean)
            answers, ends = connection.receive()
            for _, answer in answers:
                messages = StreamingPullResponse.FromString(answer).received_messages
                self._received.extend([each.message.message_id for each in messages])
            self._received.extend([f"ended with status {status}" for _, status in ends])


def _allow_files(count: int) -> None:
    """Let this process open so many files.

    Raises:
        OSError: The system does not allow as many.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise OSError(f"{count:,} open files are needed, and the limit is {hard:,}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
