"""Faults of the pipeline. After each of them every message that was published is in the log or in
the lake, and in the lake exactly once: each test counts.

What may happen, and the tests of it (here, unless another file is named):

| fault | tests |
|---|---|
| SIGKILL of the pipeline between file write and commit | TestKilled; test_archive.py TestOnce |
| ... between commit and report | TestKilled; server/test_tiering.py, reports |
| ... at any moment, under load, the real process | acceptance/test_up.py |
| ... of exports, at each of their steps | test_export_faults.py |
| ... during a job | TestKilled job; server/test_worker.py; test_jobs.py (import, twice) |
| SIGKILL of the broker while Spark reads | test_a_broker_that_is_killed_*; test_reader.py |
| lake folder read-only, full, or no folder at all | TestRoom; test_a_lake_in_trouble_with_spark |
| a corrupt Parquet file, named, skipped by choice only | test_cold.py, lake/test_cold.py |
| ... before the broker has looked at it | test_a_file_that_is_corrupt_before_* |
| ... found by verify, with all the others | test_verify.py |
| ... in the way of an export, or of compaction | TestExportOfADamagedFile; test_upkeep.py |
| ... accepted as lost | server/test_lake_loss.py |
| clock steps | test_clock_steps; chaos/test_clock_steps.py for the log |
| checkpoint deleted | test_archive.py TestOnce, test_with_spark |
| an older lake, an empty one, none | server/test_tiering.py, test_archive.py TestAlarms |
| ... and the checkpoint is as old, or gone | TestOlderLake |
| ... and its loss is accepted | TestOlderLake; server/test_lake_loss.py |
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import google.pubsub_v1 as gapic
import grpc
import pyarrow.compute as pc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from pyspark.errors import StreamingQueryException

from acceptance.served import PATIENCE_S, Served
from chaos.conftest import missing
from fanlog import limits
from fanlog.client import Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.errors import FailedPrecondition, FanlogError
from fanlog.lake import rewrites
from fanlog.lake.location import LakeError, Location
from fanlog.lake.rewrites import Rewrite
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.pipeline.flows import archive_source as spark_archive
from fanlog.pipeline.flows import flow
from fanlog.pipeline.flows.archive import ArchiveFlow
from fanlog.pipeline.flows.flow import Flow
from spark.export_steps import ExportSteps
from spark.reading import payloads, table
from spark.stepwise import Steps, job_worker
from spark.worlds import DAY_S, World

TESTS = Path(__file__).resolve().parent.parent


def killed(point: str, world: World) -> None:
    """Run a pipeline until it dies."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "spark.stepwise", point, world.server.endpoint, str(world.lake)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
    )
    assert done.returncode == -signal.SIGKILL, (done.stdout, done.stderr)


class TestKilled:
    @pytest.mark.parametrize(("point", "archived"), [("written", 10), ("committed", 20)])
    def test_an_archive(self, world, point, archived):
        world.publish()
        world.steps().run()
        world.publish()
        files = len(list(world.lake.rglob("*.parquet")))
        killed(point, world)
        assert len(list(world.lake.rglob("*.parquet"))) == files + 1
        world.check(archived=archived)
        # Nobody was told: nothing more is let go of.
        world.pass_time(2 * DAY_S)
        assert world.tiers() == (10, 10, 20)
        world.publish()
        world.steps().run()
        world.check()
        assert world.tiers() == (10, 30, 30)

    def test_a_report_that_was_lost_does_not_wait_for_more_messages(self, world):
        world.publish()
        killed("committed", world)
        assert world.tiers() == (0, 0, 10)
        world.steps()
        assert world.tiers() == (0, 10, 10)
        world.check()

    def test_a_job_is_finished_by_another_and_done_once(self, world):
        server = world.server
        name = server.subscription(world.topic, retain_acked_messages=True)
        world.publish()
        server.ack(name, server.drain(name, 10))
        with Client(server.endpoint) as client:
            job = JobClient(client).create("projects/test", "replay", {"subscription": name}).name
            killed("job", world)
            assert state_of(JobClient(client).get(job)) == "RUNNING"
            # Its effect is there, and somebody lives with it.
            again = server.drain(name, 10)
            assert [one.message.data for one in again] == world.published
            server.ack(name, again)
            server.advance(limits.JOB_SILENCE_S + 1)
            second = job_worker(server.endpoint, world.location, "second")
            assert second.run_one(client, wait_s=PATIENCE_S)
            ended = JobClient(client).get(job)
        assert (state_of(ended), ended.worker, ended.attempt) == ("DONE", "second", 2)
        assert server.pull(name) == []


