"""A shard: all that serves one log for as long as this process owns it.

Broker, senders, access control, methods and HTTP routes live and end together. One shard is built
on a log, serves, and is taken down again; a node of a cluster does so several times in its life,
and nothing of a shard stays behind: no thread, task, socket or child process. What lives as long as
the process is in `fanlog.server.entrance`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Sequence
from functools import partial

from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from fanlog import limits
from fanlog.broker import bootstrap, spool
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.committer import ThreadCommitter
from fanlog.broker.ports import Cluster, ForwardDenial, deny_no_forward
from fanlog.broker.schemas.examiner import Apart
from fanlog.broker.seal_key_file import read_seal_keys, seal_keys
from fanlog.broker.spool import Spool
from fanlog.broker.tenure import Tenure
from fanlog.broker.tiering.cold_check import check_nothing_cold
from fanlog.broker.tracing import Tracing
from fanlog.broker.transaction import Ledger, TakeReady
from fanlog.config import Config
from fanlog.core.iam import SERVER
from fanlog.core.seal_keys import NO_KEYS, SealKeys, parse_keys
from fanlog.log.api import Log
from fanlog.log.batch import Body
from fanlog.model.server_rules import ServerRules
from fanlog.push.rules.guard import Guard
from fanlog.push.senders.endpoint_check import EndpointCheck
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.tokens import Tokens
from fanlog.push.service import PushService
from fanlog.server import engine, grpc_api
from fanlog.server.access_control import AccessControl, ForwardingAccount, ensure_accounts
from fanlog.server.calls import Evidence
from fanlog.server.descriptors import service_descriptors
from fanlog.server.file_limit import push_connections
from fanlog.server.gate import Gate
from fanlog.server.health import SERVICE_NAME as HEALTH_SERVICE
from fanlog.server.http_api import shard_routes
from fanlog.server.metrics.reader import ShardMetrics
from fanlog.server.node import ServerNode
from fanlog.server.otlp.spans_export import SpansExport
from fanlog.server.permissions import METRICS
from fanlog.server.reflection import Reflection
from fanlog.server.resource_file import Resources, ensure_resources
from fanlog.server.services import SERVICE_NAMES, SERVICES
from fanlog.server.session_door import SessionDoor
from fanlog.server.sessions import Sessions
from fanlog.transport.counts import TransportCounts
from fanlog.transport.methods import RpcMethod
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from fanlog.wire.publish import build_body
from fanlog.wire.spans import contexts_in


class Shard:
    """One broker on one log, and all that serves it. Lives on the running loop.

    `await start()` it, `begin` to push once it can be reached, and end with `drain`, `finish` and
    `close`, in this order; `close` alone is enough. The log stays open.
    """

    def __init__(
        self,
        config: Config,
        store: Log,
        clock: Clock,
        *,
        staged: Spool | None,
        counts: TransportCounts,
        spans: SpansExport | None,
        tenure: Tenure | None = None,
        cluster: Cluster | None = None,
        take_ready: TakeReady | None = None,
    ) -> None:
        """`staged` is where stages wait; None for memory. `counts` are those of the ports,
        `spans` has where messages are traced to.

        The last three are of a node of a cluster.

        Raises:
            ConfigError: The seal keys cannot be read.
        """
        self._config = config
        self._clock = clock
        self._counts = counts
        self.store = store
        keys = read_keys(config)
        resolver = HostResolver(Guard(config.push_allow), clock.now)
        self._examiner = Apart()
        self.broker: Broker = build_broker(
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
            examiner=self._examiner,
            spool=staged,
            seal_keys=keys,
            new_tiers=engine.new_tiers(config, store, clock),
            look_at_tables=engine.look_at_tables(config),
            outcome_body=None if config.outcomes == "off" else _outcome_body,
            new_tracing=None if spans is None else partial(_new_tracing, config, clock, spans),
            node=ServerNode(config, counts),
            tenure=tenure,
            cluster=cluster,
            take_ready=take_ready,
        )
        self.tokens = Tokens(self.broker.secrets, clock)
        self.senders = PushService(
            self.broker, clock, resolver, self.tokens, connections=push_connections()
        )
        self._sessions = Sessions(self.broker.clock)
        #: From `start` on, on a server that authenticates.
        self.access: AccessControl | None = None

    # Life.

    async def start(self, wanted: Resources | None = None) -> None:
        """Load hard state, and make what is wanted and is not there.

        Raises:
            FanlogError: The shard cannot serve; `close` it.
        """
        config, broker = self._config, self.broker
        await broker.start()
        if config.auth != "none":
            await ensure_accounts(broker, self._clock, config.auth_folder)
            self.access = AccessControl(config, broker, self._clock)
        if not (config.memory or config.kafka):
            await self.tokens.adopt(config.data_dir)
        if not config.lake:
            check_nothing_cold(broker.hard, self.store, "say where it is (--lake)")
            engine.tell_kept_long(broker)
        broker.tiers.begin()
        engine.tell_other_regions(broker)
        if wanted is not None:
            await ensure_resources(broker, wanted)

    def begin(self, issuer: str) -> None:
        """Begin to push; `issuer` is that of the tokens of push requests."""
        self.senders.start(issuer)

    def drain(self) -> None:
        """Send every consumer away and take no new ones; calls under way go on."""
        self.broker.drain()

    async def finish(self, patience_s: float) -> None:
        """Let requests of push be answered."""
        await self.senders.stop(patience_s)

    async def close(self) -> None:
        """Stop what is left; everything answered is durable when this returns."""
        await self.senders.stop(0)
        if self.access is not None:
            self.access.close()
        await self.broker.stop()
        self._examiner.close()
        await self.broker.tiers.stop()

    # Serving.

    @property
    def _gate(self) -> Gate | None:
        return None if self.access is None else self.access.gate

    def methods(self) -> Sequence[RpcMethod]:
        """The methods of all services, behind the gate of a server that authenticates."""
        names = (*SERVICE_NAMES, HEALTH_SERVICE)
        return [
            *grpc_api.make_methods(SERVICES, self.broker, self._gate),
            *Reflection(names, service_descriptors(), self._gate).methods(),
        ]

    def metrics(self) -> ShardMetrics:
        """What it counts and measures; once it has started."""
        return ShardMetrics(
            *(self.broker, self.store, self.senders, self.access),
            resources_max=self._config.metrics_resources_max,
        )

    async def check_metrics(self, request: Evidence) -> None:
        """Let a request for the page of metrics in, or not.

        Raises:
            FanlogError: The caller may not have it.
        """
        if self.access is not None:
            await self.access.gate.check_page(request, "/metrics", METRICS, SERVER)

    @property
    def remarks(self) -> list[str]:
        """Troubles with which it serves readers all the same."""
        troubles = (
            ("degraded", self.broker.ledger.refusals.degraded()),
            # It keeps messages that are not archived.
            ("lake alarm", self.broker.tiers.alarm),
        )
        return [f"{kind}: {trouble}" for kind, trouble in troubles if trouble]

    def routes(self) -> Sequence[BaseRoute]:
        """REST, its description, and the pages of keys and tokens."""
        return shard_routes(
            *(self.broker, self._config, self.tokens, self._counts),
            *(self._sessions, self.access),
        )

    def middleware(self) -> Sequence[Middleware]:
        """What is in front of the routes: cookies of sessions stand for tokens."""
        if self.access is None:
            return ()
        return (Middleware(SessionDoor, sessions=self._sessions),)


def file_spool(config: Config) -> Spool | None:
    """Where stages wait of a server that is alone."""
    if config.memory:
        return None
    return spool.FileSpool(config.data_dir / spool.FOLDER_NAME, limits.STAGED_BYTES_MAX)


def _broker_settings(config: Config) -> BrokerSettings:
    return BrokerSettings(
        disk_reserve_bytes=0 if config.memory else config.disk_reserve_bytes,
        hot_size_bytes=config.hot_size_bytes,
        message_bytes_max=config.message_bytes_max,
        quotas=config.quotas,
        rules=ServerRules(region=config.region, dead_letter_default=config.dead_letter_default),
        topic_retention_s=config.topic_retention,
        topic_retention_bytes=engine.spare_bytes_max(config),
        trace_sample=config.trace_sample,
        shed_at=config.shed_at,
        tells_deliveries=config.tells_deliveries,
    )


def read_keys(config: Config) -> SealKeys:
    """The seal keys of a server.

    Raises:
        ConfigError: The file of the keys cannot be read.
    """
    if config.seal_key:
        return seal_keys(parse_keys(config.seal_key))
    if config.seal_key_file is not None:
        return seal_keys(read_seal_keys(config.seal_key_file))
    return NO_KEYS


def _forward_denial(config: Config, store: Log) -> ForwardDenial:
    if config.auth == "none":
        return deny_no_forward
    return ForwardingAccount(bootstrap.server_id_of(store))


def _new_tracing(config: Config, clock: Clock, spans: SpansExport, ledger: Ledger) -> Tracing:
    assert config.span_ratio is not None
    return Tracing(
        clock,
        ratio=config.span_ratio,
        contexts_in=contexts_in,
        tell=spans.take,
        new_bytes=secrets.token_bytes,
        chance=random.random,
        last_commit=lambda: ledger.last_commit,
    )


def _outcome_body(data: bytes) -> Body:
    return build_body([(data, {}, "")])
