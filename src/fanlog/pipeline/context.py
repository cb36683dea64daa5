"""What every job of a pipeline has at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanlog.client import Client
from fanlog.lake.location import Location
from fanlog.pipeline.work import Work

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Context:
    """A Spark session, a broker, a lake."""

    spark: SparkSession
    endpoint: str
    location: Location

    def client(self) -> Client:
        return Client(self.endpoint)

    @contextmanager
    def stoppable(self, work: Work) -> Iterator[None]:
        """Have Spark's jobs of this thread end when the work is to stop."""
        context = self.spark.sparkContext
        context.setJobGroup(work.name, work.kind, interruptOnCancel=True)
        work.on_stop(lambda: context.cancelJobGroup(work.name))
        try:
            yield
        finally:
            context.setLocalProperty("spark.jobGroup.id", "")