def test_a_broker_that_is_killed_while_it_is_read(tmp_path, monkeypatch):
    """The task waits, and goes on where it was; nothing comes twice."""
    served = Served(tmp_path / "data", tmp_path / "server.log")
    published = [b"%05d" % number + bytes(1_000) for number in range(20_000)]
    location = Location.parse(str(tmp_path / "lake"))
    kills: list[int] = []
    write = spark_archive._write

    def killing(batches):
        for batch in batches:
            if not kills:
                kills.append(served.pid)
                served.stop(signal.SIGKILL)
                served.start("--port", served.endpoint.rpartition(":")[2])
            yield batch

    monkeypatch.setattr(
        spark_archive, "_write", lambda location, batches: write(location, killing(batches))
    )
    try:
        served.start()
        with grpc.insecure_channel(served.endpoint) as channel:
            publisher = gapic.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
            topic = "projects/test/topics/orders"
            retention = Duration(seconds=3600)
            publisher.create_topic(request={"name": topic, "message_retention_duration": retention})
            for first in range(0, len(published), 1_000):
                part = [{"data": one} for one in published[first : first + 1_000]]
                publisher.publish(topic=topic, messages=part, retry=None)
        Steps(served.endpoint, location).run()
    finally:
        served.close()
    assert len(kills) == 1
    rows = open_table(location, MESSAGES).to_pyarrow_table(columns=["data"])
    assert Counter(rows["data"].to_pylist()) == Counter(published)


class Query:
    """A query of Spark's, as a flow sees it, that archives until there is nothing more."""

    def __init__(self, world: World, is_done: threading.Event) -> None:
        self._steps = world.steps()
        self._is_done = is_done
        self._stopping = threading.Event()

    def awaitTermination(self) -> None:
        self._steps.run()
        self._is_done.set()
        self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()


def take_all_room(disk: Path, but_bytes: int = 0) -> Path:
    """Leave so much to everybody else."""
    hog = disk / "hog"
    with hog.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4_096)):
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() - but_bytes))
    return hog


