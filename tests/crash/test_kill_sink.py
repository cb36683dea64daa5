"""The real process, killed while epochs are staged and published: every row is there once."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import grpc
import pytest

from acceptance.served import PATIENCE_S, Served
from crash.world import Clients, subscription_name, topic_name
from server.v1 import LogClient, SinkClient

TOPIC = topic_name("rows")
#: More than one commit takes.
LARGE = [b"%08d" % number + bytes(50_000) for number in range(600)]


class Lives:
    """One server after the other on the same folder."""

    def __init__(self, served: Served) -> None:
        self.served = served

    def start(self) -> None:
        self.served.start()

    def kill(self) -> None:
        self.served.stop(signal.SIGKILL)

    def channel(self) -> grpc.Channel:
        options = [("grpc.max_receive_message_length", -1)]
        return grpc.insecure_channel(self.served.endpoint, options=options)


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Lives]:
    lives = Lives(Served(tmp_path / "data", tmp_path / "server.log"))
    lives.start()
    clients = Clients(lives.served.endpoint)
    with closing(clients.channel):
        clients.publisher.create_topic(name=TOPIC)
        # Without one, the next sweep would take away what is published.
        name = subscription_name("rows")
        clients.subscriber.create_subscription(request={"name": name, "topic": TOPIC})
    yield lives
    lives.served.close()


def end_of(log: LogClient) -> int:
    return int(log.offsets(TOPIC).partitions[0].end)


def test_killed_between_stage_and_commit(lives):
    with closing(SinkClient(lives, "q")) as sink:
        sink.stage(sink.key(0), (TOPIC, [b"a", b"b"]))
    lives.kill()
    lives.start()
    with closing(SinkClient(lives, "q")) as sink, closing(LogClient(lives)) as log:
        assert sink.commit(0, sink.key(0)).messages == 2
        assert log.data(log.range_of(TOPIC)) == [b"a", b"b"]
    lives.kill()
    lives.start()
    with closing(SinkClient(lives, "q")) as sink, closing(LogClient(lives)) as log:
        assert sink.commit(0, sink.key(0)).repeated_epoch
        assert log.data(log.range_of(TOPIC)) == [b"a", b"b"]


def test_killed_in_the_middle_of_a_large_epoch(lives):
    with closing(SinkClient(lives, "q")) as sink:
        parts = [(TOPIC, LARGE[at : at + 50]) for at in range(0, len(LARGE), 50)]
        sink.stage(sink.key(0), *parts)
    seen = []
    for wanted in (1, 200, 400):
        with (
            closing(SinkClient(lives, "q")) as sink,
            closing(LogClient(lives)) as log,
            ThreadPoolExecutor(1) as pool,
        ):
            committing = pool.submit(sink.commit, 0, sink.key(0))
            late_s = time.monotonic() + PATIENCE_S
            while end_of(log) < wanted and not committing.done():
                assert time.monotonic() < late_s
            seen.append(end_of(log))
            lives.kill()
            with suppress(grpc.RpcError):
                committing.result()
        lives.start()
    assert 0 < seen[0] < len(LARGE), "it was not killed in the middle"
    with closing(SinkClient(lives, "q")) as sink, closing(LogClient(lives)) as log:
        assert sink.commit(0, sink.key(0)).messages == len(LARGE)
        assert [one[:8] for one in log.data(log.range_of(TOPIC))] == [one[:8] for one in LARGE]
