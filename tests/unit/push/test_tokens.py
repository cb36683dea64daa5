"""The key of OIDC tokens: made once, kept as a secret of the server, and not after the end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fanlog.broker.clock import ManualClock
from fanlog.errors import CommitFailed, ConfigError, Unavailable
from fanlog.model.resources import PushConfig
from fanlog.push.rules.oidc import SigningKey
from fanlog.push.senders.tokens import FORMER_NAME, Tokens

PUSH = PushConfig(endpoint="https://example.org/hook", oidc_email="me@example.org")


class Kept:
    """Keeps the key in memory, or fails to."""

    def __init__(self, pem: bytes | None = None) -> None:
        self.pem = pem
        self.kept = 0
        self.fails = False

    def push_key(self) -> bytes | None:
        return self.pem

    async def keep_push_key(self, pem: bytes) -> None:
        if self.fails:
            raise CommitFailed("planted")
        self.kept += 1
        self.pem = pem


def tokens(kept: Kept) -> Tokens:
    return Tokens(kept, ManualClock())


async def test_many_askers_have_one_key_made():
    kept = Kept()
    made = tokens(kept)
    found = await asyncio.gather(*(made.jwks() for _ in range(5)), made.token_for(PUSH))
    assert kept.kept == 1
    assert kept.pem is not None
    assert found[0] == found[4] == SigningKey.from_pem(kept.pem).jwks()
    # A later start has the same.
    assert await tokens(kept).jwks() == found[0]
    assert kept.kept == 1


async def test_a_key_that_could_not_be_kept_signs_nothing():
    kept = Kept()
    kept.fails = True
    made = tokens(kept)
    assert await made.token_for(PUSH) is None
    with pytest.raises(CommitFailed):
        await made.jwks()
    kept.fails = False
    assert await made.token_for(PUSH)


async def test_a_damaged_key_is_said():
    made = tokens(Kept(b"nothing"))
    with pytest.raises(ConfigError, match="the key of OIDC tokens"):
        await made.jwks()
    assert await made.token_for(PUSH) is None


async def test_no_key_is_made_after_the_end():
    kept = Kept()
    made = tokens(kept)
    asker = asyncio.create_task(made.jwks())
    await asyncio.sleep(0)
    made.close()
    for waiting in (asker, made.jwks()):
        with pytest.raises(Unavailable, match="shutting down"):
            await waiting
    assert kept.kept == 0


async def test_a_file_of_an_earlier_build_is_adopted(tmp_path: Path):
    pem = SigningKey.generate().pem()
    kept = Kept()
    made = tokens(kept)
    await made.adopt(tmp_path)
    assert kept.pem is None
    path = tmp_path / FORMER_NAME
    path.write_bytes(pem)
    kept.fails = True
    with pytest.raises(CommitFailed):
        await made.adopt(tmp_path)
    # Not removed before it is kept.
    assert path.read_bytes() == pem
    kept.fails = False
    await made.adopt(tmp_path)
    assert kept.pem == pem
    assert not path.exists()
    path.write_bytes(pem)
    await made.adopt(tmp_path)
    assert kept.kept == 1
    assert not path.exists()
    path.write_bytes(b"nothing")
    with pytest.raises(ConfigError, match=FORMER_NAME):
        await made.adopt(tmp_path)
    assert path.exists()