class TestRoom:
    """The lake is on a disk of its own, of two megabytes."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        disk = tmp_path / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
        if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
            missing("a tmpfs cannot be mounted here")
        yield disk
        # Lazily: a test that failed may hold a file open, and a mount is in the way of others.
        subprocess.run(["umount", "--lazy", str(disk)], check=True)

    @pytest.fixture
    def small(self, make_world: Callable[..., World], disk: Path) -> Iterator[World]:
        world = make_world(disk / "lake")
        world.publish()
        world.steps().run()
        yield world
        # Before the disk goes.
        world.server.stop()

    def flow_through(self, world: World, monkeypatch, said: str, repair: Callable[[], object]):
        """Run the archive as the pipeline does, through its trouble, until all is archived."""
        monkeypatch.setattr(flow, "REST_S", 0.01)
        monkeypatch.setattr(flow, "REST_S_MAX", 0.05)
        is_done, failures = threading.Event(), []

        def failed(_: str, error: str) -> None:
            failures.append(error)
            if len(failures) == 3:
                repair()

        archive = Flow(
            "archive", lambda: Query(world, is_done), on_failure=failed, monotonic=time.monotonic
        )
        archive.start()
        try:
            assert is_done.wait(PATIENCE_S), failures
        finally:
            archive.stop()
        assert len(failures) >= 3
        assert all(str(world.lake) in one and said in one for one in failures[:3]), failures
        assert archive.error == ""
        world.check()

    def test_read_only(self, small, disk, monkeypatch):
        small.publish()
        remount = ["mount", "-o", "remount,ro", str(disk)]
        subprocess.run(remount, check=True)
        remount[2] = "remount,rw"
        self.flow_through(
            small,
            monkeypatch,
            "Read-only file system",
            lambda: subprocess.run(remount, check=True),
        )

    def test_full(self, small, disk, monkeypatch):
        small.publish(size_bytes=20_000)
        hog = take_all_room(disk)
        self.flow_through(small, monkeypatch, "No space left on device", hog.unlink)

    @pytest.mark.parametrize("pages", range(0, 14, 2))
    def test_full_at_any_page(self, small, disk, pages):
        """In the file, in its footer, between the file and the commit, or not at all."""
        small.publish(size_bytes=1_000)
        hog = take_all_room(disk, but_bytes=pages * 4_096)
        said = ""
        try:
            small.steps().run()
        except FanlogError as error:
            said = error.message
        if said:
            assert "messages" in said
            assert "No space left on device" in said
            small.check(archived=10)
        hog.unlink()
        small.steps().run()
        small.check()
        assert small.tiers() == (0, 20, 20)

    def test_what_could_not_be_written_takes_no_room(self, small, disk):
        small.publish(size_bytes=300_000)
        free = shutil.disk_usage(disk).free
        with pytest.raises(LakeError, match="No space left on device"):
            small.steps().run()
        assert shutil.disk_usage(disk).free >= free - 8_192
        small.check(archived=10)

    def test_no_folder(self, world, monkeypatch):
        world.publish()
        world.steps().run()
        world.publish()
        away = world.lake.with_name("away")
        world.lake.rename(away)
        world.lake.write_text("a file")

        def repair() -> None:
            world.lake.unlink()
            away.rename(world.lake)

        self.flow_through(world, monkeypatch, "", repair)


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
def test_a_lake_in_trouble_with_spark(spark, world, tmp_path, monkeypatch):
    """What a task ran into is said in our words, not in Spark's; and the flow recovers."""
    monkeypatch.setattr(flow, "REST_S", 0.1)
    world.publish()
    world.steps().run()
    world.publish()
    [folder] = (world.lake / "messages").glob("date=*")
    folder.rename(tmp_path / "away")
    folder.write_text("a file")
    failures: list[str] = []

    def failed(_: str, error: str) -> None:
        failures.append(error)
        if len(failures) == 1:
            folder.unlink()
            (tmp_path / "away").rename(folder)

    archive = ArchiveFlow(spark, world.server.endpoint, world.location, tmp_path / "checkpoints")
    archiving = Flow(
        "archive",
        lambda: archive.start(every_s=0.1),
        on_failure=failed,
        monotonic=time.monotonic,
    )
    archiving.start()
    try:
        late_s = time.monotonic() + 2 * PATIENCE_S
        while world.tiers()[1] < 20:
            assert time.monotonic() < late_s, (failures, archiving.error)
            time.sleep(0.05)
    finally:
        archiving.stop()
    assert failures[0].startswith(f"the lake at {world.lake} cannot be written: ")
    world.check()


def test_a_file_that_is_corrupt_before_the_broker_has_looked(world):
    world.publish()
    steps = world.steps()
    rows = steps.write(steps.plan())
    [path] = world.lake.rglob("*.parquet")
    right = path.read_bytes()
    path.write_bytes(right[:100] + bytes(200) + right[300:-100])
    steps.commit(rows)
    world.pass_time(2 * DAY_S)
    assert world.tiers() == (0, 0, 10)
    assert path.name in world.readiness()
    assert payloads(table(world.server, topic=world.topic)) == world.published
    path.write_bytes(right)
    world.publish()
    world.steps().run()
    assert world.readiness() == "ready\n"
    world.pass_time(2 * DAY_S)
    assert world.tiers() == (20, 20, 20)
    world.check()


