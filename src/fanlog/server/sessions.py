"""Sessions: browsers that signed in with a token, and show a cookie instead of it. Soft state.

The cookie's value is random and stands for the token, which stays here, in memory. So a session
may do what its token may, and ends when that does. A restart ends all of them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.errors import Unauthenticated
from fanlog.server.calls import Endable

_RANDOM_BYTES = 32


@dataclass(eq=False, slots=True)
class Session:
    """One browser that signed in."""

    #: The header that its requests are judged by.
    authorization: str = field(repr=False)
    #: What changing requests must show besides the cookie: no page of another site can read it.
    csrf_token: str = field(repr=False)
    used_s: float
    _streams: set[Endable] = field(default_factory=set)

    def has(self, csrf_token: str) -> bool:
        given = csrf_token.encode("utf-8", "replace")
        return hmac.compare_digest(given, self.csrf_token.encode())

    @property
    def is_streaming(self) -> bool:
        return bool(self._streams)

    @contextmanager
    def holding(self, stream: Endable) -> Iterator[None]:
        """Within it, a stream is ended when the session is."""
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    def end(self) -> None:
        for stream in list(self._streams):
            stream.end_with(Unauthenticated("the session is over; sign in again"))


class Sessions:
    """The sessions of one server. Lives on the loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: By the hash of the cookie's value; the one used last is last.
        self._known: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def open(self, authorization: str) -> tuple[str, Session]:
        """Begin a session; the value of its cookie, and the session."""
        self._forget_idle()
        while len(self._known) >= limits.SESSIONS_MAX:
            self._end(next(iter(self._known)))
        value = secrets.token_urlsafe(_RANDOM_BYTES)
        session = Session(authorization, secrets.token_urlsafe(_RANDOM_BYTES), self._clock.now())
        self._known[_digest(value)] = session
        return value, session

    def find(self, value: str) -> Session | None:
        """The session of a cookie's value, which counts as used; None when it is over."""
        key = _digest(value)
        session = self._known.get(key)
        if session is None:
            return None
        if self._is_idle(session):
            self._end(key)
            return None
        session.used_s = self._clock.now()
        self._known.move_to_end(key)
        return session

    def close(self, value: str) -> None:
        """End a session, if there is one."""
        key = _digest(value)
        if key in self._known:
            self._end(key)

    def _end(self, key: bytes) -> None:
        self._known.pop(key).end()

    def _forget_idle(self) -> None:
        for key in [key for key, one in self._known.items() if self._is_idle(one)]:
            self._end(key)

    def _is_idle(self, session: Session) -> bool:
        idle_s = self._clock.now() - session.used_s
        return idle_s > limits.SESSION_IDLE_S and not session.is_streaming


def _digest(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "replace")).digest()
