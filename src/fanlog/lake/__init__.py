"""The lake: Delta tables of everything that was published, and how they are written and read.

Needs the extra `lake`. Nothing here knows Spark, and no JVM is needed: `deltalake` writes and reads
table logs, `pyarrow` the files.
"""

from __future__ import annotations

try:
    import deltalake as _deltalake  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        "a lake needs deltalake and pyarrow, which are not installed: pip install 'fanlog[lake]'"
    ) from error
