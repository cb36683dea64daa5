"""Tokens of other issuers, each from a server with the pages and the tokens of its kind."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey

from access.conftest import AUTH, PROJECT, Guarded, Start
from access.test_callers import make, publish
from fanlog.auth.issuers import parse_issuers
from fanlog.v1 import auth_pb2 as pb
from transport.certificates import Authority

FANLOG = "https://fanlog.example"


@cache
def _rsa(kid: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": kid, "use": "sig", "alg": "RS256"})


@cache
def _ec(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


def sign(key: RSAKey | ECKey, claims: dict[str, Any], **head: str) -> str:
    shown = key.as_dict()
    header = {"alg": str(shown["alg"]), "kid": str(shown["kid"]), "typ": "JWT"} | head
    return jws.serialize_compact(header, json.dumps(claims).encode(), key)


@dataclass
class Issuer:
    """A server of pages, and what was asked of it."""

    port: int
    scheme: str = "http"
    pages: dict[str, object] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{self.scheme}://localhost:{self.port}"

    def put_keys(self, path: str, *keys: RSAKey | ECKey, **more: object) -> None:
        self.pages[path] = {"keys": [{**key.as_dict(private=False), **more} for key in keys]}


@pytest.fixture
def serve() -> Iterator[Callable[..., Issuer]]:
    """Start issuers; with files of a certificate, over TLS."""
    running: list[tuple[ThreadingHTTPServer, threading.Thread]] = []

    def start(*files: Path) -> Issuer:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found.asked.append(self.path)
                page = found.pages.get(self.path)
                content = json.dumps(page).encode()
                self.send_response(404 if page is None else 200)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if files:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*files)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        found = Issuer(server.server_address[1], "https" if files else "http")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        running.append((server, thread))
        return found

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


async def whoami(guarded: Guarded, token: str) -> tuple[str, list[str]]:
    who = await guarded.call(f"{AUTH}/WhoAmI", pb.WhoAmIRequest(), pb.WhoAmIResponse, token)
    return who.member, list(who.groups)


def times(life_s: int = 600) -> dict[str, int]:
    now_s = int(time.time())
    return {"iat": now_s, "nbf": now_s, "exp": now_s + life_s}


async def test_service_accounts_of_kubernetes(start: Start, serve, tmp_path: Path):
    """A projected token; the cluster's keys by address, and by file as `kubectl` gets them."""
    cluster, key = serve(), _rsa("kubernetes-key-id-of-43-characters-xxxxxxxxx")
    cluster.put_keys("/openid/v1/jwks", key)
    path = tmp_path / "cluster-keys.json"
    path.write_text(json.dumps(cluster.pages["/openid/v1/jwks"]))
    common = {"audiences": ["fanlog"], "kind": "kubernetes", "pool": "prod.svc.id.goog"}
    tables = [
        {"issuer": "https://one.svc", "jwks_url": f"{cluster.url}/openid/v1/jwks"} | common,
        {"issuer": "https://two.svc", "jwks_file": str(path)} | common,
    ]
    guarded = await start(issuers=parse_issuers(tables))
    account = {
        "kubernetes.io": {
            "namespace": "shop",
            "node": {"name": "node-1", "uid": "55b7"},
            "pod": {"name": "billing-0", "uid": "5a1c"},
            "serviceaccount": {"name": "billing", "uid": "14ee"},
        },
        "sub": "system:serviceaccount:shop:billing",
        "jti": "e6a1",
    }
    for issuer in ("https://one.svc", "https://two.svc"):
        token = sign(key, {"iss": issuer, "aud": ["fanlog"], **account, **times()})
        member = "serviceAccount:prod.svc.id.goog[shop/billing]"
        assert await whoami(guarded, token) == (member, [])
    await make(guarded)
    assert await publish(guarded, token) == "PERMISSION_DENIED"
    await guarded.grant(PROJECT, "roles/pubsub.publisher", member)
    assert await publish(guarded, token) == "OK"
    # One that a pod has for the cluster itself.
    for_cluster = sign(key, {"iss": issuer, "aud": [issuer], **account, **times()})
    assert await publish(guarded, for_cluster) == "UNAUTHENTICATED"
    # Of a person that the cluster knows, which is no service account.
    person = {"iss": issuer, "aud": "fanlog", "sub": "system:masters"}
    assert await publish(guarded, sign(key, person | times())) == "UNAUTHENTICATED"


