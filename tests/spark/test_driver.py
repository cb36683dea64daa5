"""The driver of a Spark in our process, and what becomes of a job when it is gone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from fanlog.client import Client
from fanlog.errors import InvalidArgument
from fanlog.lake.location import Location
from fanlog.pipeline.context import Context
from fanlog.pipeline.driver import LocalDriver, driver_of
from fanlog.pipeline.heartbeat import Heartbeat
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.jobs.work import Stopped, Work
from fanlog.pipeline.process import Pipeline
from fanlog.v1 import pipelines_pb2 as pb
from spark.connected import stop


def test_work_that_is_stopped(spark):
    found = stop(spark)
    assert found["stages"]
    assert all(0 <= ended < tasks for ended, tasks in found["stages"])
    assert "cancelled" in found["error"]
    assert found["is_alive"]
    assert found["then"] == 10


def test_one_that_is_gone():
    def is_stopped() -> bool:
        raise ConnectionRefusedError

    def job_ids(_: str) -> list[int]:
        raise Py4JNetworkError

    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped))
    tracker = SimpleNamespace(getJobIdsForGroup=job_ids)
    context = SimpleNamespace(_jsc=java, statusTracker=lambda: tracker)
    driver = LocalDriver(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]
    assert not driver.is_alive()
    # Whoever watches a job is not the one to say so.
    assert not driver.stages(Work("projects/test/jobs/job1", "verify", {}))


def test_one_whose_context_was_stopped():
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: True))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=java))
    assert not driver_of(spark).is_alive()
    spark.sparkContext._jsc = None
    assert not driver_of(spark).is_alive()


@dataclass
class StubDriver:
    """One that lives, or does not."""

    alive: bool

    def is_alive(self) -> bool:
        return self.alive

    def stoppable(self, _: Work) -> AbstractContextManager[None]:
        return nullcontext()


def context_on(driver: StubDriver, folder: Path) -> Context:
    context = Context(None, "127.0.0.1:1", Location.parse(str(folder)))  # type: ignore[arg-type]
    context.__dict__["driver"] = driver
    return context


@pytest.mark.parametrize(
    ("is_alive", "raised", "expected"),
    [
        (True, ConnectionRefusedError(), ConnectionRefusedError),
        (True, InvalidArgument("no such column"), InvalidArgument),
        (False, InvalidArgument("no such column"), InvalidArgument),
        # Somebody else is to try: it is not the job that failed.
        (False, ConnectionRefusedError(), Stopped),
    ],
)
def test_a_job_fails_for_its_own_reasons_only(tmp_path, monkeypatch, is_alive, raised, expected):
    def do(context: Context, work: Work) -> Any:
        raise raised

    monkeypatch.setitem(kinds._KINDS, "verify", do)
    context = context_on(StubDriver(is_alive), tmp_path)
    with pytest.raises(expected):
        kinds.runners(context)["verify"](Work("projects/test/jobs/job1", "verify", {}))


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_job_that_is_to_stop_has_not_failed(tmp_path, monkeypatch, is_alive):
    """Spark raises whatever it likes when its query is cancelled."""

    def do(context: Context, work: Work) -> Any:
        work.stop()
        raise RuntimeError("Job 7 cancelled part of cancelled job group")

    monkeypatch.setitem(kinds._KINDS, "verify", do)
    run = kinds.runners(context_on(StubDriver(is_alive), tmp_path))["verify"]
    with pytest.raises(Stopped, match="was stopped"):
        run(Work("projects/test/jobs/job1", "verify", {}))


@pytest.mark.parametrize("crashes", [0, 1, kinds.TRIES - 1, kinds.TRIES])
def test_a_job_whose_processes_die_is_done_again(tmp_path, monkeypatch, crashes):
    tried: list[str] = []

    def do(context: Context, work: Work) -> dict[str, int]:
        tried.append(work.name)
        if len(tried) <= crashes:
            raise RuntimeError("Python worker exited unexpectedly (crashed)")
        return {"messages": 1}

    monkeypatch.setitem(kinds._KINDS, "verify", do)
    run = kinds.runners(context_on(StubDriver(alive=True), tmp_path))["verify"]
    work = Work("projects/test/jobs/job1", "verify", {})
    if crashes < kinds.TRIES:
        assert run(work) == {"messages": 1}
    else:
        with pytest.raises(RuntimeError, match="crashed"):
            run(work)
    assert len(tried) == min(crashes + 1, kinds.TRIES)


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_pipeline_ends_when_spark_is_gone_and_not_when_a_flow_fails(tmp_path, is_alive):
    ends: list[str] = []
    context = context_on(StubDriver(is_alive), tmp_path)
    pipeline = Pipeline(context, tmp_path, master="local[2]", on_lost=lambda: ends.append("now"))
    pipeline._flow_failed("archive", "the lake is full")
    assert pipeline.is_lost is not is_alive
    assert ends == ([] if is_alive else ["now"])


def test_a_heartbeat_tells_of_the_spark_it_runs_on(spark, start_broker, tmp_path):
    server = start_broker()
    context = Context(spark, server.endpoint, Location.parse(str(tmp_path / "lake")))
    pipeline = Pipeline(context, tmp_path, master="local[2]")
    heartbeat = Heartbeat(lambda: Client(server.endpoint), pipeline._report)
    with Client(server.endpoint) as client:
        heartbeat.tell(client)
        (told,) = pipelines_of(client)
        assert (told.spark_version, told.master, told.parallelism) == (
            spark.version,
            "local[2]",
            2,
        )
        assert [flow.name for flow in told.flows] == ["archive", "export", "dead letters", "stats"]
        assert not any(flow.HasField("batch") for flow in told.flows)
        heartbeat.tell(client, leaving=True)
        assert pipelines_of(client) == []


def pipelines_of(client: Client) -> list[pb.Pipeline]:
    found = client.call(
        "fanlog.v1.Pipelines/ListPipelines", pb.ListPipelinesRequest(), pb.ListPipelinesResponse
    )
    return list(found.pipelines)
