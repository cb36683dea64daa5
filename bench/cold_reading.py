"""Archived messages delivered: from a seek to the first of them, and how fast the others follow.

The messages are published and archived first, and the hot log lets go of them; then a server is
started anew, so that nothing of the lake is in its memory.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

from bench import child
from bench.api import PROJECT, Api
from bench.servers import Fanlog
from bench.session import Patience, Sample
from bench.stream import Stream
from fanlog.config import Config
from fanlog.lake.location import Location
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.server import app
from fanlog.testing.archiver import Archiver
from fanlog.wire.publish import build_body

SIZE_BYTES = 1024
BATCH_MESSAGES = 1_000
DAY_S = 86_400.0
TOPIC = f"{PROJECT}/topics/cold"
SUBSCRIPTION = f"{PROJECT}/subscriptions/cold"


class WithLake(Fanlog):
    """A server whose lake has all there is."""

    def _command(self) -> list[str]:
        lake = ["--lake", str(self.folder / "lake"), "--hot-retention-s", "0"]
        return [*super()._command(), *lake]


def measure(_: object, count: int) -> Sample:
    return child.measured("bench.cold_reading", count)


def main(count: int) -> None:
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(name)
        asyncio.run(_prepare(folder, count))
        server = WithLake(folder)
        server.start()
        try:
            child.report(_deliver(server, count))
        finally:
            server.stop()


async def _prepare(folder: Path, count: int) -> None:
    config = Config(
        port=0,
        http_port=0,
        data_dir=folder / "data",
        lake=str(folder / "lake"),
        hot_retention_s=0.0,
    )
    async with app.running(config) as server:
        broker, store = server.broker, server.store
        assert hasattr(store, "hot")
        await broker.topics.create(TopicSpec(name=TOPIC, message_retention_s=7 * DAY_S))
        await broker.subscriptions.create(SubscriptionSpec(name=SUBSCRIPTION, topic=TOPIC))
        noise = random.Random(1)
        for _ in range(0, count, BATCH_MESSAGES):
            rows = (noise.randbytes(SIZE_BYTES) for _ in range(BATCH_MESSAGES))
            await broker.publish(TOPIC, build_body((row, {}, "") for row in rows))
        archiver = Archiver(
            Location.parse(config.lake), store.hot, broker.hard.catalog.topic_name_of
        )
        report = await archiver.run()
        while broker.tiers.lake_id != report.lake_id:
            await asyncio.sleep(0.01)
        await broker.tiers.report_archived(report.lake_id, report.table_version, report.sequence)
        await broker.sweep()
        [partition] = broker.hard.catalog.topic(TOPIC).partitions
        assert broker.tiers.hot_start(partition) == count
        # Acknowledged, so that the seek has something to bring back.
        await broker.seeks.to_time(SUBSCRIPTION, time.time_ns())


def _deliver(server: Fanlog, count: int) -> Sample:
    received: set[str] = set()
    first: list[float] = []

    def on_messages(messages: Any) -> None:
        if not first:
            first.append(time.perf_counter())
        stream.acknowledge([message.ack_id for message in messages])
        received.update([message.message.message_id for message in messages])

    with Api(server.endpoint) as api:
        # Google's calls are warm; the lake is not.
        api.list_topics(10)
        with Stream(api, SUBSCRIPTION, on_messages) as stream:
            began = _sought(api)
            patience = Patience(count)
            while len(received) < count:
                stream.raise_if_ended()
                patience.check(len(received))
                time.sleep(0.002)
            ended = time.perf_counter()
    return Sample(
        figures={"first": (first[0] - began) * 1e3, "rate": count / (ended - first[0])},
        messages=count,
    )


def _sought(api: Api) -> float:
    """Seek as soon as the server has looked at its lake; when that was."""
    patience = Patience(1)
    while True:
        began = time.perf_counter()
        try:
            api.seek(SUBSCRIPTION, 1)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            patience.check(0)
            time.sleep(0.05)
        else:
            return began


if __name__ == "__main__":
    main(int(sys.argv[1]))
