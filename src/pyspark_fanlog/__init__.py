"""How Spark finds the format `fanlog`: it looks for packages named so, and for this class in them.

All of it is in `fanlog.spark`.
"""

from fanlog.spark.source import Source as DefaultSource

__all__ = ["DefaultSource"]
