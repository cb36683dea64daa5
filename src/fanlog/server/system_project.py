"""The system project belongs to the service: callers read there, and change nothing.

Jobs and outcomes travel on topics of the project `fanlog-system`. A message that a caller publishes
there would be taken for the service's own, so every method that writes, creates, deletes or
attaches is listed below with the fields that name what it changes. Consuming is reading: a pipeline
takes its jobs through the same API as every caller.

`Publish` and `Stage` have checks of their own, where the name of the topic is known without parsing
the request a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.iam.v1 import iam_policy_pb2

from fanlog.model import endpoints, names
from fanlog.server.calls import Call, Unary
from fanlog.v1 import replay_pb2
from fanlog.wire import fields, types

_PUSH = "push_config.push_endpoint"
_DEAD_LETTER = "dead_letter_policy.dead_letter_topic"

#: For each method that changes something: its request, and the fields that name what is changed.
CHANGES: Mapping[str, tuple[Any, tuple[str, ...]]] = {
    "Publisher.CreateTopic": (types.Topic, ("name",)),
    "Publisher.UpdateTopic": (types.UpdateTopicRequest, ("topic.name",)),
    "Publisher.DeleteTopic": (types.DeleteTopicRequest, ("topic",)),
    "Publisher.DetachSubscription": (types.DetachSubscriptionRequest, ("subscription",)),
    "Subscriber.CreateSubscription": (types.Subscription, ("name", "topic", _DEAD_LETTER, _PUSH)),
    "Subscriber.UpdateSubscription": (
        types.UpdateSubscriptionRequest,
        ("subscription.name", f"subscription.{_DEAD_LETTER}", f"subscription.{_PUSH}"),
    ),
    "Subscriber.DeleteSubscription": (types.DeleteSubscriptionRequest, ("subscription",)),
    "Subscriber.ModifyPushConfig": (types.ModifyPushConfigRequest, ("subscription", _PUSH)),
    "Subscriber.CreateSnapshot": (types.CreateSnapshotRequest, ("name", "subscription")),
    "Subscriber.UpdateSnapshot": (types.UpdateSnapshotRequest, ("snapshot.name",)),
    "Subscriber.DeleteSnapshot": (types.DeleteSnapshotRequest, ("snapshot",)),
    "Subscriber.Seek": (types.SeekRequest, ("subscription",)),
    "SchemaService.CreateSchema": (types.CreateSchemaRequest, ("parent",)),
    "SchemaService.CommitSchema": (types.CommitSchemaRequest, ("name",)),
    "SchemaService.RollbackSchema": (types.RollbackSchemaRequest, ("name",)),
    "SchemaService.DeleteSchemaRevision": (types.DeleteSchemaRevisionRequest, ("name",)),
    "SchemaService.DeleteSchema": (types.DeleteSchemaRequest, ("name",)),
    "IAMPolicy.SetIamPolicy": (iam_policy_pb2.SetIamPolicyRequest, ("resource",)),
    "Replay.Seek": (replay_pb2.SeekSubscriptionRequest, ("subscription",)),
    "Replay.Reopen": (replay_pb2.ReopenRequest, ("subscription",)),
    "Replay.Redrive": (replay_pb2.RedriveRequest, ("subscription",)),
    "Replay.Discard": (replay_pb2.DiscardRequest, ("subscription",)),
}

_MARK = names.project_name(names.SYSTEM_PROJECT).encode()


def guarded(method: str, verb: Unary) -> Unary:
    """The verb, refusing what names the system project; a verb that changes nothing, as it is."""
    if method not in CHANGES:
        return verb
    request_type, paths = CHANGES[method]

    async def call(raw: bytes, context: Call) -> bytes:
        # Looked for in the bytes first: hardly a request has it, and then nothing is parsed twice.
        if _MARK in raw:
            request = fields.parse(request_type, raw)
            for path in paths:
                _check(request, path)
        return await verb(raw, context)

    return call


def _check(request: Any, path: str) -> None:
    value = request
    for name in path.split("."):
        value = getattr(value, name)
    # A forward's endpoint is the name of a topic behind a scheme.
    names.refuse_system(value.removeprefix(endpoints.TOPIC_SCHEME), field=path)
