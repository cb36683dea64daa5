"""fanlog.v1.Overview, for any surface."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import ExitStack

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.verbs.live import Sample, SubscriptionSample, TopicSample
from fanlog.broker.verbs.survey import mode_of
from fanlog.broker.verbs.tables import (
    SUBSCRIPTION_ORDERS,
    TOPIC_ORDERS,
    SubscriptionRow,
    TablePlace,
    TopicRow,
)
from fanlog.core.iam import SERVER
from fanlog.core.problems import Problem
from fanlog.errors import InvalidArgument, Unavailable
from fanlog.model import names
from fanlog.server.calls import Call, Caller, CallStream
from fanlog.server.methods import StreamingMethod, method, method_with_call
from fanlog.server.permissions import GET_SUBSCRIPTION, GET_TOPIC, METRICS
from fanlog.v1 import overview_pb2 as pb
from fanlog.wire import fields, paging
from fanlog.wire.fields import timestamp

#: The permission to see a problem, by its kind, and whether it is held on the resource itself.
_SEEN_BY = {
    "topic": (GET_TOPIC, True),
    "subscription": (GET_SUBSCRIPTION, True),
    "schedule": ("fanlog.schedules.get", False),
    "alert": ("fanlog.alerts.get", False),
    "job": ("fanlog.jobs.get", False),
}


async def watch(broker: Broker, raw: bytes, stream: CallStream) -> None:
    """Write samples until the caller goes, loses its right, or the broker drains."""
    request = fields.parse(pb.WatchRequest, raw)
    topics, subscriptions = _named(request)
    caller = stream.caller
    needs = [(GET_TOPIC, name) for name in topics]
    needs += [(GET_SUBSCRIPTION, name) for name in subscriptions]
    if not request.only_named:
        needs.insert(0, (METRICS, SERVER))
    elif not needs:
        raise InvalidArgument("only_named: without a topic or a subscription there is nothing")
    for permission, resource in needs:
        caller.check(permission, resource)
    with ExitStack() as held:
        for permission, resource in needs:
            held.enter_context(caller.holding(permission, resource))
        watcher = held.enter_context(
            broker.live.watching(topics, subscriptions, only_named=request.only_named)
        )
        while True:
            sample = await broker.live.next_sample(watcher)
            answer = _sample_pb(caller, request, sample)
            try:
                async with asyncio.timeout(limits.LIVE_UNREAD_S):
                    await stream.write(answer.SerializeToString())
            except TimeoutError:
                raise Unavailable(
                    f"nothing was read for {limits.LIVE_UNREAD_S:g} s; connect again"
                ) from None


async def list_problems(
    broker: Broker, request: pb.ListProblemsRequest, call: Call
) -> pb.ListProblemsResponse:
    project = ""
    if request.project:
        project = names.project_name(names.parse_project(request.project))
    found = await broker.findings.fresh()
    seen = _visible(call.caller, found, project)
    shown = seen[: limits.PROBLEMS_SHOWN_MAX]
    await broker.ledger.sync()
    return pb.ListProblemsResponse(
        problems=map(_problem_pb, shown), left_off=len(seen) - len(shown)
    )


async def search_topics(broker: Broker, request: pb.SearchTopicsRequest) -> pb.SearchTopicsResponse:
    project = names.parse_project(request.project)
    order = _order(request.order_by, TOPIC_ORDERS)
    contains = _fragment(request.contains)
    scope = f"topic table of {request.project} {order} {contains}"
    page = paging.parse_page(scope, _size(request.page_size), request.page_token)
    after = TablePlace.parse(page.after) if page.after else None
    found = await broker.tables.topics(project, contains, order, after, page.size)
    return pb.SearchTopicsResponse(
        topics=map(_topic_pb, found.rows),
        total=found.total,
        next_page_token="" if found.last is None else paging.token(scope, str(found.last)),
    )


async def search_subscriptions(
    broker: Broker, request: pb.SearchSubscriptionsRequest
) -> pb.SearchSubscriptionsResponse:
    project = names.parse_project(request.project)
    order = _order(request.order_by, SUBSCRIPTION_ORDERS)
    contains = _fragment(request.contains)
    topic = request.topic and str(names.parse_topic_or_pattern(request.topic))
    scope = f"subscription table of {request.project} {order} {topic} {contains}"
    page = paging.parse_page(scope, _size(request.page_size), request.page_token)
    after = TablePlace.parse(page.after) if page.after else None
    found = await broker.tables.subscriptions(project, contains, topic, order, after, page.size)
    return pb.SearchSubscriptionsResponse(
        subscriptions=[_subscription_pb(broker, row) for row in found.rows],
        total=found.total,
        next_page_token="" if found.last is None else paging.token(scope, str(found.last)),
    )


async def get_server(broker: Broker, _: pb.GetServerRequest, call: Call) -> pb.ServerDescription:
    facts = broker.node.facts
    return pb.ServerDescription(
        version=facts.version,
        server_id=broker.accounts.server_id,
        start_time=timestamp(broker.started_s),
        project=names.project_name(facts.project) if facts.project else "",
        auth=facts.auth,
        in_memory=facts.in_memory,
        lake_uri=broker.tiers.lake_uri,
        region=broker.rules.region,
        message_bytes_max=broker.message_bytes_max,
        projects=_projects(broker, call.caller),
        cluster=broker.cluster.name,
    )


def _projects(broker: Broker, caller: Caller) -> list[str]:
    """The server's own project first, then the others that the caller may list something of."""
    own = broker.node.facts.project
    known = {own: None} if own else dict[str, None]()
    known |= dict.fromkeys(sorted(broker.hard.catalog.usage.projects("topics", "subscriptions")))
    found: list[str] = []
    for one in known:
        name = names.project_name(one)
        if caller.may("pubsub.topics.list", name) or caller.may("pubsub.subscriptions.list", name):
            found.append(name)
        if len(found) == limits.PROJECTS_SHOWN_MAX:
            break
    return found


