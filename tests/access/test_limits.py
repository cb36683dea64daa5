"""Rates and quotas of a running server: who passes one is told when to come again."""

from __future__ import annotations

import asyncio
import time

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from access.conftest import PROJECT, Guarded, Start
from access.test_callers import (
    PUBLISHER,
    SUBSCRIBER,
    SUBSCRIPTION,
    TOPIC,
    make,
    publish,
    publish_request,
)
from fanlog.broker.clock import ManualClock
from fanlog.model.quotas import Quotas
from fanlog.model.rates import parse_rates
from fanlog.v1 import log_pb2
from fanlog.wire import types

PATH = f"/v1/{TOPIC}:publish"
BODY = {"messages": [{"data": "eA=="}]}


def retry_after_s(error: grpc.aio.AioRpcError) -> float | None:
    """What the RetryInfo among the details of an error says."""
    trailers = dict(error.trailing_metadata() or ())
    status = Status.FromString(trailers["grpc-status-details-bin"])
    for detail in status.details:
        info = RetryInfo()
        if detail.Unpack(info):
            return info.retry_delay.ToTimedelta().total_seconds()
    return None


async def refusal(guarded: Guarded, token: str = "") -> grpc.aio.AioRpcError | None:
    """The error that a publish ends with."""
    try:
        await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse, token)
    except grpc.aio.AioRpcError as error:
        return error
    return None


async def test_who_passes_a_rate_is_told_when_to_come_again(start: Start):
    guarded = await start(rates=parse_rates("principal.messages=2"))
    await make(guarded)
    for _ in range(4):
        assert await refusal(guarded) is None
    found = await refusal(guarded)
    assert found is not None
    assert found.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "principal.messages=2" in str(found.details())
    delay_s = retry_after_s(found)
    assert delay_s is not None
    assert 0 < delay_s <= 0.5
    answer = await guarded.http("POST", PATH, BODY)
    assert answer.status == 429
    assert answer.headers["retry-after"] == "1"
    retry = answer.json["error"]["details"][1]
    assert retry["@type"].endswith("RetryInfo")
    assert retry["retryDelay"].endswith("s")
    # Whoever comes when told is let in.
    await asyncio.sleep(delay_s + 0.05)
    assert await refusal(guarded) is None


async def test_rates_are_among_the_metrics(start: Start):
    guarded = await start(rates=parse_rates("principal.messages=1"))
    await make(guarded)
    codes = [await publish(guarded, "") for _ in range(4)]
    refused = codes.count("RESOURCE_EXHAUSTED")
    assert refused
    await publish(guarded, "flt_wrong")
    page = (await guarded.http("GET", "/metrics")).text
    label = '{rate="principal.messages"}'
    assert f"fanlog_rate_limit{label} 1.0" in page
    assert f"fanlog_rate_taken_total{label} {4.0 - refused}" in page
    assert f"fanlog_rate_refusals_total{label} {float(refused)}" in page
    assert 'fanlog_authentication_failures_total{reason="no such token"} 1.0' in page
    answer = await guarded.http("GET", "/metrics", token=None)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_under_load_no_more_comes_in_than_the_rate_and_others_go_on(start: Start):
    limit = 40
    guarded = await start(rates=parse_rates(f"principal.messages={limit}"))
    await make(guarded)
    await guarded.grant(PROJECT, "roles/pubsub.publisher", "allAuthenticatedUsers")
    busy, calm = await guarded.token("busy"), await guarded.token("calm")

    async def press(count: int) -> list[grpc.aio.AioRpcError | None]:
        return [await refusal(guarded, busy) for _ in range(count)]

    began = time.monotonic()
    pressing = [asyncio.create_task(press(40)) for _ in range(10)]
    # Within its own rate, another caller is not refused once.
    assert [await publish(guarded, calm) for _ in range(limit)] == ["OK"] * limit
    answers = [one for part in await asyncio.gather(*pressing) for one in part]
    took_s = time.monotonic() - began
    refused = [one for one in answers if one is not None]
    assert len(answers) - len(refused) <= 2 * limit + limit * took_s
    assert refused
    for error in refused:
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert retry_after_s(error)


async def test_requests_of_every_surface_are_counted(start: Start):
    guarded = await start(rates=parse_rates("project.requests=1"))
    get = types.GetTopicRequest(topic=TOPIC)
    codes = [await guarded.code(f"{PUBLISHER}/GetTopic", get, types.Topic) for _ in range(2)]
    assert codes == ["NOT_FOUND"] * 2
    statuses = [(await guarded.http("GET", f"/v1/{TOPIC}")).status for _ in range(4)]
    assert 429 in statuses
    # Another project has a bucket of its own,.
    assert (await guarded.http("GET", "/v1/projects/other/topics/orders")).status == 404


async def test_requests_that_are_denied_are_the_callers_own(start: Start):
    """They count for whoever makes them, and use up nothing of the project's."""
    rates = parse_rates("project.requests=2 principal.requests=4")
    guarded = await start(rates=rates, clock=ManualClock())
    await make(guarded)
    token = await guarded.token("stranger")
    get = types.GetTopicRequest(topic=TOPIC)
    path = f"{PUBLISHER}/GetTopic"
    codes = [await guarded.code(path, get, types.Topic, token) for _ in range(10)]
    assert codes == ["PERMISSION_DENIED"] * 8 + ["RESOURCE_EXHAUSTED"] * 2
    assert await guarded.code(path, get, types.Topic) == "OK"


