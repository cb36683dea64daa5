"""A server that is a node of a cluster: an entrance, a gateway, and a shard while it owns."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.routing import Mount

from fanlog.broker.standby_state import ReadyState, StandbyState
from fanlog.cluster import bounds
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.gateway import Gateway
from fanlog.cluster.link.credentials import NodeCredentials, Passport, read_credentials
from fanlog.cluster.link.links import Links
from fanlog.cluster.link.server import LinkServer
from fanlog.cluster.node import ClusterNode
from fanlog.cluster.ownership import OwnerSession
from fanlog.cluster.tenure import OwnerTenure
from fanlog.config import Config
from fanlog.errors import FanlogError, Unavailable
from fanlog.log.replicated.api import ReplicaClock
from fanlog.log.replicated.replicated import MachineClock, ReplicatedLog
from fanlog.server import engine, grpc_api
from fanlog.server.cluster_calls import ClusterCalls
from fanlog.server.cluster_view import ClusterView
from fanlog.server.entrance import Entrance, Sockets, address, listen, port_of
from fanlog.server.health import Health
from fanlog.server.http_api import http_app
from fanlog.server.metrics.family import Reading
from fanlog.server.node_pages import ClusterPages
from fanlog.server.numbers import Numbers, new_spans
from fanlog.server.owned_shard import OwnedShard, open_shard
from fanlog.server.peers import LinkPeers, node_verbs
from fanlog.server.reflection import reflection_forms
from fanlog.server.resource_file import Resources, read_resources
from fanlog.server.rest.app import failed
from fanlog.server.services import SERVICE_NAMES, SERVICES
from fanlog.server.shard import read_keys
from fanlog.server.shard_topic import ShardTopic
from fanlog.transport.counts import TransportCounts

log = logging.getLogger("fanlog.server")

#: How often a node looks whether it is time to look at the topic again.
TOPIC_LOOK_S = 10.0
#: Of requests of push, before a shard is handed over when the node ends.
EASE_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class NodeServer:
    """A running node."""

    node: ClusterNode[OwnedShard]
    view: ClusterView
    gateway: Gateway
    topic: ShardTopic
    shards: Sequence[OwnedShard]
    endpoint: str
    http_endpoint: str
    is_tls: bool

    @property
    def shard(self) -> OwnedShard | None:
        """The shard that this node serves; None while it owns nothing."""
        return self.shards[-1] if self.shards else None


class _NodeMetrics:
    """The metrics of this node among others; see `MetricsSource`."""

    def __init__(self, view: ClusterView, gateway: Gateway) -> None:
        self._view = view
        self._gateway = gateway

    async def read(self) -> AsyncIterator[Reading]:
        for reading in self._view.numbers(self._gateway):
            yield reading


class _Switch:
    """A gateway, as a node turns it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def serve_locally(self, shard: OwnedShard, /) -> None:
        self._gateway.serve_locally(shard.backend)

    def forward_to(self, card: NodeCard, /) -> None:
        self._gateway.forward_to(card)

    def hold(self, *, ends_streams: bool = False) -> None:
        self._gateway.hold(ends_streams=ends_streams)


@asynccontextmanager
async def running_node(
    config: Config,
    *,
    topic: ShardTopic | None = None,
    clock: ReplicaClock | None = None,
) -> AsyncIterator[NodeServer]:
    """Run a node inside a `with`; leaving it hands the log over, if it owns it, and drains.

    Args:
        topic: The topic that has the log; the one in Kafka that the settings name if not given.
        clock: The machine's if not given.

    Raises:
        DataFolderInUse: Another process has the folder of the cache.
        ConfigError: The topic would lose records, or a setting cannot be used.
        Unavailable: A port cannot be had, or Kafka does not answer.
    """
    wanted = read_resources(config.resources, config.project) if config.resources else None
    engine.warn_of_shared_folders(config)
    _warn_of_lonely_settings(config)
    found = topic or _kafka_topic(config)
    await asyncio.to_thread(found.prepare)
    sockets = Sockets(config)
    try:
        link_socket = listen("link_port", config.link_host, config.link_port)
    except Unavailable:
        sockets.close()
        raise
    card = NodeCard(
        name=config.node or socket.gethostname(),
        link_address=config.link_address or address(config.link_host, port_of(link_socket)),
        api_address=sockets.endpoint,
    )
    changed = asyncio.Event()
    clock = clock or MachineClock()
    standby_state = StandbyState(read_keys(config))
    try:
        log_ = ReplicatedLog(
            config.data_dir,
            found.open,
            card.to_bytes(),
            on_change=_set_soon(changed),
            clock=clock,
            listener=standby_state,
        )
    except FanlogError:
        sockets.close()
        link_socket.close()
        raise
    try:
        standby_state.start()
        process = _Process(
            config, card, log_, found, clock, changed, wanted, sockets, standby_state
        )
        async with process.running(sockets, link_socket) as server:
            yield server
    finally:
        await asyncio.to_thread(log_.close)
        await asyncio.to_thread(standby_state.stop)
        sockets.close()
        link_socket.close()


