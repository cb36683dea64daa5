"""A whole server: engine, broker and both ports, from start to drained.

The only place that chooses an engine.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
import uvloop

from fanlog import limits
from fanlog.broker import bootstrap, spool
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock, SystemClock
from fanlog.broker.committer import ThreadCommitter
from fanlog.broker.ports import ForwardDenial, deny_no_forward
from fanlog.broker.schemas.examiner import Apart
from fanlog.broker.seal_key_file import read_seal_keys, seal_keys
from fanlog.broker.tiering.cold_check import check_nothing_cold
from fanlog.broker.tiering.tiers import Tiers
from fanlog.broker.transaction import Ledger
from fanlog.config import Config
from fanlog.core.seal_keys import NO_KEYS, SealKeys, parse_keys
from fanlog.errors import ConfigError, FanlogError, Unavailable
from fanlog.log.api import Log
from fanlog.log.batch import Body
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import warn_if_shared
from fanlog.log.memory import MemoryLog
from fanlog.model.server_rules import ServerRules
from fanlog.push.rules.guard import Guard
from fanlog.push.senders.endpoint_check import EndpointCheck
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.tokens import Tokens
from fanlog.push.service import PushService
from fanlog.server import grpc_api
from fanlog.server.access_control import AccessControl, ForwardingAccount, ensure_accounts
from fanlog.server.allocator import keep_freed_memory, release_freed_memory
from fanlog.server.descriptors import service_descriptors
from fanlog.server.file_limit import caller_connections, push_connections, raise_file_limit
from fanlog.server.gate import Gate
from fanlog.server.health import SERVICE_NAME as HEALTH_SERVICE
from fanlog.server.health import Health
from fanlog.server.http_api import http_app
from fanlog.server.reflection import Reflection
from fanlog.server.resource_file import Resources, ensure_resources, read_resources
from fanlog.server.services import SERVICE_NAMES, SERVICES
from fanlog.transport.budgets import Budgets
from fanlog.transport.counts import TransportCounts
from fanlog.transport.grpc_server import GrpcServer
from fanlog.transport.http1 import Http1Server
from fanlog.transport.line_limit import LineLimit
from fanlog.transport.methods import RpcMethod
from fanlog.transport.port import BACKLOG, Ports
from fanlog.transport.tls import Tls, TlsFiles
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body

log = logging.getLogger("fanlog.server")

#: How long a stop waits for HTTP requests, in seconds; gRPC calls have had their time before.
HTTP_DRAIN_S = 1
#: How long an idle HTTP connection is kept: longer than clients' pools keep theirs, in seconds.
HTTP_KEEP_ALIVE_S = 75

BUDGETS = Budgets(
    unfinished_bytes_max=limits.UNFINISHED_BYTES_MAX,
    credited_bytes_max=limits.CREDITED_BYTES_MAX,
    unread_bytes_max=limits.UNREAD_BYTES_MAX,
    unread_total_bytes_max=limits.UNREAD_TOTAL_BYTES_MAX,
    on_fall=release_freed_memory,
)


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    broker: Broker
    senders: PushService
    store: Log
    host: str
    port: int
    #: The second port; the same as the first when there is none.
    http_port: int
    is_tls: bool = False

    @property
    def endpoint(self) -> str:
        return _address(self.host, self.port)

    @property
    def http_endpoint(self) -> str:
        return _address(self.host, self.http_port)


@asynccontextmanager
async def running(config: Config, *, clock: Clock | None = None) -> AsyncIterator[Server]:
    """Run a server inside a `with`; leaving it drains.

    Raises:
        DataFolderInUse: Another process has the data folder.
        FanlogError: The store cannot be read, or a port cannot be had; nothing was changed.
    """
    wanted = read_resources(config.resources, config.project) if config.resources else None
    store = _open_store(config)
    try:
        async with _serving(config, store, clock or SystemClock(), wanted) as server:
            yield server
    finally:
        store.close()


@asynccontextmanager
async def _serving(
    config: Config, store: Log, clock: Clock, wanted: Resources | None
) -> AsyncIterator[Server]:
    resolver = HostResolver(Guard(config.push_allow), clock.now)
    examiner = Apart()
    broker = build_broker(
        store,
        ThreadCommitter(store),
        clock,
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=random.random,
        settings=_broker_settings(config),
        check_endpoint=EndpointCheck(resolver),
        forward_denial=_forward_denial(config, store),
        examiner=examiner,
        spool=_spool(config),
        seal_keys=_seal_keys(config),
        new_tiers=_new_tiers(config, store, clock),
        outcome_body=_outcome_body if config.tells_outcomes else None,
    )
    tokens = Tokens(broker.secrets, clock)
    senders = PushService(broker, clock, resolver, tokens, connections=push_connections())
    await broker.start()
    access = await _access(config, broker, clock)
    gate = None if access is None else access.gate
    is_ready = asyncio.Event()
    health = Health(SERVICE_NAMES, broker.ledger.refusals.degraded)
    counts = TransportCounts()
    grpc_server = GrpcServer(
        _rpc_methods(broker, health, gate),
        grpc_api.status_of,
        BUDGETS,
        counts,
        folds_answers=config.grpc_compression == "gzip",
    )
    http_server = Http1Server(
        uvicorn.Config(
            http_app(broker, store, is_ready.is_set, config, senders, counts, access),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=HTTP_KEEP_ALIVE_S,
        ),
        BUDGETS,
        counts,
    )
    tls = _tls(config)
    ports = Ports(grpc_server, http_server, connections_max=caller_connections(), tls=tls)
    try:
        if not config.memory:
            await tokens.adopt(config.data_dir)
        if not config.lake:
            check_nothing_cold(broker.hard, store, "say where it is (--lake)")
            _tell_kept_long(broker)
        broker.tiers.begin()
        _tell_other_regions(broker)
        if wanted is not None:
            await ensure_resources(broker, wanted)
        # Both are had before either is served.
        sockets = [_listen("port", config.host, config.port)]
        if config.http_port is not None:
            sockets.append(_listen("http_port", config.host, config.http_port))
        listening = [await ports.listen(one) for one in sockets]
        port, http_port = listening[0], listening[-1]
        try:
            health.serving()
            is_ready.set()
            scheme = "http" if tls is None else "https"
            own = f"{scheme}://{_address(config.host, http_port)}"
            senders.start(config.push_issuer or own)
            yield Server(
                broker, senders, store, config.host, port, http_port, is_tls=tls is not None
            )
        finally:
            is_ready.clear()
            health.drain()
            broker.drain()
            ports.close()
            await asyncio.gather(grpc_server.stop(config.drain_s), senders.stop(config.drain_s))
            await http_server.stop(HTTP_DRAIN_S)
    finally:
        await grpc_server.stop(0)
        await senders.stop(0)
        if access is not None:
            access.close()
        await broker.stop()
        examiner.close()
        await broker.tiers.stop()


def _open_store(config: Config) -> Log:
    if not config.lake:
        return _open_hot(config)
    try:
        from fanlog.server import tiering
    except ImportError as error:
        raise ConfigError(f"lake {config.lake!r} is given, and {error}") from error
    return tiering.tiered(_open_hot(config), config)


def _open_hot(config: Config) -> Log:
    if config.lake and "://" not in config.lake:
        warn_if_shared(Path(config.lake))
    if config.memory:
        return MemoryLog()
    warn_if_shared(config.data_dir)
    return EmbeddedLog(config.data_dir)


def _spare_bytes_max(config: Config) -> int:
    """The most bytes that the default retention may keep; the data folder exists by now."""
    if config.topic_retention_bytes is not None:
        return config.topic_retention_bytes
    if config.memory:
        return limits.SPARE_MEMORY_BYTES_MAX
    disk_bytes = shutil.disk_usage(config.data_dir).total
    return min(limits.SPARE_BYTES_MAX, disk_bytes // limits.SPARE_DISK_PART)


def _broker_settings(config: Config) -> BrokerSettings:
    return BrokerSettings(
        disk_reserve_bytes=0 if config.memory else config.disk_reserve_bytes,
        hot_size_bytes=config.hot_size_bytes,
        message_bytes_max=config.message_bytes_max,
        quotas=config.quotas,
        rules=ServerRules(region=config.region, dead_letter_default=config.dead_letter_default),
        topic_retention_s=config.topic_retention,
        topic_retention_bytes=_spare_bytes_max(config),
        trace_sample=config.trace_sample,
        shed_at=config.shed_at,
    )


def _spool(config: Config) -> spool.Spool | None:
    if config.memory:
        return None
    return spool.FileSpool(config.data_dir / spool.FOLDER_NAME, limits.STAGED_BYTES_MAX)


def _seal_keys(config: Config) -> SealKeys:
    """Raises ConfigError: The file of the keys cannot be read."""
    if config.seal_key:
        return seal_keys(parse_keys(config.seal_key))
    if config.seal_key_file is not None:
        return seal_keys(read_seal_keys(config.seal_key_file))
    return NO_KEYS


def _outcome_body(data: bytes) -> Body:
    return build_body([(data, {}, "")])


def _new_tiers(config: Config, store: Log, clock: Clock) -> Callable[[Ledger], Tiers] | None:
    if not config.lake:
        return None
    from fanlog.server import tiering

    return tiering.new_tiers(store, clock, config)


def _tell_kept_long(broker: Broker) -> None:
    """Say which topics were to be kept in a lake for long: now all of it is hot."""
    found = [
        topic.name
        for topic in broker.hard.catalog.topics()
        if (topic.message_retention_s or 0.0) > limits.RETENTION_S_MAX
    ]
    if found:
        log.warning(
            "action=kept_long topics=%d first=%s; they keep messages for more than 31 days, and "
            "without a lake (--lake) all of them stay in the hot log",
            *(len(found), found[0]),
        )


def _tell_other_regions(broker: Broker) -> None:
    """Say which topics are here although their messages are to be in other regions.

    They were made when the server stood elsewhere, or was told so.
    """
    region = broker.rules.region
    found = [
        topic.name
        for topic in broker.hard.catalog.topics()
        if topic.storage_policy is not None and region not in topic.storage_policy.allowed_regions
    ]
    if found:
        log.warning(
            "action=region_not_allowed topics=%d first=%s region=%r; their message_storage_policy "
            "names other regions, and this server stores their messages nevertheless",
            *(len(found), found[0], region),
        )


def _rpc_methods(broker: Broker, health: Health, gate: Gate | None) -> Iterator[RpcMethod]:
    yield from grpc_api.make_methods(SERVICES, broker, gate)
    # Health is for everybody: those who ask have no credentials.
    yield from health.methods()
    names = (*SERVICE_NAMES, HEALTH_SERVICE)
    yield from Reflection(names, service_descriptors(), gate).methods()


async def _access(config: Config, broker: Broker, clock: Clock) -> AccessControl | None:
    """Raises ConfigError."""
    if config.auth == "none":
        return None
    try:
        await ensure_accounts(broker, clock, config.auth_folder)
        return AccessControl(config, broker, clock)
    except FanlogError:
        await broker.stop()
        raise


def _forward_denial(config: Config, store: Log) -> ForwardDenial:
    if config.auth == "none":
        return deny_no_forward
    return ForwardingAccount(bootstrap.server_id_of(store))


def _tls(config: Config) -> Tls | None:
    """Raises ConfigError."""
    if config.tls_cert is None or config.tls_key is None:
        return None
    return Tls(TlsFiles(config.tls_cert, config.tls_key, config.tls_client_ca))


def _listen(setting: str, host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise _cannot_listen(setting, host, port) from error


def _cannot_listen(setting: str, host: str, port: int) -> Unavailable:
    return Unavailable(
        f"cannot listen on {_address(host, port)} ({setting}): another program may be using it, "
        "or the address is not of this machine"
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
    async with running(config) as server:
        # What is here now stays: full collections need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        gc.enable()
        where = "in memory" if config.memory else f"in {config.data_dir}"
        if config.lake:
            where += f", lake in {server.broker.tiers.lake_uri}"
        sys.stdout.write(
            f"fanlog ready: gRPC on {server.endpoint}, HTTP on {server.http_endpoint}, "
            f"data {where}; {'TLS; ' if server.is_tls else ''}{_told_access(config)}"
            f"{_told_seal(config)}\n"
        )
        sys.stdout.flush()
        await stop.wait()
        log.info("action=drain seconds=%s", config.drain_s)
