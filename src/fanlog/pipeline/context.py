"""The context of a job: Spark, the broker and the lake."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from fanlog.client import Client
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import NOTHING, PipelineAccess
from fanlog.pipeline.driver import Driver, driver_of, parallelism_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Context:
    """A Spark session, a broker, a lake: every job of a pipeline is given it."""

    spark: SparkSession
    endpoint: str
    location: Location
    #: The files and buckets outside the lake that callers may have it touch.
    reach: PipelineAccess = NOTHING

    def client(self) -> Client:
        return Client(self.endpoint)

    @cached_property
    def driver(self) -> Driver:
        return driver_of(self.spark)

    @cached_property
    def spark_version(self) -> str:
        return self.spark.version

    @cached_property
    def parallelism(self) -> int:
        return parallelism_of(self.spark)