class _Process:
    """What lives as long as the process, put together."""

    def __init__(
        self,
        config: Config,
        card: NodeCard,
        log_: ReplicatedLog,
        topic: ShardTopic,
        clock: ReplicaClock,
        changed: asyncio.Event,
        wanted: Resources | None,
        sockets: Sockets,
        standby_state: StandbyState,
    ) -> None:
        self._standby_state = standby_state
        self._config = config
        self._log = log_
        self._topic = topic
        self._clock = clock
        self._wanted = wanted
        passport = Passport(
            cluster=config.cluster, node=card.name, credentials=_credentials(config)
        )
        self._links = Links(passport)
        forms = [*grpc_api.method_forms(SERVICES), *reflection_forms()]
        self.gateway = Gateway(forms, self._links, failed, http_bytes_max=config.http_max_bytes)
        peers = LinkPeers(self._links)
        self.node: ClusterNode[OwnedShard] = ClusterNode(
            log_,
            card,
            OwnerSession(config.session),
            clock,
            switch=_Switch(self.gateway),
            peers=peers,
            open_shard=self._open,
            changed=changed,
            hold_s=bounds.HOLD_S,
        )
        self.view = ClusterView(config.cluster, config.kafka, topic, self.node, clock)
        self.shards: list[OwnedShard] = []
        self._counts = TransportCounts()
        own = _NodeMetrics(self.view, self.gateway)
        server_id = f"{config.cluster}/{card.name}"
        self._spans = new_spans(config, server_id)
        self._numbers = Numbers(
            config,
            lambda: [*(one.metrics for one in self.shards), own],
            self._counts,
            server_id,
            self._spans,
        )
        self._pages = ClusterPages(
            *(self.node, self.view, self._numbers.reader, self.shards, peers),
            is_guarded=config.auth != "none",
        )
        self._health = Health(SERVICE_NAMES, self._degraded, lambda: self._pages.obstacle)
        self._link_server = LinkServer(
            passport,
            self.gateway.link_methods,
            node_verbs(
                announce=self.node.take_announcement,
                known_owner=lambda: self.node.known_owner,
                check_metrics=self._pages.check_here,
            ),
            grpc_api.status_of,
        )
        calls = ClusterCalls(
            self.view,
            self.gateway.app,
            config,
            has_owner=lambda: self.node.known_owner.card is not None,
        )
        self._entrance = Entrance(
            config,
            [*calls.methods(self.gateway.methods), *self._health.methods()],
            http_app(config, self._pages, [*calls.routes(), Mount("/", app=self.gateway.app)]),
            self._counts,
        )
        self._issuer = config.push_issuer or sockets.url(is_tls=self._entrance.is_tls)

    @asynccontextmanager
    async def running(
        self, sockets: Sockets, link_socket: socket.socket
    ) -> AsyncIterator[NodeServer]:
        drain_s = self._config.drain_s
        try:
            await self._link_server.listen(link_socket)
            await self._entrance.open(sockets)
            self._numbers.start()
            self._health.serving()
            async with self._living():
                yield NodeServer(
                    *(self.node, self.view, self.gateway, self._topic, self.shards),
                    *(sockets.endpoint, sockets.http_endpoint, self._entrance.is_tls),
                )
        finally:
            self._health.drain()
            self._entrance.close()
            self._link_server.close()
            await asyncio.gather(self._entrance.send_away(drain_s), self._link_server.stop(drain_s))
            await self._numbers.stop()
            if self._spans is not None:
                await self._spans.stop()
            await self._entrance.stop()
            self._links.close()

    @asynccontextmanager
    async def _living(self) -> AsyncIterator[None]:
        """The node's life, and the looks at its topic."""
        life = asyncio.create_task(self.node.run())
        looking = asyncio.create_task(self._look_at_topic())
        try:
            yield
        finally:
            # Whoever balances load sends no more; calls that come are served all the same.
            self._pages.is_ending = True
            self.node.leave(min(self._config.drain_s, EASE_S_MAX))
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await life

    async def _open(self, tenure: OwnerTenure) -> OwnedShard:
        owned = await open_shard(
            self._config,
            self._log,
            self._clock,
            tenure,
            cluster=self.view,
            take_ready=self._take_ready,
            counts=self._counts,
            spans=self._spans,
            wanted=self._wanted,
            issuer=self._issuer,
            on_close=self.shards.remove,
        )
        self.shards.append(owned)
        return owned

    async def _take_ready(self, sequence: int, latest_deadline_s: float) -> ReadyState | None:
        found = await asyncio.to_thread(self._standby_state.take, sequence, latest_deadline_s)
        log.info("action=state_taken ready=%s sequence=%d", found is not None, sequence)
        return found

    def _degraded(self) -> str:
        """Why publishing is refused, as far as this node knows."""
        if not self.shards:
            return ""
        return self.shards[-1].shard.broker.ledger.refusals.degraded()

    async def _look_at_topic(self) -> None:
        told = ""
        while True:
            await asyncio.sleep(TOPIC_LOOK_S)
            with suppress(FanlogError):
                await asyncio.to_thread(self._topic.look)
            if self._topic.problem != told:
                told = self._topic.problem
                if told:
                    log.error("action=topic_problem problem=%s", told)