def _named(request: pb.WatchRequest) -> tuple[Sequence[str], Sequence[str]]:
    count = len(request.topics) + len(request.subscriptions)
    if count > limits.LIVE_NAMED_MAX:
        raise InvalidArgument(
            f"topics, subscriptions: {count} names; at most {limits.LIVE_NAMED_MAX} are allowed"
        )
    topics = [str(names.parse_topic(one, field="topics")) for one in request.topics]
    subscriptions = [
        str(names.parse_subscription(one, field="subscriptions")) for one in request.subscriptions
    ]
    return topics, subscriptions


def _order(given: str, known: Sequence[str]) -> str:
    if given and given not in known:
        raise InvalidArgument(f"order_by: {names.shown(given)} is none of {', '.join(known)}")
    return given or known[0]


def _fragment(text: str) -> str:
    if len(text) > limits.NAME_LENGTH_MAX:
        raise InvalidArgument(
            f"contains: has {len(text)} characters; a name has {limits.NAME_LENGTH_MAX} at most"
        )
    return text


def _size(given: int) -> int:
    if not 0 <= given <= limits.ROWS_MAX:
        raise InvalidArgument(f"page_size: {given} is out of range; 0 to {limits.ROWS_MAX}")
    return given or limits.ROWS_DEFAULT


def _visible(caller: Caller, found: Iterable[Problem], project: str) -> list[Problem]:
    """The problems that a caller may see; with a project, its own and the server's."""
    prefix = f"{project}/"
    return [
        one
        for one in found
        if (not project or not one.resource or one.resource.startswith(prefix))
        and _may_see(caller, one)
    ]


def _may_see(caller: Caller, one: Problem) -> bool:
    if not one.resource:
        return caller.may(METRICS, SERVER)
    permission, is_own = _SEEN_BY[one.kind]
    where = one.resource if is_own else names.project_name(names.project_of(one.resource))
    return caller.may(permission, where)


def _problem_pb(one: Problem) -> pb.Problem:
    return pb.Problem(
        code=one.code,
        severity=one.severity,
        kind=one.kind,
        resource=one.resource,
        sentence=one.sentence,
        since=None if one.since_s is None else timestamp(one.since_s),
    )


def _sample_pb(caller: Caller, request: pb.WatchRequest, sample: Sample) -> pb.LiveSample:
    answer = pb.LiveSample(
        time=timestamp(sample.time_s),
        has_rates=sample.rates is not None,
        topics=[_live_topic_pb(sample.topics[n]) for n in request.topics if n in sample.topics],
        subscriptions=[
            _live_subscription_pb(sample.subscriptions[n])
            for n in request.subscriptions
            if n in sample.subscriptions
        ],
    )
    if not request.only_named:
        _fill_server(answer.server, sample)
        problems = _visible(caller, sample.problems, "")
        answer.problems.extend(map(_problem_pb, problems[: limits.LIVE_PROBLEMS_MAX]))
        answer.problem_count = len(problems)
    return answer


