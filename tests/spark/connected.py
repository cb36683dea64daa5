"""What a client of a Spark Connect server does: a process of its own, for in ours Spark is ours.

`python -m spark.connected read URL ENDPOINT TOPIC`, or `stop URL`; prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from acceptance.paired import PATIENCE_S
from fanlog.pipeline.driver import driver_of, parallelism_of
from fanlog.pipeline.jobs.work import Work


def read(spark: SparkSession, endpoint: str, topic: str) -> dict[str, Any]:
    """The format as any program uses it: a batch, what is pushed down, a stream, the sink."""
    options = {"endpoint": endpoint, "topic": topic}
    messages = spark.read.format("fanlog").options(**options).load()
    first = [bytes(row.data).decode() for row in messages.where("offset < 3").collect()]
    upper = F.upper(F.decode("data", "utf-8")).cast("binary").alias("data")
    with tempfile.TemporaryDirectory() as folder:
        (
            spark.readStream.format("fanlog")
            .options(**options, startingOffsets="earliest")
            .load()
            .where("offset < 3")
            .select(upper)
            .writeStream.format("fanlog")
            .options(**options, checkpointLocation=folder)
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )
    now = spark.read.format("fanlog").options(**options).load()
    data = [bytes(row.data).decode() for row in now.collect()]
    return {"first": first, "all": data, "parallelism": parallelism_of(spark)}


def stop(spark: SparkSession) -> dict[str, Any]:
    """A query that would run for hours, stopped once its tasks are known."""
    driver = driver_of(spark)
    work = Work("projects/test/jobs/endless", "endless", {})
    seen: dict[int, tuple[int, int]] = {}

    def await_tasks() -> None:
        late_s = time.monotonic() + PATIENCE_S
        while not seen and time.monotonic() < late_s:
            seen.update(driver.stages(work))
            time.sleep(0.05)
        work.stop()

    watching = threading.Thread(target=await_tasks)
    error = ""
    with driver.stoppable(work):
        watching.start()
        try:
            spark.range(10**13).select(F.sum(F.hash("id"))).collect()
        except Exception as raised:
            # Of any kind: each way to Spark has its own.
            error = str(raised)
        watching.join()
    return {
        "stages": list(seen.values()),
        "error": error,
        "is_alive": driver.is_alive(),
        # Nothing is stopped that comes after it.
        "then": spark.range(10).count(),
    }


if __name__ == "__main__":
    do = {"read": read, "stop": stop}[sys.argv[1]]
    session = SparkSession.Builder().remote(sys.argv[2]).getOrCreate()
    sys.stdout.write(json.dumps(do(session, *sys.argv[3:])) + "\n")
    session.stop()