async def serve_node(config: Config, stop: asyncio.Event, *, tell: Callable[[str], None]) -> None:
    """Run a node until `stop` is set; `tell` has the ready line, once calls have an owner."""
    async with running_node(config) as server:
        reachable = asyncio.create_task(server.node.reached())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((reachable, stopping), return_when=asyncio.FIRST_COMPLETED)
            if reachable.done():
                tell(_ready_line(config, server))
            await stopping
        finally:
            reachable.cancel()
            stopping.cancel()
        log.info("action=drain seconds=%s", config.drain_s)


def _ready_line(config: Config, server: NodeServer) -> str:
    node, owner = server.node, server.node.known_owner.card
    is_owner = owner is None or owner.name == node.card.name
    part = "owner" if is_owner else f"standby of {owner.name if owner else ''}"
    return (
        f"gRPC on {server.endpoint}, HTTP on {server.http_endpoint}, node {node.card.name} of "
        f"cluster {config.cluster}, {part}, links on {node.card.link_address}, log in topic "
        f"{server.topic.name} ({server.topic.promise}), cache in {config.data_dir}; "
        f"{'TLS; ' if server.is_tls else ''}"
    )


def _warn_of_lonely_settings(config: Config) -> None:
    """Say which settings do not mean the same on every node."""
    if config.lake and "://" not in config.lake:
        log.warning(
            "action=lake_in_folder lake=%s; every node must see the same folder there", config.lake
        )
    if not config.push_issuer:
        log.info(
            "action=push_issuer_missing; tokens of push requests name the node that sends them, "
            "another one after each take-over; say by which address all nodes are reached "
            "(--push-issuer)"
        )


def _kafka_topic(config: Config) -> ShardTopic:
    # Imported here: it needs the extra `kafka`, and says so.
    from fanlog.server.kafka_topic import KafkaShardTopic

    return KafkaShardTopic(config)


def _credentials(config: Config) -> NodeCredentials:
    files: Sequence[Path | None] = (
        config.cluster_secret_file,
        config.node_tls_cert,
        config.node_tls_key,
        config.node_tls_ca,
    )
    if not any(files):
        # On loopback, or with `insecure`: settings see to that.
        return NodeCredentials(secrets=(b"no secret",))
    return read_credentials(
        secret_file=config.cluster_secret_file,
        certificate=config.node_tls_cert,
        key=config.node_tls_key,
        ca=config.node_tls_ca,
    )


def _set_soon(changed: asyncio.Event) -> Callable[[], None]:
    """Sets an event of this loop, from any thread."""
    loop = asyncio.get_running_loop()

    def tell() -> None:
        # The loop may be gone when a thread has its last word.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(changed.set)

    return tell
