"""Import: rows of files, published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from fanlog.errors import InvalidArgument
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs.replay import publish_once
from fanlog.pipeline.jobs.task_progress import TaskProgress
from fanlog.pipeline.jobs.work import Arguments, JobResult, Work

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def import_files(context: Context, work: Work) -> JobResult:
    """Do the job."""
    arguments = work.arguments
    rows = _rows(context, arguments["path"], arguments["format"])
    with TaskProgress(context, work, phase="publishing"):
        published = publish_once(context, work, messages(rows, arguments), arguments["topic"])
    return {"published": published, "topic": arguments["topic"]}


def messages(rows: DataFrame, arguments: Arguments) -> DataFrame:
    """Rows as messages: a column for the data, or the whole row as a JSON object.

    Raises:
        InvalidArgument: A column is not there, or cannot have the part that it is named for.
    """
    taken = [arguments[name] for name in ("attributes", "ordering_key") if name in arguments]
    for name in ("data", "attributes", "ordering_key"):
        if name in arguments and arguments[name] not in rows.columns:
            raise InvalidArgument(
                f"arguments.{name}: there is no column {arguments[name]!r}; there are "
                f"{', '.join(rows.columns)}"
            )
    if "data" in arguments:
        data = _data(rows, arguments["data"])
    else:
        rest = [name for name in rows.columns if name not in taken]
        data = F.to_json(F.struct(*(F.col(f"`{name}`") for name in rest))).cast("binary")
    chosen = [data.alias("data")]
    if "attributes" in arguments:
        chosen.append(_attributes(rows, arguments["attributes"]).alias("attributes"))
    if "ordering_key" in arguments:
        key = F.col(f"`{arguments['ordering_key']}`").cast("string")
        chosen.append(F.coalesce(key, F.lit("")).alias("ordering_key"))
    return rows.select(*chosen)


def _rows(context: Context, path: str, form: str) -> DataFrame:
    files = context.reach.find_imports(path, field="arguments.path")
    reader = context.spark.read
    if files.folder is not None:
        reader = reader.option("basePath", files.folder)
    paths = list(files.paths)
    try:
        if form == "csv":
            return reader.option("header", "true").csv(paths)
        if form == "json":
            return reader.option("mode", "FAILFAST").json(paths)
        return reader.parquet(*paths)
    except AnalysisException as error:
        raise InvalidArgument(f"arguments.path: {str(error).splitlines()[0]}") from error


def _data(rows: DataFrame, name: str) -> Column:
    found = F.col(f"`{name}`")
    kind = rows.schema[name].dataType
    if isinstance(kind, BinaryType):
        return found
    if isinstance(kind, StringType):
        return found.cast("binary")
    if isinstance(kind, StructType | MapType | ArrayType):
        return F.to_json(found).cast("binary")
    return found.cast("string").cast("binary")


def _attributes(rows: DataFrame, name: str) -> Column:
    kind = rows.schema[name].dataType
    found = F.col(f"`{name}`")
    if isinstance(kind, MapType):
        return found.cast("map<string,string>")
    if isinstance(kind, StringType):
        return F.from_json(found, "map<string,string>")
    raise InvalidArgument(
        f"arguments.attributes: column {name!r} is {kind.simpleString()}; a map, or a JSON object "
        "as text, is needed"
    )
