"""The real process, killed around ticks: every tick is there once, and none is missing."""

from __future__ import annotations

import random
import signal
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path

from acceptance.served import PATIENCE_S, Served
from crash.world import Clients, subscription_name, topic_name
from fanlog.client import Client
from fanlog.client.schedules import ScheduleClient
from fanlog.v1.schedules_pb2 import Schedule

TOPIC = topic_name("ticks")
SUBSCRIPTION = subscription_name("ticks")
NAME = "projects/crash/schedules/every-second"
KILLS = 6


def ticks_of(clients: Clients, messages: int) -> list[int]:
    """The seconds of the ticks that were published, as they come."""
    found: list[int] = []
    late_s = time.monotonic() + PATIENCE_S
    while len(found) < messages and time.monotonic() < late_s:
        request = {"subscription": SUBSCRIPTION, "max_messages": 1000}
        received = clients.subscriber.pull(request=request).received_messages
        ids = [one.ack_id for one in received]
        clients.subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=ids)
        for one in received:
            tick = datetime.fromisoformat(one.message.attributes["fanlog-tick"])
            found.append(int(tick.timestamp()))
    return found


def test_killed_around_ticks(tmp_path: Path) -> None:
    chance = random.Random(7)
    with closing(Served(tmp_path / "data", tmp_path / "server.log")) as served:
        served.start()
        clients = Clients(served.endpoint)
        with closing(clients.channel), Client(served.endpoint) as client:
            clients.publisher.create_topic(name=TOPIC)
            clients.subscriber.create_subscription(
                request={"name": SUBSCRIPTION, "topic": TOPIC, "ack_deadline_seconds": 600}
            )
            schedule = Schedule(name=NAME, topic=TOPIC, cron="* * * * * *", data=b"tick")
            schedule.missed = Schedule.ALL
            ScheduleClient(client).create(schedule)
        for _ in range(KILLS):
            # Near a full second: before its tick, in the middle of its commit, or after it.
            time.sleep(1.0 - time.time() % 1.0 + chance.uniform(-0.01, 0.03))
            served.stop(signal.SIGKILL)
            served.start()
        with Client(served.endpoint) as client:
            time.sleep(1.1)
            ScheduleClient(client).pause(NAME)
            state = ScheduleClient(client).get(NAME)
        clients = Clients(served.endpoint)
        with closing(clients.channel):
            found = ticks_of(clients, state.published_ticks)
    assert found == list(range(found[0], found[0] + state.published_ticks))
    assert found[-1] == state.last_tick_time.ToSeconds()
    assert state.missed_ticks == 0
    assert len(found) > KILLS
