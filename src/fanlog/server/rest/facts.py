"""Facts that our own forms add to a resource, beyond the fields of the verb's answer."""

from __future__ import annotations

from google.protobuf.message import Message

from fanlog.broker.broker import Broker
from fanlog.errors import NotFound
from fanlog.model.json_value import JsonObject
from fanlog.wire import types
from fanlog.wire.fields import duration, timestamp
from fanlog.wire.schemas import type_number


class Facts:
    """Looks resources up as they are now, right after a verb has answered; names in snake_case."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def of(self, message: Message) -> JsonObject:
        """The facts about a resource; none for one that is gone or has nothing more to tell."""
        try:
            if isinstance(message, types.Topic):
                return self._topic(message.name)
            if isinstance(message, types.Subscription):
                return self._subscription(message.name)
            if isinstance(message, types.Schema):
                return self._schema(message.name, message.revision_id)
        except NotFound:
            pass
        return {}

    def schema_type(self, name: str) -> int:
        """The number of a schema's type; of one that does not exist, any: its verb says so."""
        schema = self._broker.hard.catalog.schemas.find(name)
        return type_number("AVRO" if schema is None else schema.type)

    def _topic(self, name: str) -> JsonObject:
        topic = self._broker.hard.catalog.topic(name)
        found: JsonObject = {"partition_count": len(topic.partitions)}
        kept = self._broker.retention.of_topic(topic)
        shown = {} if kept.seconds is None else {"duration": duration(kept.seconds).ToJsonString()}
        found["effective_retention"] = shown | {"by": kept.by}
        if topic.message_retention_s is not None:
            found["retention_seconds"] = _number(topic.message_retention_s)
        return found | _created(topic.created_s)

    def _subscription(self, name: str) -> JsonObject:
        subscription = self._broker.hard.catalog.subscription(name)
        return {"retention_seconds": _number(subscription.message_retention_s)} | _created(
            subscription.created_s
        )

    def _schema(self, name: str, revision_id: str) -> JsonObject:
        table = self._broker.hard.catalog.schemas
        schema = table.schema(name)
        number = table.revision(schema, revision_id).number
        return {"revision": number, "compatibility": schema.compatibility}


def _created(created_s: float | None) -> JsonObject:
    # Topics and subscriptions of earlier builds do not say.
    return {"created_at": timestamp(created_s).ToJsonString()} if created_s else {}


def _number(seconds: float) -> float:
    return int(seconds) if seconds == int(seconds) else seconds
