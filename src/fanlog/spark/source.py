"""The data source `fanlog`: Spark asks it for columns, readers and writers."""

from __future__ import annotations

from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource

from fanlog.errors import InvalidArgument
from fanlog.spark.options import WriteOptions, read_options, write_options
from fanlog.spark.outgoing import check_columns
from fanlog.spark.reader import BatchReader
from fanlog.spark.schemas import spark_schema
from fanlog.spark.stream import StreamReader
from fanlog.spark.writer import BatchWriter, StreamWriter


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

    def reader(self, schema: T.StructType) -> BatchReader:
        options = read_options(self.options, is_streaming=False)
        _check_schema(schema, with_sequence=options.include_sequence)
        return BatchReader(options)

    def streamReader(self, schema: T.StructType) -> StreamReader:  # noqa: N802
        options = read_options(self.options, is_streaming=True)
        _check_schema(schema, with_sequence=options.include_sequence)
        return StreamReader(options)

    def writer(self, schema: T.StructType, overwrite: bool) -> BatchWriter:
        if overwrite:
            raise InvalidArgument('a topic is only added to; use mode("append")')
        return BatchWriter(self._write_options(schema))

    def streamWriter(self, schema: T.StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        # In output mode complete, as with Kafka, the whole result is published each time.
        return StreamWriter(self._write_options(schema))

    def _write_options(self, schema: T.StructType) -> WriteOptions:
        options = write_options(self.options)
        check_columns(schema, options)
        return options


def _check_schema(schema: T.StructType, *, with_sequence: bool) -> None:
    known = spark_schema(with_sequence=with_sequence)
    if schema != known:
        raise InvalidArgument(
            "messages have columns of their own; leave out schema(…), and select what you want of "
            + ", ".join(known.fieldNames())
        )
