"""Dead letters from the broker that writes them to the table that analysts read."""

from __future__ import annotations

from datetime import UTC, datetime

from fanlog.lake.dead_letters import collect_letters
from fanlog.lake.location import Location
from fanlog.lake.tables import DEAD_LETTERS, open_table
from fanlog.log.seal import Seal
from fanlog.model import ids
from server.replaying import face_of
from server.tiered import DAY, Tiered, keeping


def letters_in(tiered: Tiered) -> list[dict]:
    """Archive everything, collect the letters, and read the table."""
    tiered.archive()
    location = Location.parse(str(tiered.lake))
    collect_letters(location, tiered.server.store.hot.identity.hex())
    rows = open_table(location, DEAD_LETTERS).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: row["offset"])


def failing(server, **fields) -> tuple[str, str, str]:
    """A topic, its subscription whose first failure is the last, and the dead letter topic."""
    dead, topic = server.topic(), server.topic(**fields)
    policy = {"dead_letter_topic": dead, "max_delivery_attempts": 5}
    return topic, server.subscription(topic, dead_letter_policy=policy), dead


def fail(server, name: str) -> None:
    """Let the one message that waits become a dead letter."""
    for attempt in range(1, 6):
        [received] = server.pull(name)
        assert received.delivery_attempt == attempt
        server.nack(name, [received])
    server.run(server.broker.ledger.sync())


def test_what_the_broker_says_of_a_letter_is_in_the_table(tiered):
    server = tiered.server
    topic, name, dead = failing(server)
    [message_id] = server.publish(topic, b"x", colour="red")
    partition, offset = ids.parse_message_id(message_id)
    [batch] = server.run(server.store.read(partition, offset, max_bytes=1))
    fail(server, name)
    [row] = letters_in(tiered)
    published = datetime.fromtimestamp(batch.publish_time_ns / 1e9, UTC)
    assert row["topic"] == dead
    assert row["subscription"] == name
    assert row["original_topic"] == topic
    assert row["original_message_id"] == message_id
    # The attribute is as Google writes it, which is to the millisecond.
    cut = published.replace(microsecond=published.microsecond // 1_000 * 1_000)
    assert row["original_publish_time"] == cut
    assert row["delivery_attempts"] == 5
    assert "5 of 5" in row["reason"]
    assert dict(row["attributes"])["colour"] == "red"


def test_what_only_looks_like_a_letter_is_not_in_the_table(tiered):
    server = tiered.server
    topic, name, dead = failing(server)
    [message_id] = server.publish(topic, b"x")
    fail(server, name)
    [row] = letters_in(tiered)
    server.publish(dead, b"forged", **dict(row["attributes"]))
    server.publish(topic, b"forged", **dict(row["attributes"]))
    assert [one["original_message_id"] for one in letters_in(tiered)] == [message_id]


def test_letters_and_copies_stay_what_they_are_when_they_are_cold(tiered):
    """From the lake, a letter is redriven as from the log; and a copy stays its addressee's."""
    server = tiered.server
    topic, name, dead = failing(server, **keeping())
    reader, other = server.subscription(dead), server.subscription(topic)
    [message_id] = server.publish(topic, b"x")
    fail(server, name)
    server.drain(other, 1)
    forged = server.publish(dead, b"forged", **{"fanlog-source-message-id": message_id})
    tiered.archive()
    tiered.pass_time(2 * DAY)
    assert tiered.tiers(dead) == (0, 2, 2, 2)
    face = face_of(server, "grpc")
    found = face.letters(reader)["letters"]
    assert [one["source_message_id"] for one in found] == [message_id, ""]
    server.publisher.update_topic(
        topic={"name": topic, "message_retention_duration": {"seconds": 600}},
        update_mask={"paths": ["message_retention_duration"]},
    )
    server.sweep()
    answer = face.redrive(reader, all=True, copies=True)
    assert (answer["copied"], answer["skipped"]) == (1, 1)
    assert answer["skipped_letters"][0]["message_id"] == forged[0]
    tiered.archive()
    face.close()
    partition = tiered.partition(topic)
    [batch] = server.run(server.store.cold.read(partition, 1, end=2, max_bytes=1))
    addressee = server.broker.hard.catalog.subscription(name).id
    assert batch.seal == Seal(is_copy=True, addressee=addressee)
    [received] = server.pull(name)
    assert received.message.attributes["fanlog-original-message-id"] == message_id
    assert server.pull(other) == []
