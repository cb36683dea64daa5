"""A collector of OTLP over HTTP: a request is posted, and tried again where that may help."""

from __future__ import annotations

import asyncio
import http.client
import logging
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

log = logging.getLogger("fanlog.otlp")

#: How long a collector has for one request, and how often it is tried.
TIMEOUT_S: Final = 10.0
TRIES: Final = 3
#: Of an answer, which nobody reads.
ANSWER_BYTES_MAX: Final = 65_536
#: Answers that ask for another try; others are final.
_AGAIN: Final = frozenset({429, 502, 503, 504})
#: Posts a body and gives the status; blocks. Raises OSError or HTTPException.
Post = Callable[[bytes], int]


class Collector:
    """One address of a collector. Posts in a thread; nothing waits for it but its caller."""

    def __init__(self, signal: str, post: Post, *, pause_s: float = 1.0) -> None:
        """`signal` names what is sent, for the log; tries are `pause_s` apart, then twice that."""
        self._signal = signal
        self._post = post
        self._pause_s = pause_s
        self._is_failing = False
        #: Requests by outcome: ok, failed.
        self.outcomes: Counter[str] = Counter(ok=0, failed=0)

    async def send(self, body: bytes) -> bool:
        """Send a request; whether it was taken. A failure is logged when it begins."""
        why = ""
        for number in range(TRIES):
            if number:
                await asyncio.sleep(self._pause_s * 2 ** (number - 1))
            try:
                status = await asyncio.to_thread(self._post, body)
            except (OSError, http.client.HTTPException) as error:
                why = repr(error)
                continue
            if 200 <= status < 300:
                self._note_success()
                return True
            why = f"status {status}"
            if status not in _AGAIN:
                break
        self._note_failure(why)
        return False

    def _note_success(self) -> None:
        self.outcomes["ok"] += 1
        if self._is_failing:
            self._is_failing = False
            log.info("action=otlp_resumed signal=%s", self._signal)

    def _note_failure(self, why: str) -> None:
        self.outcomes["failed"] += 1
        if not self._is_failing:
            self._is_failing = True
            log.warning(
                "action=otlp_failed signal=%s reason=%s; the next ones are tried, and what was in"
                " this one is lost",
                *(self._signal, why),
            )


def poster(url: str, headers: Mapping[str, str], ca: Path | None) -> Post:
    """Posts to an address, over a connection of its own each time.

    Raises OSError: The certificates cannot be read.
    """
    parts = urlsplit(url)
    assert parts.hostname is not None
    host, port = parts.hostname, parts.port
    context = None
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    given = {"content-type": "application/x-protobuf", **headers}

    def post(body: bytes) -> int:
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)
        try:
            connection.request("POST", parts.path or "/", body, given)
            answer = connection.getresponse()
            answer.read(ANSWER_BYTES_MAX)
            return answer.status
        finally:
            connection.close()

    return post
