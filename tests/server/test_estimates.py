"""Estimates say what an act does: each is compared with the act itself."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.client import CallFailed, Client
from fanlog.client.inspection import InspectionClient
from fanlog.client.reopening import ReopenClient
from server.conftest import PROJECT, RunningServer
from server.registry import Registry
from server.unique import unique


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def client(server: RunningServer) -> Iterator[Client]:
    client = Client(server.endpoint)
    yield client
    client.close()


@pytest.fixture
def looking(client: Client) -> InspectionClient:
    return InspectionClient(client)


def stamp(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromMicroseconds(round(seconds * 1e6))
    return found


def counts(found: Any) -> tuple[int, int]:
    return found.reopened, found.acknowledged


@pytest.mark.parametrize("seed", range(4))
def test_a_seek_does_what_its_estimate_said(server, client, looking, seed):
    """Wherever it goes, whatever was acknowledged before, kept or not."""
    chance = random.Random(seed)
    kept = {"message_retention_duration": timedelta(days=1)} if seed % 2 else {}
    topic = server.topic(**kept)
    fields = {"filter": 'attributes.colour = "red"'} if seed > 1 else {}
    name = server.subscription(topic, retain_acked_messages=seed == 2, **fields)
    ids: list[str] = []
    times: list[float] = []
    snapshot = ""
    for step in range(12):
        colour = chance.choice(["red", "blue"])
        ids += server.publish(topic, *[b"x"] * chance.randrange(1, 5), colour=colour)
        times.append(server.clock.now())
        server.advance(10)
        held = server.pull(name, chance.randrange(1, 6))
        some = chance.sample(held, chance.randrange(0, len(held) + 1))
        if some:
            server.ack(name, some)
        if step == 5:
            snapshot = f"projects/{PROJECT}/snapshots/{unique('snapshot')}"
            server.subscriber.create_snapshot(name=snapshot, subscription=name)
    for _ in range(12):
        place: dict[str, Any] = chance.choice(
            [
                {"time": stamp(chance.choice(times))},
                {"message_id": chance.choice(ids)},
                {"position": chance.choice(["earliest", "now"])},
                {"snapshot": snapshot},
            ]
        )
        said = looking.estimate("seek", name, **place)
        again = looking.estimate("seek", name, **place)
        assert said == again, "nothing is done"
        assert counts(said) == counts(ReopenClient(client).seek(name, **place)), place


def test_sentences_for_people(server, looking):
    topic, name = server.topic_and_subscription()
    server.publish(topic, *[b"x"] * 1_000)
    server.publish(topic, *[b"x"] * 204)
    server.pull(name, 3)
    found = looking.estimate("seek", name, position="now")
    assert found.sentence == (
        "0 messages would be delivered again; 1,204 messages that wait would be acknowledged, 3 of "
        "them held by consumers now"
    )
    assert found.outstanding == 3
    found = looking.estimate("purge", name)
    assert found.sentence == (
        "1,204 messages would be acknowledged, 3 of them held by consumers now"
    )
    found = looking.estimate("delete", name)
    assert found.sentence == (
        "1,204 messages that wait would never be delivered, 3 of them held by consumers now; there "
        "is no way back"
    )
    assert (found.lost, looking.estimate("detach", name).lost) == (1_204, 1_204)
    found = looking.estimate("snapshot", name)
    assert found.kept == 1_204
    assert len(server.pull(name)) == 1_000, "nothing was done"


def test_a_purge_does_what_its_estimate_said(server, looking):
    topic, name = server.topic_and_subscription()
    ids = server.publish(topic, *[b"x"] * 10)
    said = looking.estimate("purge", name, message_id=ids[4])
    assert said.acknowledged == 4
    assert looking.purge(name, message_id=ids[4]).purged == 4


def test_the_delete_of_a_topic(server, looking):
    topic, name = server.topic_and_subscription()
    server.subscription(topic)
    server.publish(topic, b"0", b"1")
    server.ack(name, server.pull(name, 1))
    snapshot = f"projects/{PROJECT}/snapshots/{unique('snapshot')}"
    server.subscriber.create_snapshot(name=snapshot, subscription=name)
    found = looking.estimate("delete", topic)
    assert (found.subscriptions, found.snapshots, found.kept) == (2, 1, 2)
    assert found.sentence.startswith("2 subscriptions keep what waits (3 messages)")
    assert looking.estimate("delete", snapshot).kept == 1


def test_the_delete_of_a_schema(server, looking):
    registry = Registry(server)
    made = registry.create()
    assert looking.estimate("delete", made.name).sentence == "no topic has this schema"
    registry.topic(made.name)
    assert looking.estimate("delete", made.name).topics == 1


@pytest.mark.parametrize(
    ("act", "kind", "place", "status", "words"),
    [
        ("explode", "sub", {}, "INVALID_ARGUMENT", "act: 'explode' is none of seek, purge"),
        ("seek", "topic", {}, "INVALID_ARGUMENT", "act: 'seek' is none of delete"),
        ("seek", "sub", {}, "INVALID_ARGUMENT", "target: seek needs one of"),
        ("delete", "sub", {"position": "now"}, "INVALID_ARGUMENT", "delete goes to no place"),
        ("purge", "sub", {"position": "now"}, "INVALID_ARGUMENT", "a purge goes to a time"),
        ("seek", "sub", {"message_id": "1"}, "INVALID_ARGUMENT", "message id"),
        ("delete", "gone", {}, "NOT_FOUND", "does not exist"),
    ],
)
def test_what_makes_no_sense_is_refused(server, looking, act, kind, place, status, words):
    topic, name = server.topic_and_subscription()
    resource = {"sub": name, "topic": topic, "gone": f"{name}-gone"}[kind]
    with pytest.raises(CallFailed) as caught:
        looking.estimate(act, resource, **place)
    assert caught.value.status == status
    assert words in caught.value.message
