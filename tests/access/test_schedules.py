"""Who may have a schedule publish: its project's editors who may publish to its topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from access.conftest import PROJECT, Guarded, Start
from fanlog.v1 import schedules_pb2 as pb

SERVICE = "fanlog.v1.Schedules"
NAME = f"{PROJECT}/schedules/daily"
TOPIC = f"{PROJECT}/topics/orders"
OTHER = f"{PROJECT}/topics/others"
RESOURCES = """
[topics.orders]
[topics.others]
[roles."roles/custom.planner"]
permissions = [
    "fanlog.schedules.create", "fanlog.schedules.delete", "fanlog.schedules.run",
    "fanlog.schedules.update",
]
"""

CREATE = (
    f"{SERVICE}/CreateSchedule",
    pb.CreateScheduleRequest(
        parent=PROJECT,
        schedule_id="daily",
        schedule=pb.Schedule(topic=TOPIC, cron="@daily", data=b"x"),
    ),
    pb.Schedule,
)
MOVE = pb.UpdateScheduleRequest(schedule=pb.Schedule(name=NAME, topic=OTHER))
MOVE.update_mask.paths.append("topic")
RETELL = pb.UpdateScheduleRequest(schedule=pb.Schedule(name=NAME, data=b"y"))
RETELL.update_mask.paths.append("data")

#: With the right to publish to the schedule's topic and no other; and without any.
CALLS = [
    (f"{SERVICE}/RunSchedule", pb.RunScheduleRequest(name=NAME), pb.RunScheduleResponse, "OK"),
    (f"{SERVICE}/UpdateSchedule", RETELL, pb.Schedule, "OK"),
    (f"{SERVICE}/UpdateSchedule", MOVE, pb.Schedule, "PERMISSION_DENIED"),
    (f"{SERVICE}/ResumeSchedule", pb.ResumeScheduleRequest(name=NAME), pb.Schedule, "OK"),
    (f"{SERVICE}/GetSchedule", pb.GetScheduleRequest(name=NAME), pb.Schedule, "PERMISSION_DENIED"),
]


@pytest.fixture
async def guarded(start: Start, tmp_path: Path) -> Guarded:
    file = tmp_path / "resources.toml"
    file.write_text(RESOURCES)
    return await start(resources=file, project="shop")


async def test_to_have_it_published_is_to_publish(guarded: Guarded) -> None:
    token = await guarded.token("planner")
    planner = guarded.member("planner")
    await guarded.grant(PROJECT, "roles/custom.planner", planner)
    assert await guarded.code(*CREATE, token) == "PERMISSION_DENIED"
    await guarded.call(*CREATE)
    for path, request, answer, _ in CALLS:
        assert await guarded.code(path, request, answer, token) == "PERMISSION_DENIED", path
    # To have it publish no more needs no such right.
    pause = pb.PauseScheduleRequest(name=NAME)
    assert await guarded.code(f"{SERVICE}/PauseSchedule", pause, pb.Schedule, token) == "OK"

    await guarded.grant(TOPIC, "roles/pubsub.publisher", planner)
    for path, request, answer, code in CALLS:
        assert await guarded.code(path, request, answer, token) == code, path
