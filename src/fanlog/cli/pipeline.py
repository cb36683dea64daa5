"""`fanlog pipeline`: the pipeline in the foreground."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.output import note
from fanlog.errors import InvalidArgument

#: Log4j's, from the loudest.
_LOG_LEVELS = {
    name: number for number, name in enumerate(("trace", "debug", "info", "warn", "error", "off"))
}
#: Exit code when there is no Spark, or no Java: to start again would not help.
NO_SPARK = 3


def pipeline(
    endpoint: options.Endpoint = None,
    master: Annotated[
        str,
        typer.Option(
            envvar="FANLOG_MASTER",
            help="The Spark to run on: a master such as spark://…, or a Connect server, sc://…",
        ),
    ] = "local[*]",
    lake: Annotated[
        str, typer.Option(envvar="FANLOG_LAKE", help="The lake; the broker's when not given.")
    ] = "",
    state_dir: Annotated[
        Path, typer.Option(help="Folder of checkpoints and of Spark's log.")
    ] = Path("data/pipeline"),
    memory: Annotated[
        str | None, typer.Option(help="Memory of Spark's driver; 1g when not given.")
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A setting of Spark; may be given many times."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="Of Spark's log; warn when not given.")
    ] = None,
    import_root: options.ImportRoots = None,
    s3_bucket: options.Buckets = None,
) -> None:
    """Archive, export, and do jobs, until SIGTERM or Ctrl-C."""
    master = options.spark_master(master, memory=memory, log_level=log_level)
    if log_level is not None:
        options.one_of(log_level, _LOG_LEVELS, "--log-level")
    for folder in import_root or ():
        if not folder.is_dir():
            raise InvalidArgument(f"--import-root: {str(folder)!r} is not a folder of this machine")
    try:
        from fanlog.client.address import resolve_endpoint
        from fanlog.lake.pipeline_access import PipelineAccess
        from fanlog.pipeline.process import JavaNotFound, Settings, run
    except ImportError as error:
        note(f"fanlog pipeline: Spark is needed ({error}): pip install 'fanlog[spark]'")
        raise typer.Exit(NO_SPARK) from error
    settings = Settings(
        endpoint=resolve_endpoint(endpoint),
        master=master,
        lake=lake,
        state_dir=state_dir,
        memory=memory,
        log_level=log_level,
        reach=PipelineAccess(
            import_roots=tuple(map(os.path.abspath, import_root or ())),
            buckets=tuple(s3_bucket or ()),
        ),
        spark=options.pairs(spark_conf, "--spark-conf"),
    )
    # Tasks need the packages of this interpreter.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        code = run(settings, say=note)
    except JavaNotFound as error:
        note(f"fanlog pipeline: {error.message}")
        raise typer.Exit(NO_SPARK) from error
    raise typer.Exit(code)
