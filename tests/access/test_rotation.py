"""A key is replaced while its account publishes and streams: not one call fails."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from access.conftest import AUTH, PROJECT, Guarded, Start
from access.test_callers import PUBLISHER, SUBSCRIBER, SUBSCRIPTION, TOPIC, make, publish_request
from fanlog.client import CallFailed, Client
from fanlog.client.key_files import key_file, make_key_pair
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types

PUBLISHERS = 4
MESSAGE = types.PubsubMessage(data=b"x")


class Keys:
    """The keys of one account, and the key file that its programs read."""

    def __init__(self, guarded: Guarded, path: Path) -> None:
        self._guarded = guarded
        self.path = path

    async def add(self) -> str:
        """Make a key and put it in place of the one in the file; its id."""
        private, public, key_id = await asyncio.to_thread(make_key_pair)
        request = pb.AddKeyRequest(account="ci", public_key=public)
        account = await self._guarded.call(f"{AUTH}/AddKey", request, pb.Account)
        content = key_file(
            email=account.email,
            key_id=key_id,
            private_pem=private,
            token_uri="http://127.0.0.1/oauth2/token",
            project="shop",
        )
        new = self.path.with_suffix(".new")
        new.write_bytes(content)
        os.replace(new, self.path)
        return key_id

    async def revoke(self, key_id: str) -> None:
        request = pb.RevokeKeyRequest(account="ci", key_id=key_id)
        await self._guarded.call(f"{AUTH}/RevokeKey", request, pb.Account)


@pytest.fixture
async def keys(start: Start, tmp_path: Path) -> Keys:
    guarded = await start()
    await make(guarded)
    await guarded.call(f"{AUTH}/CreateAccount", pb.CreateAccountRequest(name="ci"), pb.Account)
    await guarded.grant(PROJECT, "roles/pubsub.editor", guarded.member("ci"))
    return Keys(guarded, tmp_path / "key.json")


async def test_a_key_is_replaced_under_load(keys: Keys):
    endpoint = keys._guarded.server.endpoint
    old = await keys.add()
    counts = [0] * PUBLISHERS
    is_over = threading.Event()

    def press(number: int) -> None:
        with Client(endpoint, credentials=str(keys.path)) as client:
            while not is_over.is_set():
                client.publish(TOPIC, [MESSAGE])
                counts[number] += 1

    async def until_each_published(more: int) -> None:
        wanted = [count + more for count in counts]
        while any(one < two for one, two in zip(counts, wanted, strict=True)):
            # A publisher that failed publishes no more: then this says why.
            for one in working:
                if one.done():
                    one.result()
            await asyncio.sleep(0.005)

    pool = ThreadPoolExecutor(PUBLISHERS)
    working = [pool.submit(press, number) for number in range(PUBLISHERS)]
    try:
        for _ in range(3):
            await until_each_published(10)
            new = await keys.add()
            # Calls that began with the old key have ended; the programs have read the new one.
            await until_each_published(2)
            await keys.revoke(old)
            await until_each_published(10)
            old = new
    finally:
        is_over.set()
        # Not on the loop: it has the server, which they wait for.
        await asyncio.to_thread(pool.shutdown)
    for one in working:
        one.result()
    assert min(counts) >= 3 * 22
    # With the last key revoked, too, nobody publishes: it was the key that let them in.
    await keys.revoke(old)

    def once() -> None:
        with Client(endpoint, credentials=str(keys.path)) as client:
            client.publish(TOPIC, [MESSAGE])

    with pytest.raises(CallFailed) as refused:
        await asyncio.to_thread(once)
    assert refused.value.status == "UNAUTHENTICATED"


async def test_a_stream_lives_as_long_as_the_key_that_it_began_with(keys: Keys):
    """A program opens it again with the new key, as it does when any stream ends."""
    guarded = keys._guarded

    async def stream() -> grpc.aio.StreamStreamCall:
        with Client(guarded.server.endpoint, credentials=str(keys.path)) as client:
            header = client._credentials.authorization()  # type: ignore[union-attr]
        call = guarded.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(
            metadata=(("authorization", header),)
        )
        asked = types.StreamingPullRequest(
            subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10
        )
        await call.write(asked.SerializeToString())
        return call

    async def until_open(count: int) -> None:
        while guarded.server.broker.metrics.streams != count:
            await asyncio.sleep(0.005)

    old = await keys.add()
    first = await stream()
    await until_open(1)
    await keys.add()
    second = await stream()
    await until_open(2)
    await keys.revoke(old)
    assert await first.code() is grpc.StatusCode.UNAUTHENTICATED
    await guarded.call(f"{PUBLISHER}/Publish", publish_request(), types.PublishResponse)
    assert await second.read() is not grpc.aio.EOF
    second.cancel()
