"""The table of messages for jobs: the lake's part is read by Spark's own Parquet reader.

A data source in Python is never told which columns a query looks at, so the format reads them all
and hands them from process to process. A job that counts the matches of a filter needs neither. The
rows are those of the format, to the last: the log's part of them comes through it.
"""

from __future__ import annotations

import functools
import json
import operator
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from fanlog.client.log import LogClient
from fanlog.lake.location import Location
from fanlog.routing.filter_parse import parse
from fanlog.spark.broker import connect
from fanlog.spark.cold import ColdSpans, list_files
from fanlog.spark.filter_column import column
from fanlog.spark.options import ReadOptions, read_options
from fanlog.spark.plan import PartitionExtent, Span, split_tiers
from fanlog.spark.reader import find_spans
from fanlog.spark.schemas import spark_schema
from fanlog.spark.selection import ask_standing
from fanlog.spark.task import join_filters

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Spans that are written out as a condition, which files are skipped by; more of them are joined.
CONDITION_SPANS_MAX: Final = 64

#: A flipped bit is found, and not counted.
_CHECKED: Final = "parquet.page.verify-checksum.enabled"
#: Characters that Hadoop takes for a pattern in a path.
_SPECIAL: Final = re.compile(r"[\\*?\[\]{}^,]")
_POSITIONS: Final = ("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp")


def messages(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """The rows that `spark.read.format("fanlog")` reads with these options, as of now.

    Raises:
        FailedPrecondition: Another lake than the broker's is there.
        LakeError: The lake cannot be opened.
        DataLoss: Some offsets are lost, and the options do not say that this is fine.
    """
    parsed = read_options(options, is_streaming=False)
    with connect(parsed.endpoint) as connection:
        log = LogClient(connection)
        at = ask_standing(log, parsed)
        spans = find_spans(log, parsed, at)
    hot, cold = split_tiers(spans, at.parts)
    location = at.lake() if cold else None
    # Spark comes without a reader of S3; the tasks of the format bring one.
    if location is None or location.is_s3 or not _is_plain(parsed):
        return spark.read.format("fanlog").options(**options).load()
    archived = _read_lake(spark, location, cold)
    for text in join_filters(parsed.filter, at.filter):
        tree = parse(text, limited=False)
        archived = archived if tree is None else archived.where(column(tree))
    if not hot:
        return archived
    rest = {name: text for name, text in options.items() if name not in _POSITIONS}
    rest |= {name: json.dumps(offsets) for name, offsets in _between(at.parts, hot).items()}
    return archived.union(spark.read.format("fanlog").options(**rest).load())


def _is_plain(options: ReadOptions) -> bool:
    """Whether Spark's own reader can give these rows: it skips no damaged file."""
    return options.fail_on_data_loss and not options.include_sequence


def _read_lake(spark: SparkSession, location: Location, spans: Sequence[Span]) -> DataFrame:
    """The rows of spans in the lake."""
    files = list_files(location, ColdSpans(tuple(spans)))
    schema = spark_schema(with_sequence=False)
    if not files:
        return spark.createDataFrame([], schema)
    folder = _SPECIAL.sub(r"\\\g<0>", location.uri)
    paths = [f"{folder}/{file.path}" for file in files]
    rows = spark.read.schema(schema).option(_CHECKED, "true").parquet(*paths)
    if len(spans) <= CONDITION_SPANS_MAX:
        return rows.where(functools.reduce(operator.or_, map(_inside, spans)))
    wanted = spark.createDataFrame(
        [(span.partition, span.start, span.end) for span in spans],
        "wanted long, first long, beyond long",
    )
    is_wanted = (
        (F.col("partition") == F.col("wanted"))
        & (F.col("offset") >= F.col("first"))
        & (F.col("offset") < F.col("beyond"))
    )
    return rows.join(F.broadcast(wanted), is_wanted, "left_semi")


def _inside(span: Span) -> Column:
    return (F.col("partition") == span.partition) & F.col("offset").between(
        span.start, span.end - 1
    )


def _between(
    parts: Sequence[PartitionExtent], hot: Sequence[Span]
) -> dict[str, dict[str, dict[str, int]]]:
    """Offsets to begin and to end at, of every partition: nothing, where nothing is hot."""
    spans = {span.partition: span for span in hot}
    starting: dict[str, dict[str, int]] = {}
    ending: dict[str, dict[str, int]] = {}
    for part in parts:
        nothing = Span(part.topic, part.partition, part.end, part.end)
        span = spans.get(part.partition, nothing)
        starting.setdefault(part.topic, {})[str(part.partition)] = span.start
        ending.setdefault(part.topic, {})[str(part.partition)] = span.end
    return {"startingOffsets": starting, "endingOffsets": ending}
