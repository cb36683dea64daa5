"""One Spark session for all tests of this folder, in this process, on the loopback address.

And brokers for it to read: `broker` is shared by a module, `start_broker` gives a test its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from acceptance.paired import QUICK_JAVA
from fanlog.broker.clock import ManualClock
from fanlog.config import Config
from fanlog.spark import SETTINGS, prepare_java
from server.conftest import LoopThread, RunningServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has Spark: a second session beside it would cost both more than half."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(autouse=True, scope="session")
def java() -> None:
    prepare_java()
    os.environ.update(QUICK_JAVA)


@pytest.fixture(scope="session")
def spark(java: None) -> Iterator[SparkSession]:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Spark's own choice is whatever `python3` is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.Builder()
        .master("local[2]")
        .appName("fanlog tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        # Finds the caller of every function of a Column: a third of the time of these tests.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # On a busy machine a worker of Spark's takes its time to import what it needs.
        .config("spark.python.authenticate.socketTimeout", "60s")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
    )
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def loop_thread() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


def config_in(data_dir: Path, **settings: Any) -> Config:
    return Config(
        port=0, http_port=0, drain_s=2.0, disk_reserve_bytes=0, data_dir=data_dir, **settings
    )


@pytest.fixture(scope="module")
def broker(
    loop_thread: LoopThread, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    running = RunningServer(loop_thread, config_in(tmp_path_factory.mktemp("data")), None)
    yield running
    running.stop()


StartBroker = Callable[..., RunningServer]


@pytest.fixture
def start_broker(loop_thread: LoopThread, tmp_path: Path) -> Iterator[StartBroker]:
    """Start brokers of the test's own: `start_broker(clock=None, **settings)`."""
    started: list[RunningServer] = []

    def start(clock: ManualClock | None = None, **settings: Any) -> RunningServer:
        config = config_in(tmp_path / f"data-{len(started)}", **settings)
        started.append(RunningServer(loop_thread, config, clock))
        return started[-1]

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def make_world(loop_thread: LoopThread, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    from spark.worlds import World

    made: list[World] = []

    def make(lake: Path = tmp_path / "lake") -> Any:
        made.append(World(loop_thread, tmp_path, lake))
        return made[-1]

    yield make
    for world in made:
        world.server.stop()


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Any:
    return make_world()
