"""Forwards and dead letters: published with the rights of the server's own account for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.empty_pb2 import Empty

from access.conftest import AUTH, PROJECT, Guarded, serving
from access.test_callers import PUBLISHER, SUBSCRIBER
from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types

SOURCE, TARGET = f"{PROJECT}/topics/orders", f"{PROJECT}/topics/archive"
MOVED, READER = f"{PROJECT}/subscriptions/moved", f"{PROJECT}/subscriptions/reader"
ATTEMPTS = 5


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def guarded(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Guarded]:
    async with serving(tmp_path, clock) as server:
        yield server


async def make(guarded: Guarded, **settings: Any) -> None:
    """A subscription that moves messages on, and one that reads where they come to."""
    for topic in (SOURCE, TARGET):
        await guarded.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=topic), types.Topic)
    moved = types.Subscription(name=MOVED, topic=SOURCE, **settings)
    reader = types.Subscription(name=READER, topic=TARGET)
    for one in (moved, reader):
        await guarded.call(f"{SUBSCRIBER}/CreateSubscription", one, types.Subscription)


async def publish(guarded: Guarded, *data: bytes) -> None:
    messages = [types.PubsubMessage(data=one) for one in data]
    request = types.PublishRequest(topic=SOURCE, messages=messages)
    await guarded.call(f"{PUBLISHER}/Publish", request, types.PublishResponse)


async def pull(guarded: Guarded, name: str) -> list[Any]:
    request = types.PullRequest(subscription=name, max_messages=100, return_immediately=True)
    answer = await guarded.call(f"{SUBSCRIBER}/Pull", request, types.PullResponse)
    return list(answer.received_messages)


async def await_that(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():
            await asyncio.sleep(0.01)


async def await_read(guarded: Guarded, count: int) -> list[bytes]:
    """What the reader gets and acknowledges, until it is so much."""
    found: list[bytes] = []

    async def have_come() -> bool:
        received = await pull(guarded, READER)
        request = types.AcknowledgeRequest(
            subscription=READER, ack_ids=[one.ack_id for one in received]
        )
        if received:
            await guarded.call(f"{SUBSCRIBER}/Acknowledge", request, Empty)
        found.extend([one.message.data for one in received])
        return len(found) >= count

    await await_that(have_come)
    return found


async def shown(guarded: Guarded) -> tuple[Any, str]:
    """The subscription that moves messages on, and the hints beside it."""
    path = f"/{SUBSCRIBER}/GetSubscription"
    verb = guarded.channel.unary_unary(path, response_deserializer=types.Subscription.FromString)
    request = types.GetSubscriptionRequest(subscription=MOVED).SerializeToString()
    call = verb(request, metadata=(("authorization", f"Bearer {guarded.admin}"),))
    answer = await call
    hints = [value for key, value in await call.trailing_metadata() if key == "fanlog-hint"]
    return answer, " ".join(map(str, hints))


def denial(guarded: Guarded) -> str:
    member = guarded.member("forwarding")
    return f"{member} lacks the permission pubsub.topics.publish on {TARGET!r}"


async def test_the_account_has_one_role_and_no_credential(guarded: Guarded):
    account = await guarded.call(
        f"{AUTH}/GetAccount", pb.GetAccountRequest(name="forwarding"), pb.Account
    )
    assert not account.keys
    assert not account.tokens
    assert not (guarded.folder / "forwarding.token").exists()
    policy = await guarded.policy("server")
    roles = [one.role for one in policy.bindings if guarded.member("forwarding") in one.members]
    assert roles == ["roles/pubsub.publisher"]


async def test_forwards_wait_until_the_right_is_given_back(guarded: Guarded, clock: ManualClock):
    letters = types.Topic(name=f"{PROJECT}/topics/letters")
    await guarded.call(f"{PUBLISHER}/CreateTopic", letters, types.Topic)
    await make(
        guarded,
        push_config={"push_endpoint": "topic:archive"},
        dead_letter_policy={"dead_letter_topic": letters.name, "max_delivery_attempts": ATTEMPTS},
    )
    # They might be made, and must not.
    await guarded.grant(letters.name, "roles/pubsub.publisher", guarded.member("forwarding"))
    await publish(guarded, b"before")
    assert await await_read(guarded, 1) == [b"before"]
    await guarded.take_away("server", guarded.member("forwarding"))
    await publish(guarded, b"1", b"2")
    metrics = guarded.server.broker.metrics
    moved = guarded.server.broker.hard.catalog.subscription(MOVED).id
    # More tries than the policy has attempts: a try is none.
    for tries in range(1, ATTEMPTS + 3):

        async def is_kept(count: int = 2 * tries) -> bool:
            return metrics.of(moved).forward_failed == count

        await await_that(is_kept)
        clock.advance(limits.DEAD_LETTER_RETRY_S)
    found, hint = await shown(guarded)
    assert found.state == types.Subscription.State.RESOURCE_ERROR
    assert f"forwarding waits: {denial(guarded)}" in hint
    assert await pull(guarded, READER) == []
    assert metrics.of(moved).dead_lettered == 0
    page = await guarded.http("GET", "/metrics")
    assert f'fanlog_forward_failures_total{{subscription="{MOVED}"}}' in page.text
    # It need not be the whole server.
    await guarded.grant(TARGET, "roles/pubsub.publisher", guarded.member("forwarding"))
    clock.advance(limits.DEAD_LETTER_RETRY_S)
    assert sorted(await await_read(guarded, 2)) == [b"1", b"2"]
    found, hint = await shown(guarded)
    assert found.state == types.Subscription.State.ACTIVE
    assert hint == ""


@pytest.mark.parametrize("endpoint", ["topic:archive", f"topic:{TARGET}"])
async def test_who_sets_a_forward_up_needs_the_right(guarded: Guarded, endpoint: str):
    """Whether the topic's name is full or not."""
    await make(guarded)
    token = await guarded.token("ci")
    for scope in (MOVED, SOURCE):
        await guarded.grant(scope, "roles/pubsub.editor", guarded.member("ci"))
    request = types.ModifyPushConfigRequest(
        subscription=MOVED, push_config={"push_endpoint": endpoint}
    )
    path = f"{SUBSCRIBER}/ModifyPushConfig"
    assert await guarded.code(path, request, Empty, token) == "PERMISSION_DENIED"
    await guarded.grant(TARGET, "roles/pubsub.publisher", guarded.member("ci"))
    assert await guarded.code(path, request, Empty, token) == "OK"


