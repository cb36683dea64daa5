"""The methods of google.pubsub.v1.Subscriber that create, show and change subscriptions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from google.protobuf.empty_pb2 import Empty

from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.model.resources import Subscription
from fanlog.model.updates import SubscriptionUpdate
from fanlog.server import assigned_names, remarks
from fanlog.server.calls import SHORT_BODY, SHORT_FORM_METADATA, Call, maker_of, metadata_of
from fanlog.server.methods import method, method_with_call
from fanlog.wire import paging, resources, types
from fanlog.wire.push import push_changes

log = logging.getLogger("fanlog.grpc")

_PUSH = "push_config.push_endpoint"
_DEAD_LETTER = "dead_letter_policy.dead_letter_topic"


async def create_subscription(
    broker: Broker, request: types.Subscription, call: Call
) -> types.Subscription:
    assigned_names.name_subscription(request, broker.hard.catalog.has_subscription)
    spec = replace(resources.subscription_spec(request), maker=maker_of(call))
    found: list[str] = []
    subscription = await broker.subscriptions.create(spec, found)
    _hint(call, subscription.name, [*found, *broker.hints.of_new(subscription)])
    return _show(broker, subscription)


async def get_subscription(
    broker: Broker, request: types.GetSubscriptionRequest, call: Call
) -> types.Subscription:
    name = _check_subscription(request.subscription)
    subscription, _ = await broker.subscriptions.get(name)
    troubles = (
        broker.movers.trouble(subscription),
        broker.exports.trouble(subscription).reason,
        broker.hints.of_waiting_letters(subscription),
    )
    call.set_trailing_metadata(remarks.make_hints(filter(None, troubles)))
    return _show(broker, subscription)


async def update_subscription(
    broker: Broker, request: types.UpdateSubscriptionRequest, call: Call
) -> types.Subscription:
    update = resources.subscription_update(request)
    if SHORT_FORM_METADATA in metadata_of(call):
        update = replace(update, short_body=SHORT_BODY)
    found: list[str] = []
    subscription = await broker.subscriptions.update(update, found)
    if "dead_letter_policy" in " ".join(request.update_mask.paths):
        found += broker.hints.of_changed(subscription)
    _hint(call, subscription.name, found)
    return _show(broker, subscription)


async def list_subscriptions(
    broker: Broker, request: types.ListSubscriptionsRequest
) -> types.ListSubscriptionsResponse:
    project = names.parse_project(request.project)
    page = paging.read_page(f"subscriptions of {request.project}", request)
    found = await broker.subscriptions.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, lambda pair: pair[0].name, lambda pair: _show(broker, pair[0]))
    return types.ListSubscriptionsResponse(subscriptions=shown, next_page_token=token)


async def delete_subscription(broker: Broker, request: types.DeleteSubscriptionRequest) -> Empty:
    await broker.subscriptions.delete(_check_subscription(request.subscription))
    return Empty()


async def modify_push_config(
    broker: Broker, request: types.ModifyPushConfigRequest, call: Call
) -> Empty:
    changes = push_changes(request.push_config)
    name = _check_subscription(request.subscription)
    found: list[str] = []
    update = SubscriptionUpdate(name=name, changes=changes)
    await broker.subscriptions.update(update, found)
    _hint(call, name, found)
    return Empty()


def _check_subscription(name: str) -> str:
    return str(names.parse_subscription(name))


def _show(broker: Broker, subscription: Subscription) -> types.Subscription:
    topic = broker.subscriptions.topic_of(subscription)
    is_failing = bool(broker.movers.trouble(subscription))
    state = broker.exports.trouble(subscription).state
    return resources.subscription_pb(subscription, topic, is_failing=is_failing, export_state=state)


def _hint(call: Call, subscription: str, sentences: Sequence[str]) -> None:
    """Tell the caller, and the log."""
    for sentence in sentences:
        log.warning("action=hint subscription=%s %s", subscription, sentence)
    if sentences:
        call.set_trailing_metadata(remarks.make_hints(sentences))


METHODS = (
    method_with_call(
        "CreateSubscription",
        types.Subscription,
        types.Subscription,
        create_subscription,
        *("name", "topic", _DEAD_LETTER, _PUSH),
    ),
    method_with_call(
        "GetSubscription", types.GetSubscriptionRequest, types.Subscription, get_subscription
    ),
    method_with_call(
        "UpdateSubscription",
        types.UpdateSubscriptionRequest,
        types.Subscription,
        update_subscription,
        *("subscription.name", f"subscription.{_DEAD_LETTER}", f"subscription.{_PUSH}"),
    ),
    method(
        "ListSubscriptions",
        types.ListSubscriptionsRequest,
        types.ListSubscriptionsResponse,
        list_subscriptions,
    ),
    method(
        "DeleteSubscription",
        types.DeleteSubscriptionRequest,
        Empty,
        delete_subscription,
        "subscription",
    ),
    method_with_call(
        "ModifyPushConfig",
        types.ModifyPushConfigRequest,
        Empty,
        modify_push_config,
        *("subscription", _PUSH),
    ),
)
