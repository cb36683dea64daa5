"""fanlog.v1.Schedules, for any surface."""

from __future__ import annotations

from fanlog.broker.broker import Broker
from fanlog.model import names
from fanlog.model.schedules import ScheduleState
from fanlog.server.methods import method
from fanlog.v1 import schedules_pb2 as pb
from fanlog.wire import paging
from fanlog.wire.schedules import changes_of, schedule_of, schedule_pb


async def create_schedule(broker: Broker, request: pb.CreateScheduleRequest) -> pb.Schedule:
    project = names.parse_project(request.parent, field="parent")
    name = names.schedule_name(project, request.schedule_id)
    names.parse_schedule(name, field="schedule_id")
    return schedule_pb(await broker.schedules.create(schedule_of(name, request.schedule)))


async def get_schedule(broker: Broker, request: pb.GetScheduleRequest) -> pb.Schedule:
    return schedule_pb(await broker.schedules.get(names.parse_schedule(request.name)))


async def list_schedules(
    broker: Broker, request: pb.ListSchedulesRequest
) -> pb.ListSchedulesResponse:
    project = names.parse_project(request.parent, field="parent")
    page = paging.read_page(f"schedules of {request.parent}", request)
    found = await broker.schedules.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, _name_of, schedule_pb)
    return pb.ListSchedulesResponse(schedules=shown, next_page_token=token)


async def update_schedule(broker: Broker, request: pb.UpdateScheduleRequest) -> pb.Schedule:
    name = names.parse_schedule(request.schedule.name, field="schedule.name")
    return schedule_pb(await broker.schedules.update(name, changes_of(request)))


async def pause_schedule(broker: Broker, request: pb.PauseScheduleRequest) -> pb.Schedule:
    name = names.parse_schedule(request.name)
    return schedule_pb(await broker.schedules.update(name, {"is_paused": True}))


async def resume_schedule(broker: Broker, request: pb.ResumeScheduleRequest) -> pb.Schedule:
    name = names.parse_schedule(request.name)
    return schedule_pb(await broker.schedules.update(name, {"is_paused": False}))


async def delete_schedule(
    broker: Broker, request: pb.DeleteScheduleRequest
) -> pb.DeleteScheduleResponse:
    await broker.schedules.delete(names.parse_schedule(request.name))
    return pb.DeleteScheduleResponse()


async def run_schedule(broker: Broker, request: pb.RunScheduleRequest) -> pb.RunScheduleResponse:
    message_id = await broker.schedules.run(names.parse_schedule(request.name))
    return pb.RunScheduleResponse(message_id=message_id)


def _name_of(state: ScheduleState) -> str:
    return state.schedule.name


METHODS = (
    method(
        "CreateSchedule",
        pb.CreateScheduleRequest,
        pb.Schedule,
        create_schedule,
        "parent",
        "schedule.topic",
    ),
    method("GetSchedule", pb.GetScheduleRequest, pb.Schedule, get_schedule),
    method("ListSchedules", pb.ListSchedulesRequest, pb.ListSchedulesResponse, list_schedules),
    method(
        "UpdateSchedule",
        pb.UpdateScheduleRequest,
        pb.Schedule,
        update_schedule,
        "schedule.name",
        "schedule.topic",
    ),
    method("PauseSchedule", pb.PauseScheduleRequest, pb.Schedule, pause_schedule, "name"),
    method("ResumeSchedule", pb.ResumeScheduleRequest, pb.Schedule, resume_schedule, "name"),
    method(
        "DeleteSchedule",
        pb.DeleteScheduleRequest,
        pb.DeleteScheduleResponse,
        delete_schedule,
        "name",
    ),
    method("RunSchedule", pb.RunScheduleRequest, pb.RunScheduleResponse, run_schedule, "name"),
)
