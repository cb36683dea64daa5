"""Verbs that Google's API does not have: get the position of a subscription, and put its settings.

A position is the id of the first message that is not acknowledged, or of the next one to come; for
a subscription on a pattern, one id for each topic, with commas between them. It says less than a
snapshot, which also has the acknowledged messages beyond the position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from fanlog.broker.broker import Broker
from fanlog.errors import AlreadyExists, InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import LABEL_DEAD_LETTER
from fanlog.model.ids import message_id
from fanlog.model.json_value import Json, JsonObject
from fanlog.server.calls import Call, Unary
from fanlog.server.gate import Gate
from fanlog.server.rest.json_schema import DURATION, STRING, TIMESTAMP, JsonSchema, integer, record
from fanlog.server.rest.route import Asked
from fanlog.v1 import replay_pb2
from fanlog.wire import types
from fanlog.wire.resources import SUBSCRIPTION_SETTINGS, subscription_spec

GET_POSITION = "Position.Get"
SEEK = "Replay.Seek"
PUT_SUBSCRIPTION = "Subscriber.PutSubscription"
#: Classes of the verbs' requests and answers; a position is answered as JSON, not as a message.
MESSAGES = {
    GET_POSITION: (types.GetSubscriptionRequest, None),
    PUT_SUBSCRIPTION: (types.Subscription, types.Subscription),
}

_COUNT = integer(0, 2**53)
#: The fields that every answer to a seek has.
_MOVED = ("reopened", "acknowledged")

POSITION: JsonSchema = record(
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


def position_verbs(
    broker: Broker, verbs: Mapping[str, Unary], gate: Gate | None = None
) -> dict[str, Unary]:
    """The verbs by name; `verbs`, which they call, are behind the gate already."""

    async def get(raw: bytes, _: Call) -> bytes:
        asked = types.GetSubscriptionRequest.FromString(raw)
        name = str(names.parse_subscription(asked.subscription))
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
        """Create a subscription, or give an existing one all these settings."""
        try:
            return await verbs["Subscriber.CreateSubscription"](raw, call)
        except AlreadyExists as exists:
            wanted = types.Subscription.FromString(raw)
            # Before anything is said about the one that is there.
            call.caller.check("pubsub.subscriptions.update", wanted.name)
            await _check_same(wanted, exists)
        request = types.UpdateSubscriptionRequest(subscription=wanted)
        request.update_mask.paths.extend(sorted(_settings(broker, wanted)))
        serialised = request.SerializeToString()
        return await verbs["Subscriber.UpdateSubscription"](serialised, call)

    async def _check_same(wanted: Any, exists: AlreadyExists) -> None:
        """Refuse settings that no update can change: the subscription there is another one."""
        subscription, _ = await broker.subscriptions.get(wanted.name)
        if wanted.topic != subscription.topic_shown:
            raise AlreadyExists(f"{exists.message}, on topic {subscription.topic_shown!r}")
        if wanted.enable_message_ordering != subscription.enable_message_ordering:
            raise AlreadyExists(f"{exists.message}, with another enable_message_ordering")

    guarded: Unary = get
    if gate is not None:
        guarded = gate.guard(f"fanlog.rest.{GET_POSITION}", get, types.GetSubscriptionRequest)
    return {GET_POSITION: guarded, PUT_SUBSCRIPTION: put_subscription}


def seek_target(body: Mapping[str, Json], spelled: str) -> Mapping[str, Json]:
    """The one target of a seek: a time, a snapshot, a position or, as `spelled`, a message id.

    Raises:
        InvalidArgument: Not exactly one target.
    """
    known = ("time", "snapshot", "position", spelled)
    targets = {key: body[key] for key in known if body.get(key) is not None}
    if len(targets) != 1:
        raise InvalidArgument(f"seek needs one of {', '.join(known)}; it has {len(targets)}")
    return targets


def moved_schema(spell: Callable[[str], str] = str) -> JsonSchema:
    """JSON Schema of a seek's answer, with names of fields as `spell` gives them."""
    fields = {"reopened": _COUNT, "acknowledged": _COUNT, "reopened_from": TIMESTAMP}
    fields["hint"] = STRING
    return record({spell(name): schema for name, schema in fields.items()}, *_MOVED)


def show_moved(
    answer: replay_pb2.SeekSubscriptionResponse, _: Asked, spell: Callable[[str], str] = str
) -> JsonObject:
    """The answer of a seek as JSON, with names of fields as `spell` gives them."""
    found: JsonObject = {name: getattr(answer, name) for name in _MOVED}
    if answer.HasField("reopened_from"):
        found[spell("reopened_from")] = answer.reopened_from.ToJsonString()
    return found | {"hint": answer.hint} if answer.hint else found


def _settings(broker: Broker, wanted: Any) -> frozenset[str]:
    # A dead letter topic that the label or the server's default has made stays, unless another one
    # is named.
    is_auto = wanted.labels.get(LABEL_DEAD_LETTER) == "auto"
    present = broker.hard.catalog.subscription(wanted.name)
    is_default = broker.rules.is_default(subscription_spec(wanted), present)
    if (is_auto or is_default) and not wanted.HasField("dead_letter_policy"):
        return SUBSCRIPTION_SETTINGS - {"dead_letter_policy"}
    return SUBSCRIPTION_SETTINGS
