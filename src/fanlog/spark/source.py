"""The data source `fanlog`: what Spark asks of it, and who answers."""

from __future__ import annotations

from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource

from fanlog.errors import InvalidArgument
from fanlog.spark.options import read_options
from fanlog.spark.reader import Reader
from fanlog.spark.schemas import spark_schema
from fanlog.spark.stream import StreamReader


class Source(DataSource):
    """Made anew by Spark for every step of a query, with the options as the program gave them.

    Options are checked when the columns are asked for, which is before anything runs, and once more
    by each step, which knows whether it is a batch or a stream.
    """

    @classmethod
    def name(cls) -> str:
        return "fanlog"

    def schema(self) -> T.StructType:
        options = read_options(self.options, is_streaming=None)
        return spark_schema(with_sequence=options.include_sequence)

    def reader(self, schema: T.StructType) -> Reader:
        options = read_options(self.options, is_streaming=False)
        _check_schema(schema, with_sequence=options.include_sequence)
        return Reader(options)

    def streamReader(self, schema: T.StructType) -> StreamReader:  # noqa: N802
        options = read_options(self.options, is_streaming=True)
        _check_schema(schema, with_sequence=options.include_sequence)
        return StreamReader(options)


def _check_schema(schema: T.StructType, *, with_sequence: bool) -> None:
    known = spark_schema(with_sequence=with_sequence)
    if schema != known:
        raise InvalidArgument(
            "messages have columns of their own; leave out schema(…), and select what you want of "
            + ", ".join(known.fieldNames())
        )
