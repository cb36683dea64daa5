"""Every answer is preceded by its sync: the real server under strace."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from acceptance.served import Served
from chaos.power import Disk
from chaos.sample import read_content
from chaos.traced import Event, Received, Sent, Sync, Write, read_trace, strace_command
from crash.world import Clients, subscription_name, topic_name
from fanlog.core.hard_state import HardState
from fanlog.log.embedded import EmbeddedLog
from fanlog.log.folder import DATA_NAME

pytestmark = pytest.mark.xdist_group("traced")

SEED = 7
ROUNDS = 12
PUBLISHERS = 3
PAGE_BYTES = 4096
#: An HTTP/2 frame of data that holds one empty gRPC message: what an Acknowledge answers.
EMPTY_ANSWER = re.compile(rb"\x00\x00\x05\x00[\x00\x01].{4}\x00{5}", re.DOTALL)


@dataclass(slots=True)
class Story:
    """What the clients did."""

    #: Message id and data of each publish.
    published: list[tuple[str, bytes]] = field(default_factory=list)
    #: Ack id and message id of each acknowledgement, one after the other.
    acked: list[tuple[str, str]] = field(default_factory=list)


def publish(clients: Clients, chance: random.Random, story: Story) -> None:
    for _ in range(ROUNDS):
        data = chance.randbytes(chance.choice([40, 400, 9_000]))
        answer = clients.publisher.publish(
            request={"topic": topic_name("synced"), "messages": [{"data": data}]}, retry=None
        )
        story.published.append((answer.message_ids[0], data))


def acknowledge(clients: Clients, story: Story) -> None:
    name = subscription_name("synced")
    received = clients.subscriber.pull(
        subscription=name, max_messages=ROUNDS, retry=None
    ).received_messages
    for one in received:
        clients.subscriber.acknowledge(subscription=name, ack_ids=[one.ack_id], retry=None)
        story.acked.append((one.ack_id, one.message.message_id))


@pytest.fixture(scope="module")
def recorded(strace, tmp_path_factory) -> tuple[Story, list[Event], Path]:
    """A run with publishers side by side, then exactly-once acknowledgements one by one."""
    place = tmp_path_factory.mktemp("traced")
    served = Served(place / "data", place / "server.log", launcher=strace_command(place / "trace"))
    story = Story()
    try:
        served.start()
        clients = [Clients(served.endpoint) for _ in range(PUBLISHERS)]
        clients[0].publisher.create_topic(name=topic_name("synced"))
        clients[0].subscriber.create_subscription(
            request={
                "name": subscription_name("synced"),
                "topic": topic_name("synced"),
                "enable_exactly_once_delivery": True,
                "ack_deadline_seconds": 600,
            }
        )
        threads = [
            threading.Thread(target=publish, args=(one, random.Random(SEED + number), story))
            for number, one in enumerate(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        acknowledge(clients[0], story)
        for one in clients:
            one.channel.close()
        status, _ = served.stop()
        assert status == 0
    finally:
        served.close()
    return story, read_trace(place / "trace"), place


def first(events: Sequence[Event], wanted: Callable[[Event], bool], start: int = 0) -> int:
    for place in range(start, len(events)):
        if wanted(events[place]):
            return place
    raise AssertionError("what was looked for is not in the trace")


def write_of(events: Sequence[Event], data: bytes) -> int:
    return first(events, lambda event: isinstance(event, Write) and data in event.data)


def answer_of_publish(events: Sequence[Event], message_id: str) -> int:
    field_bytes = b"\n" + bytes([len(message_id)]) + message_id.encode()
    return first(events, lambda event: isinstance(event, Sent) and field_bytes in event.data)


def answer_of_ack(events: Sequence[Event], ack_id: str) -> tuple[int, int]:
    """Where the request came in, and where its answer left: next on the same connection."""
    asked = first(
        events, lambda event: isinstance(event, Received) and ack_id.encode() in event.data
    )
    descriptor = events[asked].descriptor  # type: ignore[union-attr]
    answered = first(
        events,
        lambda event: (
            isinstance(event, Sent)
            and event.descriptor == descriptor
            and EMPTY_ANSWER.search(event.data) is not None
        ),
        asked,
    )
    return asked, answered


def is_meta(event: Event) -> bool:
    return isinstance(event, Write) and event.offset < 2 * PAGE_BYTES


def is_synced_by(events: Sequence[Event], start: int, end: int) -> bool:
    """Whether between the two: a sync, then the meta page, and that synced too."""
    for place in range(start, end):
        if isinstance(events[place], Sync):
            for later in range(place + 1, end):
                event = events[later]
                if is_meta(event):
                    return (
                        event.is_synced
                        or any(  # type: ignore[union-attr]
                            isinstance(one, Sync) for one in events[later + 1 : end]
                        )
                    )
    return False


def disk_at(events: Sequence[Event], end: int) -> bytes:
    """The file as it would be found if the power went right before event `end`."""
    disk = Disk()
    for event in events[:end]:
        if isinstance(event, Write | Sync):
            disk.add(event)
    return disk.synced()


def test_a_publish_is_synced_before_its_answer_leaves(recorded):
    story, events, _ = recorded
    assert len(story.published) == ROUNDS * PUBLISHERS
    for message_id, data in story.published:
        answered = answer_of_publish(events, message_id)
        written = write_of(events, data)
        assert written < answered, f"message {message_id} was answered before it was written"
        assert is_synced_by(events, written + 1, answered), f"message {message_id} was not synced"


def test_a_missing_sync_would_be_noticed(recorded):
    story, events, _ = recorded
    careless = [
        Write(event.offset, event.data, is_synced=False) if isinstance(event, Write) else event
        for event in events
        if not isinstance(event, Sync)
    ]
    for message_id, data in story.published:
        written, answered = write_of(careless, data), answer_of_publish(careless, message_id)
        assert not is_synced_by(careless, written + 1, answered)


def test_an_exactly_once_ack_is_synced_before_its_answer_leaves(recorded):
    story, events, _ = recorded
    assert len(story.acked) == ROUNDS
    for ack_id, message_id in story.acked:
        asked, answered = answer_of_ack(events, ack_id)
        written = first(events, lambda event: isinstance(event, Write), asked)
        assert is_synced_by(events, written + 1, answered), f"the ack of {message_id}"


def test_a_disk_that_loses_power_at_an_answer_has_what_was_answered(recorded):
    """The same, asked of the bytes: whatever else happened, they hold what was promised."""
    story, events, place = recorded
    data_dir = place / "cut"
    data_dir.mkdir(exist_ok=True)
    for message_id, data in story.published[::PUBLISHERS]:
        (data_dir / DATA_NAME).write_bytes(disk_at(events, answer_of_publish(events, message_id)))
        log = EmbeddedLog(data_dir)
        content = read_content(log)
        log.close()
        batches = [value for *_, found in content.partitions.values() for value in found.values()]
        assert any(data in value for value in batches), f"message {message_id} is not there"
    for number, (ack_id, _) in enumerate(story.acked, 1):
        _, answered = answer_of_ack(events, ack_id)
        (data_dir / DATA_NAME).write_bytes(disk_at(events, answered))
        log = EmbeddedLog(data_dir)
        (share,) = HardState.load(log.state()).shares()
        end = max(bounds.end for bounds in log.partitions().values())
        log.close()
        assert share.stats(end).backlog == end - number
