"""Push over HTTP: one message a request, one client for all subscriptions.

Redirects are not followed, cookies are not kept, no proxy is asked. Of the body of an answer a
little is read, and the first words of a refusal are kept.

aiohttp takes a while to import, mostly for the authorities that TLS trusts; so a thread imports it,
before the first request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import lru_cache
from io import BytesIO
from typing import TYPE_CHECKING, cast

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.push.rules.answers import first_words_of
from fanlog.push.rules.outcome import Outcome, of_error, of_status, of_timeout
from fanlog.push.rules.packing import Request, pack_web
from fanlog.push.senders.host_resolver import AddressRefused, HostResolver, NameUnresolved

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.abc import AbstractResolver
    from yarl import URL

#: How long an answer's body may hold up the next request on its connection.
_READ_S = 1.0
_KEEP_ALIVE_S = 30.0
#: Larger bodies are sent in parts, so that the loop has other things done meanwhile.
_PART_BYTES = 512 * 1024


class WebTransport:
    """A `Transport`; its connections are opened by the first request."""

    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX
    pack = staticmethod(pack_web)

    def __init__(self, resolver: HostResolver, clock: Clock) -> None:
        self._resolver = resolver
        self._clock = clock
        self._opening: asyncio.Task[aiohttp.ClientSession] | None = None
        self._is_closed = False

    async def send(self, request: Request) -> Outcome:
        session = await self._session()
        import aiohttp

        loop = asyncio.get_running_loop()
        until = loop.time() + request.timeout_s
        try:
            self._resolver.check_literal(request.endpoint)
            try:
                return await self._post(session, request, request.timeout_s)
            except aiohttp.ServerDisconnectedError:
                # Mostly a connection that the other side was closing while it lay idle. Both
                # requests together have the time of one: the lease is for no more.
                left_s = until - loop.time()
                if left_s <= 0:
                    raise
                return await self._post(session, request, left_s)
        except TimeoutError:
            return of_timeout(request.timeout_s)
        except aiohttp.ClientConnectorError as error:
            return of_error(type(_cause(error)).__name__)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return of_error(type(error).__name__)

    async def close(self) -> None:
        self._is_closed = True
        if self._opening is not None:
            opening, self._opening = self._opening, None
            await (await opening).close()

    async def _session(self) -> aiohttp.ClientSession:
        if self._opening is None:
            assert not self._is_closed
            self._opening = asyncio.get_running_loop().create_task(self._open())
        return await asyncio.shield(self._opening)

    async def _open(self) -> aiohttp.ClientSession:
        await asyncio.to_thread(__import__, "aiohttp")
        import aiohttp

        connector = aiohttp.TCPConnector(
            resolver=cast("AbstractResolver", self._resolver),
            # The resolver has a cache, and the senders limit their connections.
            use_dns_cache=False,
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_S,
            socket_factory=self._resolver.new_socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("Accept-Encoding",),
        )

    async def _post(
        self, session: aiohttp.ClientSession, request: Request, timeout_s: float
    ) -> Outcome:
        import aiohttp

        body = request.body
        async with session.post(
            _url(request.endpoint.url),
            data=body if len(body) <= _PART_BYTES else BytesIO(body),
            headers=request.headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=None),
        ) as response:
            first = b""
            if not response.content.at_eof():
                first = await _first_bytes(response.content)
            head = response.headers
            said = ""
            if not 200 <= response.status < 300:
                said = first_words_of(
                    first, head.get("Content-Type", ""), head.get("Content-Encoding", "")
                )
            wall_s = self._clock.wall_ns() / 1e9
            return of_status(response.status, head.get("Retry-After"), wall_s, said)


@lru_cache(maxsize=1024)
def _url(text: str) -> URL:
    from yarl import URL

    return URL(text, encoded=True)


async def _first_bytes(content: aiohttp.StreamReader) -> bytes:
    """Read a short body, so that its connection can be used again; a long one ends it."""
    import aiohttp

    first = bytearray()
    left = limits.PUSH_ANSWER_BYTES_MAX
    with suppress(aiohttp.ClientError, TimeoutError, OSError):
        async with asyncio.timeout(_READ_S):
            while left > 0 and (part := await content.readany()):
                left -= len(part)
                first += part[: limits.PUSH_ANSWER_KEPT_BYTES - len(first)]
    return bytes(first)


def _cause(error: aiohttp.ClientConnectorError) -> BaseException:
    """The resolver's error, where it is the cause of `error`."""
    for found in (error.os_error, error.__cause__):
        if isinstance(found, AddressRefused | NameUnresolved):
            return found
    return error
