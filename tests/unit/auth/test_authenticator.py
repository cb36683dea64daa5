"""Credentials that are believed, and those that are not; keys and tokens of real libraries."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import math
import threading
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.oauth2 import service_account
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import RSAKey

from fanlog.auth import slowdown
from fanlog.auth.authenticator import Authenticator, AuthSettings
from fanlog.auth.exchange import Exchange
from fanlog.auth.issuers import Issuer, parse_issuers
from fanlog.broker.clock import ManualClock
from fanlog.client.key_files import key_file, make_key_pair
from fanlog.errors import RateExceeded, Unauthenticated
from fanlog.model.identity import (
    AccountKey,
    ApiToken,
    Principal,
    ServiceAccount,
    account_email,
    token_digest,
)

SERVER_ID = "0123456789abcdef"
EMAIL = account_email("ci", SERVER_ID)
AUDIENCE = "https://pubsub.googleapis.com/"
SCOPE = "https://www.googleapis.com/auth/pubsub"
ISSUER = "https://issuer.example"


def pair(number: int = 0) -> tuple[str, str, str]:
    """Private half, public half and id of a key; each is made once."""
    return _pair(number)


@cache
def _pair(_: int) -> tuple[str, str, str]:
    return make_key_pair()


class Accounts:
    def __init__(self, *accounts: ServiceAccount) -> None:
        self.server_id = SERVER_ID
        self.version = 1
        self.accounts = {one.email: one for one in accounts}

    def put(self, account: ServiceAccount) -> None:
        self.accounts[account.email] = account
        self.version += 1

    def account(self, email: str) -> ServiceAccount | None:
        return self.accounts.get(email)

    def token_owner(self, digest: str) -> tuple[ServiceAccount, ApiToken] | None:
        for account in self.accounts.values():
            for token in account.tokens:
                if token.digest == digest:
                    return account, token
        return None


class World:
    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        key = AccountKey(id=pair()[2], public=pair()[1], created_s=0.0)
        self.account = ServiceAccount(id=1, name="ci", email=EMAIL, created_s=0.0, keys=(key,))
        self.accounts = Accounts(self.account)
        self.pauses: list[float] = []
        self.documents: dict[str, object] = {}
        self.fetched: list[str] = []
        self._may_end = threading.Event()
        self._may_end.set()
        self.authenticator = Authenticator(
            self.accounts,
            AuthSettings(**settings),
            self.clock,
            lambda: b"secret",
            fetch=self._fetch,
            pause=self._pause,
        )
        self.exchange = Exchange(self.authenticator, self.clock, lambda: b"secret")

    async def _pause(self, _: object, seconds: float) -> None:
        self.pauses.append(seconds)

    def hold(self) -> None:
        """Let no fetch end until `let_go`."""
        self._may_end.clear()

    def let_go(self) -> None:
        self._may_end.set()

    def _fetch(self, url: str) -> bytes:
        self.fetched.append(url)
        assert self._may_end.wait(10)
        if url not in self.documents:
            raise OSError("nothing is there")
        return json.dumps(self.documents[url]).encode()

    @property
    def now_s(self) -> int:
        return int(self.clock.wall_ns() // 10**9)

    def claims(self, **changes: Any) -> dict[str, Any]:
        found = {
            "iss": EMAIL,
            "sub": EMAIL,
            "aud": AUDIENCE,
            "iat": self.now_s,
            "exp": self.now_s + 3_600,
        } | changes
        return {name: value for name, value in found.items() if value is not None}

    async def who(self, token: str, address: str = "192.0.2.1") -> str:
        header = f"Bearer {token}"
        known = self.authenticator.known(header)
        found = known or await self.authenticator.authenticate(header, address, None)
        return found.member

    async def reason(self, token: str, address: str = "192.0.2.1") -> str:
        """Why a token is not believed; every refusal has the one sentence."""
        before = self.authenticator.failures.copy()
        with pytest.raises(Unauthenticated, match="could not be authenticated"):
            await self.who(token, address)
        [reason] = self.authenticator.failures - before
        return reason


def sign(
    claims: dict[str, Any], key: int = 0, head: dict[str, Any] | None = None, kid: str | None = None
) -> str:
    private, _, key_id = pair(key)
    header = {"alg": "RS256", "kid": key_id if kid is None else kid} | (head or {})
    return jws.serialize_compact(header, json.dumps(claims).encode(), RSAKey.import_key(private))


def raw(head: dict[str, Any], claims: dict[str, Any] | bytes, signature: bytes = b"x") -> str:
    body = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    parts = [json.dumps(head).encode(), body, signature]
    return ".".join(base64.urlsafe_b64encode(one).rstrip(b"=").decode() for one in parts)


@pytest.fixture
def world() -> World:
    return World()


class TestServiceAccounts:
    @pytest.mark.parametrize(
        "claims",
        [
            {},
            {"aud": None, "scope": f"openid {SCOPE}"},
            # Go's library.
            {"aud": "", "scope": SCOPE},
        ],
    )
    async def test_a_token_that_the_account_signed(self, world: World, claims: dict[str, Any]):
        token = sign(world.claims(**claims))
        assert await world.who(token) == f"serviceAccount:{EMAIL}"
        assert await world.who(token) == f"serviceAccount:{EMAIL}"
        assert world.authenticator.successes == 1

    @pytest.mark.parametrize(
        ("claims", "reason"),
        [
            ({"exp": 1}, "the token has expired"),
            ({"exp": None}, "the claim exp is missing"),
            ({"exp": "soon"}, "the claim exp is no time"),
            ({"exp": True}, "the claim exp is no time"),
            ({"iat": 2e9}, "the claim iat is in the future"),
            ({"nbf": 2e9}, "the claim nbf is in the future"),
            ({"iat": None}, "the token does not say when it was issued, or lasts too long"),
            ({"exp": 1.9e9}, "the token does not say when it was issued, or lasts too long"),
            ({"aud": "https://other.example/"}, "the token is for another audience"),
            ({"aud": None}, "the token has neither an audience nor a scope of Pub/Sub"),
            ({"aud": None, "scope": "email"}, "the token has neither an audience nor a scope"),
            ({"aud": "", "scope": ""}, "the token has neither an audience nor a scope"),
            (
                {"aud": "https://other.example/", "scope": SCOPE},
                "the token is for another audience",
            ),
            ({"aud": 7}, "the claim aud is no text"),
            ({"sub": "other@example.com"}, "the token's issuer and subject differ"),
            ({"iss": account_email("ci", "f" * 16), "sub": None}, "no such account"),
            ({"iss": None}, "the claim iss is missing, or no text"),
        ],
    )
    async def test_claims_that_are_not_believed(self, world: World, claims, reason):
        assert (await world.reason(sign(world.claims(**claims)))).startswith(reason)

    async def test_tokens_for_an_address_of_this_server(self):
        world = World(hosts=frozenset({"broker.example"}))
        for audience in ("https://broker.example:8085/", "https://broker.example/google.x.Y"):
            assert await world.who(sign(world.claims(aud=audience)))
        for audience in ("http://broker.example/", "https://other.example", "https://[", "x"):
            token = sign(world.claims(aud=audience))
            assert await world.reason(token) == "the token is for another audience"
        # Asked for by a token that is exchanged, it is an assertion and opens nothing by itself.
        assertion = sign(world.claims(aud="https://broker.example/oauth2/token"))
        assert await world.reason(assertion) == "the token is for another audience"

    async def test_keys_that_are_not_believed(self, world: World):
        good = world.claims()
        assert await world.reason(sign(good, kid="0" * 40)) == "the account has no such key"
        # Signed with another key under the id of a good one.
        assert await world.reason(sign(good, key=1, kid=pair()[2])) == "the signature is wrong"

    async def test_algorithms_that_are_not_believed(self, world: World):
        head = {"alg": "none", "kid": pair()[2]}
        assert await world.reason(raw(head, world.claims(), b"")) == "the algorithm is not allowed"
        head["alg"] = "HS256"
        text = raw(head, world.claims()).rpartition(".")[0]
        mac = hmac.digest(pair()[1].encode(), text.encode(), "sha256")
        forged = raw(head, world.claims(), mac)
        assert await world.reason(forged) == "the algorithm is not allowed"

    @pytest.mark.parametrize("name", ["crit", "jwk", "jku", "x5u", "x5c", "b64"])
    async def test_heads_that_choose_their_own_key(self, world: World, name: str):
        token = raw({"alg": "RS256", "kid": pair()[2], name: "x"}, world.claims())
        assert await world.reason(token) == f"the head has {name}"

    async def test_texts_that_are_no_tokens(self, world: World):
        good = sign(world.claims())
        doubled = b'{"iss": "a", "iss": "b"}'
        assert await world.reason(raw({"alg": "RS256"}, doubled)) == "the claims cannot be read"
        assert await world.reason("a.b") == "the token has not three parts"
        assert await world.reason(good + "=") == "the signature is not base64"
        assert await world.reason("x" * 20_000) == "the token is too long"
        assert await world.reason("flt_wrong") == "no such token"
        assert await world.reason("fla_wrong") == "the access token cannot be read"

    async def test_revoking_and_expiry_reach_a_token_that_is_known(self, world: World):
        token = sign(world.claims())
        await world.who(token)
        found = world.authenticator.known(f"Bearer {token}")
        assert found is not None
        assert world.authenticator.standing(found) == "good"
        world.accounts.put(replace(world.account, keys=()))
        assert world.authenticator.standing(found) == "revoked"
        assert await world.reason(token) == "the account has no such key"
        ended = replace(world.account.keys[0], expires_s=world.now_s - 1.0)
        world.accounts.put(replace(world.account, keys=(ended,)))
        assert world.authenticator.standing(found) == "revoked"
        assert await world.reason(token) == "the key has expired"
        world.accounts.put(world.account)
        await world.who(token)
        world.clock.advance(3_600 + 61)
        # The key is good still: its owner goes on with another token.
        assert world.authenticator.standing(found) == "over"
        assert await world.reason(token) == "the token has expired"

    async def test_what_has_expired_for_good(self, world: World):
        """An API token cannot be made anew by its owner; nor is a certificate on a connection."""
        token = ApiToken(id="t", digest=token_digest("flt_x"), created_s=0.0, expires_s=2.0)
        world.accounts.put(replace(world.account, tokens=(token,)))
        held = Principal(member=world.account.member, credential="token t", expires_s=2.0)
        shown = Principal(member="user:ann@example.com", credential="certificate", expires_s=2.0)
        foreign = Principal(member="user:ann@example.com", credential="issuer x", expires_s=2.0)
        assert [world.authenticator.standing(one) for one in (held, shown, foreign)] == [
            *("revoked", "revoked", "over")
        ]

    async def test_keys_are_rotated_without_a_gap(self, world: World):
        both = (*world.account.keys, AccountKey(id=pair(1)[2], public=pair(1)[1], created_s=0.0))
        old, new = sign(world.claims()), sign(world.claims(), key=1)
        world.accounts.put(replace(world.account, keys=both))
        assert await world.who(old) == await world.who(new)
        world.accounts.put(replace(world.account, keys=both[1:]))
        assert await world.who(new)
        assert await world.reason(old) == "the account has no such key"

    @pytest.mark.parametrize("way", ["scope", "audience"])
    async def test_the_official_library_signs_with_the_file(self, way: str):
        """Written by our own client, read and used by Google's library: nothing is made by hand."""
        private, public, key_id = make_key_pair()
        content = key_file(
            email=EMAIL,
            key_id=key_id,
            private_pem=private,
            token_uri="http://127.0.0.1:8086/oauth2/token",
            project="shop",
        )
        found = service_account.Credentials.from_service_account_info(
            json.loads(content), scopes=[SCOPE] if way == "scope" else None
        ).with_always_use_jwt_access(True)
        found._create_self_signed_jwt(None if way == "scope" else AUDIENCE)
        found.refresh(None)
        world = World()
        from fanlog.broker.clock import SystemClock

        world.authenticator._clock = SystemClock()
        key = AccountKey(id=key_id, public=public, created_s=0.0)
        world.accounts.put(replace(world.account, keys=(key,)))
        token = found.token.decode() if isinstance(found.token, bytes) else found.token
        assert await world.who(token) == f"serviceAccount:{EMAIL}"


