"""Sessions of browsers: signing in with a token, what the cookie is believed for, and its end."""

from __future__ import annotations

import asyncio
import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from access.conftest import AUTH, PROJECT, Guarded, Start, serving
from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.server.session_door import COOKIE, SECURE_COOKIE
from fanlog.server.sessions import Sessions
from fanlog.v1 import auth_pb2 as pb
from transport.certificates import Authority


@dataclass
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return str(self.json["error"]["details"][0]["reason"])

    @property
    def cookie(self) -> str:
        [found] = [value for name, value in self.headers if name == "set-cookie"]
        return found


@dataclass
class Browser:
    """A browser on a page of the server itself, unless it is told otherwise."""

    host: str
    port: int
    context: ssl.SSLContext | None = None
    cookies: dict[str, str] = field(default_factory=dict)
    csrf: str = ""

    @property
    def origin(self) -> str:
        return f"{'http' if self.context is None else 'https'}://{self.host}:{self.port}"

    async def _open(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.context)
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = [line.partition(": ")[::2] for line in head[1:] if line]
        return int(head[0].split()[1]), [(n.lower(), v) for n, v in found], reader, writer

    def _headers(self, method: str, given: dict[str, str | None]) -> dict[str, str]:
        own: dict[str, str | None] = {"sec-fetch-site": "same-origin"}
        if method not in ("GET", "HEAD"):
            own["origin"] = self.origin
            own["x-csrf-token"] = self.csrf or None
        if self.cookies:
            own["cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        own |= {name.replace("_", "-"): value for name, value in given.items()}
        return {name: value for name, value in own.items() if value is not None}

    async def ask(
        self, method: str, path: str, sent: object = None, **headers: str | None
    ) -> Reply:
        body = b"" if sent is None else json.dumps(sent).encode()
        whole = {"connection": "close", "content-length": str(len(body))}
        whole |= {"content-type": "application/json"} if sent is not None else {}
        whole |= self._headers(method, headers)
        status, found, reader, writer = await self._open(method, path, whole, body)
        answer = await reader.read()
        writer.close()
        if ("transfer-encoding", "chunked") in found:
            answer = b"".join(answer.split(b"\r\n")[1:2])
        for name, value in found:
            if name == "set-cookie":
                pair = value.partition(";")[0]
                key, _, content = pair.partition("=")
                self.cookies.pop(key, None)
                if content:
                    self.cookies[key] = content
        return Reply(status, found, answer)

    async def sign_in(self, token: str, **headers: str | None) -> Reply:
        found = await self.ask("POST", "/v1/session", {"token": token}, **headers)
        if found.status == 200:
            self.csrf = found.json["csrfToken"]
        return found

    async def live(self, query: str = "", **headers: str | None) -> tuple[int, Any, Any]:
        """A stream of live numbers: its status, and both ends of its connection."""
        whole = self._headers("GET", headers)
        status, _, reader, writer = await self._open("GET", f"/v1/live{query}", whole, b"")
        if status != 200:
            writer.close()
        return status, reader, writer


def browser(guarded: Guarded, **fields: Any) -> Browser:
    host, port = guarded.server.http_endpoint.rsplit(":", 1)
    return Browser(host, int(port), **fields)


async def until(reader: asyncio.StreamReader, mark: bytes) -> bytes:
    """All that comes until a mark came."""
    found = b""
    async with asyncio.timeout(20):
        while mark not in found:
            got = await reader.read(65_536)
            assert got, found
            found += got
    return found


async def test_a_browser_signs_in_and_out(guarded: Guarded):
    page = browser(guarded)
    before = await page.ask("GET", "/v1/session")
    assert before.json == {
        "auth": "required",
        "signedIn": False,
        "serverId": guarded.server.broker.accounts.server_id,
    }
    assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 401
    signed = await page.sign_in(guarded.admin)
    assert signed.status == 200
    assert signed.json["member"] == guarded.member("admin")
    assert signed.json["signedIn"] is True
    assert ("cache-control", "no-store") in signed.headers
    assert guarded.admin.encode() not in signed.body
    name, *attributes = signed.cookie.split("; ")
    assert name.startswith(f"{COOKIE}=")
    assert guarded.admin not in name
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Strict"]
    assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 200
    assert (await page.ask("GET", "/metrics")).status == 200
    # A page that is loaded again asks for what it needs.
    again = await page.ask("GET", "/v1/session")
    assert (again.json["csrfToken"], again.json["member"]) == (page.csrf, guarded.member("admin"))
    value = page.cookies[COOKIE]
    out = await page.ask("DELETE", "/v1/session")
    assert out.status == 204
    assert "Max-Age=0" in out.cookie
    assert page.cookies == {}
    # The value is worth nothing any more.
    page.cookies[COOKIE] = value
    assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 401


async def test_a_wrong_token_gets_no_session(guarded: Guarded):
    page = browser(guarded)
    for token in ("flt_wrong", "x", "é", "a b", "x" * 10_000):
        refused = await page.sign_in(token)
        assert (refused.status, refused.reason) == (401, "UNAUTHENTICATED")
    assert page.cookies == {}


@pytest.mark.parametrize(
    ("sent", "headers", "status"),
    [
        ({"token": ""}, {}, 400),
        ({"token": 5}, {}, 400),
        ({"token": "x", "more": 1}, {}, 400),
        ([], {}, 400),
        ({"token": "x"}, {"content_type": "text/plain"}, 400),
        ({"token": "x" * limits.SESSION_BYTES_MAX}, {}, 413),
    ],
)
async def test_a_request_that_is_none(guarded: Guarded, sent, headers, status):
    refused = await browser(guarded).ask("POST", "/v1/session", sent, **headers)
    assert refused.status == status
    assert refused.json["error"]["status"] == "INVALID_ARGUMENT"


async def test_a_server_that_does_not_authenticate(start: Start):
    from fanlog.config import Config
    from fanlog.server.app import running

    async with running(Config(port=0, http_port=None, memory=True, drain_s=0.1)) as server:
        host, port = server.http_endpoint.rsplit(":", 1)
        page = Browser(host, int(port))
        found = await page.ask("GET", "/v1/session")
        assert (found.json["auth"], found.json["signedIn"]) == ("none", False)
        refused = await page.sign_in("x")
        assert (refused.status, refused.reason) == (400, "FAILED_PRECONDITION")
        assert (await page.ask("DELETE", "/v1/session")).status == 204


CHANGE = ("PUT", f"/v1/{PROJECT}/topics/orders", {})


class TestForeignPages:
    """The cookie comes with requests of other pages, too: they get nothing by it."""

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
            {"origin": "null"},
            # Another port of the same machine is the same site, and another origin.
            {"origin": "http://127.0.0.1:1", "sec_fetch_site": "same-site"},
            {"sec_fetch_site": "cross-site"},
            {"sec_fetch_site": "same-site"},
        ],
    )
    @pytest.mark.parametrize("request_", [("GET", f"/v1/{PROJECT}/topics"), CHANGE])
    async def test_of_another_origin(self, guarded: Guarded, headers, request_):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        method, path, *sent = request_
        if method != "GET" and "origin" not in headers:
            headers = headers | {"origin": None}
        refused = await page.ask(method, path, *sent, **headers)
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")

    async def test_of_an_origin_that_may_call_with_a_token(self, start: Start):
        """`cors_origins` lets pages call with a credential of their own, not with a session."""
        guarded = await start(cors_origins=frozenset({"https://app.example"}))
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        there = {"origin": "https://app.example", "sec_fetch_site": "cross-site"}
        refused = await page.ask("GET", f"/v1/{PROJECT}/topics", **there)
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")
        own = {"authorization": f"Bearer {guarded.admin}", "cookie": None, **there}
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics", **own)).status == 200

    async def test_signing_in_is_for_own_pages_alone(self, guarded: Guarded):
        page = browser(guarded)
        refused = await page.sign_in(guarded.admin, origin="https://evil.example")
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")
        refused = await page.sign_in(guarded.admin, origin=None, sec_fetch_site=None)
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")

    async def test_a_change_that_does_not_say_who_made_it(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        refused = await page.ask(*CHANGE, origin=None, sec_fetch_site=None)
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")

    async def test_an_address_that_was_typed_in_changes_nothing(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        typed = {"sec_fetch_site": "none"}
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics", **typed)).status == 200
        refused = await page.ask(*CHANGE, origin=None, **typed)
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")


class TestCsrf:
    @pytest.mark.parametrize("token", [None, "", "wrong", "é"])
    async def test_a_change_needs_the_token(self, guarded: Guarded, token):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        refused = await page.ask(*CHANGE, x_csrf_token=token)
        assert (refused.status, refused.reason) == (403, "CSRF_TOKEN_MISSING")
        assert (await page.ask(*CHANGE)).status == 200

    async def test_that_of_another_session_is_none(self, guarded: Guarded):
        one, two = browser(guarded), browser(guarded)
        await one.sign_in(guarded.admin)
        await two.sign_in(guarded.admin)
        refused = await one.ask(*CHANGE, x_csrf_token=two.csrf)
        assert refused.reason == "CSRF_TOKEN_MISSING"

    @pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
    async def test_of_every_method_that_changes(self, guarded: Guarded, method):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        refused = await page.ask(method, f"/v1/{PROJECT}/topics/orders", x_csrf_token=None)
        assert refused.reason == "CSRF_TOKEN_MISSING"

    async def test_a_pull_is_a_change_although_it_is_a_get(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        refused = await page.ask("GET", "/v1/subscriptions/billing/pull")
        assert refused.reason == "CSRF_TOKEN_MISSING"
        shown = {"x_csrf_token": page.csrf}
        allowed = await page.ask("GET", "/v1/subscriptions/billing/pull", **shown)
        assert allowed.status == 404

    async def test_signing_out_needs_it_as_well(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        refused = await page.ask("DELETE", "/v1/session", x_csrf_token=None)
        assert refused.reason == "CSRF_TOKEN_MISSING"


class TestPlainHttp:
    """A proxy on this machine says where a request came from, and how."""

    @pytest.mark.parametrize("proto", ["http", None])
    async def test_from_another_machine_it_is_refused(self, guarded: Guarded, proto):
        far = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": proto}
        page = browser(guarded)
        refused = await page.sign_in(guarded.admin, **far)
        assert (refused.status, refused.reason) == (403, "INSECURE_SESSION")
        await page.sign_in(guarded.admin)
        refused = await page.ask("GET", f"/v1/{PROJECT}/topics", **far)
        assert (refused.status, refused.reason) == (403, "INSECURE_SESSION")

    async def test_behind_a_proxy_with_tls_it_is_secure(self, guarded: Guarded):
        far = {"x_forwarded_for": "203.0.113.9", "x_forwarded_proto": "https"}
        page = browser(guarded)
        far["origin"] = page.origin.replace("http", "https")
        signed = await page.sign_in(guarded.admin, **far)
        assert signed.cookie.startswith(f"{SECURE_COOKIE}=")
        assert signed.cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics", **far)).status == 200
        # A page of the same name without TLS may be anybody's.
        refused = await page.ask("GET", f"/v1/{PROJECT}/topics", **far | {"origin": page.origin})
        assert (refused.status, refused.reason) == (403, "FOREIGN_ORIGIN")

    async def test_over_tls_the_cookie_is_kept_to_it(self, start: Start, tmp_path: Path):
        authority = Authority.make("fanlog tests")
        certificate, key = authority.issue("localhost", tmp_path)
        context = ssl.create_default_context(cafile=str(authority.write(tmp_path / "ca.pem")))
        guarded = await start(tls_cert=certificate, tls_key=key)
        page = browser(guarded, context=context)
        signed = await page.sign_in(guarded.admin)
        assert signed.cookie.startswith(f"{SECURE_COOKIE}=")
        assert "; Secure" in signed.cookie
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 200


class TestTheEnd:
    async def test_of_the_token_is_that_of_the_session(self, guarded: Guarded):
        token = await guarded.token("ci")
        page = browser(guarded)
        assert (await page.sign_in(token)).status == 200
        assert (await page.ask("GET", "/v1/whoami")).status == 200
        account = await guarded.call(
            f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account
        )
        revoke = pb.RevokeTokenRequest(account="ci", token_id=account.tokens[0].id)
        await guarded.call(f"{AUTH}/RevokeToken", revoke, pb.Account)
        refused = await page.ask("GET", "/v1/whoami")
        assert refused.status == 401
        assert "Max-Age=0" in refused.cookie
        assert page.cookies == {}

    async def test_the_session_may_do_what_its_token_may(self, guarded: Guarded):
        token = await guarded.token("ci")
        await guarded.grant("server", "roles/viewer", guarded.member("ci"))
        page = browser(guarded)
        await page.sign_in(token)
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 200
        assert (await page.ask(*CHANGE)).status == 403
        sent = {
            "resources": [PROJECT],
            "permissions": ["pubsub.topics.list", "pubsub.topics.create"],
        }
        found = await page.ask("POST", "/v1/access:check", sent)
        assert found.json["granted"] == [
            {"resource": PROJECT, "permissions": ["pubsub.topics.list"]}
        ]

    async def test_a_credential_of_its_own_counts_before_the_cookie(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        token = await guarded.token("ci")
        found = await page.ask("GET", "/v1/whoami", authorization=f"Bearer {token}")
        assert found.json["member"] == guarded.member("ci")
        # And it needs no CSRF token: no page of another site can set that header.
        refused = await page.ask(*CHANGE, authorization=f"Bearer {token}", x_csrf_token=None)
        assert refused.reason == "PERMISSION_DENIED"

    async def test_who_signs_in_again_has_one_session(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        first = dict(page.cookies)
        await page.sign_in(guarded.admin)
        assert page.cookies != first
        page.cookies = first
        assert (await page.ask("GET", f"/v1/{PROJECT}/topics")).status == 401


class TestLive:
    async def test_signing_out_ends_the_streams_of_the_session(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        status, reader, writer = await page.live()
        assert status == 200
        await until(reader, b"event: sample")
        await page.ask("DELETE", "/v1/session")
        found = await until(reader, b"0\r\n\r\n")
        assert b"event: end" in found
        assert b"the session is over; sign in again" in found
        writer.close()

    async def test_a_right_that_is_lost_ends_it_within_a_second(self, guarded: Guarded):
        token = await guarded.token("ci")
        await guarded.grant("server", "roles/fanlog.operator", guarded.member("ci"))
        page = browser(guarded)
        await page.sign_in(token)
        status, reader, writer = await page.live()
        assert status == 200
        await until(reader, b"event: sample")
        begun = asyncio.get_running_loop().time()
        await guarded.take_away("server", guarded.member("ci"))
        found = await until(reader, b"event: end")
        assert asyncio.get_running_loop().time() - begun < 3
        assert b'"status":"PERMISSION_DENIED"' in found
        writer.close()

    async def test_without_the_right_to_the_metrics(self, guarded: Guarded):
        token = await guarded.token("ci")
        await guarded.grant(PROJECT, "roles/viewer", guarded.member("ci"))
        page = browser(guarded)
        await page.sign_in(token)
        assert (await page.live())[0] == 403
        named = f"?topics={PROJECT}/topics/orders&onlyNamed=true"
        status, reader, writer = await page.live(named)
        assert status == 200
        assert b'"server"' not in await until(reader, b"event: sample")
        writer.close()
        other = "?topics=projects/other/topics/orders&onlyNamed=true"
        assert (await page.live(other))[0] == 403

    async def test_without_a_credential(self, guarded: Guarded):
        assert (await browser(guarded).live())[0] == 401

    async def test_from_a_page_elsewhere(self, guarded: Guarded):
        page = browser(guarded)
        await page.sign_in(guarded.admin)
        assert (await page.live(sec_fetch_site="cross-site"))[0] == 403
        assert (await page.live(origin="https://evil.example"))[0] == 403


async def test_it_stands_in_the_audit_log(tmp_path: Path):
    async with serving(tmp_path / "auth") as guarded:
        page = browser(guarded)
        await page.sign_in("flt_wrong")
        await page.sign_in(guarded.admin)
        admin, member = guarded.admin, guarded.member("admin")
    # All of it is written when the server has ended.
    text = (tmp_path / "auth" / "audit.log").read_text()
    lines = [json.loads(one) for one in text.splitlines()]
    found = [one for one in lines if one["method"] == "/v1/session"]
    assert [one["result"] for one in found] == ["UNAUTHENTICATED", "OK"]
    assert found[1]["principal"] == member
    assert admin not in text


class TestSessions:
    def test_one_that_is_not_used_ends(self):
        clock = ManualClock()
        sessions = Sessions(clock)
        value, session = sessions.open("Bearer x")
        clock.advance(limits.SESSION_IDLE_S)
        assert sessions.find(value) is session
        clock.advance(limits.SESSION_IDLE_S)
        assert sessions.find(value) is session
        clock.advance(limits.SESSION_IDLE_S + 1)
        assert sessions.find(value) is None
        assert len(sessions) == 0

    def test_one_with_a_stream_is_used(self):
        clock = ManualClock()
        sessions = Sessions(clock)
        value, session = sessions.open("Bearer x")

        class Stream:
            ended: Exception | None = None

            def end_with(self, error: Exception) -> None:
                self.ended = error

        stream = Stream()
        with session.holding(stream):
            clock.advance(limits.SESSION_IDLE_S * 3)
            assert sessions.find(value) is session
            sessions.close(value)
            assert stream.ended is not None

    def test_the_one_used_longest_ago_makes_room(self, monkeypatch):
        monkeypatch.setattr(limits, "SESSIONS_MAX", 2)
        sessions = Sessions(ManualClock())
        first, second = sessions.open("Bearer 1")[0], sessions.open("Bearer 2")[0]
        assert sessions.find(first) is not None
        third = sessions.open("Bearer 3")[0]
        assert sessions.find(second) is None
        assert sessions.find(first) is not None
        assert sessions.find(third) is not None

    def test_nothing_of_it_is_shown(self):
        value, session = Sessions(ManualClock()).open("Bearer secret")
        assert "secret" not in repr(session)
        assert session.csrf_token not in repr(session)
        assert len(value) > 40
