"""The survey: a step looks at so many subscriptions and reads so many batches, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from fanlog import limits
from server.conftest import RunningServer, StartServer


@pytest.fixture
def server(start_server: StartServer, monkeypatch: pytest.MonkeyPatch) -> RunningServer:
    monkeypatch.setattr(limits, "SURVEY_STEP", 3)
    monkeypatch.setattr(limits, "SURVEY_READS_MAX", 2)
    server = start_server("memory")
    for _ in range(10):
        topic, _ = server.topic_and_subscription()
        server.publish(topic, b"0", b"1")
    return server


def counted(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The reads of the log from now on."""
    reads: list[Any] = []
    read = server.store.read

    def noted(*args: Any, **options: Any) -> Any:
        reads.append(args)
        return read(*args, **options)

    monkeypatch.setattr(server.store, "read", noted)
    return reads


def test_each_has_its_turn(server, monkeypatch):
    survey, reads = server.broker.survey, counted(server, monkeypatch)
    for steps, looked_at in ((1, 3), (2, 6), (3, 9), (4, 10)):
        server.run(survey.step())
        sums = survey.sums()
        assert (sums.behind, sums.messages) == (looked_at, looked_at * 2)
        assert sums.is_partial == (looked_at < 10)
        assert len(reads) <= steps * 2


def test_what_is_known_is_not_read_again(server, monkeypatch):
    survey = server.broker.survey
    server.run(survey.whole(0.0))
    reads = counted(server, monkeypatch)
    server.run(survey.whole(0.0))
    assert reads == []


def test_sums_follow_what_goes(server):
    survey = server.broker.survey
    server.run(survey.whole(0.0))
    names = [one.name for one in server.broker.hard.catalog.subscriptions()]
    server.subscriber.delete_subscription(subscription=names[0])
    server.ack(names[1], server.pull(names[1]))
    server.run(survey.whole(0.0))
    assert (survey.sums().behind, survey.sums().messages) == (8, 16)
    assert not survey.sums().is_partial
