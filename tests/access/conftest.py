"""Servers that authenticate, and callers with a credential each."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message as Protobuf

from fanlog.broker import bootstrap
from fanlog.broker.clock import Clock
from fanlog.config import Config
from fanlog.server.app import Server, running
from fanlog.v1 import auth_pb2 as pb

PROJECT = "projects/shop"


@dataclass(frozen=True)
class Answer:
    """Of HTTP."""

    status: int
    headers: Message
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


def _answer(request: urllib.request.Request) -> Answer:
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return Answer(answer.status, answer.headers, answer.read().decode())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Answer(refusal.code, refusal.headers, refusal.read().decode())


@dataclass
class Guarded:
    """A server that authenticates, and its administrator's token."""

    server: Server
    folder: Path
    channel: grpc.aio.Channel

    @property
    def admin(self) -> str:
        path = bootstrap.token_path(self.folder, bootstrap.ADMINISTRATOR)
        return path.read_text().strip()

    async def call(
        self, method: str, request: Protobuf, answer: type[Any], token: str | None = ""
    ) -> Any:
        """Call as the administrator, or with another token; None shows nothing."""
        shown = self.admin if token == "" else token
        metadata = () if shown is None else (("authorization", f"Bearer {shown}"),)
        verb = self.channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return await verb(request, metadata=metadata, timeout=20)

    async def code(self, *args: Any, **kwargs: Any) -> str:
        """The name of the status that a call ends with."""
        try:
            await self.call(*args, **kwargs)
        except grpc.aio.AioRpcError as error:
            return str(error.code().name)
        return "OK"

    async def http(
        self,
        method: str,
        path: str,
        body: object = None,
        token: str | None = "",
        *,
        kind: str = "application/json",
    ) -> Answer:
        """As `call`, over REST; a refusal is an answer."""
        shown = self.admin if token == "" else token
        headers = {"content-type": kind} if body is not None else {}
        if shown is not None:
            headers["authorization"] = f"Bearer {shown}"
        request = urllib.request.Request(
            f"http://{self.server.http_endpoint}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers=headers,
            method=method,
        )
        return await asyncio.to_thread(_answer, request)

    async def token(self, account: str) -> str:
        asked = pb.CreateTokenRequest(account=account)
        return str((await self.call(f"{AUTH}/CreateToken", asked, pb.CreateTokenResponse)).token)

    async def policy(self, resource: str) -> Any:
        """The policy of the server or a project."""
        asked = pb.GetPolicyRequest(resource=resource)
        return await self.call(f"{AUTH}/GetPolicy", asked, pb.AccessPolicy)

    async def set_policy(self, resource: str, policy: Any) -> None:
        change = pb.SetPolicyRequest(resource=resource, policy=policy)
        await self.call(f"{AUTH}/SetPolicy", change, pb.AccessPolicy)

    async def take_away(self, resource: str, member: str) -> None:
        """Take all roles from a member, on the server or a project."""
        policy = await self.policy(resource)
        kept = [one for one in policy.bindings if list(one.members) != [member]]
        assert len(kept) < len(policy.bindings)
        del policy.bindings[:]
        policy.bindings.extend(kept)
        await self.set_policy(resource, policy)

    async def grant(self, resource: str, role: str, member: str) -> None:
        """Give a member a role on the server, a project or a resource."""
        if resource == "server" or resource.count("/") == 1:
            policy = await self.policy(resource)
            policy.bindings.add(role=role, members=[member])
            await self.set_policy(resource, policy)
            return
        from google.iam.v1 import iam_policy_pb2, policy_pb2

        binding = policy_pb2.Binding(role=role, members=[member])
        request = iam_policy_pb2.SetIamPolicyRequest(
            resource=resource, policy=policy_pb2.Policy(bindings=[binding])
        )
        await self.call("google.iam.v1.IAMPolicy/SetIamPolicy", request, policy_pb2.Policy)

    def member(self, account: str) -> str:
        return f"serviceAccount:{account}@{self.server.broker.accounts.server_id}.fanlog.internal"


AUTH = "fanlog.v1.Auth"
Start = Callable[..., Awaitable[Guarded]]


@asynccontextmanager
async def serving(
    folder: Path, clock: Clock | None = None, **settings: Any
) -> AsyncIterator[Guarded]:
    """A server whose tokens are in a folder; in memory, unless a data folder is given."""
    given = {"memory": "data_dir" not in settings, "auth_dir": folder} | settings
    config = Config(port=0, http_port=None, auth="required", drain_s=0.2, **given)
    async with (
        running(config, clock=clock) as server,
        grpc.aio.insecure_channel(server.endpoint) as channel,
    ):
        yield Guarded(server, given["auth_dir"], channel)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Start servers: `await start(**settings)`."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> Guarded:
            return await stack.enter_async_context(serving(tmp_path / "auth", **settings))

        yield make


@pytest.fixture
async def guarded(start: Start) -> Guarded:
    return await start()
