"""Admission: a publish that asks for nothing is appended after one look, and no other is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fanlog import limits
from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker
from fanlog.broker.clock import ManualClock
from fanlog.broker.committer import InlineCommitter
from fanlog.broker.verbs.admission import PublishAdmission
from fanlog.errors import RateExceeded, TopicNotFound, Unavailable, WriterBacklogFull
from fanlog.log.batch import Body
from fanlog.log.memory import MemoryLog
from fanlog.model.specs import SubscriptionSpec, TopicSpec
from fanlog.model.updates import TopicUpdate
from fanlog.wire import contents
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose

TOPIC, NAME = "projects/p/topics/orders", "projects/p/subscriptions/billing"


def body(**attributes: str) -> Body:
    named = {name.replace("_", "-"): value for name, value in attributes.items()}
    return contents.body(b"data", named, "")


def build(**settings: object) -> Broker:
    log = MemoryLog()
    return build_broker(
        log,
        InlineCommitter(log),
        ManualClock(1_780_000_000.0),
        compose=compose,
        candidates=candidates,
        contents=contents,
        jitter=lambda: 0.0,
        settings=BrokerSettings(**settings),  # type: ignore[arg-type]
    )


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = build()
    await broker.start()
    yield broker
    await broker.stop()


async def test_a_plain_publish_is_not_looked_at_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await broker.topics.create(TopicSpec(name=TOPIC, labels={"env": "prod"}))
    assert await broker.admission.admit(TOPIC, body()) == (topic, body())

    async def admit(*_: object) -> None:
        raise AssertionError("looked at again")

    monkeypatch.setattr(PublishAdmission, "admit", admit)
    assert broker.admission.admit_plain(TOPIC, body()) == topic
    [(_, offsets, _)] = await broker.publish(TOPIC, body(team="red"))
    assert offsets == range(1)
    with pytest.raises(AssertionError, match="looked at again"):
        await broker.publish(TOPIC, body(fanlog_delay="10"))


async def test_without_a_topic_nothing_is_plain(broker: Broker) -> None:
    assert broker.admission.admit_plain(TOPIC, body()) is None
    with pytest.raises(TopicNotFound):
        await broker.publish(TOPIC, body())


async def test_a_rate_that_is_set_later_counts_at_once(broker: Broker) -> None:
    await broker.topics.create(TopicSpec(name=TOPIC))
    await broker.publish(TOPIC, body())
    labels = {"fanlog-publish-rate": "1", "fanlog-publish-burst": "1"}
    await broker.topics.update(TopicUpdate(name=TOPIC, changes={"labels": labels}))
    assert broker.admission.admit_plain(TOPIC, body()) is None
    await broker.publish(TOPIC, body())
    with pytest.raises(RateExceeded):
        await broker.publish(TOPIC, body())


async def test_while_a_backlog_has_limits_no_publish_is_plain(broker: Broker) -> None:
    await broker.topics.create(TopicSpec(name=TOPIC))
    labels = {"fanlog-backlog-policy": "drop-oldest", "fanlog-backlog-messages": "10"}
    await broker.subscriptions.create(SubscriptionSpec(name=NAME, topic=TOPIC, labels=labels))
    assert broker.admission.admit_plain(TOPIC, body()) is None
    await broker.subscriptions.delete(NAME)
    assert broker.admission.admit_plain(TOPIC, body()) is not None


async def test_where_load_is_shed_no_publish_is_plain() -> None:
    broker = build(shed_at=0.5)
    await broker.start()
    await broker.topics.create(TopicSpec(name=TOPIC))
    assert broker.admission.admit_plain(TOPIC, body()) is None
    await broker.stop()


async def test_without_room_it_is_refused_until_there_is_some(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "fanlog.broker")
    await broker.topics.create(TopicSpec(name=TOPIC))
    with monkeypatch.context() as full:
        full.setattr(limits, "WRITER_BACKLOG_BYTES_MAX", 3)
        with pytest.raises(WriterBacklogFull):
            await broker.publish(TOPIC, body())
    assert broker.admission.admit_plain(TOPIC, body()) is None, "the end of it is to be told"
    await broker.publish(TOPIC, body())
    assert "action=publishing_resumed" in [record.getMessage() for record in caplog.records]
    assert broker.admission.admit_plain(TOPIC, body()) is not None


async def test_a_broker_that_stops_takes_nothing(broker: Broker) -> None:
    await broker.topics.create(TopicSpec(name=TOPIC))
    broker.drain()
    with pytest.raises(Unavailable):
        broker.admission.admit_plain(TOPIC, body())
