"""Push over HTTP/1.1: one message a request, one pool of connections for all subscriptions.

Redirects are not followed, cookies are not kept, no proxy is asked. Of the body of an answer a
little is read, and the first words of a refusal are kept.
"""

from __future__ import annotations

import asyncio

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.push.rules.answer_parser import BadAnswer, WebAnswer
from fanlog.push.rules.answers import first_words_of
from fanlog.push.rules.outcome import TAKEN, Outcome, of_error, of_status, of_timeout
from fanlog.push.rules.packing import Request, pack_web
from fanlog.push.rules.web_request import write_head
from fanlog.push.senders.host_resolver import HostResolver
from fanlog.push.senders.web_connection import Disconnected, WebConnection
from fanlog.push.senders.web_connections import WebConnections


class WebTransport:
    """A `Transport`; its connections are opened by the requests that need them."""

    messages_max = 1
    bytes_max = limits.PUSH_BYTES_MAX
    pack = staticmethod(pack_web)

    def __init__(
        self,
        resolver: HostResolver,
        clock: Clock,
        connections: int = limits.PUSH_CONNECTIONS_MAX,
    ) -> None:
        self._clock = clock
        self._connections = WebConnections(resolver, connections)

    async def send(self, request: Request) -> Outcome:
        until_s = asyncio.get_running_loop().time() + request.timeout_s
        try:
            head = write_head(request.endpoint, request.headers, len(request.body))
            answer = await self._exchange(request, head, until_s)
        except TimeoutError:
            return of_timeout(request.timeout_s)
        except (OSError, ValueError, BadAnswer) as error:
            return of_error(type(error).__name__)
        return TAKEN if 200 <= answer.status < 300 else self._judge(answer)

    async def close(self) -> None:
        await self._connections.close()

    async def _exchange(self, request: Request, head: bytes, until_s: float) -> WebAnswer:
        endpoint = request.endpoint
        if not request.is_repeatable:
            # A kept connection may be closed by now, which only a request that fails would tell.
            connection = await self._open(request, until_s)
            return await self._post(connection, head, request.body, until_s)
        kept = self._connections.take((endpoint.scheme, endpoint.host, endpoint.port))
        connection = kept or await self._open(request, until_s)
        try:
            return await self._post(connection, head, request.body, until_s)
        except ConnectionError as error:
            # Mostly a connection that the other side was closing while it lay idle. If it had the
            # request all the same it has it twice, which is allowed.
            is_tried_again = kept is not None or isinstance(error, Disconnected)
            if not connection.is_silent or not is_tried_again:
                raise
        # Both requests together have the time of one: the lease is for no more.
        connection = await self._open(request, until_s)
        return await self._post(connection, head, request.body, until_s)

    async def _open(self, request: Request, until_s: float) -> WebConnection:
        async with asyncio.timeout_at(until_s):
            return await self._connections.open(request.endpoint)

    async def _post(
        self, connection: WebConnection, head: bytes, body: bytes, until_s: float
    ) -> WebAnswer:
        try:
            answer = await connection.post(head, body, until_s)
        except asyncio.CancelledError:
            connection.abort()
            raise
        self._connections.keep(connection)
        return answer

    def _judge(self, answer: WebAnswer) -> Outcome:
        said = first_words_of(answer.first, answer.content_type, answer.content_encoding)
        wall_s = self._clock.wall_ns() / 1e9
        return of_status(answer.status, answer.retry_after, wall_s, said, answer.words)