class TestExportOfADamagedFile:
    """What it has to give is in a file of the lake that cannot be read: it waits, and says so."""

    @pytest.fixture
    def late(self, world) -> tuple[str, Path]:
        """An export with ten messages in the lake alone, and ten in the log."""
        name = world.server.subscription(world.topic, bigquery_config={"table": "shop.orders"})
        world.publish()
        world.steps().run()
        world.pass_time(2 * DAY_S)
        world.publish()
        assert world.tiers() == (10, 10, 20)
        [path] = (world.lake / "messages").rglob("*.parquet")
        return name, path

    def exported(self, world) -> list[bytes]:
        return sorted(world.table("exports/shop.orders")["data"].to_pylist())

    @pytest.mark.parametrize("is_batch_made", [True, False])
    def test_it_is_waited_for(self, world, late, is_batch_made):
        name, path = late
        right = path.read_bytes()
        if is_batch_made:
            world.server.run(world.server.broker.exports.batch(name))
        path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        world.server.restart()
        world.server.await_lake()
        other = world.server.topic()
        world.server.subscription(other, bigquery_config={"table": "shop.others"})
        world.server.publish(other, b"other")
        steps = ExportSteps(world.server.endpoint, world.location)
        steps.run("")
        shown = world.server.subscriber.get_subscription(subscription=name)
        assert shown.bigquery_config.state.name == "NOT_FOUND"
        trouble = world.server.run(world.server.broker.subscriptions.get(name))[0]
        assert path.parent.name in world.server.broker.exports.trouble(trouble).reason
        # Nobody else is held up.
        assert world.table("exports/shop.others").num_rows == 1
        path.write_bytes(right)
        world.pass_time(60)
        ExportSteps(world.server.endpoint, world.location).run("")
        ExportSteps(world.server.endpoint, world.location).run("")
        assert self.exported(world) == sorted(world.published)

    def test_it_is_given_up(self, world, late):
        name, path = late
        world.server.run(world.server.broker.exports.batch(name))
        path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
        world.server.restart()
        world.server.await_lake()
        world.server.run(world.server.broker.accept_loss(confirm=True))
        _, [old] = rewrites.files_of(world.location)
        what = Rewrite(date=old.date, paths=(old.path,), size_bytes=old.size_bytes)
        made = rewrites.mend(world.location, what)
        rewrites.replace_files(world.location, what, made, is_change=True)
        for _ in range(2):
            ExportSteps(world.server.endpoint, world.location).run(name)
        assert self.exported(world) == sorted(world.published[10:])


def test_clock_steps(world):
    for step_s in (0, 3_600, -3_600, 40 * DAY_S, -DAY_S, 0):
        world.clock.step_s = step_s
        world.publish()
        world.steps().run()
        world.publish()
    world.steps().run()
    world.check()
    rows = open_table(world.location, MESSAGES).to_pyarrow_table()
    rows = rows.filter(pc.equal(rows["topic"], world.topic)).sort_by("offset")
    times = rows["publish_time"].to_pylist()
    assert times == sorted(times)
    assert rows["date"].to_pylist() == [one.date() for one in times]
    world.pass_time(50 * DAY_S)
    assert world.tiers()[0] == 120
    # Longer than the topic keeps them, by the clock; all the same nothing was left out meanwhile.
    assert world.in_lake() == Counter(world.published)


