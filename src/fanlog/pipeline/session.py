"""A Spark session for the pipeline: any master, or a Connect server; and quiet.

The output of Spark and its Java goes to a file: the terminal is for our own lines.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanlog.errors import FailedPrecondition
from fanlog.pipeline.spark_errors import cause_of
from fanlog.spark import SETTINGS, prepare_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {path}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n%ex
"""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

#: Settings of every session, here or on a Connect server.
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.metricsEnabled": "false",
    # Flows write a batch every few seconds: old ones are of no use.
    "spark.sql.streaming.minBatchesToRetain": "10",
    **SETTINGS,
}

#: A line of Java or of Spark's launcher when they cannot start.
_COMPLAINT = re.compile(
    r'(?!Error: A JNI error)(?:Exception in thread "main" (?:[\w$]+\.)*)?'
    r"((?:Invalid |[\w$]*(?:Exception|Error): ).+)"
)

#: How often a call is tried that a Connect server does not answer, within some 20 s: a server that
#: was started anew does not know the session any more.
_TRIES = 5


def start_session(
    master: str,
    *,
    log_file: Path,
    log_level: str = "warn",
    memory: str = "1g",
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a driver of our own, which may join a cluster.

    Raises:
        JavaNotFound: There is no Java to start it with.
        FailedPrecondition: Spark does not start; or there is no place for its log.
    """
    prepare_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    log4j, said = log_file.with_suffix(".log4j2.properties"), log_file.with_suffix(".err")
    try:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        log4j.write_text(_LOG4J.format(level=log_level, path=log_file.resolve()), encoding="utf-8")
        said.touch()
    except OSError as error:
        raise FailedPrecondition(f"the state folder cannot be written: {error}") from error
    if is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    configured = configuration(master, memory=memory, log4j=log4j.resolve(), given=settings or {})
    builder = SparkSession.Builder().master(master).appName("fanlog pipeline")
    for name, value in configured.items():
        builder = builder.config(name, value)
    before = said.stat().st_size
    try:
        with _stderr_to(said):
            return builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        reason = _complaint(said, before) or cause_of(error)
        raise FailedPrecondition(
            f"Spark does not start on {shown(master)}: {reason} ({said} and {log_file} say more)"
        ) from error


def _complaint(said: Path, after: int) -> str:
    """The first thing that Java had to complain of, as far as it is one line."""
    with said.open("rb") as file:
        file.seek(after)
        lines = file.read().decode(errors="replace").splitlines()
    found = (_COMPLAINT.fullmatch(line) for line in lines)
    return next((match[1] for match in found if match), "")


def join_server(url: str, *, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Begin a session of a Spark Connect server, which needs no Java here.

    Raises:
        FailedPrecondition: There is none, or it does not take a setting.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    # The warning repeats the error that is raised.
    warnings.filterwarnings("ignore", message=re.escape("[RETRIES_EXCEEDED]"))
    try:
        spark = SparkSession.Builder().remote(url).getOrCreate()
        from pyspark.sql.connect.client.retries import DefaultPolicy

        client: Any = spark.client
        client.set_retry_policies([DefaultPolicy(max_retries=_TRIES)])
        for name, value in (_SESSION | dict(settings or {})).items():
            spark.conf.set(name, value)
    except PySparkException as error:
        raise FailedPrecondition(
            f"the Spark Connect server {shown(url)} cannot be used: {cause_of(error)}"
        ) from error
    return spark


def is_server(master: str) -> bool:
    """Whether it is a Spark Connect server, which has a driver of its own."""
    return master.startswith("sc://")


def shown(master: str) -> str:
    """A master without its parameters, of which one may be a secret."""
    return master.partition("/;")[0]


def configuration(
    master: str, *, memory: str, log4j: Path, given: Mapping[str, str]
) -> Mapping[str, str]:
    """The settings of Spark: those given come before our own."""
    configured = {
        "spark.driver.memory": memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Finds the caller of every function of a Column, for a debugger we do not have.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # On a busy machine a worker of Spark's takes its time to import its modules.
        "spark.python.authenticate.socketTimeout": "60s",
        # Flows run side by side with jobs.
        "spark.scheduler.mode": "FAIR",
        **_SESSION,
    }
    if is_on_loopback(master):
        # No other machine has to reach it.
        configured |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
        }
    if master.startswith("local"):
        configured["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
    configured |= given
    # Added to the options given: without it Spark's noise would go to the terminal.
    options = [f"-Dlog4j2.configurationFile={log4j}", given.get(_JAVA_OPTIONS, "")]
    configured[_JAVA_OPTIONS] = " ".join(filter(None, options))
    return configured


def is_on_loopback(master: str) -> bool:
    """Whether all of that Spark is on this machine, as far as its address says."""
    if master.startswith("local"):
        return True
    if not master.startswith("spark://"):
        return False
    # Masters that stand by for each other: spark://one:7077,two:7077
    hosts = [one.rpartition(":")[0] for one in master.removeprefix("spark://").split(",")]
    return all(host == "localhost" or host.startswith("127.") for host in hosts)


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """Let a process that is started meanwhile, and stays, write elsewhere than to the terminal."""
    kept = os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
    finally:
        os.close(kept)
