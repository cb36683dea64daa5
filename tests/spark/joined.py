"""A program that joins a Spark: reads a topic, archives once, and says what it saw as JSON.

`python -m spark.joined MASTER ENDPOINT TOPIC LAKE FOLDER`, in a process of its own: each can have
one session.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from fanlog.lake.location import Location
from fanlog.pipeline.archive import Archive
from fanlog.pipeline.session import start_session

SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "2",
    # Both workers are there before anything begins.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    # On a busy machine a worker of Spark's takes its time to import what it needs.
    "spark.python.authenticate.socketTimeout": "60s",
}


def main(master: str, endpoint: str, topic: str, lake: str, folder: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = start_session(
        master, log_file=Path(folder) / "driver.log", memory="512m", settings=SETTINGS
    )
    rows = (
        spark.read.format("fanlog")
        .option("endpoint", endpoint)
        .option("topic", topic)
        .option("minPartitions", "4")
        .load()
    )
    read = sorted((row.offset, bytes(row.data).decode()) for row in rows.collect())
    archive = Archive(spark, endpoint, Location.parse(lake), Path(folder) / "checkpoints")
    query = archive.start(only_now=True)
    query.awaitTermination()
    # The driver has an entry of its own there.
    executors = spark._jsc.sc().getExecutorMemoryStatus().size() - 1
    spark.stop()
    print(json.dumps({"read": read, "executors": executors}))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