def _fill_server(server: pb.LiveServer, sample: Sample) -> None:
    server.rates.SetInParent()
    for name, rate in (sample.rates or {}).items():
        setattr(server.rates, name, round(rate, 3))
    sums, backlog = sample.sums, server.backlog
    backlog.messages, backlog.outstanding = sums.messages, sums.outstanding
    backlog.subscriptions, backlog.partial = sums.behind, sums.is_partial
    backlog.staleness.FromMicroseconds(round(sums.staleness_s * 1e6))
    backlog.oldest_unacked_age.FromMicroseconds(0)
    if sums.oldest is not None:
        age_s = sums.oldest.age_s(sample.time_s)
        backlog.oldest_unacked_age.FromMicroseconds(round(age_s * 1e6))
        backlog.oldest_subscription = sums.oldest.name
    disk = server.disk
    disk.used_bytes, disk.free_page_bytes = sample.disk.file_bytes, sample.disk.free_bytes
    disk.room_bytes, disk.degraded = sample.disk.room_bytes, sample.degraded
    if sample.lake_uri:
        server.lake.uri, server.lake.alarm = sample.lake_uri, sample.lake_alarm
        server.lake.archived_sequence = sample.archived_sequence
        server.lake.sequence = sample.sequence
    server.jobs.waiting = sample.jobs.get("WAITING", 0)
    server.jobs.running = sample.jobs.get("RUNNING", 0) + sample.jobs.get("CANCELLING", 0)
    node = server.node
    node.cpu, node.memory_bytes = round(sample.cpu, 4), sample.node.memory_bytes
    node.loop_lag.FromMicroseconds(round(sample.loop_lag_s * 1e6))
    node.grpc_connections = sample.node.grpc_connections
    node.http_connections = sample.node.http_connections
    node.streams, node.watchers = sample.streams, sample.watchers
    server.topics, server.subscriptions = sample.catalog.topics, sample.catalog.subscriptions
    server.snapshots, server.schemas = sample.catalog.snapshots, sample.catalog.schemas
    server.schedules = sample.schedules
    present = [one.report for one in sample.pipelines if not one.is_missed]
    flows = [flow for report in present for flow in report.flows]
    server.pipelines.pipelines, server.pipelines.flows = len(present), len(flows)
    server.pipelines.failing = sum(flow.state == "RESTING" for flow in flows)
    server.pipelines.missed = len(sample.pipelines) - len(present)


def _live_topic_pb(one: TopicSample) -> pb.LiveTopic:
    return pb.LiveTopic(
        name=one.name,
        published=round(one.published, 3),
        published_total=one.published_total,
        messages=one.messages,
    )


def _live_subscription_pb(one: SubscriptionSample) -> pb.LiveSubscription:
    found = pb.LiveSubscription(
        name=one.name,
        delivered=round(one.delivered, 3),
        acknowledged=round(one.acknowledged, 3),
        failed=round(one.failed, 3),
        backlog=one.backlog,
        backlog_estimated=one.is_estimated,
        outstanding=one.outstanding,
        delayed=one.delayed,
        consumers=one.consumers,
        pressure=one.pressure,
    )
    found.oldest_unacked_age.FromMicroseconds(round(one.age_s * 1e6))
    return found


def _topic_pb(row: TopicRow) -> pb.TopicRow:
    topic = row.topic
    found = pb.TopicRow(
        name=topic.name,
        subscriptions=row.subscriptions,
        published_total=row.published_total,
        messages=row.messages,
        schema="" if topic.schema_settings is None else topic.schema_settings.schema_shown,
    )
    if topic.created_s:
        found.create_time.CopyFrom(timestamp(topic.created_s))
    if row.rate is not None:
        found.published = round(row.rate, 3)
    return found


def _subscription_pb(broker: Broker, row: SubscriptionRow) -> pb.SubscriptionRow:
    one, seen = row.subscription, row.found
    found = pb.SubscriptionRow(
        name=one.name,
        topic=one.topic_shown,
        mode=mode_of(one),
        backlog=seen.messages,
        backlog_estimated=seen.is_estimated,
        outstanding=seen.outstanding,
        consumers=row.consumers,
        pressure=broker.pressure.of_subscription(one) or 0.0,
        trouble=broker.movers.trouble(one) or broker.exports.trouble(one).reason,
        detached=one.detached,
        filter=one.filter,
        dead_letter_topic="" if one.dead_letter is None else one.dead_letter.dead_letter_topic,
    )
    found.oldest_unacked_age.FromMicroseconds(round(seen.age_s(broker.clock.now()) * 1e6))
    if one.created_s:
        found.create_time.CopyFrom(timestamp(one.created_s))
    if row.rates is not None:
        found.delivered = round(row.rates.delivered, 3)
        found.acknowledged = round(row.rates.acknowledged, 3)
        found.failed = round(row.rates.failed, 3)
    if row.published is not None:
        found.published = round(row.published, 3)
    return found


METHODS = (
    method_with_call(
        "ListProblems", pb.ListProblemsRequest, pb.ListProblemsResponse, list_problems
    ),
    method("SearchTopics", pb.SearchTopicsRequest, pb.SearchTopicsResponse, search_topics),
    method(
        "SearchSubscriptions",
        pb.SearchSubscriptionsRequest,
        pb.SearchSubscriptionsResponse,
        search_subscriptions,
    ),
    method_with_call("GetServer", pb.GetServerRequest, pb.ServerDescription, get_server),
)

STREAMS = (
    StreamingMethod(
        "Watch",
        pb.WatchRequest,
        pb.LiveSample,
        watch,
        has_many_requests=False,
        has_many_answers=True,
    ),
)
