"""What a caller may not see: no denial, no list and no token of a list has its name."""

from __future__ import annotations

import base64

import grpc
import pytest
from google.protobuf.message import Message as Protobuf

from access.conftest import PROJECT, Guarded
from access.test_callers import PUBLISHER, SUBSCRIBER, SUBSCRIPTION, TOPIC, make, publish_request
from fanlog.v1 import inspection_pb2
from fanlog.wire import types

#: Subscriptions on the topic that belong to another project.
HIDDEN = [f"projects/hidden/subscriptions/{name}" for name in ("aaa", "mmm", "zzz")]


async def refusal(guarded: Guarded, path: str, request: Protobuf, answer: type, token: str) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await guarded.call(path, request, answer, token)
    return f"{refused.value.code().name} {refused.value.details()}"


async def add_hidden(guarded: Guarded) -> None:
    for name in HIDDEN:
        wanted = types.Subscription(name=name, topic=TOPIC)
        await guarded.call(f"{SUBSCRIBER}/CreateSubscription", wanted, types.Subscription)


async def test_a_denial_does_not_tell_of_a_topic_that_was_not_named(guarded: Guarded):
    await make(guarded)
    token = await guarded.token("ci")
    published = await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    [there] = published.message_ids
    said = []
    for name in (SUBSCRIPTION, f"{PROJECT}/subscriptions/missing"):
        request = types.DetachSubscriptionRequest(subscription=name)
        path, answer = f"{PUBLISHER}/DetachSubscription", types.DetachSubscriptionResponse
        said.append((await refusal(guarded, path, request, answer, token)).replace(name, "S"))
    for message_id in (there, str(10**15)):
        asked = inspection_pb2.TraceRequest(message_id=message_id)
        path = "fanlog.v1.Inspection/Trace"
        text = await refusal(guarded, path, asked, inspection_pb2.TraceResponse, token)
        said.append(text.replace(message_id, "M"))
    assert said[0] == said[1]
    assert said[2] == said[3]
    for text in said:
        assert text.startswith("PERMISSION_DENIED")
        assert "orders" not in text


async def test_pages_and_their_tokens_have_what_may_be_seen(guarded: Guarded):
    await make(guarded)
    await add_hidden(guarded)
    names = [f"{PROJECT}/subscriptions/{name}" for name in ("bbb", "ccc", "ddd")]
    for name in names:
        wanted = types.Subscription(name=name, topic=TOPIC)
        await guarded.call(f"{SUBSCRIBER}/CreateSubscription", wanted, types.Subscription)
    token = await guarded.token("viewer")
    await guarded.grant(PROJECT, "roles/pubsub.viewer", guarded.member("viewer"))
    found: list[str] = []
    request = types.ListTopicSubscriptionsRequest(topic=TOPIC, page_size=1)
    path, answer = f"{PUBLISHER}/ListTopicSubscriptions", types.ListTopicSubscriptionsResponse
    while True:
        page = await guarded.call(path, request, answer, token)
        assert len(page.subscriptions) == 1
        found += page.subscriptions
        request.page_token = page.next_page_token
        assert b"hidden" not in base64.urlsafe_b64decode(request.page_token + "===")
        if not request.page_token:
            break
    assert found == sorted([SUBSCRIPTION, *names])


async def test_a_trace_has_the_subscriptions_that_may_be_seen(guarded: Guarded):
    await make(guarded)
    await add_hidden(guarded)
    published = await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    asked = inspection_pb2.TraceRequest(message_id=published.message_ids[0])
    path, answer = "fanlog.v1.Inspection/Trace", inspection_pb2.TraceResponse
    everything = await guarded.call(path, asked, answer)
    assert len(everything.subscriptions) == 4
    token = await guarded.token("reader")
    await guarded.grant(PROJECT, "roles/fanlog.spark", guarded.member("reader"))
    seen = await guarded.call(path, asked, answer, token)
    assert [one.subscription for one in seen.subscriptions] == [SUBSCRIPTION]
