"""What a Spark program sees of Fanlog. Needs the extra `spark`; nothing else here imports Spark."""

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
