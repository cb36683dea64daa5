"""The machine's clock steps: publish times never run backwards, and leases do not notice."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acceptance.served import PATIENCE_S, Served
from chaos.conftest import missing
from chaos.stepped import OFFSET_VARIABLE
from crash.world import Clients, subscription_name, topic_name

HOUR_S = 3_600
TESTS = Path(__file__).resolve().parent.parent
#: Seconds by which the clock is off, one after the other.
STEPS = (HOUR_S, -HOUR_S, 40 * 24 * HOUR_S, -24 * HOUR_S, 0)

pytestmark = pytest.mark.filterwarnings("ignore:The return_immediately flag is deprecated")


class SteppedClock:
    """A file that says how far the server's wall clock is off."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.step(0)

    def step(self, seconds: int) -> None:
        # Replaced whole: the server reads it at any time.
        new = self.path.with_suffix(".new")
        new.write_text(f"{seconds:+d}")
        new.replace(self.path)


@pytest.fixture(params=["libfaketime", "clock port"])
def stepped(request, serve: Callable[..., Served], tmp_path: Path) -> tuple[Served, SteppedClock]:
    clock = SteppedClock(tmp_path / "offset")
    if request.param == "clock port":
        launcher = [sys.executable, "-m", "chaos.stepped"]
        environ = {OFFSET_VARIABLE: str(clock.path), "PYTHONPATH": str(TESTS)}
        return serve(launcher=launcher, environ=environ), clock
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    if not found:
        missing("libfaketime is not installed")
    environ = {
        "LD_PRELOAD": str(found[0]),
        "FAKETIME_TIMESTAMP_FILE": str(clock.path),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    return serve(environ=environ), clock


class Caller:
    def __init__(self, served: Served) -> None:
        self._clients = Clients(served.endpoint)

    def create(self) -> None:
        self._clients.publisher.create_topic(name=topic_name("steps"))
        for name in ("plain", "once", "all"):
            self._clients.subscriber.create_subscription(
                request={
                    "name": subscription_name(name),
                    "topic": topic_name("steps"),
                    "enable_exactly_once_delivery": name == "once",
                    "ack_deadline_seconds": 600,
                }
            )

    def publish(self) -> None:
        self._clients.publisher.publish(topic=topic_name("steps"), messages=[{"data": b"x"}])

    def pull(self, name: str, *, wait_s: float = 0.0) -> list[Any]:
        request = {"subscription": subscription_name(name), "max_messages": 100}
        if not wait_s:
            request["return_immediately"] = True
        answer = self._clients.subscriber.pull(
            request=request, retry=None, timeout=wait_s or PATIENCE_S
        )
        return list(answer.received_messages)

    def modify(self, name: str, held: list[Any], seconds: int) -> None:
        self._clients.subscriber.modify_ack_deadline(
            subscription=subscription_name(name),
            ack_ids=[one.ack_id for one in held],
            ack_deadline_seconds=seconds,
        )

    def acknowledge(self, name: str, held: list[Any]) -> None:
        self._clients.subscriber.acknowledge(
            subscription=subscription_name(name), ack_ids=[one.ack_id for one in held]
        )

    def close(self) -> None:
        self._clients.channel.close()


def test_steps_while_it_runs(stepped):
    served, clock = stepped
    served.start()
    caller = Caller(served)
    caller.create()
    caller.publish()
    held = {name: caller.pull(name) for name in ("plain", "once")}
    assert [len(found) for found in held.values()] == [1, 1]

    for seconds in STEPS:
        clock.step(seconds)
        caller.publish()
        # Held for ten minutes, whatever the clock says.
        for name in held:
            new = caller.pull(name)
            assert len(new) == 1, f"{name} at {seconds:+d} s"
            held[name] += new

    # A lease of two seconds ends after two seconds, although the clock goes back by a day.
    began_s = time.monotonic()
    for name, found in held.items():
        caller.modify(name, found, 2)
    clock.step(-24 * HOUR_S)
    for name, found in held.items():
        again: list[Any] = []
        while len(again) < len(found):
            more = caller.pull(name, wait_s=PATIENCE_S)
            assert more, name
            again += more
        assert time.monotonic() - began_s >= 2
        caller.acknowledge(name, again)

    times = [one.message.publish_time for one in caller.pull("all")]
    assert len(times) == len(STEPS) + 1
    assert times == sorted(times)
    # It went along with the steps forward.
    assert (times[-1] - times[0]).total_seconds() > 39 * 24 * HOUR_S
    caller.close()
    assert served.stop()[0] == 0
    assert "Traceback" not in served.log_path.read_text()


def test_steps_between_two_lives(stepped):
    """Set back while the server is down: times go on from the last, and all can be had."""
    served, clock = stepped
    clock.step(2 * HOUR_S)
    served.start()
    caller = Caller(served)
    caller.create()
    caller.publish()
    caller.close()
    assert served.stop()[0] == 0

    clock.step(-HOUR_S)
    served.start()
    caller = Caller(served)
    caller.publish()
    found = caller.pull("all")
    assert len(found) == 2
    times = [one.message.publish_time for one in found]
    assert times[1] >= times[0]
    caller.acknowledge("all", found)
    assert caller.pull("all") == []
    caller.close()
    assert served.stop()[0] == 0
