"""OIDC tokens of this server: its key, made once and kept in the data folder."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.errors import ConfigError
from fanlog.model.resources import PushConfig
from fanlog.push.rules.oidc import SigningKey

log = logging.getLogger("fanlog.push")

KEY_NAME = "push-oidc.pem"

#: A token is made anew when it has so much of its time left.
_LEFT_S = 600
_TOKENS_MAX = 10_000


class Tokens:
    """Makes and remembers tokens. The key is read or made when the first token is needed."""

    def __init__(self, folder: Path | None, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        #: The address that the key set is found under.
        self.issuer = ""
        self._key: asyncio.Task[SigningKey] | None = None
        self._tokens: dict[tuple[str, str], tuple[int, str]] = {}

    async def token_for(self, push: PushConfig) -> str | None:
        """The token of a request to an endpoint; empty for none, None when it cannot be made."""
        if not push.oidc_email:
            return ""
        try:
            return await self._token(push.oidc_email, push.oidc_audience or push.endpoint)
        except ConfigError as error:
            log.error("action=push_token_failed error=%s", error)
            return None

    async def _token(self, email: str, audience: str) -> str:
        """Raises ConfigError: The kept key cannot be read."""
        wall_s = self._clock.wall_ns() // 1_000_000_000
        made_s, token = self._tokens.get((email, audience), (0, ""))
        if not made_s <= wall_s < made_s + limits.PUSH_TOKEN_S - _LEFT_S:
            key = await self._signing_key()
            token = key.token(issuer=self.issuer, audience=audience, email=email, wall_s=wall_s)
            if len(self._tokens) >= _TOKENS_MAX:
                self._tokens.clear()
            self._tokens[email, audience] = wall_s, token
        return token

    async def jwks(self) -> dict[str, object]:
        return (await self._signing_key()).jwks()

    async def _signing_key(self) -> SigningKey:
        if self._key is None or (self._key.done() and self._key.exception() is not None):
            self._key = asyncio.create_task(asyncio.to_thread(_load_key, self._folder))
        return await asyncio.shield(self._key)


def _load_key(folder: Path | None) -> SigningKey:
    if folder is None:
        return SigningKey.generate()
    path = folder / KEY_NAME
    try:
        if path.exists():
            return SigningKey.from_pem(path.read_bytes())
        key = SigningKey.generate()
        part = path.with_suffix(".part")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.pem())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the key of OIDC tokens in {path}: {error}") from error
    return key
