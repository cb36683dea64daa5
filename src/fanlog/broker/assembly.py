"""The assembly of a broker, from top to bottom: ledger, delivery, retention, verbs, broker.

Each part is given the parts it needs, all of them made above it. Parts that must hear from later
ones listen to their events; nothing is set afterwards.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.access import Access
from fanlog.broker.bootstrap import server_id_of
from fanlog.broker.broker import Broker
from fanlog.broker.clock import Clock
from fanlog.broker.committer import Committer
from fanlog.broker.delivery.bridges import Bridges
from fanlog.broker.delivery.claims import Claims
from fanlog.broker.delivery.consumers import Consumers
from fanlog.broker.delivery.decisions import Decisions
from fanlog.broker.delivery.due_times import DueTimes
from fanlog.broker.delivery.filtering import Filtering
from fanlog.broker.delivery.gaps import Gaps
from fanlog.broker.delivery.movers import Movers
from fanlog.broker.delivery.open_feeds import Feeds
from fanlog.broker.delivery.revising import Revising
from fanlog.broker.delivery.shares import Shares
from fanlog.broker.generations import Generations
from fanlog.broker.keying import Keying
from fanlog.broker.metrics import Metrics
from fanlog.broker.outcome_telling import OutcomeTelling
from fanlog.broker.ports import (
    Candidates,
    CheckEndpoint,
    Cluster,
    Compose,
    Contents,
    ForwardDenial,
    NoCluster,
    Node,
    NoNode,
    deny_no_forward,
    refuse_push,
)
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.pressure.relief import Relief
from fanlog.broker.retention.retention import Retention
from fanlog.broker.retention.room import Room
from fanlog.broker.retention.spare import Spare
from fanlog.broker.schemas.decoding import Decoding
from fanlog.broker.schemas.definitions import Definitions
from fanlog.broker.schemas.examiner import AtOnce, Examiner
from fanlog.broker.server_secrets import SECRET_BYTES, ServerSecrets
from fanlog.broker.spool import MemorySpool, Spool
from fanlog.broker.sweeper import Sweeper
from fanlog.broker.tenure import Always, Tenure
from fanlog.broker.tiering.table_looks import LookAtTables, TableLooks
from fanlog.broker.tiering.tiers import NoTiers, Tiers
from fanlog.broker.tracing import Tracing
from fanlog.broker.transaction import Ledger, TakeReady
from fanlog.broker.verbs.accounts import Accounts
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.broker.verbs.alerting import Alerting
from fanlog.broker.verbs.alerts import Alerts
from fanlog.broker.verbs.backlogs import Backlogs
from fanlog.broker.verbs.browsing import Browsing
from fanlog.broker.verbs.dead_letters import DeadLetters
from fanlog.broker.verbs.estimates import Estimates
from fanlog.broker.verbs.exports import Exports
from fanlog.broker.verbs.findings import Findings
from fanlog.broker.verbs.hints import Hints
from fanlog.broker.verbs.iam import Iam
from fanlog.broker.verbs.jobs import Jobs
from fanlog.broker.verbs.letter_search import LetterSearch
from fanlog.broker.verbs.live import Live
from fanlog.broker.verbs.log_reads import LogReads
from fanlog.broker.verbs.numbering import Numbering
from fanlog.broker.verbs.peeks import Peeks
from fanlog.broker.verbs.pipelines import Pipelines
from fanlog.broker.verbs.purges import Purges
from fanlog.broker.verbs.rates import RecentRates
from fanlog.broker.verbs.reopening import Reopening
from fanlog.broker.verbs.schedules import Schedules
from fanlog.broker.verbs.schemas import Schemas
from fanlog.broker.verbs.seeks import Seeks
from fanlog.broker.verbs.server_look import ServerLook
from fanlog.broker.verbs.sink import Sink
from fanlog.broker.verbs.snapshots import Snapshots
from fanlog.broker.verbs.stages import Stages
from fanlog.broker.verbs.subscriptions import Subscriptions
from fanlog.broker.verbs.survey import Survey
from fanlog.broker.verbs.tables import Tables
from fanlog.broker.verbs.ticking import Ticking
from fanlog.broker.verbs.topics import Topics
from fanlog.broker.verbs.traces import Traces
from fanlog.core.ack_ids import AckIds
from fanlog.core.publish_rates import PublishRates
from fanlog.core.recent_events import RecentEvents
from fanlog.core.seal_keys import NO_KEYS, SealKeys
from fanlog.log.api import Log
from fanlog.log.batch import Body
from fanlog.model.quotas import DEFAULTS, Quotas
from fanlog.model.server_rules import ServerRules


def _random_id() -> str:
    return os.urandom(16).hex()


def _random_secret() -> bytes:
    return os.urandom(SECRET_BYTES)


def _random_token() -> str:
    return urlsafe_b64encode(os.urandom(SECRET_BYTES)).rstrip(b"=").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Settings of a broker that do not change while it lives."""

    disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES
    #: The most that the hot log may have; 0 for no bound.
    hot_size_bytes: int = 0
    message_bytes_max: int = limits.MESSAGE_BYTES_MAX
    quotas: Quotas = DEFAULTS
    rules: ServerRules = field(default_factory=ServerRules)
    #: The default retention, in seconds; 0 for none.
    topic_retention_s: float = 0.0
    topic_retention_bytes: int = limits.SPARE_MEMORY_BYTES_MAX
    #: Of so many messages of a partition, one has its deliveries remembered; 0 for none.
    trace_sample: int = limits.TRACE_SAMPLE_DEFAULT
    #: From which pressure on publishes are refused, those of low priority first; 0 for never.
    shed_at: float = 0.0
    #: Whether the outcomes of deliveries are told, and not marks that backlogs crossed alone.
    tells_deliveries: bool = True