class TestTokens:
    async def test_api_tokens(self, world: World):
        token = ApiToken(id="t", digest=token_digest("flt_good"), created_s=0.0)
        world.accounts.put(replace(world.account, tokens=(token,)))
        assert await world.who("flt_good") == f"serviceAccount:{EMAIL}"
        ended = replace(token, expires_s=world.now_s + 10.0)
        world.accounts.put(replace(world.account, tokens=(ended,)))
        assert await world.who("flt_good")
        world.clock.advance(11)
        assert await world.reason("flt_good") == "the token has expired"

    async def test_an_assertion_is_exchanged(self, world: World):
        assertion = sign(world.claims(aud="http://127.0.0.1:8086/oauth2/token"))
        token, life_s = await world.exchange.grant(assertion, "192.0.2.1")
        assert life_s == 900
        assert await world.who(token) == f"serviceAccount:{EMAIL}"
        # A token for calls is none for the exchange, and the other way round.
        with pytest.raises(Unauthenticated):
            await world.exchange.grant(sign(world.claims()), "192.0.2.1")
        assert await world.reason(assertion) == "the token is for another audience"
        forged = token[:-2] + ("AA" if not token.endswith("AA") else "BB")
        assert await world.reason(forged) == "the access token was not made here"
        world.accounts.put(replace(world.account, keys=()))
        assert await world.reason(token) == "the account has no such key"

    async def test_the_exchange_has_a_rate(self, world: World):
        assertion = sign(world.claims(aud="http://127.0.0.1:8086/oauth2/token"))
        for _ in range(60):
            await world.exchange.grant(assertion, "192.0.2.1")
        with pytest.raises(RateExceeded) as refused:
            await world.exchange.grant(assertion, "192.0.2.1")
        assert 0 < refused.value.retry_after_s <= 60
        world.clock.advance(60)
        await world.exchange.grant(assertion, "192.0.2.1")


