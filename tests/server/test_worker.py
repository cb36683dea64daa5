"""Workers of the pipeline against a real broker, with jobs that need no Spark."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.client import Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.core.records import JobRecord
from fanlog.errors import InvalidArgument
from fanlog.model import jobs
from fanlog.pipeline.worker import Worker
from fanlog.wire.publish import build_body

PARENT = "projects/test"
QUICK_S = 0.01


@pytest.fixture
def server(start_server):
    return start_server("memory", clock=ManualClock())


@pytest.fixture
def client(server):
    with Client(server.endpoint) as client:
        yield client


def worker(server, run, name="w"):
    return Worker(
        lambda: Client(server.endpoint),
        {"expire": run},
        name=name,
        beat_s=QUICK_S,
        pull_s=10 * QUICK_S,
    )


def ask(client):
    return JobClient(client).create(PARENT, "expire", {}).name


class TestEnds:
    def test_done(self, server, client):
        def run(work):
            work.progress(3, 4, "sweeping")
            return {"gone": 7}

        name = ask(client)
        assert worker(server, run).run_one(client)
        job = JobClient(client).get(name)
        assert (state_of(job), job.done, job.total) == ("DONE", 3, 4)
        assert dict(job.result) == {"gone": 7}
        server.advance(limits.JOB_SILENCE_S + 1)
        assert server.pull(jobs.SUBSCRIPTION) == []

    @pytest.mark.parametrize(
        ("error", "says"),
        [
            (InvalidArgument("the table is not there"), "the table is not there"),
            (KeyError("column"), "KeyError: 'column'"),
        ],
    )
    def test_failed_says_why(self, server, client, error, says):
        def run(work):
            raise error

        name = ask(client)
        worker(server, run).run_one(client)
        job = JobClient(client).get(name)
        assert (state_of(job), job.error) == ("FAILED", says)
        server.advance(limits.JOB_SILENCE_S + 1)
        assert server.pull(jobs.SUBSCRIPTION) == []

    def test_a_cancelled_one_is_taken_and_left(self, server, client):
        name = ask(client)
        JobClient(client).cancel(name)
        assert worker(server, pytest.fail).run_one(client)
        server.advance(limits.JOB_SILENCE_S + 1)
        assert server.pull(jobs.SUBSCRIPTION) == []

    def test_nothing_to_do(self, server, client):
        ask(client)
        worker(server, lambda _: {}).run_one(client)
        assert not worker(server, pytest.fail).run_one(client)


class TestWhileItRuns:
    def test_cancelling_stops_it(self, server, client):
        started = threading.Event()

        def run(work):
            stopped = threading.Event()
            work.on_stop(stopped.set)
            started.set()
            assert stopped.wait(15)
            work.progress()
            pytest.fail("it goes on")

        name = ask(client)
        thread = threading.Thread(target=worker(server, run).run_one, args=(client,))
        thread.start()
        assert started.wait(15)
        JobClient(client).cancel(name)
        thread.join(15)
        assert state_of(JobClient(client).get(name)) == "CANCELLED"

    def test_its_lease_is_renewed(self, server, client):
        renewed, modify = threading.Semaphore(0), client.modify_ack_deadline

        def renew(*args):
            modify(*args)
            renewed.release()

        def run(work):
            for _ in range(3):
                server.advance(limits.JOB_SILENCE_S - 1)
                # One may have been under way before the clock went on; the next one was not.
                assert renewed.acquire(timeout=15)
                assert renewed.acquire(timeout=15)
            return {}

        client.modify_ack_deadline = renew
        name = ask(client)
        worker(server, run).run_one(client)
        assert not server.pull(jobs.SUBSCRIPTION)
        job = JobClient(client).get(name)
        assert (state_of(job), job.attempt) == ("DONE", 1)

    def test_who_lost_it_stops_and_changes_nothing(self, server, client):
        lost = threading.Event()

        def run(work):
            work.on_stop(lost.set)
            with Client(server.endpoint) as other:
                JobClient(other).claim(work.name, "other")
            assert lost.wait(15)
            work.progress()

        name = ask(client)
        worker(server, run).run_one(client)
        job = JobClient(client).get(name)
        assert (state_of(job), job.worker, job.attempt) == ("RUNNING", "other", 2)

    def test_a_worker_that_is_stopped_leaves_the_job_to_another(self, server, client):
        ours = []

        def run(work):
            ours[0].stop()
            work.progress()

        ours.append(worker(server, run))
        name = ask(client)
        ours[0].run_one(client)
        assert state_of(JobClient(client).get(name)) == "RUNNING"
        server.advance(limits.JOB_SILENCE_S + 1)
        worker(server, lambda _: {}, "second").run_one(client)
        job = JobClient(client).get(name)
        assert (state_of(job), job.worker, job.attempt) == ("DONE", "second", 2)


def test_many_workers_share_the_jobs(server, client):
    done, lock = [], threading.Lock()

    def run(work):
        with lock:
            done.append(work.name)
        return {}

    names = [ask(client) for _ in range(12)]
    workers = [worker(server, run, f"w{number}") for number in range(3)]
    threads = [threading.Thread(target=one.run) for one in workers]
    for thread in threads:
        thread.start()
    for name in names:
        JobClient(client).wait(name)
    for one in workers:
        one.stop()
    for thread in threads:
        thread.join(15)
    assert sorted(done) == sorted(names)


class TestForeignMessages:
    """On the topic of jobs; an old broker took them from any caller."""

    @pytest.mark.parametrize(
        "data",
        [b"not json", b"[]", b"{}", b'{"job": 5}', b'{"job": "x"}', b"\xff", b'{"job": null}'],
    )
    def test_malformed_ones_are_acknowledged_and_counted(self, server, client, data):
        ask(client)
        [genuine] = server.pull(jobs.SUBSCRIPTION)
        server.ack(jobs.SUBSCRIPTION, [genuine])
        topic = server.broker.hard.catalog.topic(jobs.TOPIC)
        server.run(_forge(server.broker, topic, data))
        one = worker(server, pytest.fail)
        assert one.run_one(client)
        assert one.malformed == 1
        server.advance(limits.JOB_SILENCE_S + 1)
        assert server.pull(jobs.SUBSCRIPTION) == []

    def test_arguments_are_the_broker_s_and_checked_again(self, server, client):
        ran = []
        name = ask(client)
        [genuine] = server.pull(jobs.SUBSCRIPTION)
        server.ack(jobs.SUBSCRIPTION, [genuine])
        forged = json.dumps({"job": name, "kind": "expire", "arguments": {"table": "../x"}})
        topic = server.broker.hard.catalog.topic(jobs.TOPIC)
        server.run(_forge(server.broker, topic, forged.encode()))
        worker(server, lambda work: ran.append(dict(work.arguments)) or {}).run_one(client)
        assert ran == [{}]

    def test_a_job_that_is_kept_with_bad_arguments_fails(self, server, client):
        name = ask(client)
        job = server.broker.hard.jobs[name]
        record = JobRecord(name, replace(job, arguments={"table": "messages", "before": "never"}))
        server.run(_commit(server.broker, record))
        worker(server, pytest.fail).run_one(client)
        found = JobClient(client).get(name)
        assert state_of(found) == "FAILED"
        assert "arguments.before" in found.error


async def _forge(broker, topic, data):
    transaction = broker.ledger.begin()
    [partition] = topic.partitions
    transaction.append(topic.id, partition, build_body([(data, {}, "")]))
    await transaction.commit()


async def _commit(broker, record):
    await broker.ledger.commit([record])
