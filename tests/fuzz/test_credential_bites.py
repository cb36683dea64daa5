"""Planted faults of the authenticator: the target of tokens notices each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fanlog.auth.authenticator import Authenticator
from fanlog.auth.issuers import Issuer
from fanlog.auth.signed_token import SignedToken
from fanlog.errors import Unauthenticated
from fuzz.credential_seeds import seeds
from fuzz.draw import Draw
from fuzz.targets import credentials


def believed(seed: bytes) -> bool:
    draw = Draw(seed)
    header = credentials._header(draw, draw.below(4))
    try:
        asyncio.run(credentials._authenticator().authenticate(header, "192.0.2.1", None))
    except Unauthenticated:
        return False
    return True


def test_most_seeds_are_believed():
    """What is refused at its first letter finds nothing."""
    assert [believed(seed) for seed in seeds()["token"]] == [
        *(True, True, True, True, False),
        *(False, False, True),
    ]


def _run_all() -> None:
    for seed in seeds()["token"]:
        credentials.token(seed)


def _verify_nothing(token: SignedToken, *_: Any) -> None:
    pass


def _anybody(issuer: Issuer, token: SignedToken) -> str:
    return f"serviceAccount:{token.claims['sub']}"


async def _trip(authenticator: Authenticator, *_: Any) -> Any:
    raise KeyError("planted")


@pytest.mark.parametrize(
    ("place", "fault"),
    [
        ((SignedToken, "verify"), _verify_nothing),
        ((Authenticator, "_verify"), _trip),
    ],
)
def test_faults_are_noticed(monkeypatch: pytest.MonkeyPatch, place: Any, fault: Any):
    monkeypatch.setattr(*place, fault)
    with pytest.raises((AssertionError, KeyError)):
        _run_all()


def test_an_issuer_that_names_accounts_of_this_server_is_noticed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Issuer, "_member", _anybody)
    monkeypatch.setattr("fanlog.auth.issuers.DOMAIN", "nothing.example")
    with pytest.raises(AssertionError):
        _run_all()
