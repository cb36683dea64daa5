"""fanlog.v1.Jobs: asked for over gRPC and REST, done by whoever pulls the system topic."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

import pytest

from commands import invoke
from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.client.jobs import JobClient, state_of
from fanlog.errors import CommitFailed, JobFailed
from fanlog.model import jobs

PARENT = "projects/test"


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def asking(server):
    with Client(server.endpoint) as client:
        yield JobClient(client)


def take(server):
    """The job that a worker gets, and how to acknowledge it."""
    [received] = server.pull(jobs.SUBSCRIPTION)
    return json.loads(received.message.data), received


class TestLife:
    def test_from_asking_to_the_end(self, server, asking):
        job = asking.create(PARENT, "verify", {"topics": ["orders"]})
        assert (state_of(job), job.kind) == ("WAITING", "verify")

        said, received = take(server)
        assert said == {
            "job": job.name,
            "kind": "verify",
            "arguments": {"topics": ["projects/test/topics/orders"]},
        }
        job = asking.claim(said["job"], "worker-1")
        assert (state_of(job), job.attempt) == ("RUNNING", 1)
        job = asking.report(job.name, "worker-1", 1, "RUNNING", done=5, total=10, phase="reading")
        assert (job.done, job.total, job.phase) == (5, 10, "reading")
        job = asking.report(job.name, "worker-1", 1, "DONE", result={"gaps": 0})
        server.ack(jobs.SUBSCRIPTION, [received])

        found = asking.wait(job.name, sleep=lambda _: None)
        assert (state_of(found), dict(found.result)) == ("DONE", {"gaps": 0})
        assert server.pull(jobs.SUBSCRIPTION) == []

    def test_who_waits_for_a_job_that_fails_is_told_why(self, server, asking):
        job = asking.create(PARENT, "verify", {"topics": ["orders"]})
        said, _ = take(server)
        asking.claim(said["job"], "worker-1")
        asking.report(job.name, "worker-1", 1, "FAILED", error="the lake is away")
        with pytest.raises(JobFailed, match="the lake is away"):
            asking.wait(job.name, sleep=lambda _: None)

    def test_a_worker_that_dies_is_followed_by_another(self, start_server):
        from fanlog.broker.clock import ManualClock

        server = start_server(clock=ManualClock())
        with Client(server.endpoint) as client:
            asking = JobClient(client)
            asking.create(PARENT, "expire", {}, job_id="job1")
            said, _ = take(server)
            asking.claim(said["job"], "first")
            assert server.pull(jobs.SUBSCRIPTION) == []
            server.advance(limits.JOB_SILENCE_S + 1)
            said, _ = take(server)
            assert asking.claim(said["job"], "second").attempt == 2
            with pytest.raises(CallFailed, match="is over") as caught:
                asking.report(said["job"], "first", 1, "DONE")
            assert caught.value.status == "ABORTED"
            asking.report(said["job"], "second", 2, "DONE")
            with pytest.raises(CallFailed, match="has ended") as caught:
                asking.claim(said["job"], "third")
            assert caught.value.status == "FAILED_PRECONDITION"

    def test_asking_twice_is_asking_once(self, server, asking):
        first = asking.create(PARENT, "expire", {}, job_id="job1")
        assert asking.create(PARENT, "expire", {}, job_id="job1") == first
        assert len(server.pull(jobs.SUBSCRIPTION)) == 1
        with pytest.raises(CallFailed, match="is another") as caught:
            asking.create(PARENT, "compact", {}, job_id="job1")
        assert caught.value.status == "ALREADY_EXISTS"

    def test_cancelling(self, server, asking):
        waiting = asking.create(PARENT, "expire", {})
        assert state_of(asking.cancel(waiting.name)) == "CANCELLED"
        running = asking.create(PARENT, "expire", {})
        asking.claim(running.name, "w")
        assert state_of(asking.cancel(running.name)) == "CANCELLING"
        assert state_of(asking.report(running.name, "w", 1, "RUNNING")) == "CANCELLING"
        assert state_of(asking.report(running.name, "w", 1, "CANCELLED")) == "CANCELLED"

    def test_deleting(self, asking):
        job = asking.create(PARENT, "expire", {})
        with pytest.raises(CallFailed, match="cancel it first"):
            asking.delete(job.name)
        asking.cancel(job.name)
        asking.delete(job.name)
        with pytest.raises(CallFailed, match="does not exist") as caught:
            asking.get(job.name)
        assert caught.value.status == "NOT_FOUND"

    def test_listing(self, asking):
        names = sorted(asking.create(PARENT, "expire", {}).name for _ in range(3))
        asking.create("projects/other", "expire", {})
        assert [job.name for job in asking.list_jobs(PARENT)] == names

    def test_the_oldest_that_ended_are_forgotten(self, server, asking, monkeypatch):
        monkeypatch.setattr(limits, "JOBS_MAX", 3)
        for number in range(3):
            asking.create(PARENT, "expire", {}, job_id=f"job{number}")
        asking.cancel(f"{PARENT}/jobs/job1")
        asking.create(PARENT, "expire", {}, job_id="job3")
        asking.create(PARENT, "expire", {}, job_id="job4")
        names = {job.name.rpartition("/")[2] for job in asking.list_jobs(PARENT)}
        assert names == {"job0", "job2", "job3", "job4"}


@pytest.mark.parametrize(("is_fine", "exit_code"), [(True, 0), (False, 1)])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_command_line_says_whether_problems_were_found(
    server, asking, is_fine, exit_code, form
):
    job = asking.create(PARENT, "verify", {})
    asking.claim(job.name, "w")
    damaged = [{"file": "messages/a.parquet", "reason": "no"}]
    result = {"is_fine": is_fine, "damaged_files": [] if is_fine else damaged}
    asking.report(job.name, "w", 1, "DONE", result=result)
    words = ["job", "wait", job.name, *form]
    done = invoke(words, env={"PUBSUB_EMULATOR_HOST": server.endpoint})
    assert done.exit_code == exit_code
    assert ("messages/a.parquet" in done.stdout) == (not is_fine)
    assert ("verify found problems" in done.output) == (not is_fine)


def test_what_a_job_failed_of_does_not_reach_the_terminal_as_it_is(server, asking):
    job = asking.create(PARENT, "verify", {})
    asking.claim(job.name, "w")
    asking.report(job.name, "w", 1, "FAILED", error="no column \x1b[2J")
    done = invoke(["job", "wait", job.name], env={"PUBSUB_EMULATOR_HOST": server.endpoint})
    assert done.exit_code == 1
    assert "no column \\x1b[2J" in done.output
    assert "\x1b" not in done.output


def test_the_command_line_describes_a_job_as_it_was(server, asking):
    """Numbers are whole, and what came of it reads as it does for those who waited."""
    job = asking.create(PARENT, "verify", {"topics": ["orders", "invoices"]})
    asking.claim(job.name, "w")
    result = {"messages": 12, "wrong": [{"partition": 3, "missing": 2}]}
    asking.report(job.name, "w", 1, "DONE", result=result)
    environ = {"PUBSUB_EMULATOR_HOST": server.endpoint}

    def run(*words: str) -> str:
        done = invoke(["job", *words], env=environ)
        assert done.exit_code == 0, done.output
        return done.stdout

    found = json.loads(run("describe", job.name, "--json"))
    assert found["result"] == result
    assert isinstance(found["result"]["messages"], int)
    said = run("describe", job.name)
    assert "topics=projects/test/topics/orders,projects/test/topics/invoices" in said
    shown_result = run("wait", job.name).split("\n", 1)[1]
    assert said.endswith(shown_result)


class TestDurability:
    def test_a_restart_keeps_jobs_and_fences(self, server, asking):
        asking.create(PARENT, "expire", {}, job_id="job1")
        asking.claim(f"{PARENT}/jobs/job1", "w")
        asking.report(f"{PARENT}/jobs/job1", "w", 1, "RUNNING", done=7, total=9)
        server.restart()
        with Client(server.endpoint) as client:
            again = JobClient(client)
            job = again.get(f"{PARENT}/jobs/job1")
            # How far it was is not durable; that it runs is.
            assert (state_of(job), job.attempt, job.worker) == ("RUNNING", 1, "w")
            assert state_of(again.report(job.name, "w", 1, "DONE")) == "DONE"
        server.restart()
        with Client(server.endpoint) as client:
            assert state_of(JobClient(client).get(f"{PARENT}/jobs/job1")) == "DONE"

    def test_a_failed_commit_asks_for_nothing(self, server, asking):
        asking.create(PARENT, "expire", {}, job_id="before")
        server.store.failures.append(CommitFailed("the disk is on fire"))
        with pytest.raises(CallFailed):
            asking.create(PARENT, "expire", {}, job_id="lost")
        assert [job.name for job in asking.list_jobs(PARENT)] == [f"{PARENT}/jobs/before"]
        assert len(server.pull(jobs.SUBSCRIPTION)) == 1


class TestRest:
    def ask(self, server, http, path, body=None):
        request = urllib.request.Request(
            server.http(f"/v1/{path}"),
            method=http,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=15) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())["error"]["message"]

    def test_the_same_verbs(self, server):
        arguments = {"filter": 'attributes.a = "b"', "samples": 2}
        code, job = self.ask(
            server,
            "POST",
            "projects/p/jobs",
            {"kind": "backtest", "arguments": arguments, "jobId": "job1"},
        )
        assert (code, job["state"], job["arguments"]["samples"]) == (200, "WAITING", 2)
        assert self.ask(server, "GET", "projects/p/jobs/job1")[1] == job
        assert self.ask(server, "GET", "projects/p/jobs")[1] == {"jobs": [job]}
        claim = {"worker": "w"}
        assert self.ask(server, "POST", "projects/p/jobs/job1:report", claim)[1]["attempt"] == 1
        code, job = self.ask(server, "POST", "projects/p/jobs/job1:cancel")
        assert job["state"] == "CANCELLING"
        stopped = {"worker": "w", "attempt": 1, "state": "CANCELLED"}
        code, job = self.ask(server, "POST", "projects/p/jobs/job1:report", stopped)
        assert job["state"] == "CANCELLED"
        assert self.ask(server, "DELETE", "projects/p/jobs/job1") == (200, {})
        assert self.ask(server, "GET", "projects/p/jobs/job1")[0] == 404

    @pytest.mark.parametrize(
        ("body", "says"),
        [
            ({"kind": "dance"}, "kind: 'dance'; there are"),
            ({"kind": "expire", "arguments": []}, "arguments: must be a JSON object"),
            ({"kind": "expire", "arguments": {"x": 1}}, "arguments.x: not an argument"),
            ({"kind": "expire", "jobId": "1"}, "job_id: "),
            ({"kind": "expire", "colour": 1}, "no such field"),
        ],
    )
    def test_bad_input(self, server, body, says):
        code, message = self.ask(server, "POST", "projects/p/jobs", body)
        assert code == 400
        assert says in message

    def test_too_much(self, server):
        body = {"kind": "expire", "arguments": {"x": "y" * limits.JOB_BYTES_MAX}}
        assert self.ask(server, "POST", "projects/p/jobs", body)[0] == 413


def test_bad_reports(asking):
    asking.create(PARENT, "expire", {}, job_id="job1")
    name = f"{PARENT}/jobs/job1"
    with pytest.raises(CallFailed, match="worker: empty"):
        asking.claim(name, "")
    with pytest.raises(CallFailed, match="does not exist"):
        asking.claim(f"{PARENT}/jobs/other", "w")
    asking.claim(name, "w")
    with pytest.raises(CallFailed, match="says why"):
        asking.report(name, "w", 1, "FAILED")
    with pytest.raises(CallFailed, match="a worker reports RUNNING"):
        asking.report(name, "w", 1, "WAITING")