class TestFailures:
    async def test_rubbish_uses_up_no_grant_of_its_address(self, world: World):
        for _ in range(100):
            with pytest.raises(Unauthenticated):
                await world.exchange.grant("rubbish", "192.0.2.1")
        claims = world.claims(aud="https://127.0.0.1/oauth2/token")
        assert await world.exchange.grant(sign(claims), "192.0.2.1")

    async def test_failures_alone_are_slowed_down(self, world: World):
        for _ in range(slowdown.FREE):
            await world.reason("flt_wrong")
        assert world.pauses == []
        for _ in range(30):
            await world.reason("flt_wrong")
        assert world.pauses[0] == pytest.approx(slowdown.STEP_S)
        assert max(world.pauses) == slowdown.DELAY_S_MAX
        count = len(world.pauses)
        # A good token from the same address, and a bad one from another, are not.
        await world.who(sign(world.claims()))
        await world.reason("flt_wrong", address="192.0.2.2")
        assert len(world.pauses) == count


def issuer(**changes: Any) -> Issuer:
    table = {"issuer": ISSUER, "audiences": ["fanlog"], "jwks_url": f"{ISSUER}/keys"} | changes
    [found] = parse_issuers([table])
    return found


def key_set(*numbers: int) -> dict[str, Any]:
    keys = []
    for number in numbers:
        found = RSAKey.import_key(pair(number)[1]).as_dict(private=False)
        keys.append({**found, "kid": f"key-{number}", "use": "sig"})
    return {"keys": keys}