async def test_keycloak(start: Start, serve):
    """A realm with its discovery page, a key for encryption beside that for signatures, groups."""
    keycloak, key = serve(), _rsa("keycloak")
    realm = f"{keycloak.url}/realms/shop"
    certs = "/realms/shop/protocol/openid-connect/certs"
    encryption = RSAKey.generate_key(2048, {"kid": "e", "use": "enc", "alg": "RSA-OAEP"})
    keycloak.put_keys(certs, encryption, key)
    keycloak.pages["/realms/shop/.well-known/openid-configuration"] = {
        "issuer": realm,
        "jwks_uri": f"{keycloak.url}{certs}",
        "token_endpoint": f"{realm}/protocol/openid-connect/token",
    }
    table = {
        "issuer": realm,
        "audiences": ["fanlog"],
        "principal_claim": "preferred_username",
        "groups_claim": "groups",
    }
    guarded = await start(issuers=parse_issuers([table]))
    claims = {
        "iss": realm,
        "aud": ["fanlog", "account"],
        "azp": "shop-web",
        "typ": "Bearer",
        "sub": "f3b2",
        "sid": "9c0d",
        "acr": "1",
        "scope": "openid profile",
        "preferred_username": "ann",
        "groups": ["/ops", "/team/dev"],
        "realm_access": {"roles": ["offline_access"]},
    }
    token = sign(key, claims | times())
    groups = ["group:ops@localhost", "group:team.dev@localhost"]
    assert await whoami(guarded, token) == ("user:ann@localhost", groups)
    await make(guarded)
    # A group's members may do what the group may.
    assert await publish(guarded, token) == "PERMISSION_DENIED"
    await guarded.grant(PROJECT, "roles/pubsub.publisher", groups[0])
    assert await publish(guarded, token) == "OK"
    other = sign(key, claims | times() | {"groups": ["/team"]})
    assert await publish(guarded, other) == "PERMISSION_DENIED"


async def test_github_actions(start: Start, serve):
    github, key = serve(), _rsa("github")
    github.put_keys("/.well-known/jwks", key, x5t="8ZyQ")
    issuer = "https://token.actions.githubusercontent.com"
    table = {
        "issuer": issuer,
        "audiences": [FANLOG],
        "kind": "principal",
        "jwks_url": f"{github.url}/.well-known/jwks",
    }
    guarded = await start(issuers=parse_issuers([table]))
    claims = {
        "iss": issuer,
        "aud": FANLOG,
        "sub": "repo:acme/shop:ref:refs/heads/main",
        "repository": "acme/shop",
        "ref": "refs/heads/main",
        "actor": "ann",
        "run_id": "7",
        "job_workflow_ref": "acme/shop/.github/workflows/ci.yml@refs/heads/main",
    }
    token = sign(key, claims | times(300), x5t="8ZyQ")
    host, subject = (
        "token.actions.githubusercontent.com",
        "repo%3Aacme%2Fshop%3Aref%3Arefs%2Fheads%2Fmain",
    )
    assert await whoami(guarded, token) == (f"principal://{host}/subject/{subject}", [])


async def test_id_tokens_of_google(start: Start, serve, tmp_path: Path):
    """Its keys over TLS, from a server whose authority is named; they change every day."""
    authority = Authority.make("issuers")
    google = serve(*authority.issue("google", tmp_path))
    google.put_keys("/oauth2/v3/certs", _rsa("today"))
    issuer = "https://accounts.google.com"
    table = {
        "issuer": issuer,
        "audiences": [FANLOG],
        "groups_claim": "hd",
        "jwks_url": f"{google.url}/oauth2/v3/certs",
        "ca_file": str(authority.write(tmp_path / "ca.pem")),
    }
    guarded = await start(issuers=parse_issuers([table]))
    claims = {
        "iss": issuer,
        "aud": FANLOG,
        "azp": "32555940559.apps.googleusercontent.com",
        "sub": "1103",
        "email": "ann@example.com",
        "email_verified": True,
        "hd": "example.com",
    }
    assert (await whoami(guarded, sign(_rsa("today"), claims | times())))[
        0
    ] == "user:ann@example.com"
    await make(guarded)
    await guarded.grant(PROJECT, "roles/pubsub.publisher", "user:ann@example.com")
    unverified = sign(_rsa("today"), claims | times() | {"email_verified": False})
    assert await publish(guarded, unverified) == "UNAUTHENTICATED"
    # Signed by somebody else under the id of a key that is known, or of one that nobody has.
    for forger in (_rsa("forger"), _ec("forger")):
        forged = sign(forger, claims | times(), kid="today")
        assert await publish(guarded, forged) == "UNAUTHENTICATED"
    unknown = [sign(_rsa("forger"), claims | times(), kid=f"made-up-{n}") for n in range(5)]
    codes = await asyncio.gather(*(publish(guarded, one) for one in unknown))
    assert codes == ["UNAUTHENTICATED"] * 5
    # Ids that are made up do not have the keys fetched again and again.
    assert google.asked == ["/oauth2/v3/certs"]


async def test_clocks_may_differ_by_a_minute(start: Start, serve):
    issuer = serve()
    issuer.put_keys("/keys", _ec("k"))
    table = {
        "issuer": issuer.url,
        "audiences": ["fanlog"],
        "principal_claim": "sub",
        "jwks_url": f"{issuer.url}/keys",
    }
    guarded = await start(issuers=parse_issuers([table]))
    now_s = int(time.time())
    for shift_s, is_believed in ((-30, True), (-90, False), (30, True), (90, False)):
        # Ended, or issued in the future, by so much.
        ends_s = now_s + shift_s if shift_s < 0 else now_s + 600
        claims = {"iss": issuer.url, "aud": "fanlog", "sub": "ann", "exp": ends_s}
        claims |= {"iat": now_s + max(0, shift_s)}
        found = await guarded.code(
            *(f"{AUTH}/WhoAmI", pb.WhoAmIRequest(), pb.WhoAmIResponse),
            sign(_ec("k"), claims),
        )
        assert found == ("OK" if is_believed else "UNAUTHENTICATED"), shift_s
