"""The audit log: there is one wherever callers are authenticated, and it says what was done."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from access.conftest import AUTH, PROJECT, Guarded, Start, serving
from access.test_callers import SUBSCRIBER, SUBSCRIPTION, TOPIC, make
from fanlog.auth.damper import WRITTEN_A_MINUTE
from fanlog.broker.clock import ManualClock
from fanlog.v1 import auth_pb2 as pb
from fanlog.wire import types


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def of(found: list[dict[str, Any]], method: str) -> list[tuple[str, str]]:
    """The resources and details of a method."""
    return [
        (one["resource"], one.get("detail", ""))
        for one in found
        if one["method"].endswith(f".{method}")
    ]


async def test_administration_is_recorded_without_being_asked_for(tmp_path: Path):
    async with serving(tmp_path / "auth") as guarded:
        await make(guarded)
        await administer(guarded)
        await guarded.grant(TOPIC, "roles/pubsub.viewer", guarded.member("ci"))
        gone = types.DeleteSubscriptionRequest(subscription=SUBSCRIPTION)
        code = await guarded.code(
            f"{SUBSCRIBER}/DeleteSubscription", gone, types.Subscription, await guarded.token("ci")
        )
        assert code == "PERMISSION_DENIED"
        member = guarded.member("ci")
    # Stopped: everything is written.
    path = tmp_path / "auth" / "audit.log"
    assert path.stat().st_mode & 0o777 == 0o600
    found = entries(path)
    assert of(found, "CreateTopic") == [(TOPIC, "")]
    assert of(found, "CreateSubscription") == [(SUBSCRIPTION, "")]
    assert of(found, "CreateSchema") == [(f"{PROJECT}/schemas/order", "")]
    assert of(found, "CreateAccount") == [("accounts/ci", "")]
    assert of(found, "CreateToken") == [("accounts/ci", ""), ("accounts/ci", "")]
    [(account, detail)] = of(found, "RevokeToken")
    assert account == "accounts/ci"
    assert detail.startswith("token ")
    assert (PROJECT, f"roles/pubsub.editor: {member}") in of(found, "SetPolicy")
    assert of(found, "SetIamPolicy") == [(TOPIC, f"roles/pubsub.viewer: {member}")]
    [denied] = [one for one in found if one["result"] == "PERMISSION_DENIED"]
    assert (denied["principal"], denied["resource"]) == (member, SUBSCRIPTION)


async def administer(guarded: Guarded) -> None:
    await guarded.call(f"{AUTH}/CreateAccount", pb.CreateAccountRequest(name="ci"), pb.Account)
    await guarded.token("ci")
    account = await guarded.call(f"{AUTH}/GetAccount", pb.GetAccountRequest(name="ci"), pb.Account)
    gone = pb.RevokeTokenRequest(account="ci", token_id=account.tokens[0].id)
    await guarded.call(f"{AUTH}/RevokeToken", gone, pb.Account)
    await guarded.grant(PROJECT, "roles/pubsub.editor", guarded.member("ci"))
    await guarded.take_away(PROJECT, guarded.member("ci"))
    schema = {"type": "JSON", "definition": '{"type": "object"}'}
    answer = await guarded.http("POST", f"/v1/{PROJECT}/schemas?schemaId=order", schema)
    assert answer.status in (200, 400), answer.text


async def test_a_folder_whose_tokens_were_moved_away_has_a_record(start: Start, tmp_path: Path):
    settings = {"data_dir": tmp_path / "data", "auth_dir": tmp_path / "data" / "auth"}
    async with serving(tmp_path / "data" / "auth", memory=False, **settings):
        pass
    for path in (tmp_path / "data" / "auth").iterdir():
        path.unlink()
    (tmp_path / "data" / "auth").rmdir()
    async with serving(tmp_path / "data" / "auth", memory=False, **settings):
        pass
    assert (tmp_path / "data" / "auth" / "audit.log").exists()


async def test_strangers_cannot_push_the_record_of_others_out(tmp_path: Path):
    """Their failures are written so many times a minute; metrics count all of them."""
    clock = ManualClock()
    async with serving(tmp_path / "auth", clock) as guarded:
        get = types.GetTopicRequest(topic=TOPIC)
        path = "google.pubsub.v1.Publisher/GetTopic"
        for _ in range(WRITTEN_A_MINUTE + 20):
            assert await guarded.code(path, get, types.Topic, None) == "UNAUTHENTICATED"
        await administer(guarded)
        clock.advance(60)
        assert await guarded.code(path, get, types.Topic, None) == "UNAUTHENTICATED"
    found = entries(tmp_path / "auth" / "audit.log")
    refused = [one for one in found if one["result"] == "UNAUTHENTICATED"]
    assert len(refused) == WRITTEN_A_MINUTE + 1
    assert refused[-1]["detail"] == "20 more were left out"
    assert of(found, "CreateAccount") == [("accounts/ci", "")]
