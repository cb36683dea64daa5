"""What went wrong in Spark, in one sentence."""

from __future__ import annotations

import pytest

from fanlog.errors import InvalidArgument
from fanlog.pipeline.spark_errors import cause_of, is_crash

READ_FAILED = """\
An error occurred while calling o125.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 1.0 (TID 2) (127.0.0.1 executor driver): \
org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file \
file:///lake/0.parquet.  SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.cannotReadFilesError(Q.scala:920)
Caused by: java.lang.RuntimeException: the footer index is not within the file: 100
\tat org.apache.parquet.hadoop.ParquetFileReader.readFooter(ParquetFileReader.java:628)
"""
TASK_FAILED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted SQLSTATE: XXKST
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
fanlog.lake.location.LakeError: the lake at /lake cannot be written: No space left on device
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(P.scala:1)
"""
DAEMON_DIED = """\
An error occurred while calling o37.load.
: java.io.IOException: Stream closed
\tat java.base/java.lang.ProcessBuilder$NullOutputStream.write(ProcessBuilder.java:445)
"""
BATCH_FAILED = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: An error occurred SQLSTATE: X
Traceback (most recent call last):
py4j.protocol.Py4JJavaError: An error occurred while calling o63.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (127.0.0.1 executor driver): \
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
pyspark.daemon's stdout.
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:382)
"""
NOT_REACHED = """\
<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "failed to connect to all addresses; last error: Connection refused"
\tdebug_error_string = "UNKNOWN:Error received from peer"
>
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidArgument("the table is not there"), "the table is not there"),
        (
            RuntimeError(READ_FAILED),
            (
                "Encountered error while reading file file:///lake/0.parquet. "
                "the footer index is not within the file: 100"
            ),
        ),
        (
            RuntimeError(TASK_FAILED),
            "the lake at /lake cannot be written: No space left on device",
        ),
        (
            RuntimeError("An error occurred while calling o1.\n: java.lang.Error"),
            "RuntimeError: An error occurred while calling o1.",
        ),
        (RuntimeError(DAEMON_DIED), "Stream closed"),
        (
            RuntimeError(BATCH_FAILED),
            ("EOFException occurred while reading the port number from pyspark.daemon's stdout."),
        ),
        (
            RuntimeError(NOT_REACHED),
            "failed to connect to all addresses; last error: Connection refused",
        ),
        (KeyError("column"), "KeyError: 'column'"),
        (RuntimeError(), "RuntimeError: no reason given"),
    ],
)
def test_causes(error, said):
    assert cause_of(error) == said


@pytest.mark.parametrize(
    ("text", "crashed"),
    [
        (DAEMON_DIED, True),
        (BATCH_FAILED, True),
        ("SparkException: Python worker exited unexpectedly (crashed)", True),
        (READ_FAILED, False),
        (TASK_FAILED, False),
        (f"{TASK_FAILED}Caused by: java.io.IOException: No space left on device", False),
    ],
)
def test_crashes(text, crashed):
    assert is_crash(RuntimeError(text)) is crashed
