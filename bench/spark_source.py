"""Spark against the log and the lake, in a process of its own, for `make bench`.

`python -m bench.spark_source 2000000 read ENDPOINT` prints what `make bench` reads; so do `sink`
and `lake`, which needs no broker: what tells Spark where its lake is, is a few lines here.
"""

from __future__ import annotations

import functools
import os
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
from google.protobuf.duration_pb2 import Duration

from bench import child
from bench.api import PROJECT, Api
from bench.servers import Server
from bench.session import Sample
from fanlog.lake import archive, files, tables
from fanlog.lake.location import Location
from fanlog.model.ids import message_id
from fanlog.v1 import log_pb2
from fanlog.wire import types
from fanlog.wire.publish import build_body

#: Names this run's topics.
_RUN = uuid.uuid4().hex[:12]
ROUNDS = 3
IN_FLIGHT = 8
BATCH = 1_000
SIZE_BYTES = 100
ATTRIBUTES = {"event": "order.created", "region": "eu-west-1", "tenant": "acme", "version": "17"}
#: Rows of one file of the lake, as compaction leaves them.
FILE_ROWS = 500_000


def measure_read(server: Server, count: int) -> Sample:
    return child.measured("bench.spark_source", count, "read", server.endpoint)


def measure_sink(server: Server, count: int) -> Sample:
    return child.measured("bench.spark_source", count, "sink", server.endpoint)


def measure_lake(_server: Server, count: int) -> Sample:
    return child.measured("bench.spark_source", count, "lake", "")


def sample_read(count: int, endpoint: str) -> Sample:
    """All columns of a topic, to nowhere."""
    topics = {"plain": filled(endpoint, "plain", count, {})}
    topics["attributes"] = filled(endpoint, "attributes", count, ATTRIBUTES)
    figures: dict[str, float | None] = {}
    problems: list[str] = []
    with session() as spark:
        for name, topic in topics.items():
            frame = frame_of(spark, endpoint, topic=topic)
            if (found := frame.count()) != count:
                problems.append(f"{found:,} rows of {name}, {count:,} were published")
            figures[name] = count / seconds_of(functools.partial(nowhere, frame))
    return Sample(figures=figures, problems=tuple(problems))


def sample_sink(count: int, endpoint: str) -> Sample:
    """Rows of a range, in two tasks, to a topic."""
    topic = kept_topic(endpoint, "sink")
    with session() as spark:

        def written(rows: int) -> None:
            frame = spark.range(rows, numPartitions=2).selectExpr(
                f"cast(lpad(cast(id as string), {SIZE_BYTES}, 'x') as binary) as data"
            )
            writer = frame.write.format("fanlog").option("endpoint", endpoint)
            writer.option("topic", topic).mode("append").save()

        written(1_000)
        seconds = seconds_of(lambda: written(count), rounds=1)
        found = frame_of(spark, endpoint, topic=topic).count()
    wanted = count + 1_000
    problems = () if found == wanted else (f"{found:,} of {wanted:,} rows were published",)
    return Sample(figures={"rate": count / seconds}, problems=problems)


def sample_lake(count: int, _endpoint: str) -> Sample:
    """All columns of the lake's files, through the format and without it."""
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as folder:
        location = Location.parse(str(Path(folder) / "lake"))
        _archived(location, count)
        paths = [f"{location.uri}/messages/{each}" for each in paths_of(location)]
        with lake_only(location, count) as endpoint, session() as spark:
            columns = frame_of(spark, endpoint, topic=name_of("lake")).columns
            plain = spark.read.parquet(*paths).select(*columns)
            ours = frame_of(spark, endpoint, topic=name_of("lake"))
            problems = () if ours.count() == count else ("not all rows came",)
            # Turn and turn about, so that a machine that slows down does so for both.
            taken = [
                (
                    seconds_of(lambda: nowhere(plain), rounds=1),
                    seconds_of(lambda: nowhere(ours), rounds=1),
                )
                for _ in range(ROUNDS + 1)
            ][1:]
    plain_s, ours_s = (statistics.median(each) for each in zip(*taken, strict=True))
    return Sample(
        figures={"rate": count / ours_s, "slower": ours_s / plain_s},
        problems=problems,
        notes=(f"spark.read.parquet: {count / plain_s:,.0f} rows/s",),
    )


