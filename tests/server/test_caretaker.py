"""The jobs that keep a lake in shape: asked for once, however many ask."""

from __future__ import annotations

import pytest

from fanlog.client import Client
from fanlog.client.jobs import JobClient
from fanlog.pipeline.caretaker import Caretaker

#: 2026-01-02T03:30:00Z
NOW_S = 1_767_324_600.0
HOUR_S = 3_600


@pytest.fixture
def server(start_server):
    return start_server("memory")


def caretaker(server, now):
    return Caretaker(lambda: Client(server.endpoint), now=now)


def known(server):
    with Client(server.endpoint) as client:
        return [job.name for job in JobClient(client).list_jobs("projects/fanlog-system")]


def test_once_an_hour_and_once_a_day(server):
    now = [NOW_S]
    one = caretaker(server, lambda: now[0])
    assert len(one.look()) == 2
    assert one.look() == []
    now[0] += HOUR_S
    assert len(one.look()) == 1
    assert known(server) == [
        "projects/fanlog-system/jobs/compact-20260102T03",
        "projects/fanlog-system/jobs/compact-20260102T04",
        "projects/fanlog-system/jobs/expire-20260102",
    ]


def test_two_pipelines_ask_once(server):
    for _ in range(2):
        caretaker(server, lambda: NOW_S).look()
    assert len(known(server)) == 2


def test_a_broker_that_is_away_is_asked_again(server):
    one = Caretaker(lambda: Client("127.0.0.1:1"), now=lambda: NOW_S)
    assert one.look() == []
    one._connect = lambda: Client(server.endpoint)
    assert len(one.look()) == 2