class TestOlderLake:
    """The lake is put back to an older copy, and the checkpoint with it, or it is lost."""

    @pytest.fixture
    def put_back(self, world: World, tmp_path: Path) -> World:
        world.publish()
        old = world.steps().run()
        shutil.copytree(world.lake, tmp_path / "older")
        world.publish()
        world.steps().run()
        shutil.copytree(world.lake, tmp_path / "right")
        self.right, self.older, self.checkpoint = tmp_path / "right", tmp_path / "older", old
        return world

    def replace(self, world: World, by: Path) -> None:
        shutil.rmtree(world.lake)
        shutil.copytree(by, world.lake)

    @pytest.mark.parametrize("has_checkpoint", [True, False])
    def test_what_is_in_the_lake_alone_is_missed(self, put_back, has_checkpoint):
        world = put_back
        world.pass_time(2 * DAY_S)
        assert world.tiers() == (20, 20, 20)
        self.replace(world, self.older)
        world.publish()
        steps = world.steps(self.checkpoint if has_checkpoint else None)
        with pytest.raises(FailedPrecondition, match="replaced by an older copy"):
            steps.run()
        assert "older copy" in world.readiness()
        world.pass_time(2 * DAY_S)
        assert world.tiers() == (20, 20, 30)
        self.replace(world, self.right)
        world.steps().run()
        world.pass_time(60)
        assert world.readiness() == "ready\n"
        world.check()

    def test_what_the_log_still_has_is_archived_again(self, put_back):
        world = put_back
        self.replace(world, self.older)
        world.publish()
        world.steps(self.checkpoint).run()
        world.pass_time(60)
        assert world.readiness() == "ready\n"
        world.check()
        assert world.tiers() == (0, 30, 30)

    def test_an_archive_that_began_while_the_lake_was_away(self, put_back):
        """It made an empty one; and goes on with the right one once that is back."""
        world = put_back
        shutil.rmtree(world.lake)
        steps = world.steps()
        steps.run()
        world.pass_time(60)
        assert world.readiness() != "ready\n"
        self.replace(world, self.right)
        world.publish()
        steps.run()
        world.pass_time(60)
        assert world.readiness() == "ready\n"
        assert world.tiers() == (0, 30, 30)
        world.check()

    @pytest.mark.parametrize("is_older", [True, False])
    @pytest.mark.parametrize("has_checkpoint", [True, False])
    def test_a_loss_that_is_accepted(self, put_back, tmp_path, is_older, has_checkpoint):
        """The archive goes on with the lake that is there, whatever Spark remembers."""
        world = put_back
        world.pass_time(2 * DAY_S)
        offset = world.steps().run() if has_checkpoint else None
        world.publish()
        self.replace(world, self.older) if is_older else shutil.rmtree(world.lake)
        with pytest.raises(FailedPrecondition, match="accept the loss"):
            world.steps(offset).run()
        assert world.readiness() != "ready\n"
        found = world.server.run(world.server.broker.accept_loss(confirm=True))
        [loss] = [one for one in found.losses if one.topic == world.topic]
        kept = 10 if is_older else 0
        assert (found.is_accepted, loss.messages) == (True, 20 - kept)
        assert world.readiness() == "ready\n"
        world.steps(offset).run()
        left = world.published[:kept] + world.published[20:]
        assert world.in_lake() == Counter(left)
        assert payloads(table(world.server, topic=world.topic)) == left
        world.pass_time(2 * DAY_S)
        assert world.tiers() == (30, 30, 30)
        assert payloads(table(world.server, topic=world.topic)) == left
        assert world.readiness() == "ready\n"


@pytest.mark.nightly
@pytest.mark.xdist_group("spark")
def test_a_loss_that_is_accepted_with_spark(spark, world, tmp_path):
    """Spark's own checkpoint is ahead of the lake that is there; it goes on all the same."""

    def archive() -> None:
        flow = ArchiveFlow(spark, world.server.endpoint, world.location, tmp_path / "checkpoints")
        flow.start(only_now=True).awaitTermination(PATIENCE_S)

    for _ in range(2):
        world.publish()
        archive()
    world.pass_time(2 * DAY_S)
    world.publish()
    shutil.rmtree(world.lake)
    with pytest.raises(StreamingQueryException, match="accept the loss"):
        archive()
    found = world.server.run(world.server.broker.accept_loss(confirm=True))
    assert sum(loss.messages for loss in found.losses if loss.topic == world.topic) == 20
    for _ in range(2):
        archive()
        assert world.in_lake() == Counter(world.published[20:])
        world.publish()
    archive()
    world.pass_time(2 * DAY_S)
    assert world.tiers() == (50, 50, 50)
    assert world.readiness() == "ready\n"
