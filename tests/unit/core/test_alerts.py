"""Alert rules: when they begin and end to hold, by numbers and times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from fanlog import limits
from fanlog.core import alerts
from fanlog.core.alerts import AlertTable, is_met, next_state
from fanlog.core.problems import ServerFacts
from fanlog.core.records.alerts import AlertRecord, state_record
from fanlog.errors import AlertNotFound
from fanlog.model.alerts import CONDITIONS, Alert, AlertState, Condition
from fanlog.v1.alerts_pb2 import Alert as AlertPb

NOW = 1_000_000.0
BEHIND = Alert(
    name="projects/p/alerts/behind",
    condition="BACKLOG_MESSAGES",
    subscription="projects/p/subscriptions/billing",
    limit=100,
    clear=10,
    minimum_s=60.0,
)
DISK = Alert(name="projects/p/alerts/disk", condition="DISK_LOW", limit=1_000, minimum_s=0.0)
SERVER = ServerFacts(
    degraded="",
    lake_alarm="",
    damaged=0,
    commits_failed=0,
    room_bytes=2**40,
    reserve_bytes=2**28,
    unarchived=0,
    archive_idle_s=0.0,
)


def run(alert: Alert, *looks: tuple[float, float]) -> list[tuple[float, bool]]:
    """The turns of a rule, with looks at these times that find these numbers."""
    state, turns = AlertState(since_s=NOW), []
    for at_s, value in looks:
        after = next_state(alert, state, value, NOW + at_s)
        if after.number != state.number:
            assert after.number == state.number + 1
            turns.append((at_s, after.is_holding))
        state = after
    return turns


@pytest.mark.parametrize(
    ("looks", "turns"),
    [
        # Not above the limit.
        ([(0, 100), (60, 100)], []),
        # Above it for too short.
        ([(0, 101), (59, 101)], []),
        ([(0, 101), (60, 101)], [(60, True)]),
        # One look below the limit begins the count anew.
        ([(0, 101), (30, 100), (60, 101), (119, 101), (120, 101)], [(120, True)]),
        # Between the limit and `clear` it stays as it is.
        ([(0, 101), (60, 101), (120, 11), (500, 11)], [(60, True)]),
        ([(0, 101), (60, 101), (120, 10), (179, 10)], [(60, True)]),
        ([(0, 101), (60, 101), (120, 10), (180, 10)], [(60, True), (180, False)]),
        ([(0, 101), (60, 101), (120, 10), (150, 11), (180, 10)], [(60, True)]),
        # Said once, however long it lasts.
        ([(0, 101), *((60 + n, 500) for n in range(50))], [(60, True)]),
        # A clock that is set back begins to count anew.
        ([(100, 101), (0, 101), (59, 101), (60, 101)], [(60, True)]),
    ],
)
def test_limit_hysteresis_and_minimum_time(looks: Any, turns: Any) -> None:
    assert run(BEHIND, *looks) == turns


def test_without_a_minimum_time_it_turns_at_once():
    assert run(DISK, (0, 999), (5, 1_100), (10, 1_250), (15, 999)) == [
        *[(0, True), (10, False)],
        (15, True),
    ]


@pytest.mark.parametrize(
    ("alert", "clear_at"),
    [
        (replace(BEHIND, clear=None), 80),
        (replace(BEHIND, clear=0), 0),
        (DISK, 1_250),
        (replace(DISK, clear=1_000), 1_000),
    ],
)
def test_where_it_ends(alert: Alert, clear_at: float) -> None:
    assert alert.clear_at == clear_at
    step = 1 if alert.kind.is_below else -1
    assert not is_met(alert, clear_at, is_holding=True)
    assert is_met(alert, clear_at - step, is_holding=True)


def subscription(condition: Condition, **given: Any) -> alerts.ConditionFinding:
    facts = {"messages": 0, "age_s": 0.0, "consumers": 1, "problems": {}} | given
    return alerts.of_subscription(replace(BEHIND, condition=condition), **facts)


def test_readings_of_a_subscription():
    found = subscription("BACKLOG_MESSAGES", messages=1_234)
    assert (found.value, found.sentence) == (1_234, "1,234 messages wait for billing (limit 100)")
    found = subscription("BACKLOG_AGE", age_s=840.0)
    assert found.value == 840
    assert found.sentence == "the oldest message of billing waits for 14 min (limit 1 min)"
    assert subscription("CONSUMER_GONE", consumers=0).value == 1
    assert subscription("CONSUMER_GONE", consumers=2).value == 0
    # One that is detached needs none.
    assert subscription("CONSUMER_GONE", consumers=None).value == 0
    letters = {"dead_letters_arriving": "3 messages of billing became dead letters"}
    assert subscription("DEAD_LETTERS", problems=letters) == alerts.ConditionFinding(
        1, *letters.values()
    )
    assert subscription("DEAD_LETTERS", problems={"backlog_high": "x"}).value == 0
    for code in ("push_off", "push_failing", "export_failing"):
        failing = subscription("ENDPOINT_FAILING", problems={code: "billing: 503"})
        assert failing == alerts.ConditionFinding(1, "billing: 503")
    assert subscription("ENDPOINT_FAILING").value == 0


def server(condition: Condition, **facts: Any) -> alerts.ConditionFinding:
    return alerts.of_server(replace(DISK, condition=condition), replace(SERVER, **facts))


def test_readings_of_the_server():
    refused = server("PUBLISHES_REFUSED", degraded="publishing is refused: no room")
    assert refused == alerts.ConditionFinding(1, "publishing is refused: no room")
    assert server("PUBLISHES_REFUSED").value == 0
    assert server("DISK_LOW", room_bytes=2**28 + 999).value == 999
    assert server("DISK_LOW", room_bytes=5).value == 0
    assert server("LAKE_ALARM", lake_alarm="gone").sentence == "the lake: gone"
    assert server("LAKE_ALARM").value == 0
    # An archive that has everything need not come further.
    assert server("ARCHIVE_LAG", archive_idle_s=900.0).value == 0
    assert server("ARCHIVE_LAG", archive_idle_s=900.0, unarchived=3).value == 900


def test_every_condition_has_a_row_and_a_number():
    assert list(CONDITIONS) == list(get_args(Condition))
    assert list(CONDITIONS) == list(AlertPb.Condition.keys())[1:]
    for condition, kind in CONDITIONS.items():
        assert (subscription if kind.has_subscription else server)(condition) is not None


def test_the_table_follows_records():
    table = AlertTable()
    state = AlertState(is_holding=True, since_s=NOW, number=3)
    table.apply(AlertRecord(BEHIND.name, BEHIND))
    with pytest.raises(ValueError, match="only one of two records"):
        table.check()
    table.apply(state_record(BEHIND.name, state))
    table.check()
    assert (table.alert(BEHIND.name), table.state(BEHIND.name)) == (BEHIND, state)
    assert (table.names(), table.holding(), len(table)) == ([BEHIND.name], [BEHIND.name], 1)
    assert table.usage.of("alerts", "p") == 1
    table.apply(AlertRecord(BEHIND.name, None))
    table.apply(replace(state_record(BEHIND.name, state), stored=None))
    table.check()
    assert (len(table), table.holding(), table.usage.of("alerts", "p")) == (0, [], 0)
    with pytest.raises(AlertNotFound, match="does not exist"):
        table.alert(BEHIND.name)


def test_a_minimum_is_longer_than_a_look():
    assert limits.ALERT_LOOK_S < limits.ALERT_MINIMUM_S
