"""Headers that say who calls, as programs on the way may change them; one failure a request."""

from __future__ import annotations

import asyncio
import http.client
import json

import grpc
import pytest

from access.conftest import PROJECT, Guarded
from access.test_callers import PUBLISHER, TOPIC, make, publish_request
from fanlog.wire import types


def get(guarded: Guarded, *values: bytes) -> int:
    """The status of a request with as many credentials."""
    host, _, port = guarded.server.http_endpoint.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.putrequest("GET", f"/v1/{TOPIC}")
        for value in values:
            connection.putheader("Authorization", value)
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


async def test_two_of_them_or_one_that_is_no_text_are_wrong(guarded: Guarded):
    await make(guarded)
    # Even where everybody may: a wrong one is worse than none.
    await guarded.grant(TOPIC, "roles/pubsub.viewer", "allUsers")
    good = f"Bearer {guarded.admin}".encode()
    statuses = [
        await asyncio.to_thread(get, guarded, *values)
        for values in ((), (good,), (b"Bearer x", good), (good, good), (b"Bearer h\xe9",))
    ]
    assert statuses == [200, 200, 401, 401, 401]


async def test_two_of_them_over_grpc(guarded: Guarded):
    await make(guarded)
    verb = guarded.channel.unary_unary(
        f"/{PUBLISHER}/Publish",
        request_serializer=types.PublishRequest.SerializeToString,
        response_deserializer=types.PublishResponse.FromString,
    )
    good = ("authorization", f"Bearer {guarded.admin}")
    await verb(publish_request(), metadata=(good,), timeout=20)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await verb(publish_request(), metadata=(("authorization", "Bearer x"), good), timeout=20)
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_batch_of_events_is_one_caller(guarded: Guarded):
    """Its events would use up the places of failures that wait, one each."""
    await make(guarded)
    event = {"specversion": "1.0", "source": "/s", "type": "orders"}
    batch = [event | {"id": str(number)} for number in range(50)]
    kind = "application/cloudevents-batch+json"
    path = f"/v1/{PROJECT}/events"
    answer = await guarded.http("POST", path, batch, "flt_wrong", kind=kind)
    assert answer.status == 401
    page = (await guarded.http("GET", "/metrics")).text
    assert 'fanlog_authentication_failures_total{reason="no such token"} 1.0' in page
    # One with the right to some of the topics has those published, and no others.
    other = types.Topic(name=f"{PROJECT}/topics/other")
    await guarded.call(f"{PUBLISHER}/CreateTopic", other, types.Topic)
    token = await guarded.token("ci")
    await guarded.grant(TOPIC, "roles/pubsub.publisher", guarded.member("ci"))
    mixed = [event | {"id": "a"}, event | {"id": "b", "type": "other"}, event | {"id": "c"}]
    answer = await guarded.http("POST", path, mixed, token, kind=kind)
    assert answer.status == 207, answer.text
    found = json.loads(answer.text)
    assert [one is not None for one in found["message_ids"]] == [True, False, True]
    assert [one["index"] for one in found["rejected"]] == [1]
    assert found["rejected"][0]["error"]["status"] == "PERMISSION_DENIED"
