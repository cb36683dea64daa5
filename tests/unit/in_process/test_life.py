"""Starting, stopping, restarting: folders, forks, timeouts, and use after the end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import fanlog
from fanlog.errors import (
    AckIdsRefused,
    ConfigError,
    DataFolderInUse,
    FailedPrecondition,
    InvalidArgument,
)

PATIENCE_S = 30.0


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_a_named_subscription_goes_on_where_it_was(tmp_path):
    seen: list[int] = []
    with fanlog.Broker(tmp_path / "data") as broker:
        subscription = broker.subscribe(
            "orders", lambda message: seen.append(message.payload), name="billing"
        )
        broker.publish("orders", 0)
        assert broker.join(PATIENCE_S)
        assert subscription.name == "billing"
        assert subscription.stop()
        assert not subscription.is_active
        broker.publish_many("orders", [1, 2])
    with fanlog.Broker(tmp_path / "data") as broker:
        assert broker.metrics().buffer_size == 2
        broker.subscribe("orders", lambda message: seen.append(message.payload), name="billing")
        assert broker.join(PATIENCE_S)
    assert sorted(seen) == [0, 1, 2]


def test_a_subscription_without_a_name_ends_with_the_broker(tmp_path):
    with fanlog.Broker(tmp_path / "data") as broker:
        broker.subscribe("orders", print)
        assert broker.metrics().subscriptions == 1
    with fanlog.Broker(tmp_path / "data") as broker:
        assert broker.metrics().subscriptions == 0


def test_settings_of_a_named_subscription_are_those_of_the_program(tmp_path):
    seen: list[dict[str, int]] = []
    with fanlog.Broker(tmp_path / "data") as broker:
        broker.subscribe("orders", print, name="billing", start="earliest")
    with fanlog.Broker(tmp_path / "data") as broker:
        # Where it starts was decided when it was made.
        broker.subscribe(
            "orders",
            lambda message: seen.append(message.payload),
            name="billing",
            filter="payload.n >= 1",
        )
        broker.publish_many("orders", [{"n": 0}, {"n": 1}])
        assert broker.join(PATIENCE_S)
    assert seen == [{"n": 1}]
    with fanlog.Broker(tmp_path / "data") as broker:
        with pytest.raises(FailedPrecondition, match="its topic is"):
            broker.subscribe("invoices", print, name="billing")
        with pytest.raises(FailedPrecondition, match="its ordered is True"):
            broker.subscribe("orders", print, name="billing", ordered=False)


def test_messages_before_the_subscription_are_there_when_they_are_kept(tmp_path):
    seen: list[int] = []
    with fanlog.Broker(tmp_path / "data") as broker:
        broker.publish("orders", 0)
        broker.subscribe("orders", lambda message: seen.append(message.payload), start="earliest")
        assert broker.join(PATIENCE_S)
    assert seen == [0]


def test_a_folder_is_for_one_broker_at_a_time(tmp_path):
    with fanlog.Broker(tmp_path / "data") as broker:
        broker.publish("orders", 0)
        other = fanlog.Broker(tmp_path / "data")
        with pytest.raises(DataFolderInUse, match=f"in use by process {os.getpid()}"):
            other.start()
        program = (
            "import fanlog, sys\n"
            "try:\n    fanlog.Broker(sys.argv[1]).start()\n"
            "except fanlog.FanlogError as error:\n    print(error)"
        )
        assert f"in use by process {os.getpid()}" in run(program, str(tmp_path / "data"))
    with other:
        assert other.metrics().subscriptions == 0


def test_many_brokers_in_one_program_know_nothing_of_each_other():
    seen: list[list[int]] = [[] for _ in range(4)]
    brokers = [fanlog.Broker() for _ in range(4)]
    for number, broker in enumerate(brokers):
        mine = seen[number]
        broker.subscribe("orders", lambda message, mine=mine: mine.append(message.payload))
        broker.publish("orders", number)
    for broker in brokers:
        assert broker.join(PATIENCE_S)
        assert broker.stop()
    assert seen == [[0], [1], [2], [3]]


def test_what_is_no_folder_and_no_project_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="is not a folder"):
        fanlog.Broker(tmp_path / "file")
    with pytest.raises(InvalidArgument, match="project"):
        fanlog.Broker(project="a/b")


def test_use_after_the_end_is_refused():
    broker = fanlog.Broker()
    subscription = broker.subscribe("orders", print)
    assert broker.stop()
    assert broker.stop()
    assert broker.wait(0)
    assert not subscription.is_active
    for call in (
        lambda: broker.publish("orders", 1),
        lambda: broker.publish_many("orders", [1]),
        lambda: broker.subscribe("orders", print),
        broker.metrics,
        broker.start,
        broker.join,
    ):
        with pytest.raises(FailedPrecondition, match="was stopped"):
            call()
    with pytest.raises(FailedPrecondition, match="was stopped"):
        asyncio.run(broker.publish_async("orders", 1))
    never = fanlog.Broker()
    assert never.stop()
    with pytest.raises(FailedPrecondition, match="was stopped"):
        never.start()


def test_a_stop_waits_for_callbacks_and_gives_the_others_back(tmp_path):
    begun, gate, seen = threading.Event(), threading.Event(), []

    def hold(message: fanlog.Message) -> None:
        begun.set()
        assert gate.wait(PATIENCE_S)
        seen.append(message.payload)

    broker = fanlog.Broker(tmp_path / "data")
    broker.subscribe(
        "orders", hold, name="billing", concurrency=1, delivery="exactly-once", retry=(0, 0)
    )
    broker.publish_many("orders", list(range(10)))
    assert begun.wait(PATIENCE_S)
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    deadline_s = time.monotonic() + PATIENCE_S
    while broker.metrics().buffer_size < 9:
        assert time.monotonic() < deadline_s
    gate.set()
    stopping.join(PATIENCE_S)
    assert seen == [0]
    with fanlog.Broker(tmp_path / "data") as again:
        assert again.metrics().buffer_size == 9
        again.subscribe(
            "orders", hold, name="billing", concurrency=1, delivery="exactly-once", retry=(0, 0)
        )
        assert again.join(PATIENCE_S)
    assert sorted(seen) == list(range(10))


def test_a_stop_does_not_wait_for_ever(tmp_path):
    begun, gate, outcome = threading.Event(), threading.Event(), []

    def hold(message: fanlog.Message) -> None:
        begun.set()
        assert gate.wait(PATIENCE_S)
        try:
            message.ack().result(PATIENCE_S)
        except AckIdsRefused as error:
            outcome.append(error)
        message.nack()
        told.set()

    told = threading.Event()
    broker = fanlog.Broker(tmp_path / "data")
    broker.subscribe("orders", hold, name="billing")
    broker.publish("orders", 0)
    assert begun.wait(PATIENCE_S)
    assert not broker.stop(0.01)
    gate.set()
    assert told.wait(PATIENCE_S)
    assert "the broker has stopped" in str(outcome[0])
    with fanlog.Broker(tmp_path / "data") as again:
        assert again.metrics().buffer_size == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_stop_from_a_callback_lets_it_end_first(tmp_path, is_async):
    broker = fanlog.Broker(tmp_path / "data")
    answers = []

    def stop(message: fanlog.Message) -> None:
        answers.append(broker.stop())
        answers.append(broker.publish("orders", "still"))

    async def stop_async(message: fanlog.Message) -> None:
        stop(message)

    callback = stop_async if is_async else stop
    broker.subscribe("orders", callback, name="billing", max_outstanding=1)
    broker.publish("orders", "stop")
    assert broker.wait(PATIENCE_S)
    assert answers[0] is False
    with fanlog.Broker(tmp_path / "data") as again:
        # The message that asked for it is acknowledged, what it published is there.
        assert again.metrics().buffer_size == 1


def test_a_callback_may_stop_itself():
    with fanlog.Broker() as broker:
        seen = []
        ended = threading.Event()

        def once(message: fanlog.Message) -> None:
            seen.append(message.payload)
            subscription.stop()
            ended.set()

        subscription = broker.subscribe("orders", once, name="billing", concurrency=1)
        broker.publish_many("orders", [0, 1])
        assert ended.wait(PATIENCE_S)
        assert not subscription.is_active
        assert len(seen) == 1


def test_a_fork_leaves_the_broker_to_its_parent(tmp_path):
    program = """