@contextmanager
def session() -> Iterator[Any]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from fanlog.spark import prepare_java

    prepare_java()
    settings: dict[str, Any] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    spark = SparkSession.Builder().master("local[2]").config(map=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def frame_of(spark: Any, endpoint: str, **options: str) -> Any:
    return spark.read.format("fanlog").options(endpoint=endpoint, **options).load()


def nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def seconds_of(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The middle one of some rounds."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def name_of(topic: str) -> str:
    return f"{PROJECT}/topics/spark-{topic}-{_RUN}"


def kept_topic(endpoint: str, name: str) -> str:
    """A topic that keeps its messages without a subscription."""
    topic = types.Topic(name=name_of(name), message_retention_duration=Duration(seconds=86_400))
    with grpc.insecure_channel(endpoint) as channel:
        create: Any = channel.unary_unary("/google.pubsub.v1.Publisher/CreateTopic")
        create(topic.SerializeToString())
    return name_of(name)


def filled(endpoint: str, name: str, count: int, attributes: dict[str, str]) -> str:
    topic = kept_topic(endpoint, name)
    body = build_body((os.urandom(SIZE_BYTES), attributes, "") for _ in range(min(BATCH, count)))
    request = types.PublishRequest(topic=topic).SerializeToString() + body.content
    api = Api(endpoint)
    try:
        api.in_parallel(IN_FLIGHT, api.publish, [request] * (count // min(BATCH, count)))
    finally:
        api.close()
    return topic


def _archived(location: Location, count: int) -> None:
    tables.ensure_lake(location)
    written = []
    for start in range(0, count, FILE_ROWS):
        end = min(count, start + FILE_ROWS)
        size = end - start
        offsets = np.arange(start, end)
        random = pa.py_buffer(os.urandom(SIZE_BYTES * size))
        data = pa.FixedSizeBinaryArray.from_buffers(pa.binary(SIZE_BYTES), size, [None, random])
        rows = pa.table(
            {
                "topic": pa.repeat(name_of("lake"), size),
                "partition": pa.repeat(pa.scalar(1, pa.int64()), size),
                "offset": offsets,
                "message_id": [message_id(1, offset) for offset in range(start, end)],
                "publish_time": pa.array(1_700_000_000_000_000 + offsets // 1_000).cast(
                    tables.TIME
                ),
                "ordering_key": pa.repeat("", size),
                "attributes": pa.array([[]] * size, tables.ATTRIBUTES),
                "data": data.cast(pa.binary()),
                "sequence": offsets // 1_000 + 1,
            },
            schema=tables.MESSAGES.file_schema,
        )
        written += files.write_rows(
            location, tables.MESSAGES, rows, attempt="bench", name=str(start)
        )
    archive.commit_archive(location, "bench", written, after_sequence=0, to_sequence=count)


def paths_of(location: Location) -> list[str]:
    actions = pa.table(tables.open_table(location, tables.MESSAGES).get_add_actions(flatten=True))
    return list(actions["path"].to_pylist())


@contextmanager
def lake_only(location: Location, count: int) -> Iterator[str]:
    """What a broker would say whose log is in the lake, all of it."""
    part = log_pb2.PartitionOffsets(
        topic=name_of("lake"), partition=1, hot_start=count, archived=count, end=count
    )
    answer = log_pb2.GetOffsetsResponse(
        log_id="bench",
        sequence=count,
        archived_sequence=count,
        partitions=[part],
        lake_uri=location.uri,
        lake_id=tables.lake_id(location),
    ).SerializeToString()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler: Any = grpc.unary_unary_rpc_method_handler(lambda _request, _context: answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("fanlog.v1.Log", {"GetOffsets": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


if __name__ == "__main__":
    samples = {"read": sample_read, "sink": sample_sink, "lake": sample_lake}
    child.report(samples[sys.argv[2]](int(sys.argv[1]), sys.argv[3]))
