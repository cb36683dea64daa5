"""`fanlog up`: a broker and one local pipeline worker, in the foreground, as two processes.

The broker comes first and goes last, and does not depend on the other: where there is no Spark or
no Java, it runs alone, and that is said. A worker that dies is started again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from fanlog.cli import options
from fanlog.cli.groups import flag
from fanlog.cli.output import note
from fanlog.cli.pipeline import NO_SPARK
from fanlog.errors import InvalidArgument

#: How long a worker that died is left before it is started again, at first and at most.
REST_S = 1.0
REST_S_MAX = 60.0
#: How long processes have to end when asked to.
END_S = 30.0


def up(
    data_dir: options.DataDir = options.DATA_DIR,
    lake: Annotated[
        str | None,
        typer.Option(envvar="FANLOG_LAKE", help="The lake; `lake` in the data folder if not."),
    ] = None,
    port: Annotated[int, typer.Option(envvar="FANLOG_PORT", help="Port of gRPC and HTTP.")] = 8085,
    http_port: Annotated[
        str,
        typer.Option(envvar="FANLOG_HTTP_PORT", help="A second port of the same; off for none."),
    ] = "8086",
    tls_cert: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="FANLOG_TLS_CERT",
            help="Serve TLS with this certificate (PEM, with its chain); the worker checks it by"
            " --ca, which stands before `up`.",
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", envvar="FANLOG_TLS_KEY", help="The certificate's key."),
    ] = None,
    tls_client_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            envvar="FANLOG_TLS_CLIENT_CA",
            help="Only clients with a certificate that this signed come in; the worker shows that"
            " of --cert and --key, which stand before `up`.",
        ),
    ] = None,
    auth: Annotated[
        str | None,
        typer.Option(
            metavar="none|required",
            envvar="FANLOG_AUTH",
            help="Whether callers must show who they are; the worker has an account of its own.",
        ),
    ] = None,
    seal_key_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File of the key that secrets are sealed with in the data folder; plain when"
            " neither this nor a variable gives one.",
        ),
    ] = None,
    topic_retention: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            envvar="FANLOG_TOPIC_RETENTION",
            help="Topics without a retention of their own, and kept out of the lake, keep messages"
            " this long: 10m to 31d, or 0; 7d when not given.",
        ),
    ] = None,
    push_allow: Annotated[
        list[str] | None,
        typer.Option(help="Network that push may reach although it is private; may be repeated."),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(help="Where the broker stands, for topics whose messages have a region."),
    ] = None,
    dead_letter_default: Annotated[
        str | None,
        typer.Option(
            metavar="none|auto", help="Dead letters of subscriptions made without a policy."
        ),
    ] = None,
    master: Annotated[
        str, typer.Option(envvar="FANLOG_MASTER", help="The Spark to run on.")
    ] = "local[*]",
    memory: Annotated[
        str | None, typer.Option(help="Memory of Spark's driver; 1g when not given.")
    ] = None,
    import_root: options.ImportRoots = None,
    s3_bucket: options.Buckets = None,
) -> None:
    """Serve, archive and do jobs until SIGTERM or Ctrl-C.

    Other settings of `fanlog serve` come from FANLOG_ variables.
    """
    if os.environ.get("FANLOG_KAFKA"):
        raise InvalidArgument(
            "FANLOG_KAFKA is set, and `fanlog up` runs a server that is alone; of a cluster, run"
            " `fanlog serve` on each node and `fanlog pipeline` where there is Spark"
        )
    if not port:
        raise InvalidArgument("--port: the worker has to know it; 0 is for `fanlog serve` alone")
    address = lake or str(data_dir / "lake")
    serving = ["serve", "--data-dir", str(data_dir), "--lake", address, "--port", str(port)]
    serving += ["--http-port", http_port]
    serving += _flags(tls_cert=tls_cert, tls_key=tls_key, tls_client_ca=tls_client_ca)
    serving += _flags(auth=auth, seal_key_file=seal_key_file)
    serving += _flags(topic_retention=topic_retention, push_allow=push_allow, region=region)
    serving += _flags(dead_letter_default=dead_letter_default)
    token_file = _token_file(data_dir) if auth == "required" else None
    host = os.environ.get("FANLOG_HOST") or "127.0.0.1"
    endpoint = _endpoint(host, port, is_tls=tls_cert is not None, token_file=token_file)
    working = ["pipeline", "--endpoint", endpoint, "--master"]
    working.append(options.spark_master(master, memory=memory))
    working += ["--state-dir", str(data_dir / "pipeline")]
    working += _flags(memory=memory, import_root=import_root, s3_bucket=s3_bucket)
    raise typer.Exit(_Pair(serving, working, token_file).run())


def _token_file(data_dir: Path) -> Path:
    """Where the broker keeps the token of the pipeline's own account."""
    folder = os.environ.get("FANLOG_AUTH_DIR")
    return (Path(folder) if folder else data_dir / "auth") / "pipeline.token"


def _endpoint(host: str, port: int, *, is_tls: bool, token_file: Path | None) -> str:
    """The address of the broker for the worker: with the name of its token's file, if any."""
    from fanlog.client.address import ServerAddress

    if token_file is not None and not is_tls:
        # All addresses of this machine, of which loopback is the one for secrets in plain text.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    # The whole path: Spark's tasks may run in another folder.
    path = "" if token_file is None else str(token_file.absolute())
    return str(ServerAddress(f"{shown}:{port}", is_tls=is_tls, token_file=path))


def _flags(**given: object) -> Iterator[str]:
    """The options that were given, as they stand on a command line."""
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                yield from (flag(name), str(one))


class _Pair:
    """The two processes."""

    def __init__(
        self, serving: Sequence[str], working: Sequence[str], token_file: Path | None
    ) -> None:
        self._serving = serving
        self._working = working
        self._token_file = token_file
        self._stopping = threading.Event()
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Until the broker ends, by itself or because it is told to; gives its exit code."""
        # Before anything is started that would be left behind.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._stopping.set())
        broker = _started(self._serving)
        keeper = threading.Thread(target=self._keep_worker, name="worker-keeper", daemon=True)
        keeper.start()
        while not self._stopping.wait(0.2) and broker.poll() is None:
            pass
        self._stopping.set()
        # The worker first: to finish its open work, it needs the broker.
        _end(self._worker)
        keeper.join(END_S)
        _end(broker)
        return broker.returncode

    def _keep_worker(self) -> None:
        # The broker writes it at its first start.
        while self._token_file is not None and not self._token_file.exists():
            if self._stopping.wait(0.1):
                return
        rest_s = REST_S
        while not self._stopping.is_set():
            worker = self._worker = _started(self._working)
            if self._stopping.is_set():
                _end(worker)
            code = worker.wait()
            if self._stopping.is_set():
                return
            if code == NO_SPARK:
                note(
                    "fanlog up: no pipeline, see above; the broker runs alone and keeps everything "
                    "in its own log"
                )
                return
            note(f"fanlog up: the pipeline ended with {code}; starting it again in {rest_s:.0f} s")
            self._stopping.wait(rest_s)
            rest_s = min(2 * rest_s, REST_S_MAX)


def _started(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    environ = dict(os.environ)
    if arguments[0] != "serve":
        # The key that seals the broker's secrets is for the broker alone.
        environ.pop("FANLOG_SEAL_KEY", None)
    # Not in the terminal's foreground group: Ctrl-C comes to us, and we say when each of them ends.
    return subprocess.Popen(
        [sys.executable, "-m", "fanlog", *arguments], process_group=0, env=environ
    )


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
