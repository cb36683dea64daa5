"""Calls that go on, or wait, when the credential that they began with is over or revoked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from joserfc import jwt
from joserfc.jwk import RSAKey

from access.conftest import AUTH, PROJECT, Guarded, serving
from access.test_callers import PUBLISHER, SUBSCRIBER, SUBSCRIPTION, make, publish_request
from fanlog.broker.clock import ManualClock
from fanlog.client.key_files import make_key_pair
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types

LIFE_S = 600


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def guarded(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Guarded]:
    async with serving(tmp_path / "auth", clock) as found:
        await make(found)
        await found.grant(PROJECT, "roles/pubsub.editor", found.member("ci"))
        yield found


async def signed(guarded: Guarded, clock: ManualClock) -> str:
    """A token that an account signed itself, as official clients do."""
    private, public, key_id = make_key_pair()
    await guarded.call(f"{AUTH}/CreateAccount", pb.CreateAccountRequest(name="ci"), pb.Account)
    request = pb.AddKeyRequest(account="ci", public_key=public)
    email = (await guarded.call(f"{AUTH}/AddKey", request, pb.Account)).email
    now_s = int(clock.wall_ns() // 10**9)
    scope = "https://www.googleapis.com/auth/pubsub"
    claims = {"iss": email, "sub": email, "iat": now_s, "exp": now_s + LIFE_S, "scope": scope}
    key = RSAKey.import_key(private)
    return jwt.encode({"alg": "RS256", "kid": key_id}, claims, key)


async def expiring(guarded: Guarded, clock: ManualClock) -> str:
    """An API token that is good for so long."""
    request = pb.CreateTokenRequest(account="ci")
    request.expire_time.CopyFrom(Timestamp(seconds=int(clock.wall_ns() // 10**9) + LIFE_S))
    path = f"{AUTH}/CreateToken"
    return str((await guarded.call(path, request, pb.CreateTokenResponse)).token)


async def open_stream(guarded: Guarded, token: str) -> grpc.aio.StreamStreamCall:
    call = guarded.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(
        metadata=(("authorization", f"Bearer {token}"),)
    )
    asked = types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10)
    await call.write(asked.SerializeToString())
    while not guarded.server.broker.metrics.streams:
        await asyncio.sleep(0.005)
    return call


async def status_of(stream: grpc.aio.StreamStreamCall) -> str:
    """How a stream ends, behind the messages that it still has."""

    async def read_all() -> None:
        while await stream.read() is not grpc.aio.EOF:
            pass

    with suppress(grpc.aio.AioRpcError):
        await asyncio.wait_for(read_all(), 20)
    return str((await stream.code()).name)


@pytest.mark.parametrize(("make_token", "status"), [(signed, "UNAVAILABLE"), (expiring, None)])
async def test_a_stream_whose_credential_is_over(
    guarded: Guarded, clock: ManualClock, make_token, status
):
    """Official clients go on after UNAVAILABLE alone: with the next token of the same key."""
    token = await make_token(guarded, clock)
    stream = await open_stream(guarded, token)
    clock.advance(LIFE_S - 1)
    await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    assert await stream.read() is not grpc.aio.EOF
    clock.advance(62)
    assert await status_of(stream) == (status or "UNAUTHENTICATED")
    # Opened again with the same one, it is refused in either case.
    again = await open_again(guarded, token)
    assert again == "UNAUTHENTICATED"


async def open_again(guarded: Guarded, token: str) -> str:
    pull = types.PullRequest(subscription=SUBSCRIPTION, max_messages=1, return_immediately=True)
    return await guarded.code(f"{SUBSCRIBER}/Pull", pull, types.PullResponse, token)


async def end(guarded: Guarded, way: str) -> None:
    if way == "policy":
        await guarded.take_away(PROJECT, guarded.member("ci"))
        return
    found = await guarded.call(f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account)
    gone = pb.RevokeTokenRequest(account="ci", token_id=found.tokens[0].id)
    await guarded.call(f"{AUTH}/RevokeToken", gone, pb.Account)


async def until_a_pull_waits(guarded: Guarded) -> None:
    while not list(guarded.server.broker.feeds):
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("way", ["token", "policy"])
@pytest.mark.parametrize("surface", ["grpc", "rest"])
async def test_a_pull_that_waits_ends_before_it_has_messages(
    guarded: Guarded, way: str, surface: str
):
    token = await guarded.token("ci")

    async def pull() -> str:
        if surface == "grpc":
            asked = types.PullRequest(subscription=SUBSCRIPTION, max_messages=1)
            return await guarded.code(f"{SUBSCRIBER}/Pull", asked, types.PullResponse, token)
        path = f"/v1/{SUBSCRIPTION}:pull"
        answer = await guarded.http("POST", path, {"maxMessages": 1}, token)
        return str(answer.json["error"]["status"]) if answer.status != 200 else "OK"

    waiting = asyncio.create_task(pull())
    await until_a_pull_waits(guarded)
    await end(guarded, way)
    status = await asyncio.wait_for(waiting, 10)
    assert status == ("PERMISSION_DENIED" if way == "policy" else "UNAUTHENTICATED")
    # Nothing was leased to it: the next consumer has the message at its first attempt.
    await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    asked = types.PullRequest(subscription=SUBSCRIPTION, max_messages=1)
    answer = await guarded.call(f"{SUBSCRIBER}/Pull", asked, types.PullResponse)
    assert len(answer.received_messages) == 1
