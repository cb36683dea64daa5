"""A disk that is full to the brim, and a server that is killed and started on it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.api_core.exceptions import GoogleAPICallError, ResourceExhausted

from acceptance.served import FANLOG, PATIENCE_S, Served, clean_environ
from chaos.conftest import missing
from crash.world import Clients, subscription_name, topic_name
from fanlog.testing.history import History

MIB = 1024 * 1024
DISK_BYTES = 32 * MIB
#: Small: the hog takes it as well.
RESERVE = ("--disk-reserve-bytes", str(MIB))
MESSAGE_BYTES = 200_000


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        missing("a tmpfs cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.fixture
def served(small_disk: Path, tmp_path: Path) -> Iterator[Served]:
    server = Served(small_disk / "data", tmp_path / "server.log")
    server.start(*RESERVE)
    yield server
    server.close()


def take_all_room(disk: Path) -> Path:
    """Leave not a byte to anybody."""
    hog = disk / "hog"
    with hog.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4_096)):
                pass
        except OSError:
            pass
    return hog


class Author:
    """Publishes and reads, and writes down what was answered."""

    def __init__(self, served: Served) -> None:
        self.history = History()
        self.unacked: set[str] = set()
        self.connect(served)

    def connect(self, served: Served) -> None:
        self._clients = Clients(served.endpoint)

    def create(self) -> None:
        self._clients.publisher.create_topic(name=topic_name("full"))
        self._clients.subscriber.create_subscription(
            name=subscription_name("full"), topic=topic_name("full")
        )

    def publish(self, number: int, size_bytes: int = MESSAGE_BYTES) -> None:
        data = b"%d " % number + bytes(size_bytes)
        answer = self._clients.publisher.publish(
            request={"topic": topic_name("full"), "messages": [{"data": data}]}, retry=None
        )
        self.history.published("full", [(answer.message_ids[0], data)])
        self.unacked.add(answer.message_ids[0])

    def fill(self) -> None:
        """Use up what is free inside the file."""
        for number in range(100, 100 + DISK_BYTES // MESSAGE_BYTES):
            self.publish(number)

    def publish_when_there_is_room(self) -> None:
        pause = threading.Event()
        for _ in range(PATIENCE_S * 10):
            try:
                return self.publish(-1)
            except ResourceExhausted:
                pause.wait(0.1)
        raise AssertionError("publishing did not resume")

    def read(self, *, acknowledge: bool) -> None:
        """Read until everything unacknowledged has come."""
        name = subscription_name("full")
        came: set[str] = set()
        while left := self.unacked - came:
            received = self._clients.subscriber.pull(
                subscription=name, max_messages=5, retry=None, timeout=PATIENCE_S
            ).received_messages
            assert received, left
            for one in received:
                came.add(one.message.message_id)
                self.history.delivered("full", one.message.message_id, one.message.data)
            if acknowledge:
                self._clients.subscriber.acknowledge(
                    subscription=name, ack_ids=[one.ack_id for one in received], retry=None
                )
                self.unacked -= came

    def close(self) -> None:
        self._clients.channel.close()


def doctor(data_dir: Path) -> None:
    done = subprocess.run(
        [*FANLOG, "doctor", "--data-dir", str(data_dir)],
        capture_output=True,
        text=True,
        env=clean_environ(),
    )
    assert done.returncode == 0, done.stdout


def test_killed_on_a_full_disk_and_started_on_it(served, small_disk):
    """Nothing that was answered is lost; what can be served without room is."""
    author = Author(served)
    author.create()
    for number in range(10):
        author.publish(number)
    hog = take_all_room(small_disk)
    with pytest.raises(ResourceExhausted):
        author.fill()

    # Killed in the middle of attempts that cannot succeed.
    trying = threading.Thread(target=_try_for_ever, args=(author,), daemon=True)
    trying.start()
    threading.Event().wait(0.3)
    served.stop(signal.SIGKILL)
    trying.join(PATIENCE_S)
    author.close()
    doctor(served.data_dir)

    # It starts on pages that are free inside the file, again and again, serves what needs no more
    # room than that, and refuses the rest.
    for _ in range(3):
        served.start(*RESERVE)
        author.connect(served)
        author.read(acknowledge=False)
        with pytest.raises(ResourceExhausted):
            author.publish(2_000)
        author.close()
        served.stop(signal.SIGKILL)
    doctor(served.data_dir)

    # A little room is enough to start, read and acknowledge.
    os.truncate(hog, hog.stat().st_size - MIB // 2)
    served.start(*RESERVE)
    author.connect(served)
    author.read(acknowledge=True)
    hog.unlink()
    author.publish_when_there_is_room()
    author.read(acknowledge=True)
    assert author.history.lost("full", "full") == []
    assert author.history.altered("full", "full") == []
    author.close()
    assert served.stop()[0] == 0
    doctor(served.data_dir)


def _try_for_ever(author: Author) -> None:
    number = 1_000
    while True:
        number += 1
        try:
            author.publish(number)
        except ResourceExhausted:
            continue
        except (GoogleAPICallError, ValueError):
            return