import os, sys, fanlog
with fanlog.Broker(sys.argv[1]) as broker:
    broker.publish("orders", 1)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            broker.publish("orders", 2)
        except fanlog.FanlogError as error:
            os.write(1, str(error).encode())
        # Leaves the block, as a program does that goes on in the child.
if not child:
    import time
    time.sleep(30)
    os._exit(0)
# The child lives on, and does not hold the folder.
with fanlog.Broker(sys.argv[1]) as broker:
    print(" reopened", broker.metrics().subscriptions)
os.kill(child, 9)
os.waitpid(child, 0)
"""
    out = run(program, str(tmp_path / "data"))
    assert "does not come along with a fork" in out
    assert "reopened 0" in out


def test_a_program_that_does_not_stop_its_broker_ends_all_the_same(tmp_path):
    program = """
import sys, fanlog
broker = fanlog.Broker(sys.argv[1])
broker.subscribe("orders", lambda message: print(message.payload), name="billing")
broker.publish("orders", 1)
broker.join()
"""
    assert run(program, str(tmp_path / "data")) == "1\n"
    with fanlog.Broker(tmp_path / "data") as broker:
        assert broker.metrics().buffer_size == 0


def test_no_grpc_and_no_server_is_imported():
    program = """
import sys, fanlog
with fanlog.Broker() as broker:
    broker.subscribe("orders", lambda message: print(message.payload))
    broker.publish("orders", 1)
    broker.join()
found = [name for name in sys.modules if name.split(".")[0] in ("grpc", "starlette", "uvicorn")]
print(found, "fanlog.server" in sys.modules)
"""
    assert run(program) == "1\n[] False\n"


def test_a_crash_leaves_no_subscription_without_a_name(tmp_path):
    program = """
import os, sys, fanlog
broker = fanlog.Broker(sys.argv[1])
broker.subscribe("orders", print)
broker.subscribe("orders", print, name="billing")
os._exit(0)
"""
    run(program, str(tmp_path / "data"))
    with fanlog.Broker(Path(tmp_path / "data")) as broker:
        assert broker.metrics().subscriptions == 1
