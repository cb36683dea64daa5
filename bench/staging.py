"""Publishing through the sink: rows staged by several tasks at once, and committed."""

from __future__ import annotations

import uuid

from bench.api import BATCH_MESSAGES, publish_request
from bench.bulk_api import BulkApi
from bench.meter import Meter
from bench.servers import Server
from bench.session import Sample, Session
from fanlog.v1 import sink_pb2

TASKS = 2
EPOCHS = 4


def measure(server: Server, count: int, *, size_bytes: int) -> Sample:
    """Epochs one after the other, each staged by two tasks and committed once."""
    with Session(server) as session, BulkApi(server.endpoint) as bulk:
        topic = session.topic()
        subscription = session.subscription(topic)
        batch = min(BATCH_MESSAGES, max(1, count // EPOCHS // TASKS))
        # Rows for a topic are a publish request, on the wire.
        rows = sink_pb2.StagedRows.FromString(
            publish_request(topic, count=batch, size_bytes=size_bytes)
        )
        request = sink_pb2.StageRequest(rows=[rows]).SerializeToString()
        requests = [request] * max(1, count // EPOCHS // TASKS // batch)
        query = uuid.uuid4().hex
        committed = 0
        with Meter(server) as meter:
            for epoch in range(EPOCHS):
                keys = [
                    sink_pb2.StageKey(query=query, epoch=epoch, partition=task, attempt="0")
                    for task in range(TASKS)
                ]
                session.api.in_parallel(TASKS, lambda key: bulk.stage(key, requests), keys)
                committed += bulk.commit(query, epoch, keys)
        received = session.pull_all(subscription, committed)
        lost = batch * len(requests) * TASKS * EPOCHS - len(set(received))
        return Sample(
            figures={"rate": committed / meter.cost.seconds},
            messages=committed,
            cost=meter.cost,
            problems=(f"{lost:,} rows did not come",) if lost else (),
        )
