"""Fanlog in a Spark program: the data source `fanlog`, and filters as columns.

Needs the extra `spark`. Only the pipeline, which is a Spark program itself, imports this package.
"""

from __future__ import annotations

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        "fanlog.spark needs PySpark, which is not installed: pip install 'fanlog[spark]'"
    ) from error

from fanlog.spark.filter_column import SETTINGS, Columns, column
from fanlog.spark.java import prepare_java

__all__ = ["SETTINGS", "Columns", "column", "prepare_java"]
