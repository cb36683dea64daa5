"""Verbs that Google's API has no words for: where a subscription stands, and settings as a whole.

A position is the id of the first message that is not acknowledged, or of the next one to come; for
a subscription on a pattern, one id for each topic, with commas between them. It says less than a
snapshot, which also knows what is acknowledged beyond.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fanlog.broker.broker import Broker
from fanlog.errors import AlreadyExists, InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_DEAD_LETTER
from fanlog.model.ids import message_id
from fanlog.server.calls import Call, Unary
from fanlog.server.rest import json_in
from fanlog.server.rest.json_schema import DURATION, STRING, Schema, record
from fanlog.server.rest.route import Asked
from fanlog.v1 import replay_pb2
from fanlog.wire import types
from fanlog.wire.resources import SUBSCRIPTION_SETTINGS, subscription_spec

GET_POSITION = "Position.Get"
SEEK = "Replay.Seek"
PUT_SUBSCRIPTION = "Subscriber.PutSubscription"

POSITION: Schema = record(
    {
        "subscription": STRING,
        "topic": STRING,
        "position": STRING,
        "unackedMessages": {"type": "integer", "minimum": 0},
        "outstandingMessages": {"type": "integer", "minimum": 0},
        "oldestUnackedAge": DURATION,
    },
    "subscription",
    "topic",
    "position",
)


def position_verbs(broker: Broker, verbs: Mapping[str, Unary]) -> dict[str, Unary]:
    """The verbs; requests and answers are JSON but for `PUT_SUBSCRIPTION`'s."""

    async def get(raw: bytes, _: Call) -> bytes:
        name = str(names.parse_subscription(orjson.loads(raw)["subscription"]))
        subscription, _topic = await broker.subscriptions.get(name)
        backlog = await broker.backlogs.measure(subscription)
        position = {} if subscription.detached else broker.seeks.position(subscription)
        return orjson.dumps(
            {
                "subscription": name,
                "topic": subscription.topic_shown,
                "position": ",".join(message_id(*one) for one in sorted(position.items())),
                "unackedMessages": backlog.messages,
                "outstandingMessages": backlog.outstanding,
                "oldestUnackedAge": f"{backlog.oldest_age_s:.3f}s",
            }
        )

    async def put_subscription(raw: bytes, call: Call) -> bytes:
        """Create, or give an existing one all these settings; Subscription in and out."""
        try:
            return await verbs["Subscriber.CreateSubscription"](raw, call)
        except AlreadyExists as exists:
            wanted = types.Subscription.FromString(raw)
            await _check_same(wanted, exists)
        request = types.UpdateSubscriptionRequest(subscription=wanted)
        request.update_mask.paths.extend(sorted(_settings(broker, wanted)))
        serialised = request.SerializeToString()
        return await verbs["Subscriber.UpdateSubscription"](serialised, call)

    async def _check_same(wanted: Any, exists: AlreadyExists) -> None:
        """Refuse what an update cannot change as what it is: another subscription of that name."""
        subscription, _ = await broker.subscriptions.get(wanted.name)
        if wanted.topic != subscription.topic_shown:
            raise AlreadyExists(f"{exists.message}, on topic {subscription.topic_shown!r}")
        if wanted.enable_message_ordering != subscription.enable_message_ordering:
            raise AlreadyExists(f"{exists.message}, with another enable_message_ordering")

    return {GET_POSITION: get, PUT_SUBSCRIPTION: put_subscription}


def read_seek(body: Mapping[str, Any], spelled: str, subscription: str) -> bytes:
    """The request of a seek: to a time, a snapshot in full, a position or, `spelled`, a message.

    Raises:
        InvalidArgument: Not exactly one target, or one that is no string.
    """
    known = ("time", "snapshot", "position", spelled)
    targets = [key for key in known if body.get(key) is not None]
    if len(targets) != 1:
        raise InvalidArgument(f"seek needs one of {', '.join(known)}; it has {len(targets)}")
    [target] = targets
    message = replay_pb2.SeekSubscriptionRequest()
    json_in.fill(message, {target: body[target]})
    message.subscription = subscription
    return bytes(message.SerializeToString())


def moved(spelled: Mapping[str, str], raw: bytes, _: Asked) -> Any:
    """The result of a seek, with field names as `spelled`."""
    answer = replay_pb2.SeekSubscriptionResponse.FromString(raw)
    found = {"reopened": answer.reopened, "acknowledged": answer.acknowledged}
    since = answer.reopened_from.ToJsonString() if answer.HasField("reopened_from") else None
    found |= {"reopened_from": since, "hint": answer.hint or None}
    return {spelled.get(key, key): value for key, value in found.items() if value is not None}


def _settings(broker: Broker, wanted: Any) -> frozenset[str]:
    # A dead letter topic that the label or the server's default has made stays, unless another one
    # is named.
    is_auto = wanted.labels.get(LABEL_DEAD_LETTER) == "auto"
    present = broker.hard.catalog.subscription(wanted.name)
    is_default = broker.rules.is_default(subscription_spec(wanted), present)
    if (is_auto or is_default) and not wanted.HasField("dead_letter_policy"):
        return SUBSCRIPTION_SETTINGS - {"dead_letter_policy"}
    return SUBSCRIPTION_SETTINGS