#: Of a broker that nothing is set for; frozen, so one serves all.
DEFAULT_SETTINGS = BrokerSettings()


def build_broker(
    store: Log,
    committer: Committer,
    clock: Clock,
    *,
    compose: Compose,
    candidates: Candidates,
    jitter: Callable[[], float],
    contents: Contents | None = None,
    settings: BrokerSettings = DEFAULT_SETTINGS,
    check_endpoint: CheckEndpoint = refuse_push,
    forward_denial: ForwardDenial = deny_no_forward,
    examiner: Examiner | None = None,
    spool: Spool | None = None,
    seal_keys: SealKeys = NO_KEYS,
    new_stage_id: Callable[[], str] = _random_id,
    new_secret: Callable[[], bytes] = _random_secret,
    new_token: Callable[[], str] = _random_token,
    new_generations: Callable[[Ledger], Generations] = Generations,
    new_tiers: Callable[[Ledger], Tiers] | None = None,
    look_at_tables: LookAtTables | None = None,
    outcome_body: Callable[[bytes], Body] | None = None,
    new_tracing: Callable[[Ledger], Tracing] | None = None,
    tenure: Tenure | None = None,
    cluster: Cluster | None = None,
    take_ready: TakeReady | None = None,
    node: Node | None = None,
) -> Broker:
    """Build a broker on a log; `await start()` it before the first verb.

    Args:
        compose, candidates, contents: How messages are written; `contents` for schemas, sinks,
            schedules and alerts.
        jitter: A number from 0 to 1, to spread retries.
        check_endpoint: Looks at push endpoints; without it, push is refused.
        forward_denial: Says to which topics the server may forward; without it, to all.
        examiner: Answers questions about schemas that may take long; without it, on the loop.
        spool: Where stages wait; without it, in memory.
        seal_keys: Keys that secrets are sealed with in the log; without any, they stay plain.
        new_stage_id: Names a stage; no two are ever the same.
        new_secret, new_token: Chance that nobody can guess, as bytes and as text.
        new_tiers: The tiers of a log with a lake.
        look_at_tables: Looks at the tables of that lake, and blocks.
        outcome_body: Makes a message of data; without it, no outcomes are told.
        new_tracing: The spans of messages; without it, nothing is traced.
        tenure: Whether the broker may deliver just now; without it, always.
        cluster: The cluster that this process is a node of; without it, the broker is alone.
        take_ready: Gives hard state that was kept ready; without it, it is loaded from the log.
        node: The process around it, as the live numbers show it.
    """
    rules, quotas = settings.rules, settings.quotas
    tells_deliveries = outcome_body is not None and settings.tells_deliveries
    metrics = Metrics(
        wall_ns=clock.wall_ns,
        published_to={} if tells_deliveries else None,
        latencies={} if tells_deliveries else None,
        crossings=None if outcome_body is None else [],
    )
    definitions = Definitions(examiner or AtOnce())

    # The one road to state.
    ledger = Ledger(
        store,
        committer,
        clock,
        metrics,
        disk_reserve_bytes=settings.disk_reserve_bytes,
        hot_size_bytes=settings.hot_size_bytes,
        seal_keys=seal_keys,
        take_ready=take_ready,
    )
    tracing = None if new_tracing is None else new_tracing(ledger)
    access = Access(ledger, clock)
    generations = new_generations(ledger)
    server_secrets = ServerSecrets(ledger, new_secret, store.identity)

    # Delivery.
    filtering = Filtering(ledger, store, metrics, candidates)
    tenure = tenure or Always()
    feeds = Feeds(ledger, filtering, tenure)
    recent = RecentEvents(sample_every=settings.trace_sample, since_s=clock.now())
    decisions = Decisions(
        *(ledger, store, clock, metrics, feeds),
        compose=compose,
        forward_denial=forward_denial,
        jitter=jitter,
        recent=recent,
        tracing=tracing,
    )
    bridges = Bridges(ledger, definitions)
    revising = Revising(ledger, clock, metrics, bridges, contents, decisions.decide)
    due_times = DueTimes(ledger, store, clock, feeds)
    gaps = Gaps(ledger, clock, metrics, feeds)
    consumers = Consumers(
        *(ledger, store, clock, metrics, access),
        *(feeds, filtering, decisions),
        *(due_times, revising, generations),
        tenure,
    )
    shares = Shares(ledger, access, feeds, filtering)

    # Retention and tiers.
    tiers = NoTiers(store) if new_tiers is None else new_tiers(ledger)
    spare = Spare(
        ledger,
        store,
        bytes_max=settings.topic_retention_bytes,
        has_default=settings.topic_retention_s > 0.0,
    )
    retention = Retention(
        *(ledger, store, metrics, access, shares, decisions, tiers, spare),
        topic_retention_s=settings.topic_retention_s,
        started_s=clock.now(),
    )
    room = Room(ledger, store, retention)

    # Verbs.
    topics = Topics(ledger, clock, shares, tiers, quotas, rules)
    subscriptions = Subscriptions(
        *(ledger, store, clock, access, feeds, shares, generations),
        *(topics, quotas, rules, check_endpoint),
    )
    backlogs = Backlogs(ledger, store, clock, spare, tiers.hot_start)
    relief = Relief(
        *(ledger, clock, metrics, shares),
        *(filtering, decisions, backlogs.weigh),
        *(recent, contents),
    )
    pressure = Pressure(ledger, clock, metrics, shares, relief)
    schemas = Schemas(ledger, clock, quotas, definitions, contents)
    keying = Keying(contents)
    publish_rates = PublishRates()
    admission = PublishAdmission(
        *(ledger, clock, access, schemas, keying, room),
        *(pressure, publish_rates, settings.shed_at),
    )
    ticking = Ticking(ledger, clock, metrics, admission, contents)
    stages = Stages(
        ledger, clock, spool or MemorySpool(limits.STAGED_MEMORY_BYTES_MAX), new_stage_id
    )
    sink = Sink(ledger, clock, metrics, access, room, pressure, schemas, keying, stages, contents)
    exports = Exports(ledger, store, clock, metrics, access, shares, filtering, decisions)

    # What is looked at only while somebody asks.
    movers = Movers()
    pipelines = Pipelines(ledger, clock)
    around = node or NoNode()
    survey = Survey(ledger, store, clock, metrics, feeds, movers, exports, pressure)
    server = ServerLook(ledger, store, metrics, tiers, settings.disk_reserve_bytes)
    alerting = Alerting(
        *(ledger, clock, metrics, admission),
        *(topics, survey, server, contents),
    )
    findings = Findings(ledger, clock, ticking, survey, server, alerting)
    rates = RecentRates(ledger, clock, metrics)
    live = Live(
        *(ledger, store, clock, metrics, access, tiers, pressure),
        *(survey, findings, rates, around, pipelines),
    )

    return Broker(
        clock=clock,
        metrics=metrics,
        ledger=ledger,
        access=access,
        filtering=filtering,
        feeds=feeds,
        decisions=decisions,
        claims=Claims(ledger, clock, metrics, decisions),
        consumers=consumers,
        shares=shares,
        due_times=due_times,
        gaps=gaps,
        movers=movers,
        admission=admission,
        numbering=Numbering(ledger, clock, metrics, gaps),
        publish_rates=publish_rates,
        tiers=tiers,
        lake_tables=TableLooks(clock, look_at_tables),
        spare=spare,
        retention=retention,
        room=room,
        relief=relief,
        pressure=pressure,
        sweeper=Sweeper(
            *(ledger, store, clock, access, feeds, filtering, decisions),
            *(subscriptions, sink, retention, spare, tiers, due_times),
        ),
        topics=topics,
        subscriptions=subscriptions,
        snapshots=Snapshots(ledger, clock, access, shares, backlogs, quotas),
        seeks=Seeks(ledger, store, clock, access, shares, generations, retention),
        backlogs=backlogs,
        schemas=schemas,
        iam=Iam(ledger),
        log_reads=LogReads(ledger, store, access, tiers),
        jobs=Jobs(ledger, clock, topics, subscriptions, quotas),
        pipelines=pipelines,
        exports=exports,
        sink=sink,
        reopening=Reopening(ledger, clock, metrics, access, decisions, generations),
        dead_letters=DeadLetters(
            *(ledger, clock, metrics, access),
            LetterSearch(ledger, store, access, shares, candidates),
            *(decisions, generations, compose, recent),
        ),
        peeks=Peeks(ledger, store, access, filtering, clock),
        purges=Purges(ledger, metrics, access, shares, decisions, clock, recent),
        traces=Traces(
            *(ledger, store, clock, access, filtering, tiers, recent),
            candidates,
        ),
        recent=recent,
        browsing=Browsing(ledger, store, access, tiers, candidates),
        decoding=Decoding(ledger, definitions),
        estimates=Estimates(ledger, clock, access, shares, retention),
        survey=survey,
        findings=findings,
        tables=Tables(ledger, clock, survey, rates, pressure),
        live=live,
        node=around,
        started_s=clock.now(),
        hints=Hints(ledger, retention, rules, forward_denial),
        forward_denial=forward_denial,
        cluster=cluster or NoCluster(),
        outcomes=OutcomeTelling(
            *(ledger, clock, metrics, shares, room, topics, outcome_body),
            tells_deliveries=settings.tells_deliveries,
        ),
        schedules=Schedules(ledger, ticking, quotas),
        ticking=ticking,
        alerts=Alerts(ledger, clock, alerting, quotas),
        alerting=alerting,
        rules=rules,
        message_bytes_max=settings.message_bytes_max,
        ack_ids=AckIds(server_secrets.ack_ids),
        secrets=server_secrets,
        accounts=Accounts(ledger, clock, server_id_of(store), new_token),
        jitter=jitter,
        tracing=tracing,
    )
