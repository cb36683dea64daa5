"""google.pubsub.v1 Publisher and Subscriber, and google.iam.v1 IAMPolicy, over gRPC.

Handlers take and return bytes: publish, pull and acknowledge are too hot for message objects that
nobody needs, and everything else parses here, where a malformed request can be answered properly.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, cast

import grpc
from google.iam.v1 import iam_policy_pb2
from google.protobuf.empty_pb2 import Empty
from grpc_status import rpc_status

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.parts import Placed
from fanlog.core.ack_requests import NOT_APPLIED
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import AckIdsRefused, FanlogError, Internal, InvalidArgument
from fanlog.model import names
from fanlog.model.resources import Subscription
from fanlog.model.updates import SubscriptionUpdate
from fanlog.server import (
    assigned_names,
    catalog_api,
    exports_api,
    jobs_api,
    lake_api,
    log_api,
    remarks,
    replay_api,
    schema_api,
    seeking,
    sink_api,
    system_project,
)
from fanlog.server.answer import frame_deliveries
from fanlog.server.arrivals import Arrivals
from fanlog.server.calls import (
    SHORT_BODY,
    SHORT_FORM_METADATA,
    Call,
    Context,
    Unary,
    parsed,
)
from fanlog.server.departures import is_departure
from fanlog.server.iam_api import IAM_POLICY, IamApi
from fanlog.server.nacks import nack_of
from fanlog.server.request_bounds import bounded
from fanlog.server.streaming_pull import streaming_pull
from fanlog.wire import fields, paging, resources, types
from fanlog.wire.parts import check_fields
from fanlog.wire.publish import parse_publish, publish_response, publish_response_of
from fanlog.wire.push import push_changes
from fanlog.wire.status import all_fit, rich_status

log = logging.getLogger("fanlog.grpc")

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMA_SERVICE = "google.pubsub.v1.SchemaService"

#: Every service of ours on the port.
SERVICES = (
    PUBLISHER,
    SUBSCRIBER,
    SCHEMA_SERVICE,
    IAM_POLICY,
    catalog_api.CATALOG,
    jobs_api.JOBS,
    lake_api.LAKE,
    log_api.LOG,
    sink_api.SINK,
    exports_api.EXPORTS,
    replay_api.REPLAY,
)

#: Ack ids, the subscription, and whatever else may stand there.
_ACK_FIELDS_MAX = limits.ACK_IDS_MAX + 10

_EMPTY: bytes = Empty().SerializeToString()


#: Why messages of a subscription are not pushed just now; empty when they are.
PushTrouble = Callable[[Subscription], str]


def no_trouble(_: Subscription) -> str:
    """The `PushTrouble` of a server without senders."""
    return ""


def unary_verbs(
    broker: Broker, push_trouble: PushTrouble = no_trouble
) -> dict[str, dict[str, Unary]]:
    """Every verb that has one answer, by service and name: bytes to bytes, for any surface."""
    publisher, subscriber = PublisherApi(broker), SubscriberApi(broker, push_trouble)
    publisher_methods: dict[str, Unary] = {
        "CreateTopic": parsed(types.Topic, publisher.create_topic),
        "UpdateTopic": parsed(types.UpdateTopicRequest, publisher.update_topic),
        "Publish": publisher.publish,
        "GetTopic": parsed(types.GetTopicRequest, publisher.get_topic),
        "ListTopics": parsed(types.ListTopicsRequest, publisher.list_topics),
        "ListTopicSubscriptions": parsed(
            types.ListTopicSubscriptionsRequest, publisher.list_topic_subscriptions
        ),
        "ListTopicSnapshots": parsed(
            types.ListTopicSnapshotsRequest, publisher.list_topic_snapshots
        ),
        "DeleteTopic": parsed(types.DeleteTopicRequest, publisher.delete_topic),
        "DetachSubscription": parsed(
            types.DetachSubscriptionRequest, publisher.detach_subscription
        ),
    }
    subscriber_methods: dict[str, Unary] = {
        "CreateSubscription": subscriber.create_subscription,
        "GetSubscription": subscriber.get_subscription,
        "UpdateSubscription": subscriber.update_subscription,
        "ListSubscriptions": parsed(types.ListSubscriptionsRequest, subscriber.list_subscriptions),
        "DeleteSubscription": parsed(
            types.DeleteSubscriptionRequest, subscriber.delete_subscription
        ),
        "ModifyAckDeadline": subscriber.modify_ack_deadline,
        "Acknowledge": subscriber.acknowledge,
        "Pull": subscriber.pull,
        "ModifyPushConfig": subscriber.modify_push_config,
        "GetSnapshot": parsed(types.GetSnapshotRequest, subscriber.get_snapshot),
        "ListSnapshots": parsed(types.ListSnapshotsRequest, subscriber.list_snapshots),
        "CreateSnapshot": parsed(types.CreateSnapshotRequest, subscriber.create_snapshot),
        "UpdateSnapshot": parsed(types.UpdateSnapshotRequest, subscriber.update_snapshot),
        "DeleteSnapshot": parsed(types.DeleteSnapshotRequest, subscriber.delete_snapshot),
        "Seek": subscriber.seek,
    }
    services = {
        PUBLISHER: publisher_methods,
        SUBSCRIBER: subscriber_methods,
        SCHEMA_SERVICE: schema_api.methods(broker),
        IAM_POLICY: _iam_methods(IamApi(broker)),
        catalog_api.CATALOG: catalog_api.methods(broker),
        log_api.LOG: log_api.methods(broker),
        lake_api.LAKE: lake_api.methods(broker),
        jobs_api.JOBS: jobs_api.methods(broker),
        sink_api.SINK: sink_api.methods(broker),
        exports_api.EXPORTS: exports_api.methods(broker),
        replay_api.REPLAY: replay_api.methods(broker),
    }
    return {
        service: {
            name: _checked(f"{service.rpartition('.')[2]}.{name}", verb)
            for name, verb in methods.items()
        }
        for service, methods in services.items()
    }


def _checked(method: str, verb: Unary) -> Unary:
    """A verb behind the checks that all surfaces share, the cheapest first."""
    return bounded(method, system_project.guarded(method, verb))


def _hint(context: Call, subscription: str, sentences: Sequence[str]) -> None:
    """Tell the caller, and the log."""
    for sentence in sentences:
        log.warning("action=hint subscription=%s %s", subscription, sentence)
    if sentences:
        context.set_trailing_metadata(remarks.hints(sentences))


def _iam_methods(iam: IamApi) -> dict[str, Unary]:
    return {
        "GetIamPolicy": parsed(iam_policy_pb2.GetIamPolicyRequest, iam.get_policy),
        "SetIamPolicy": parsed(iam_policy_pb2.SetIamPolicyRequest, iam.set_policy),
        "TestIamPermissions": parsed(
            iam_policy_pb2.TestIamPermissionsRequest, iam.test_permissions
        ),
    }


def handlers(
    broker: Broker, arrivals: Arrivals, push_trouble: PushTrouble = no_trouble
) -> list[grpc.GenericRpcHandler]:
    """The generic handlers of all services."""
    methods: dict[str, dict[str, Any]] = {
        service: {
            name: grpc.unary_unary_rpc_method_handler(_guarded(verb, arrivals))
            for name, verb in verbs.items()
        }
        for service, verbs in unary_verbs(broker, push_trouble).items()
    }
    methods[SUBSCRIBER]["StreamingPull"] = grpc.stream_stream_rpc_method_handler(
        _guarded(lambda _, context: streaming_pull(broker, context), arrivals)
    )
    methods[log_api.LOG]["Read"] = grpc.unary_stream_rpc_method_handler(
        _guarded(partial(log_api.read, broker), arrivals)
    )
    methods[sink_api.SINK]["Stage"] = grpc.stream_unary_rpc_method_handler(
        _guarded(lambda _, context: sink_api.stage(broker, context), arrivals)
    )
    return [
        grpc.method_handlers_generic_handler(service, found) for service, found in methods.items()
    ]


class PublisherApi:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def publish(self, raw: bytes, _: Call) -> bytes:
        publish = parse_publish(raw, self._broker.message_bytes_max)
        names.refuse_system(publish.topic)
        if publish.dedup_ids is not None:
            placed = await self._broker.publish_once(publish.topic, publish.body, publish.dedup_ids)
        else:
            placed = await self._broker.publish(publish.topic, publish.body)
        return _publish_answer(placed, publish.body.count)

    async def create_topic(self, request: Any) -> Any:
        return resources.topic_pb(await self._broker.topics.create(resources.topic_spec(request)))

    async def update_topic(self, request: Any) -> Any:
        update = resources.topic_update(request)
        return resources.topic_pb(await self._broker.topics.update(update))

    async def get_topic(self, request: Any) -> Any:
        return resources.topic_pb(await self._broker.topics.get(_topic(request.topic)))

    async def list_topics(self, request: Any) -> Any:
        project = names.parse_project(request.project)
        page = _page(f"topics of {request.project}", request)
        found = await self._broker.topics.list_all(project, page.after, page.size + 1)
        shown, token = page.filled(found, lambda topic: topic.name, resources.topic_pb)
        return types.ListTopicsResponse(topics=shown, next_page_token=token)

    async def list_topic_subscriptions(self, request: Any) -> Any:
        page = _page(f"subscriptions of {request.topic}", request)
        found = await self._broker.topics.list_subscriptions(
            _topic(request.topic), page.after, page.size + 1
        )
        shown, token = page.cut(found, str)
        return types.ListTopicSubscriptionsResponse(subscriptions=shown, next_page_token=token)

    async def list_topic_snapshots(self, request: Any) -> Any:
        page = _page(f"snapshots of {request.topic}", request)
        found = await self._broker.topics.list_snapshots(
            _topic(request.topic), page.after, page.size + 1
        )
        shown, token = page.cut(found, str)
        return types.ListTopicSnapshotsResponse(snapshots=shown, next_page_token=token)

    async def delete_topic(self, request: Any) -> Any:
        await self._broker.topics.delete(_topic(request.topic))
        return Empty()

    async def detach_subscription(self, request: Any) -> Any:
        await self._broker.subscriptions.detach(_subscription(request.subscription))
        return types.DetachSubscriptionResponse()


def _publish_answer(placed: Sequence[Placed], count: int) -> bytes:
    """The ids of the messages of a request, in its order."""
    if len(placed) == 1:
        partition, offsets, _ = placed[0]
        if isinstance(offsets, range):
            return publish_response(partition, offsets.start, count)
        return publish_response_of(partition, offsets)
    ids = [b""] * count
    for partition, offsets, indexes in placed:
        for index, offset in zip(indexes or range(count), offsets, strict=True):
            ids[index] = publish_response(partition, offset, 1)
    return b"".join(ids)


class SubscriberApi:
    def __init__(self, broker: Broker, push_trouble: PushTrouble = no_trouble) -> None:
        self._broker = broker
        self._push_trouble = push_trouble

    async def pull(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.PullRequest, raw)
        if request.max_messages <= 0:
            raise InvalidArgument(
                f"max_messages: {request.max_messages} is out of range; at least 1 is needed"
            )
        wait_s = 0.0 if request.return_immediately else _wait_s(context)
        subscription, deliveries = await self._broker.pull(
            _subscription(request.subscription), max_messages=request.max_messages, wait_s=wait_s
        )
        return frame_deliveries(self._broker, subscription, deliveries)

    async def acknowledge(self, raw: bytes, context: Call) -> bytes:
        check_fields(raw, _ACK_FIELDS_MAX, "ack_ids")
        request = fields.parse(types.AcknowledgeRequest, raw)
        ack_ids = _ack_ids(request.ack_ids)
        name = _subscription(request.subscription)
        try:
            await self._broker.acknowledge(name, ack_ids)
        except AckIdsRefused as refused:
            await self._settle_the_rest(context, name, ack_ids, None, refused)
        return _EMPTY

    async def modify_ack_deadline(self, raw: bytes, context: Call) -> bytes:
        check_fields(raw, _ACK_FIELDS_MAX, "ack_ids")
        request = fields.parse(types.ModifyAckDeadlineRequest, raw)
        ack_ids = _ack_ids(request.ack_ids)
        seconds = checked_deadline(request.ack_deadline_seconds)
        name = _subscription(request.subscription)
        nack = nack_of(context.invocation_metadata() or (), seconds)
        try:
            await self._broker.modify_ack_deadline(name, ack_ids, seconds, nack)
        except AckIdsRefused as refused:
            await self._settle_the_rest(context, name, ack_ids, seconds, refused, nack)
        return _EMPTY

    async def _settle_the_rest(
        self,
        context: Call,
        name: str,
        ack_ids: list[str],
        seconds: int | None,
        refused: AckIdsRefused,
        nack: Nack = NACKED,
    ) -> None:
        """Answer a request that was refused whole so that its client makes the right thing of it.

        Of ids that a refusal has no room to name, most clients think that they failed; Java's
        thinks that they were done. For Java's, then, they are done, and the others are named. When
        those alone are too many, none is named, and every client takes that for a failure of all.
        """
        if all_fit(refused) or not _is_java(context):
            raise refused
        subscription, _ = await self._broker.subscriptions.get(name)
        stale = {i: why for i, why in refused.failures.items() if why != NOT_APPLIED}
        if all_fit(AckIdsRefused(refused.message, stale)):
            stale = await self._broker.settle_some(subscription, ack_ids, seconds, nack)
            if not stale:
                return
        answer = AckIdsRefused(
            f"{len(stale)} of {len(ack_ids)} ack ids of {name!r} are stale or not in order", stale
        )
        raise answer if all_fit(answer) else AckIdsRefused(answer.message, {})

    async def create_subscription(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.Subscription, raw)
        assigned_names.name_subscription(request, self._broker.hard.catalog.has_subscription)
        spec = resources.subscription_spec(request)
        found: list[str] = []
        subscription = await self._broker.subscriptions.create(spec, found)
        _hint(context, subscription.name, [*found, *self._broker.hints.of_new(subscription)])
        return cast(bytes, self._shown(subscription).SerializeToString())

    async def get_subscription(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.GetSubscriptionRequest, raw)
        name = _subscription(request.subscription)
        subscription, _ = await self._broker.subscriptions.get(name)
        troubles = (
            self._push_trouble(subscription),
            self._broker.exports.trouble(subscription).reason,
        )
        context.set_trailing_metadata(remarks.hints(filter(None, troubles)))
        return cast(bytes, self._shown(subscription).SerializeToString())

    async def update_subscription(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.UpdateSubscriptionRequest, raw)
        update = resources.subscription_update(request)
        if SHORT_FORM_METADATA in dict(context.invocation_metadata() or ()):
            update = replace(update, short_body=SHORT_BODY)
        found: list[str] = []
        subscription = await self._broker.subscriptions.update(update, found)
        if "dead_letter_policy" in " ".join(request.update_mask.paths):
            found += self._broker.hints.of_changed(subscription)
        _hint(context, subscription.name, found)
        return cast(bytes, self._shown(subscription).SerializeToString())

    async def list_subscriptions(self, request: Any) -> Any:
        project = names.parse_project(request.project)
        page = _page(f"subscriptions of {request.project}", request)
        found = await self._broker.subscriptions.list_all(project, page.after, page.size + 1)
        shown, token = page.filled(
            found, lambda pair: pair[0].name, lambda pair: self._shown(pair[0])
        )
        return types.ListSubscriptionsResponse(subscriptions=shown, next_page_token=token)

    async def delete_subscription(self, request: Any) -> Any:
        await self._broker.subscriptions.delete(_subscription(request.subscription))
        return Empty()

    async def modify_push_config(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.ModifyPushConfigRequest, raw)
        changes = push_changes(request.push_config)
        name = _subscription(request.subscription)
        found: list[str] = []
        update = SubscriptionUpdate(name=name, changes=changes)
        await self._broker.subscriptions.update(update, found)
        _hint(context, name, found)
        return _EMPTY

    async def get_snapshot(self, request: Any) -> Any:
        name = str(names.parse_snapshot(request.snapshot))
        return resources.snapshot_pb(await self._broker.snapshots.get(name))

    async def list_snapshots(self, request: Any) -> Any:
        project = names.parse_project(request.project)
        page = _page(f"snapshots of {request.project}", request)
        found = await self._broker.snapshots.list_all(project, page.after, page.size + 1)
        shown, token = page.filled(found, lambda snapshot: snapshot.name, resources.snapshot_pb)
        return types.ListSnapshotsResponse(snapshots=shown, next_page_token=token)

    async def create_snapshot(self, request: Any) -> Any:
        assigned_names.name_snapshot(request, self._broker.hard.catalog.has_snapshot)
        spec = resources.snapshot_spec(request)
        return resources.snapshot_pb(await self._broker.snapshots.create(spec))

    async def update_snapshot(self, request: Any) -> Any:
        update = resources.snapshot_update(request)
        return resources.snapshot_pb(await self._broker.snapshots.update(update))

    async def delete_snapshot(self, request: Any) -> Any:
        await self._broker.snapshots.delete(str(names.parse_snapshot(request.snapshot)))
        return Empty()

    async def seek(self, raw: bytes, context: Call) -> bytes:
        request = fields.parse(types.SeekRequest, raw)
        moved = await seeking.seek(self._broker.seeks, request)
        hinted = remarks.hints([moved.hint] if moved.hint else [])
        context.set_trailing_metadata((*seeking.said(moved), *hinted))
        return cast(bytes, types.SeekResponse().SerializeToString())

    def _shown(self, subscription: Subscription) -> Any:
        topic = self._broker.subscriptions.topic_of(subscription)
        is_failing = bool(self._push_trouble(subscription))
        state = self._broker.exports.trouble(subscription).state
        return resources.subscription_pb(
            subscription, topic, is_failing=is_failing, export_state=state
        )


def _is_java(context: Call) -> bool:
    """Whether the caller is Java: every gRPC library says what it is."""
    return "grpc-java" in str(dict(context.invocation_metadata() or ()).get("user-agent"))


def checked_deadline(seconds: int) -> int:
    if not 0 <= seconds <= limits.ACK_DEADLINE_S_MAX:
        raise InvalidArgument(
            f"ack_deadline_seconds: {seconds} is out of range; "
            f"0 to {limits.ACK_DEADLINE_S_MAX} are allowed"
        )
    return seconds


def _guarded(verb: Callable[[Any, Context], Awaitable[Any]], arrivals: Arrivals) -> Any:
    """A verb as gRPC calls it: counted, and whatever it raises ends the call with a status."""

    async def call(request: Any, context: Context) -> Any:
        arrivals.count += 1
        try:
            return await verb(request, context)
        except Exception as error:
            # Of any kind: behind this is only gRPC, which would tell the caller what the exception
            # says. What is not one of ours is logged by `abort`.
            await abort(context, error)

    return call


async def abort(context: Context, error: Exception) -> NoReturn:
    """End a call with an error's status and details. Raises; never returns."""
    if is_departure(error):
        raise error
    if not isinstance(error, FanlogError):
        log.error("action=call_failed; the call ends with INTERNAL", exc_info=error)
        error = Internal("an unexpected error; the broker's log says more")
    await context.abort_with_status(rpc_status.to_status(rich_status(error)))


def _topic(name: str) -> str:
    return str(names.parse_topic(name))


def _subscription(name: str) -> str:
    return str(names.parse_subscription(name))


def _page(scope: str, request: Any) -> paging.Page:
    return paging.parse_page(scope, request.page_size, request.page_token)


def _ack_ids(ack_ids: Any) -> list[str]:
    if not ack_ids:
        raise InvalidArgument("ack_ids: at least one is needed")
    if len(ack_ids) > limits.ACK_IDS_MAX:
        raise InvalidArgument(
            f"ack_ids: {len(ack_ids)} ids; at most {limits.ACK_IDS_MAX} are allowed in a request"
        )
    return list(ack_ids)


def _wait_s(context: Call) -> float:
    remaining_s: float | None = context.time_remaining()
    if remaining_s is None:
        return limits.PULL_WAIT_S
    return max(0.0, remaining_s - limits.PULL_MARGIN_S, remaining_s / 2)
