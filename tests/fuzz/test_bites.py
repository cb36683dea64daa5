"""Planted faults: each kind that the server's targets look for is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.topics import Topics
from fanlog.errors import InvalidArgument
from fanlog.schema import avro_binary
from fanlog.schema.avro_defaults import Defaults
from fanlog.schema.budget import StepBudget
from fanlog.schema.json_work import JsonWork
from fanlog.wire import types
from fuzz import budget_seeds
from fuzz.seeds import calls, stream_stories
from fuzz.table import TARGETS
from fuzz.targets import schema_work
from fuzz.targets.budgets import Stalled
from fuzz.world import TOPIC

UPDATE = types.UpdateTopicRequest(
    topic={"name": TOPIC, "labels": {"a": "b"}}, update_mask={"paths": ["labels"]}
)
STORY = calls(("UpdateTopic", UPDATE))

update_topic = Topics.update


async def trips(topics: Topics, update: Any) -> Any:
    raise KeyError("planted")


async def never_ends(topics: Topics, update: Any) -> Any:
    await asyncio.Event().wait()


async def refuses_what_it_did(topics: Topics, update: Any) -> Any:
    await update_topic(topics, update)
    raise InvalidArgument("planted")


async def writes_nothing(topics: Topics, update: Any) -> Any:
    catalog = topics._ledger.hard.catalog
    topic = update.apply_to(catalog.topic(update.name))
    topics._ledger.hard.apply_all(catalog.put_topic(topic))
    return topic


async def says_too_much(topics: Topics, update: Any) -> Any:
    raise type("Loud", (InvalidArgument,), {"code": "X" * 9_000})("planted")


async def fails_behind_the_back(topics: Topics, update: Any) -> Any:
    async def fail() -> None:
        raise KeyError("planted")

    asyncio.ensure_future(fail())  # noqa: RUF006
    return await update_topic(topics, update)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (trips, "INTERNAL"),
        (never_ends, "hangs"),
        (refuses_what_it_did, "refused and changed"),
        (writes_nothing, "memory and log differ"),
        (says_too_much, "of trailers"),
        (fails_behind_the_back, "never retrieved"),
    ],
)
def test_requests(monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any], said: str) -> None:
    TARGETS["requests"].run(STORY)
    monkeypatch.setattr(Topics, "update", fault)
    with pytest.raises(AssertionError, match=said):
        TARGETS["requests"].run(STORY)


async def stalls(topics: Topics, update: Any) -> Any:
    for number in range(10**7):
        repr(number)
    return await update_topic(topics, update)


@pytest.mark.parametrize(("fault", "said"), [(trips, "INTERNAL"), (never_ends, "hangs")])
def test_every_verb(monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any], said: str) -> None:
    story = budget_seeds.request("UpdateTopic", UPDATE.SerializeToString())
    TARGETS["every_verb"].run(story)
    monkeypatch.setattr(Topics, "update", fault)
    with pytest.raises(AssertionError, match=said):
        TARGETS["every_verb"].run(story)


def test_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    story = budget_seeds.request("UpdateTopic", UPDATE.SerializeToString())
    monkeypatch.setattr(Topics, "update", stalls)
    with pytest.raises(Stalled, match="more than"):
        TARGETS["every_verb"].run(story)


def test_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    story = next(iter(stream_stories()))
    TARGETS["stream"].run(story)

    async def trip(*_: Any) -> Any:
        raise KeyError("planted")

    monkeypatch.setattr(Broker, "settle_some", trip)
    with pytest.raises(AssertionError):
        TARGETS["stream"].run(story)


@pytest.mark.parametrize("kind", [0, 1], ids=["avro", "json"])
def test_schema_work(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """Without budgets, what was built to ask for much gets it."""
    # Each level twice in the one above: by defaults, and further into a message.
    built = bytes([40]) + bytes([12 if kind == 0 else 11]) * 40 + b"\0"
    story = bytes([kind]) + built * 2 + b"\0" + b"[" * 40 + b"]" * 40
    TARGETS["schema_work"].run(story)
    monkeypatch.setattr(Defaults, "measure", _expanded)
    monkeypatch.setattr(StepBudget, "spend", lambda *_: None)
    monkeypatch.setattr(avro_binary, "_STEPS_MAX", 2**100)
    monkeypatch.setattr(schema_work, "CALLS", 100_000)
    monkeypatch.setattr(JsonWork, "count", _endless)
    with pytest.raises(schema_work.Stalled):
        TARGETS["schema_work"].run(story)


def _expanded(self: Defaults, field: Any) -> Any:
    return self._measure_value(field.node, field.default)


def _endless(*_: Any) -> Any:
    while True:
        _nothing()


def _nothing() -> None:
    pass