async def nack(guarded: Guarded) -> int:
    """Fail what can be pulled now; how many it was."""
    received = await pull(guarded, MOVED)
    request = types.ModifyAckDeadlineRequest(
        subscription=MOVED, ack_ids=[one.ack_id for one in received], ack_deadline_seconds=0
    )
    if received:
        await guarded.call(f"{SUBSCRIBER}/ModifyAckDeadline", request, Empty)
    return len(received)


async def test_dead_letters_wait_until_the_right_is_given_back(
    guarded: Guarded, clock: ManualClock
):
    policy = {"dead_letter_topic": TARGET, "max_delivery_attempts": ATTEMPTS}
    await make(guarded, dead_letter_policy=policy)
    await guarded.take_away("server", guarded.member("forwarding"))
    await publish(guarded, b"1", b"2")
    for _ in range(ATTEMPTS):
        assert await nack(guarded) == 2
    metrics = guarded.server.broker.metrics
    moved = guarded.server.broker.hard.catalog.subscription(MOVED).id

    async def is_kept() -> bool:
        return metrics.of(moved).dead_letter_failed == 2

    await await_that(is_kept)
    _, hint = await shown(guarded)
    assert f"dead letters wait: {denial(guarded)}" in hint
    assert await pull(guarded, READER) == []
    await guarded.grant(PROJECT, "roles/pubsub.publisher", guarded.member("forwarding"))
    assert (await shown(guarded))[1] == ""
    # Delivered once more, as when their topic was gone.
    clock.advance(limits.DEAD_LETTER_RETRY_S)
    assert await nack(guarded) == 2
    assert sorted(await await_read(guarded, 2)) == [b"1", b"2"]
    assert await pull(guarded, MOVED) == []


async def test_who_sets_it_up_is_told_that_it_waits(guarded: Guarded):
    for topic in (SOURCE, TARGET):
        await guarded.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=topic), types.Topic)
    await guarded.take_away("server", guarded.member("forwarding"))
    path = f"/{SUBSCRIBER}/CreateSubscription"
    wanted = types.Subscription(
        name=MOVED, topic=SOURCE, dead_letter_policy={"dead_letter_topic": TARGET}
    )
    verb = guarded.channel.unary_unary(path, response_deserializer=types.Subscription.FromString)
    call = verb(
        wanted.SerializeToString(), metadata=(("authorization", f"Bearer {guarded.admin}"),)
    )
    await call
    hints = [value for key, value in await call.trailing_metadata() if key == "fanlog-hint"]
    assert f"dead letters wait: {denial(guarded)}" in hints


async def test_older_folders_get_the_account_and_narrowed_ones_stay_so(tmp_path: Path):
    given = {"data_dir": tmp_path / "data"}
    async with serving(tmp_path / "auth", **given) as guarded:
        member = guarded.member("forwarding")
        # As a folder from before there was the account.
        await guarded.take_away("server", member)
        asked = pb.DeleteAccountRequest(name="forwarding")
        await guarded.call(f"{AUTH}/DeleteAccount", asked, pb.DeleteAccountResponse)
        denied = guarded.server.broker.forward_denial(guarded.server.broker.hard, TARGET)
        assert "forwarding@" in denied
        assert "does not exist" in denied
    async with serving(tmp_path / "auth", **given) as guarded:
        assert any(member in one.members for one in (await guarded.policy("server")).bindings)
        assert guarded.server.broker.forward_denial(guarded.server.broker.hard, TARGET) == ""
        await guarded.take_away("server", member)
    async with serving(tmp_path / "auth", **given) as guarded:
        assert not any(member in one.members for one in (await guarded.policy("server")).bindings)
        assert guarded.server.broker.forward_denial(guarded.server.broker.hard, TARGET) != ""