async def test_bytes_are_counted(start: Start):
    guarded = await start(rates=parse_rates("project.bytes=100"))
    await make(guarded)
    big = {"messages": [{"data": "A" * 400}]}
    assert (await guarded.http("POST", PATH, big)).status == 200
    assert (await guarded.http("POST", PATH, big)).status == 429


async def test_connections_are_counted_until_they_are_lost(start: Start):
    guarded = await start(rates=parse_rates("principal.connections=1"))
    await make(guarded)
    await guarded.grant(PROJECT, "roles/pubsub.publisher", "allAuthenticatedUsers")
    token = await guarded.token("ci")
    separate = [("grpc.use_local_subchannel_pool", 1)]

    async def publish_on(channel: grpc.aio.Channel) -> str:
        return await publish(Guarded(guarded.server, guarded.folder, channel), token)

    async with grpc.aio.insecure_channel(guarded.server.endpoint, separate) as first:
        assert [await publish_on(first) for _ in range(3)] == ["OK"] * 3
        async with grpc.aio.insecure_channel(guarded.server.endpoint, separate) as second:
            assert await publish_on(second) == "RESOURCE_EXHAUSTED"
        # HTTP/1.1 counts as well; the first connection goes on.
        answer = await guarded.http("POST", PATH, BODY, token)
        assert answer.status == 429
        assert "principal.connections=1" in answer.text
        assert await publish_on(first) == "OK"
    for _ in range(200):
        status = (await guarded.http("POST", PATH, BODY, token)).status
        if status == 200:
            break
        await asyncio.sleep(0.02)
    assert status == 200


async def test_streams_are_counted(start: Start):
    guarded = await start(rates=parse_rates("project.streams=1"))
    await make(guarded)

    def stream() -> grpc.aio.StreamStreamCall:
        return guarded.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(
            metadata=(("authorization", f"Bearer {guarded.admin}"),)
        )

    asked = types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10)
    first, second = stream(), stream()
    await publish(guarded, "")
    await first.write(asked.SerializeToString())
    await first.read()
    await second.write(asked.SerializeToString())
    assert await second.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    first.cancel()
    for _ in range(200):
        await asyncio.sleep(0.02)
        third = stream()
        await publish(guarded, "")
        await third.write(asked.SerializeToString())
        if await third.read() is not grpc.aio.EOF:
            break
    third.cancel()


async def test_a_stream_that_reads_many_topics_is_one(start: Start):
    guarded = await start(rates=parse_rates("principal.streams=1"))
    await make(guarded)
    other = f"{PROJECT}/topics/other"
    await guarded.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=other), types.Topic)
    catalog = guarded.server.broker.hard.catalog
    ranges = [
        log_pb2.Range(topic=name, partition=catalog.topic(name).partitions[0], start=0, end=0)
        for name in (TOPIC, other)
    ]
    for _ in range(2):
        call = guarded.channel.unary_stream(
            "/fanlog.v1.Log/Read", request_serializer=log_pb2.ReadRequest.SerializeToString
        )(
            log_pb2.ReadRequest(ranges=ranges),
            metadata=(("authorization", f"Bearer {guarded.admin}"),),
        )
        async for _answer in call:
            pass
        assert await call.code() is grpc.StatusCode.OK


async def test_resources_of_one_principal(start: Start, tmp_path):
    quotas = Quotas(principal_topics=2, principal_subscriptions=1)
    data = {"memory": False, "data_dir": tmp_path / "data", "auth_dir": tmp_path / "auth"}
    guarded = await start(quotas=quotas, **data)
    await guarded.grant("server", "roles/pubsub.editor", guarded.member("ci"))
    token = await guarded.token("ci")

    async def create(name: str, shown: str = token) -> str:
        topic = types.Topic(name=f"{PROJECT}/topics/{name}")
        return await guarded.code(f"{PUBLISHER}/CreateTopic", topic, types.Topic, shown)

    assert [await create(name) for name in ("t-1", "t-2", "t-3")] == [
        *("OK", "OK", "RESOURCE_EXHAUSTED")
    ]
    # Over REST it is the same principal; another one has its own.
    answer = await guarded.http("PUT", f"/v1/{PROJECT}/topics/t-3", {}, token)
    assert (answer.status, answer.headers["retry-after"]) == (429, "60")
    assert "principal-topics=2" in answer.text
    assert await create("t-3", "") == "OK"
    subscription = types.Subscription(
        name=f"{PROJECT}/subscriptions/s-1", topic=f"{PROJECT}/topics/t-3"
    )
    path = f"{SUBSCRIBER}/CreateSubscription"
    assert await guarded.code(path, subscription, types.Subscription, token) == "OK"
    subscription.name += "x"
    assert await guarded.code(path, subscription, types.Subscription, token) == (
        "RESOURCE_EXHAUSTED"
    )
    page = (await guarded.http("GET", "/metrics")).text
    assert 'fanlog_quota_refusals_total{quota="principal-topics"} 2.0' in page
    # What is deleted makes room, whoever deletes it.
    delete = types.DeleteTopicRequest(topic=f"{PROJECT}/topics/t-1")
    from google.protobuf.empty_pb2 import Empty

    await guarded.call(f"{PUBLISHER}/DeleteTopic", delete, Empty)
    assert await create("t-1") == "OK"
    assert await create("t-4") == "RESOURCE_EXHAUSTED"