class TestIssuers:
    def world(self, **changes: Any) -> World:
        world = World(issuers=(issuer(**changes),))
        world.documents[f"{ISSUER}/keys"] = key_set(0)
        return world

    def token(self, world: World, key: int = 0, **claims: Any) -> str:
        given = {"iss": ISSUER, "aud": ["x", "fanlog"], "exp": world.now_s + 60} | claims
        return sign(given, key=key, kid=f"key-{key}")

    @pytest.mark.parametrize(
        ("settings", "claims", "member", "groups"),
        [
            # Google's own ID tokens.
            (
                {"groups_claim": "hd"},
                {"email": "ann@example.com", "email_verified": True, "hd": "example.com"},
                "user:ann@example.com",
                {"group:example.com@issuer.example"},
            ),
            # Keycloak.
            (
                {"principal_claim": "preferred_username", "groups_claim": "groups"},
                {"preferred_username": "ann", "groups": ["/ops", "/team/dev"]},
                "user:ann@issuer.example",
                {"group:ops@issuer.example", "group:team.dev@issuer.example"},
            ),
            # Kubernetes.
            (
                {"kind": "kubernetes", "pool": "prod.svc.id.goog"},
                {"sub": "system:serviceaccount:shop:billing"},
                "serviceAccount:prod.svc.id.goog[shop/billing]",
                set(),
            ),
            # GitHub Actions.
            (
                {"kind": "principal"},
                {"sub": "repo:acme/shop:ref:refs/heads/main"},
                "principal://issuer.example/subject/repo%3Aacme%2Fshop%3Aref%3Arefs%2Fheads%2Fmain",
                set(),
            ),
        ],
    )
    async def test_shapes(self, settings, claims, member, groups):
        world = self.world(**settings)
        header = f"Bearer {self.token(world, **claims)}"
        found = await world.authenticator.authenticate(header, "192.0.2.1", None)
        assert found.member == member
        assert found.groups == groups

    @pytest.mark.parametrize(
        ("claims", "reason"),
        [
            ({"aud": "other"}, "the token is for another audience"),
            ({"aud": ""}, "the token is for another audience"),
            ({"aud": None}, "the claim aud is no text"),
            ({"exp": None}, "the claim exp is missing"),
            ({"email_verified": False}, "the token's address is not verified"),
            ({"email": EMAIL}, "the token's name is none of a principal that the issuer may name"),
            ({"email": "a b"}, "the token's name is none of a principal that the issuer may name"),
            ({"email": 7}, "the claim email is missing, or no text"),
        ],
    )
    async def test_claims_that_are_not_believed(self, claims, reason):
        world = self.world()
        given = {"email": "ann@example.com", "email_verified": True} | claims
        assert await world.reason(self.token(world, **given)) == reason

    async def test_keys_are_fetched_at_a_bounded_rate(self):
        world = self.world()
        claims = {"email": "ann@example.com", "email_verified": True}
        await world.who(self.token(world, **claims))
        new = self.token(world, key=1, **claims)
        for _ in range(5):
            assert await world.reason(new) == "the issuer has no such key"
        assert len(world.fetched) == 1
        world.documents[f"{ISSUER}/keys"] = key_set(1)
        world.clock.advance(31)
        new = self.token(world, key=1, **claims)
        assert await world.who(new) == "user:ann@example.com"
        assert len(world.fetched) == 2

    async def test_old_keys_are_fetched_again_while_they_are_used(self):
        world = self.world()
        claims = {"email": "ann@example.com", "email_verified": True}
        await world.who(self.token(world, **claims))
        world.documents[f"{ISSUER}/keys"] = key_set(1)
        world.hold()
        world.clock.advance(3_601)
        old = self.token(world, **claims)
        for number in range(3):
            # Nobody waits for the fetch, and nobody begins another.
            async with asyncio.timeout(10):
                again = self.token(world, **claims, jti=str(number))
                assert await world.who(again) == "user:ann@example.com"
        # Who has a new key waits for the same fetch.
        new = asyncio.create_task(world.who(self.token(world, key=1, **claims)))
        await asyncio.sleep(0)
        assert not new.done()
        world.let_go()
        assert await new == "user:ann@example.com"
        assert len(world.fetched) == 2
        assert await world.reason(old) == "the issuer has no such key"

    async def test_after_a_long_rest_keys_are_fetched_before_they_are_used(self):
        world = self.world()
        claims = {"email": "ann@example.com", "email_verified": True}
        await world.who(self.token(world, **claims))
        world.documents[f"{ISSUER}/keys"] = key_set(1)
        world.clock.advance(2 * 3_600 + 1)
        late = self.token(world, **claims)
        assert await world.reason(late) == "the issuer has no such key"

    async def test_keys_that_cannot_be_used_are_left_out(self):
        world = self.world()
        [good] = key_set(0)["keys"]
        curve = {"kty": "EC", "crv": "P-999", "kid": "later", "x": "AQAB", "y": "AQAB"}
        world.documents[f"{ISSUER}/keys"] = {"keys": [{"kty": "RSA", "kid": "bare"}, curve, good]}
        claims = {"email": "ann@example.com", "email_verified": True}
        assert await world.who(self.token(world, **claims)) == "user:ann@example.com"

    @pytest.mark.parametrize("keys", [["x"], [{"kty": "RSA", "kid": "bare"}], "x", None])
    async def test_sets_without_a_key_replace_none(self, keys: object):
        world = self.world()
        claims = {"email": "ann@example.com", "email_verified": True}
        await world.who(self.token(world, **claims))
        world.documents[f"{ISSUER}/keys"] = {"keys": keys}
        world.clock.advance(2 * 3_600 + 1)
        assert await world.who(self.token(world, **claims)) == "user:ann@example.com"
        assert len(world.fetched) == 2

    async def test_an_issuer_that_is_away(self):
        world = self.world()
        claims = {"email": "ann@example.com", "email_verified": True}
        await world.who(self.token(world, **claims))
        world.documents.clear()
        world.clock.advance(7_200)
        assert await world.who(self.token(world, **claims))
        world.clock.advance(24 * 3_600)
        late = self.token(world, **claims)
        assert await world.reason(late) == "the issuer's keys cannot be had"

    async def test_discovery(self):
        world = World(issuers=(issuer(jwks_url="https://k.example/keys"),))
        [found] = parse_issuers([{"issuer": ISSUER, "audiences": ["fanlog"]}])
        world = World(issuers=(found,))
        page = f"{ISSUER}/.well-known/openid-configuration"
        world.documents[page] = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
        world.documents[f"{ISSUER}/keys"] = key_set(0)
        claims = {"email": "ann@example.com", "email_verified": True}
        assert await world.who(self.token(world, **claims)) == "user:ann@example.com"

    def test_realms_of_one_server_need_domains_of_their_own(self):
        """Else one could name the callers of the other."""
        realms = [
            {
                "issuer": f"https://keycloak.example:8443/realms/{name}",
                "audiences": ["fanlog"],
                "principal_claim": "preferred_username",
            }
            for name in ("shop", "staff")
        ]
        with pytest.raises(ValueError, match=r"two issuers with names of 'keycloak\.example'"):
            parse_issuers(realms)
        realms[1]["domain"] = "staff.example"
        assert [one.host for one in parse_issuers(realms)] == ["keycloak.example", "staff.example"]

    @pytest.mark.parametrize(
        ("table", "reason"),
        [
            ({}, "issuer is needed"),
            ({"issuer": ISSUER}, "audiences is needed"),
            ({"issuer": ISSUER, "audiences": ["x"], "jwks": "y"}, "has no key 'jwks'"),
            ({"issuer": "http://i.example", "audiences": ["x"]}, "must be an https address"),
            ({"issuer": ISSUER, "audiences": "x"}, "must be a list of texts"),
            ({"issuer": ISSUER, "audiences": ["x"], "algorithms": ["HS256"]}, "is not one of"),
            ({"issuer": ISSUER, "audiences": ["x"], "kind": "kubernetes"}, "pool is needed"),
            ({"issuer": ISSUER, "audiences": ["x"], "kind": "robot"}, "kind must be one of"),
        ],
    )
    def test_settings_that_cannot_be(self, table, reason):
        with pytest.raises(ValueError, match=reason):
            parse_issuers([table])


@given(text=st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
async def test_no_text_raises_anything_else(text: str):
    world = World(issuers=(issuer(),))
    for header in (text, f"Bearer {text}", f"Bearer {text}.{text}.{text}", f"Bearer fla_{text}"):
        with pytest.raises(Unauthenticated):
            await world.authenticator.authenticate(header, "192.0.2.1", None)


def test_a_principal_without_an_end_does_not_end():
    from fanlog.model.identity import Principal

    assert Principal(member="user:a@b").expires_s == math.inf


def test_small_keys_are_refused():
    from fanlog.errors import InvalidArgument
    from fanlog.wire.auth import read_public_key

    small = rsa.generate_private_key(65_537, 1024).public_key()
    pem = small.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
    for text in (pem, pair()[0], "rubbish", ""):
        with pytest.raises(InvalidArgument, match="public_key"):
            read_public_key(text)
    assert read_public_key(pair()[1])[0] == pair()[2]
