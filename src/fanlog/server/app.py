"""A whole server, from start to drained: one shard behind one entrance.

The only place that runs one in a process of its own.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import uvloop

from fanlog.broker.bootstrap import server_id_of
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock, SystemClock
from fanlog.config import Config
from fanlog.errors import FanlogError
from fanlog.log.api import Log
from fanlog.push.service import PushService
from fanlog.server.allocator import keep_freed_memory
from fanlog.server.engine import open_store
from fanlog.server.entrance import Entrance, Sockets
from fanlog.server.file_limit import raise_file_limit
from fanlog.server.health import Health
from fanlog.server.http_api import http_app
from fanlog.server.http_callers import PageRequest
from fanlog.server.metrics.family import Reading
from fanlog.server.metrics.reader import MetricsReader
from fanlog.server.numbers import Numbers, new_spans
from fanlog.server.resource_file import Resources, read_resources
from fanlog.server.services import SERVICE_NAMES
from fanlog.server.shard import Shard, file_spool
from fanlog.transport.counts import TransportCounts
from fanlog.transport.line_limit import LineLimit

log = logging.getLogger("fanlog.server")


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    broker: Broker
    senders: PushService
    store: Log
    host: str
    port: int
    endpoint: str
    #: The second port; the same as the first when there is none.
    http_endpoint: str
    is_tls: bool = False


@asynccontextmanager
async def running(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Server]:
    """Run a server inside a `with`; leaving it drains.

    Raises:
        DataFolderInUse: Another process has the data folder.
        FanlogError: The store cannot be read, or a port cannot be had; nothing was changed.
    """
    wanted = read_resources(config.resources, config.project) if config.resources else None
    store = open_store(config)
    try:
        async with _serving(config, store, clock or SystemClock(), wanted) as server:
            yield server
    finally:
        store.close()


STARTING: Final = "the server is starting"
STOPPING: Final = "the server is stopping"


class _Pages:
    """What a server that is alone says of itself."""

    def __init__(self, shard: Shard, numbers: MetricsReader) -> None:
        self._shard = shard
        self._numbers = numbers
        self.obstacle = STARTING

    @property
    def remarks(self) -> Sequence[str]:
        return self._shard.remarks if not self.obstacle else ()

    async def check_metrics(self, request: PageRequest) -> None:
        await self._shard.check_metrics(request)

    def metrics(self) -> AsyncIterator[Reading]:
        return self._numbers.read()


@asynccontextmanager
async def _serving(
    config: Config, store: Log, clock: Clock, wanted: Resources | None
) -> AsyncIterator[Server]:
    counts = TransportCounts()
    server_id = server_id_of(store)
    spans = new_spans(config, server_id)
    shard = Shard(config, store, clock, staged=file_spool(config), counts=counts, spans=spans)
    try:
        await shard.start(wanted)
        served = shard.metrics()
        numbers = Numbers(config, lambda: [served], counts, server_id, spans)
        pages = _Pages(shard, numbers.reader)
        health = Health(SERVICE_NAMES, shard.broker.ledger.refusals.degraded)
        # Health is for everybody: those who ask have no credentials.
        methods = [*shard.methods(), *health.methods()]
        app = http_app(config, pages, shard.routes(), shard.middleware())
        entrance = Entrance(config, methods, app, counts)
        sockets = Sockets(config)
        try:
            await entrance.open(sockets)
            numbers.start()
            health.serving()
            pages.obstacle = ""
            shard.begin(config.push_issuer or sockets.url(is_tls=entrance.is_tls))
            yield Server(
                *(shard.broker, shard.senders, store, config.host, sockets.port),
                *(sockets.endpoint, sockets.http_endpoint, entrance.is_tls),
            )
        finally:
            pages.obstacle = STOPPING
            health.drain()
            shard.drain()
            entrance.close()
            await asyncio.gather(entrance.send_away(config.drain_s), shard.finish(config.drain_s))
            await numbers.stop()
            await entrance.stop()
    finally:
        await shard.close()
        if spans is not None:
            await spans.stop()


def serve(config: Config) -> int:
    """Serve until SIGTERM or SIGINT; the exit status of `fanlog serve`."""
    logging.basicConfig(
        level=config.log_level.upper(),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        stream=sys.stderr,
    )
    # Uvicorn tells of its own start and stop; ours are enough.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    for name in ("fanlog.transport", "fanlog.auth", "uvicorn.error"):
        logging.getLogger(name).addFilter(LineLimit())
    keep_freed_memory()
    raise_file_limit()
    try:
        uvloop.run(_serve(config))
    except FanlogError as error:
        sys.stderr.write(f"fanlog: {error}\n")
        return 1
    return 0


def _told_access(config: Config) -> str:
    if config.auth == "none":
        return "IAM: stored, not enforced"
    return "IAM: enforced"


def _told_seal(config: Config) -> str:
    return "; secrets: sealed" if config.seal_key or config.seal_key_file else ""


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if config.kafka:
        # Imported here: a server that is alone needs nothing of a cluster.
        from fanlog.server.clustered import serve_node

        await serve_node(config, stop, tell=lambda line: _tell_ready(config, line))
        return
    async with running(config) as server:
        where = "in memory" if config.memory else f"in {config.data_dir}"
        if config.lake:
            where += f", lake in {server.broker.tiers.lake_uri}"
        tls = "TLS; " if server.is_tls else ""
        _tell_ready(
            config,
            f"gRPC on {server.endpoint}, HTTP on {server.http_endpoint}, data {where}; {tls}",
        )
        await stop.wait()
        log.info("action=drain seconds=%s", config.drain_s)


def _tell_ready(config: Config, line: str) -> None:
    # What is here now stays: full collections need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
    sys.stdout.write(f"fanlog ready: {line}{_told_access(config)}{_told_seal(config)}\n")
    sys.stdout.flush()
