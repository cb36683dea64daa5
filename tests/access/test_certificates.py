"""Mutual TLS: the names of certificates become principals, over gRPC and over REST."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509

from access.conftest import AUTH, PROJECT, Guarded, Start
from access.test_callers import PUBLISHER, TOPIC, publish
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types
from transport.certificates import Authority

EMAIL = x509.RFC822Name("ann@example.com")
DNS = x509.DNSName("billing.shop.example")
URI = x509.UniformResourceIdentifier("spiffe://shop.example/billing")


class Party:
    """A client with a certificate, or with none, of a server with TLS."""

    def __init__(
        self, guarded: Guarded, authority: Path, files: tuple[Path, Path] | None = None
    ) -> None:
        chain, key = (None, None) if files is None else [one.read_bytes() for one in files]
        credentials = grpc.ssl_channel_credentials(authority.read_bytes(), key, chain)
        channel = grpc.aio.secure_channel(guarded.server.endpoint, credentials)
        self.over_grpc = replace(guarded, channel=channel)
        self._context = ssl.create_default_context(cafile=str(authority))
        if files is not None:
            self._context.load_cert_chain(*files)

    async def close(self) -> None:
        await self.over_grpc.channel.close()

    async def member(self, token: str | None = None) -> str:
        who = await self.over_grpc.call(
            f"{AUTH}/WhoAmI", pb.WhoAmIRequest(), pb.WhoAmIResponse, token
        )
        return str(who.member)

    async def publish(self) -> str:
        """The status of a publish over gRPC without a token."""
        return await publish(self.over_grpc, None)

    async def publish_over_rest(self) -> tuple[int, str]:
        """The same over REST."""
        return await asyncio.to_thread(self._post)

    def _post(self) -> tuple[int, str]:
        request = urllib.request.Request(
            f"https://{self.over_grpc.server.http_endpoint}/v1/{TOPIC}:publish",
            data=json.dumps({"messages": [{"data": "eA=="}]}).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20, context=self._context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()


class Tls:
    """A server with mutual TLS that has a topic, and its clients."""

    def __init__(self, guarded: Guarded, authority: Authority, folder: Path) -> None:
        self.guarded = guarded
        self._authority = authority
        self._folder = folder
        self.parties: list[Party] = []

    def party(self, name: str, names: Sequence[x509.GeneralName]) -> Party:
        return self._add(self._authority.issue(name, self._folder, names))

    def party_without(self) -> Party:
        return self._add(None)

    def _add(self, files: tuple[Path, Path] | None) -> Party:
        self.parties.append(Party(self.guarded, self._folder / "ca.pem", files))
        return self.parties[-1]


StartTls = Callable[..., Awaitable[tuple[Tls, Guarded]]]


@pytest.fixture
async def start_tls(start: Start, tmp_path: Path) -> AsyncIterator[StartTls]:
    """Start a server with mutual TLS; and its administrator, who shows a token."""
    async with AsyncExitStack() as stack:

        async def make(**settings: Any) -> tuple[Tls, Guarded]:
            authority = Authority.make("the authority")
            ca = authority.write(tmp_path / "ca.pem")
            certificate, key = authority.issue("server", tmp_path)
            guarded = await start(tls_cert=certificate, tls_key=key, tls_client_ca=ca, **settings)
            tls = Tls(guarded, authority, tmp_path)
            # Registered first: parties are closed before the server is.
            stack.push_async_callback(lambda: asyncio.gather(*(p.close() for p in tls.parties)))
            admin = tls.party("admin", [DNS]).over_grpc
            await admin.call(f"{PUBLISHER}/CreateTopic", types.Topic(name=TOPIC), types.Topic)
            return tls, admin

        yield make


@pytest.mark.parametrize(
    ("settings", "member"),
    [
        ({"mtls_name": "san-email"}, "user:ann@example.com"),
        ({"mtls_name": "san-dns"}, "serviceAccount:billing.shop.example@mtls.internal"),
        ({"mtls_name": "san-uri"}, "principal://shop.example/billing"),
        ({"mtls_name": "cn"}, "serviceAccount:billing@mtls.internal"),
        (
            {"mtls_name": "cn", "mtls_domain": "shop.example"},
            "serviceAccount:billing@shop.example",
        ),
    ],
)
async def test_a_certificate_says_who_calls(
    start_tls: StartTls, settings: dict[str, str], member: str
):
    tls, admin = await start_tls(**settings)
    billing = tls.party("billing", [EMAIL, DNS, URI])
    assert await billing.member() == member
    assert await billing.publish() == "PERMISSION_DENIED"
    status, text = await billing.publish_over_rest()
    assert status == 403
    assert member in text
    await admin.grant(PROJECT, "roles/pubsub.publisher", member)
    assert await billing.publish() == "OK"
    status, text = await billing.publish_over_rest()
    assert (status, list(json.loads(text))) == (200, ["messageIds"])


async def test_a_token_counts_before_a_certificate(start_tls: StartTls):
    tls, admin = await start_tls(mtls_name="san-email")
    billing = tls.party("billing", [EMAIL])
    assert await billing.member(admin.admin) == admin.member("admin")
    # A wrong one is not mended by the certificate.
    assert await publish(billing.over_grpc, "flt_wrong") == "UNAUTHENTICATED"


async def test_certificates_that_are_not_believed_let_their_owners_connect(start_tls: StartTls):
    tls, admin = await start_tls(mtls_name="none")
    billing = tls.party("billing", [EMAIL, DNS, URI])
    assert await billing.publish() == "UNAUTHENTICATED"
    assert (await billing.publish_over_rest())[0] == 401
    assert await billing.member(admin.admin) == admin.member("admin")
    # They are anonymous: what everybody may do they may, and no more.
    await admin.grant(TOPIC, "roles/pubsub.publisher", "allAuthenticatedUsers")
    assert await billing.publish() == "UNAUTHENTICATED"
    await admin.grant(TOPIC, "roles/pubsub.publisher", "allUsers")
    assert await billing.publish() == "OK"
    assert (await billing.publish_over_rest())[0] == 200


@pytest.mark.parametrize(
    "names", [[DNS], [EMAIL, x509.RFC822Name("eve@example.com")]], ids=["none", "two"]
)
async def test_certificates_without_one_name_of_the_kind(
    start_tls: StartTls, names: list[x509.GeneralName]
):
    tls, admin = await start_tls(mtls_name="san-email")
    # Not even as everybody: a credential that is wrong is worse than none.
    await admin.grant(TOPIC, "roles/pubsub.publisher", "allUsers")
    odd = tls.party("odd", names)
    assert await odd.publish() == "UNAUTHENTICATED"
    assert (await odd.publish_over_rest())[0] == 401


async def test_without_a_certificate_nobody_connects(start_tls: StartTls):
    tls, _ = await start_tls(mtls_name="san-email")
    stranger = tls.party_without()
    assert await stranger.publish() == "UNAVAILABLE"
    with pytest.raises((urllib.error.URLError, ssl.SSLError, ConnectionError)):
        await stranger.publish_over_rest()
