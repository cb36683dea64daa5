"""The owner's gate sees the caller behind the node: its token, certificate and connection."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from starlette.applications import Starlette
from starlette.routing import Mount

from access.conftest import AUTH, PROJECT, Guarded, _answer, serving
from access.test_callers import PUBLISHER, SUBSCRIBER, SUBSCRIPTION, TOPIC, make, publish
from fanlog.broker.clock import SystemClock
from fanlog.config import Config
from fanlog.model.rates import parse_rates
from fanlog.server import grpc_api
from fanlog.server.access_control import AccessControl
from fanlog.server.http_api import rest_app
from fanlog.server.live_page import live_route
from fanlog.server.services import SERVICES
from fanlog.transport.tls import Tls, TlsFiles
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types
from links.nodes import Node, backend, running_nodes, until
from transport.certificates import Authority


class World:
    """A server that authenticates, served by an owner; and a node that forwards to it."""

    def __init__(self, guarded: Guarded, access: AccessControl, owner: Node, other: Node) -> None:
        self.guarded = guarded
        self.access = access
        self.owner = owner
        self.other = other

    async def http(self, path: str, body: Any, token: str | None, **headers: str) -> Any:
        shown = {} if token is None else {"authorization": f"Bearer {token}"}
        request = urllib.request.Request(
            self.other.url(path),
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"} | shown | headers,
        )
        return await asyncio.to_thread(_answer, request)

    def audit(self) -> list[dict[str, Any]]:
        text = (self.guarded.folder / "audit.log").read_text()
        return [json.loads(line) for line in text.splitlines()]


Start = Callable[..., Awaitable[World]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(tls: Tls | None = None, **settings: Any) -> World:
            guarded = await stack.enter_async_context(serving(tmp_path / "auth"))
            broker = guarded.server.broker
            config = Config(memory=True, auth="required", auth_dir=tmp_path / "auth", **settings)
            access = AccessControl(config, broker, SystemClock())
            stack.callback(access.close)
            forms = list(grpc_api.method_forms(SERVICES))
            owner, other = Node("owner", forms), Node("other", forms, tls=tls)
            await stack.enter_async_context(running_nodes(owner, other))
            live = live_route(broker, config, access.gate)
            rest = Mount("/v1", app=rest_app(broker, config, access.gate))
            app = Starlette(routes=[live, rest])
            methods = grpc_api.make_methods(SERVICES, broker, access.gate)
            owner.gateway.serve_locally(backend(methods, app))
            other.gateway.forward_to(owner.card)
            if tls is None:
                guarded.channel = await stack.enter_async_context(
                    grpc.aio.insecure_channel(other.endpoint)
                )
            return World(guarded, access, owner, other)

        yield begin


async def test_a_token_is_looked_at_by_the_owner(start):
    world = await start()
    guarded = world.guarded
    await make(guarded)
    assert await publish(guarded, "") == "OK"
    assert await publish(guarded, None) == "UNAUTHENTICATED"
    assert await publish(guarded, "flt_wrong") == "UNAUTHENTICATED"
    token = await guarded.token("ci")
    assert await publish(guarded, token) == "PERMISSION_DENIED"
    await guarded.grant(TOPIC, "roles/pubsub.publisher", guarded.member("ci"))
    assert await publish(guarded, token) == "OK"
    body = {"messages": [{"data": "eA=="}]}
    path = f"/v1/{TOPIC}:publish"
    assert [(await world.http(path, body, one)).status for one in (token, None, "flt_x")] == [
        *(200, 401, 401)
    ]
    refused = await world.http("/v1/projects/shop/topics/other:publish", body, token)
    assert refused.status == 403
    assert "lacks the permission" in refused.json["error"]["message"]


async def test_a_stream_ends_when_its_token_is_revoked(start):
    world = await start()
    guarded = world.guarded
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant(PROJECT, "roles/pubsub.subscriber", guarded.member("ci"))
    stream = guarded.channel.stream_stream(f"/{SUBSCRIBER}/StreamingPull")(
        metadata=(("authorization", f"Bearer {token}"),)
    )
    first = types.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10)
    await stream.write(first.SerializeToString())
    await until(lambda: world.guarded.server.broker.metrics.streams == 1)
    account = await guarded.call(f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account)
    revoke = pb.RevokeTokenRequest(account="ci", token_id=account.tokens[0].id)
    await guarded.call(f"{AUTH}/RevokeToken", revoke, pb.Account)
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        async with asyncio.timeout(20):
            await stream.read()
    assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert await publish(guarded, token) == "UNAUTHENTICATED"


async def test_live_numbers_come_through_a_node_until_their_token_is_revoked(start):
    world = await start()
    guarded = world.guarded
    await make(guarded)
    token = await guarded.token("ci")
    await guarded.grant("server", "roles/fanlog.operator", guarded.member("ci"))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.other.port, limit=1 << 20)
    shown = f"authorization: Bearer {token}"
    writer.write(f"GET /v1/live HTTP/1.1\r\nhost: localhost\r\n{shown}\r\n\r\n".encode())
    async with asyncio.timeout(20):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"200" in head.split(b"\r\n")[0]
        assert b"text/event-stream" in head
        for _ in range(2):
            await reader.readuntil(b"data: {")
        account = await guarded.call(
            f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account
        )
        revoke = pb.RevokeTokenRequest(account="ci", token_id=account.tokens[0].id)
        await guarded.call(f"{AUTH}/RevokeToken", revoke, pb.Account)
        rest = await reader.readuntil(b"0\r\n\r\n")
    assert b"event: end" in rest
    assert b"UNAUTHENTICATED" in rest
    writer.close()


async def test_the_audit_log_has_the_callers_address_and_no_other(start):
    world = await start()
    await make(world.guarded)
    lying = (("x-forwarded-for", "10.9.9.9"),)
    verb = world.guarded.channel.unary_unary(f"/{PUBLISHER}/DeleteTopic")
    request = types.DeleteTopicRequest(topic=TOPIC).SerializeToString()
    await verb(request, metadata=(*lying, ("authorization", f"Bearer {world.guarded.admin}")))
    # Over REST, headers in the names of nodes are headers like any other.
    answer = await world.http(
        *(f"/v1/{TOPIC}:publish", {"messages": [{"data": "eA=="}]}, None),
        **{"fanlog-link-address": "10.9.9.9", "fanlog-link-caller": "1"},
    )
    assert answer.status == 401
    found = world.audit()
    assert {one["address"] for one in found} == {"127.0.0.1"}
    methods = [one["method"] for one in found]
    assert methods[-2:] == [f"{PUBLISHER}.DeleteTopic", f"{PUBLISHER}.Publish"]


@pytest.mark.parametrize("surface", ["grpc", "rest"])
async def test_connections_of_callers_are_counted_until_they_are_lost(start, surface):
    """A gate that bounds connections sees those of callers, not the one of the node."""
    world = await start(rates=parse_rates("principal.connections=1"))
    guarded = world.guarded
    async with grpc.aio.insecure_channel(world.other.endpoint) as first:
        guarded.channel = first
        await make(guarded)
        assert await publish(guarded, "") == "OK"
        assert world.owner.link_server.caller_count == 1
        if surface == "rest":
            body = {"messages": [{"data": "eA=="}]}
            path = f"/v1/{TOPIC}:publish"
            answer = await world.http(path, body, guarded.admin)
            assert answer.status == 429
            assert "principal.connections=1" in answer.text
        else:
            options = [("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(world.other.endpoint, options=options) as second:
                guarded.channel = second
                assert await publish(guarded, "") == "RESOURCE_EXHAUSTED"
    await until(lambda: world.owner.link_server.caller_count == 0)
    async with grpc.aio.insecure_channel(world.other.endpoint) as third:
        guarded.channel = third
        assert await publish(guarded, "") == "OK"
        # The link is lost: so are the connections behind it.
        world.other.links.close()
        await until(lambda: world.owner.link_server.caller_count == 0)
        assert not world.access.gate._connections


# Certificates.

EMAIL = x509.RFC822Name("ann@example.com")


async def test_a_certificate_is_looked_at_by_the_owner(start, tmp_path):
    authority = Authority.make("callers")
    ca = authority.write(tmp_path / "ca.pem")
    certificate, key = authority.issue("server", tmp_path)
    files = {"tls_cert": certificate, "tls_key": key, "tls_client_ca": ca}
    world = await start(Tls(TlsFiles(certificate, key, ca)), **files, mtls_name="san-email")
    guarded = world.guarded
    await make(guarded)
    member = "user:ann@example.com"
    mine, my_key = authority.issue("ann", tmp_path, [EMAIL])
    credentials = grpc.ssl_channel_credentials(
        ca.read_bytes(), my_key.read_bytes(), mine.read_bytes()
    )
    inside = guarded.channel
    async with grpc.aio.secure_channel(world.other.endpoint, credentials) as channel:
        guarded.channel = channel
        who = await guarded.call(f"{AUTH}/WhoAmI", pb.WhoAmIRequest(), pb.WhoAmIResponse, None)
        assert who.member == member
        assert await publish(guarded, None) == "PERMISSION_DENIED"
        guarded.channel = inside
        await guarded.grant(PROJECT, "roles/pubsub.publisher", member)
        guarded.channel = channel
        assert await publish(guarded, None) == "OK"
        # A token counts before a certificate, and a wrong one is not mended by it.
        assert await publish(guarded, "flt_wrong") == "UNAUTHENTICATED"
        status, text = await asyncio.to_thread(_post, world, ca, mine, my_key)
        assert (status, list(json.loads(text))) == (200, ["messageIds"])
        guarded.channel = inside
        await guarded.take_away(PROJECT, member)
        guarded.channel = channel
        assert await publish(guarded, None) == "PERMISSION_DENIED"
    guarded.channel = inside


def _post(world: World, ca: Path, certificate: Path, key: Path) -> tuple[int, str]:
    context = ssl.create_default_context(cafile=str(ca))
    context.load_cert_chain(certificate, key)
    request = urllib.request.Request(
        f"https://{world.other.endpoint}/v1/{TOPIC}:publish",
        data=json.dumps({"messages": [{"data": "eA=="}]}).encode(),
        headers={"content-type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()
