"""What can be asked of the pipeline, and the states of a job."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.errors import Aborted, FailedPrecondition, InvalidArgument
from fanlog.model.jobs import KINDS, Job, JobReport, check_arguments

JOB = Job(name="projects/p/jobs/j", kind="verify", created_s=1.0)


def report(attempt=1, state="RUNNING", worker="w", **said):
    return JobReport(worker=worker, attempt=attempt, state=state, **said)


class TestStates:
    def test_a_claim_runs_it(self):
        job = JOB.claim("w", 10.0)
        assert (job.state, job.attempt, job.worker, job.started_s) == ("RUNNING", 1, "w", 10.0)

    def test_progress_gives_rate_and_estimate(self):
        job = JOB.claim("w", 10.0).report(report(done=50, total=200), 20.0)
        assert (job.rate, job.remaining_s) == (5.0, 30.0)

    def test_an_end_is_kept(self):
        job = JOB.claim("w", 10.0).report(report(state="DONE", result={"a": 1}), 20.0)
        assert (job.state, job.ended_s, job.result) == ("DONE", 20.0, {"a": 1})
        assert job.remaining_s == 0.0

    def test_only_the_last_attempt_is_listened_to(self):
        job = JOB.claim("first", 10.0).claim("second", 100.0)
        with pytest.raises(Aborted, match="attempt 2 by 'second'"):
            job.report(report(worker="first", state="DONE"), 101.0)
        assert job.report(report(2, "DONE", "second"), 102.0).state == "DONE"

    def test_a_worker_that_comes_back_as_itself_is_another_attempt(self):
        job = JOB.claim("w", 10.0).claim("w", 20.0)
        with pytest.raises(Aborted):
            job.report(report(1), 21.0)

    def test_two_never_both_finish(self):
        job = JOB.claim("w", 10.0).report(report(state="DONE"), 20.0)
        with pytest.raises(Aborted):
            job.report(report(1, "FAILED", error="x"), 21.0)
        with pytest.raises(FailedPrecondition, match="has ended: DONE"):
            job.claim("other", 22.0)

    def test_an_end_said_twice_is_said_once(self):
        job = JOB.claim("w", 10.0).report(report(state="DONE"), 20.0)
        assert job.report(report(state="DONE"), 30.0) == job

    def test_cancelled_while_it_waits(self):
        job = JOB.cancel(5.0)
        assert (job.state, job.ended_s) == ("CANCELLED", 5.0)
        with pytest.raises(FailedPrecondition):
            job.cancel(6.0)

    def test_cancelled_while_it_runs(self):
        job = JOB.claim("w", 10.0).cancel(11.0)
        assert job.state == "CANCELLING"
        assert job.report(report(done=3), 12.0).state == "CANCELLING"
        assert job.report(report(state="CANCELLED"), 13.0).state == "CANCELLED"
        # It was faster than the wish.
        assert job.report(report(state="DONE"), 13.0).state == "DONE"

    def test_cancelled_and_its_worker_gone(self):
        assert JOB.claim("w", 10.0).cancel(11.0).claim("x", 90.0).state == "CANCELLED"

    def test_given_up_in_the_end(self):
        job = JOB
        for attempt in range(limits.JOB_ATTEMPTS_MAX):
            job = job.claim("w", float(attempt))
        job = job.claim("w", 99.0)
        assert (job.state, job.ended_s) == ("FAILED", 99.0)
        assert "none came to an end" in job.error

    @pytest.mark.parametrize(
        "wrong",
        [
            {"state": "WAITING"},
            {"state": "CANCELLING"},
            {"state": "FAILED"},
            {"worker": ""},
            {"done": -1},
            {"total": -1},
        ],
    )
    def test_reports_that_cannot_be(self, wrong):
        with pytest.raises(InvalidArgument):
            report(**wrong)


class TestArguments:
    def test_names_become_full_and_times_utc(self):
        found = check_arguments(
            "p",
            "replay",
            {
                "subscription": "sub",
                "start_time": "2026-01-01T01:00:00+01:00",
                "filter": 'attributes.a = "b"',
                "to_topic": "projects/q/topics/copies",
            },
        )
        assert found == {
            "subscription": "projects/p/subscriptions/sub",
            "start_time": "2026-01-01T00:00:00Z",
            "filter": 'attributes.a = "b"',
            "to_topic": "projects/q/topics/copies",
        }

    def test_numbers_come_as_floats(self):
        found = check_arguments("p", "backtest", {"filter": "attributes:a", "samples": 3.0})
        assert found["samples"] == 3

    @pytest.mark.parametrize(
        ("kind", "arguments", "says"),
        [
            ("replya", {}, "kind: 'replya'; there are replay, redrive"),
            ("replay", {}, "arguments.subscription: missing; replay needs it"),
            (
                "replay",
                {"subscription": "sub", "window": 1},
                "arguments.window: not an argument of",
            ),
            ("replay", {"subscription": 3}, "arguments.subscription: must be a text"),
            ("replay", {"subscription": "s/t"}, "arguments.subscription: "),
            ("replay", {"subscription": "sub", "filter": "a ="}, "arguments.filter: "),
            ("replay", {"subscription": "sub", "start_time": "soon"}, "is not a time such as"),
            ("replay", {"subscription": "sub", "end_time": "2026-01-01T00:00:00"}, "no time zone"),
            (
                "replay",
                {
                    "subscription": "sub",
                    "start_time": "2026-01-02T00:00:00Z",
                    "end_time": "2026-01-01T00:00:00Z",
                },
                "is not after start_time",
            ),
            ("backtest", {}, "needs a filter, or a schema"),
            (
                "backtest",
                {"filter": "attributes:a", "schema": "order"},
                "needs a filter, or a schema",
            ),
            ("backtest", {"filter": "attributes:a", "revision": "x"}, "there is no schema"),
            ("backtest", {"filter": "attributes:a", "encoding": "JSON"}, "there is no schema"),
            ("backtest", {"filter": "attributes:a", "samples": 1.5}, "must be a whole number"),
            ("backtest", {"filter": "attributes:a", "samples": -1}, "must not be negative"),
            ("backtest", {"filter": "attributes:a", "topics": []}, "must be a list"),
            (
                "backtest",
                {"filter": "attributes:a", "topics": ["orders"], "pattern": "a.*"},
                "give topics, or a pattern",
            ),
            ("fan-out", {"topic": "orders", "reopen": "yes"}, "must be true or false"),
            (
                "fan-out",
                {"topic": "orders", "message_id": "1", "start_time": "2026-01-01T00:00:00Z"},
                "give a window, or one message",
            ),
            (
                "import",
                {"topic": "orders", "path": "/x", "format": "xml"},
                "there are parquet, json",
            ),
            (
                "redrive",
                {"subscription": "sub", "message_ids": ["1"], "filter": "attributes:a"},
                "arguments.message_ids: give them, or a selection",
            ),
            ("redrive", {"subscription": "sub", "filter": "a ="}, "arguments.filter: "),
            ("expire", {"table": "x"}, "give table and before together"),
            ("expire", {"before": "2026-11-16T09:30:00Z"}, "give table and before together"),
            (
                "expire",
                {"table": "messages", "before": "2026-11-16T09:30:00Z"},
                "rows of messages follow the retention of their topics",
            ),
            ("compact", {"table": "x", "drop_damaged": True}, "only of messages"),
        ],
    )
    def test_what_is_wrong_is_named(self, kind, arguments, says):
        with pytest.raises(InvalidArgument) as caught:
            check_arguments("p", kind, arguments)
        assert says in caught.value.message

    def test_what_is_required_can_be_given(self):
        for required, checks, words in KINDS.values():
            assert required <= checks.keys()
            assert words
