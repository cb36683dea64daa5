"""A disk that runs full under the real server: a small tmpfs."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.api_core.exceptions import ResourceExhausted

from acceptance.served import PATIENCE_S, Served
from crash.world import Clients, subscription_name, topic_name

MIB = 1024 * 1024
DISK_BYTES = 48 * MIB
RESERVE_BYTES = 16 * MIB
#: Longest that freed room may take to be noticed: a sweep every 5 s, then the pages.
ROUNDS = PATIENCE_S * 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0 and not os.environ.get("CI"):
        pytest.skip("mounting a tmpfs needs root")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)], check=True
    )
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def served(small_disk: Path, tmp_path: Path) -> Iterator[Served]:
    server = Served(small_disk / "data", tmp_path / "server.log")
    server.start("--disk-reserve-bytes", str(RESERVE_BYTES))
    yield server
    server.close()


@pytest.fixture
def clients(served: Served) -> Iterator[Clients]:
    clients = Clients(served.endpoint)
    clients.publisher.create_topic(name=topic_name("full"))
    clients.subscriber.create_subscription(name=subscription_name("full"), topic=topic_name("full"))
    yield clients
    clients.channel.close()


def publish(clients: Clients, size_bytes: int = MIB) -> None:
    clients.publisher.publish(
        request={"topic": topic_name("full"), "messages": [{"data": bytes(size_bytes)}]},
        retry=None,
    )


def fill(clients: Clients) -> int:
    """Publish until that is refused; how many messages went in."""
    for count in range(2 * DISK_BYTES // MIB):
        try:
            publish(clients)
        except ResourceExhausted:
            return count
    raise AssertionError("the disk never ran full")


def drain(clients: Clients, count: int) -> None:
    name = subscription_name("full")
    while count:
        received = clients.subscriber.pull(
            subscription=name, max_messages=10, retry=None, timeout=PATIENCE_S
        ).received_messages
        assert received
        clients.subscriber.acknowledge(
            subscription=name, ack_ids=[one.ack_id for one in received], retry=None
        )
        count -= len(received)


def until_refused(clients: Clients) -> None:
    """Publish a little now and then, until the server has noticed that the room is gone."""
    pause = threading.Event()
    for _ in range(ROUNDS):
        try:
            publish(clients, 1)
        except ResourceExhausted:
            return
        pause.wait(0.1)
    raise AssertionError("publishing was never refused")


def publish_when_there_is_room(clients: Clients) -> None:
    """Try until it is accepted, as any publisher with retries does."""
    pause = threading.Event()
    for _ in range(ROUNDS):
        try:
            publish(clients)
            return
        except ResourceExhausted:
            pause.wait(0.1)
    raise AssertionError("publishing did not resume")


def test_publishing_stops_at_the_reserve_and_resumes_when_acks_free_room(served, clients):
    went_in = fill(clients)
    assert 10 <= went_in <= (DISK_BYTES - RESERVE_BYTES) // MIB
    # A small message is no exception, and refusals change nothing.
    with pytest.raises(ResourceExhausted, match="publishing resumes"):
        publish(clients)
    # Resources can be made, messages read and acknowledged.
    clients.publisher.create_topic(name=topic_name("other"))
    drain(clients, went_in)
    publish_when_there_is_room(clients)
    drain(clients, 1)
    # And again, on the same pages: nothing leaks.
    refilled = fill(clients)
    assert refilled >= went_in - 6
    drain(clients, refilled)


def test_publishing_resumes_when_other_files_go(served, clients, small_disk):
    publish(clients)
    hog = small_disk / "hog"
    hog.write_bytes(bytes(DISK_BYTES - RESERVE_BYTES - MIB // 2))
    until_refused(clients)
    hog.unlink()
    publish_when_there_is_room(clients)


def test_a_disk_filled_to_the_brim_fails_publishes_and_loses_nothing(served, clients, small_disk):
    """The reserve is gone too, taken by somebody else: commits fail, and nothing else does."""
    publish(clients)
    hog = small_disk / "hog"
    with hog.open("wb") as file:
        try:
            while True:
                file.write(bytes(MIB))
                file.flush()
        except OSError:
            pass
    with pytest.raises(ResourceExhausted):
        publish(clients)
    received = clients.subscriber.pull(
        subscription=subscription_name("full"), max_messages=1, retry=None
    ).received_messages
    assert len(received) == 1
    hog.unlink()
    publish_when_there_is_room(clients)
    clients.subscriber.modify_ack_deadline(
        subscription=subscription_name("full"),
        ack_ids=[received[0].ack_id],
        ack_deadline_seconds=0,
        retry=None,
    )
    drain(clients, 2)
    status, _ = served.stop()
    assert status == 0
