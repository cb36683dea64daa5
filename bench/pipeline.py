"""The pipeline, in a process of its own, for `make bench`: archive, backtest, fan-out, start.

`python -m bench.pipeline 500000 archive ENDPOINT` prints what `make bench` reads; so do `backtest`,
`fan-out` and `ready`, which need no broker.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import child, spark_source
from bench.servers import Server
from bench.session import Sample
from bench.spark_source import (
    filled,
    lake_only,
    name_of,
    paths_of,
    seconds_of,
    session,
)
from fanlog.lake import archive, files, tables
from fanlog.lake.location import Location

SIZE_BYTES = 1_024
FILTERS = 10_000
KEYS, VALUES, ATTRIBUTES = 50, 200, 8
FILE_ROWS = 250_000
READY_TIMEOUT_S = 120


def measure_archive(server: Server, count: int) -> Sample:
    return child.measured("bench.pipeline", count, "archive", server.endpoint)


def measure_backtest(_server: Server, count: int) -> Sample:
    return child.measured("bench.pipeline", count, "backtest", "")


def measure_fan_out(_server: Server, count: int) -> Sample:
    return child.measured("bench.pipeline", count, "fan-out", "")


def measure_ready(_server: Server, count: int) -> Sample:
    return child.measured("bench.pipeline", count, "ready", "")


def sample_archive(count: int, endpoint: str) -> Sample:
    """A backlog of 1 KiB messages to the lake, beside a plain copy of the same rows by Spark."""
    from fanlog.pipeline.flows.archive import ArchiveFlow

    spark_source.SIZE_BYTES = SIZE_BYTES
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as folder, session() as spark:
        location = Location.parse(str(Path(folder) / "lake"))
        archiving = ArchiveFlow(spark, endpoint, location, Path(folder) / "checkpoints")

        def archived() -> None:
            archiving.start(only_now=True).awaitTermination()

        filled(endpoint, "warm", 10_000, {})
        archived()
        filled(endpoint, "archive", count, {})
        taken_s = seconds_of(archived, rounds=1)
        paths = [f"{location.uri}/messages/{each}" for each in paths_of(location)]
        rows = spark.read.parquet(*paths)
        found = rows.count()
        copied_s = seconds_of(
            lambda: rows.write.mode("overwrite").parquet(str(Path(folder) / "copy")), rounds=2
        )
    wanted = count + 10_000
    problems = () if found == wanted else (f"{found:,} of {wanted:,} messages were archived",)
    return Sample(
        figures={"rate": count / taken_s, "slower": taken_s / copied_s},
        problems=problems,
        notes=(f"a plain copy: {count / copied_s:,.0f} rows/s",),
    )


def sample_backtest(count: int, _endpoint: str) -> Sample:
    """A filter as a job counts it, and as one would write it by hand over the same files."""
    from pyspark.sql.functions import col

    from fanlog.pipeline.jobs import table
    from fanlog.pipeline.jobs.backtest import DayCount, count_hits
    from fanlog.routing.filter_parse import parse
    from fanlog.spark import column

    with tempfile.TemporaryDirectory(prefix="bench-lake-") as folder:
        location = Location.parse(str(Path(folder) / "lake"))
        _archived(location, count)
        paths = [f"{location.uri}/messages/{each}" for each in paths_of(location)]
        with lake_only(location, count) as endpoint, session() as spark:
            tree = parse('attributes.k1 = "v7"')
            assert tree is not None
            ours = table.messages(spark, {"endpoint": endpoint, "topic": name_of("lake")})
            plain = spark.read.parquet(*paths)
            by_hand = col("attributes")["k1"] == "v7"

            def job() -> list[DayCount]:
                return count_hits(ours, column(tree))

            def hand() -> list[DayCount]:
                return count_hits(plain, by_hand)

            problems = () if job() == hand() else ("the two differ",)
            ours_s, hand_s = seconds_of(job), seconds_of(hand)
    return Sample(
        figures={"rate": count / ours_s, "slower": ours_s / hand_s},
        problems=problems,
        notes=(f"by hand: {count / hand_s:,.0f} rows/s",),
    )


def sample_fan_out(count: int, _endpoint: str) -> Sample:
    """Messages of eight attributes against 10,000 filters, warm."""
    from fanlog.pipeline.jobs import table
    from fanlog.pipeline.jobs.fan_out import offset_sets

    random.seed(7)
    figures: dict[str, float | None] = {}
    notes = []
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as folder:
        location = Location.parse(str(Path(folder) / "lake"))
        _archived(location, count)
        with lake_only(location, count) as endpoint, session() as spark:
            options = {"endpoint": endpoint, "topic": name_of("lake"), "minPartitions": "2"}
            frame = table.messages(spark, options)
            for kind, filters in (("single", _single()), ("conjunctions", _conjunctions())):
                found: dict[int, Any] = {}

                def run(filters: list[str] = filters, found: dict[int, Any] = found) -> None:
                    found.update(offset_sets(frame, filters))

                run()
                figures[kind] = seconds_of(run)
                pairs = sum(len(one) for sets in found.values() for one in sets.values())
                notes.append(f"{kind}: {pairs:,} pairs")
    return Sample(figures=figures, problems=(), notes=tuple(notes))


def sample_ready(_count: int, _endpoint: str) -> Sample:
    """From the command to the line that says ready."""
    with tempfile.TemporaryDirectory(prefix="bench-up-") as folder:
        data = Path(folder)
        broker = subprocess.Popen(
            [
                *(sys.executable, "-m", "fanlog", "serve", "--port", "0", "--http-port", "0"),
                *("--data-dir", str(data / "data"), "--lake", str(data / "lake")),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            ready = re.search(r"gRPC on ([^\s,]+)", _line_with(broker, "fanlog ready"))
            assert ready is not None
            began = time.perf_counter()
            pipeline = subprocess.Popen(
                [
                    *(sys.executable, "-m", "fanlog", "pipeline", "--endpoint", ready[1]),
                    *("--state-dir", str(data / "pipeline")),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            try:
                _line_with(pipeline, "pipeline ready")
                taken_s = time.perf_counter() - began
            finally:
                pipeline.terminate()
                pipeline.wait(60)
        finally:
            broker.terminate()
            broker.wait(60)
    return Sample(figures={"seconds": taken_s}, problems=())


def _line_with(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    late = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < late:
        line = process.stdout.readline()
        if words in line:
            return line
        if not line and process.poll() is not None:
            break
    raise OSError(f"it never said {words!r}")


def _single() -> list[str]:
    found = []
    for number in range(FILTERS):
        key, value = f"k{random.randrange(KEYS)}", f"v{random.randrange(VALUES)}"
        if number % 100 == 0:
            found.append(f"attributes:{key}")
        elif number % 10 == 0:
            found.append(f'hasPrefix(attributes.{key}, "{value}")')
        else:
            found.append(f'attributes.{key} = "{value}"')
    return found


def _conjunctions() -> list[str]:
    return [
        f'attributes.k{random.randrange(KEYS)} = "v{random.randrange(VALUES)}" AND '
        f'hasPrefix(attributes.k{random.randrange(KEYS)}, "v{random.randrange(10)}")'
        for _ in range(FILTERS)
    ]


def _archived(location: Location, count: int) -> None:
    """A lake of messages with attributes."""
    tables.ensure_lake(location)
    maps = [
        [(f"k{key}", f"v{random.randrange(VALUES)}") for key in random.sample(range(KEYS), 8)]
        for _ in range(10_000)
    ]
    some = pa.array(maps, tables.ATTRIBUTES)
    written = []
    for start in range(0, count, FILE_ROWS):
        end = min(count, start + FILE_ROWS)
        size = end - start
        chosen = pa.array([random.randrange(len(maps)) for _ in range(size)])
        rows = pa.table(
            {
                "topic": pa.repeat(name_of("lake"), size),
                "partition": pa.repeat(pa.scalar(1, pa.int64()), size),
                "offset": pa.array(range(start, end)),
                "message_id": pa.array([f"1{offset:012d}" for offset in range(start, end)]),
                "publish_time": pa.array(
                    [1_700_000_000_000_000 + n // 1_000 for n in range(start, end)]
                ).cast(tables.TIME),
                "ordering_key": pa.repeat("", size),
                "attributes": some.take(chosen),
                "data": pa.array([os.urandom(100)] * size),
                "sequence": pa.array([n // 1_000 + 1 for n in range(start, end)]),
            },
            schema=tables.MESSAGES.file_schema,
        )
        written += files.write_rows(
            location, tables.MESSAGES, rows, attempt="bench", name=str(start)
        )
    archive.commit_archive(location, "bench", written, after_sequence=0, to_sequence=count)


if __name__ == "__main__":
    samples = {
        "archive": sample_archive,
        "backtest": sample_backtest,
        "fan-out": sample_fan_out,
        "ready": sample_ready,
    }
    child.report(samples[sys.argv[2]](int(sys.argv[1]), sys.argv[3]))
