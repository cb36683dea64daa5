"""Schedules, `fanlog.v1.Schedules`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from fanlog.client.connection import Connection
from fanlog.v1 import schedules_pb2 as pb

_SERVICE: Final = "fanlog.v1.Schedules"


class ScheduleClient:
    """The schedules of one server; names are full, `projects/p/schedules/s`.

    Errors as of `Connection`.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, schedule: pb.Schedule) -> pb.Schedule:
        """Make a schedule, by its full name."""
        parent, _, schedule_id = schedule.name.partition("/schedules/")
        request = pb.CreateScheduleRequest(
            parent=parent, schedule_id=schedule_id, schedule=schedule
        )
        return self._call("CreateSchedule", request)

    def get(self, name: str) -> pb.Schedule:
        return self._call("GetSchedule", pb.GetScheduleRequest(name=name))

    def list_schedules(self, project: str) -> Iterator[pb.Schedule]:
        """Yield every schedule of `projects/p`."""
        request = pb.ListSchedulesRequest(parent=project)
        method = f"{_SERVICE}/ListSchedules"
        for page in self._connection.pages(method, request, pb.ListSchedulesResponse):
            yield from page.schedules

    def update(self, schedule: pb.Schedule, fields: Sequence[str]) -> pb.Schedule:
        """Set some fields of the schedule of that name."""
        mask = FieldMask(paths=fields)
        request = pb.UpdateScheduleRequest(schedule=schedule, update_mask=mask)
        return self._call("UpdateSchedule", request)

    def pause(self, name: str) -> pb.Schedule:
        return self._call("PauseSchedule", pb.PauseScheduleRequest(name=name))

    def resume(self, name: str) -> pb.Schedule:
        """Have a paused schedule tick again, from now on."""
        return self._call("ResumeSchedule", pb.ResumeScheduleRequest(name=name))

    def delete(self, name: str) -> None:
        request = pb.DeleteScheduleRequest(name=name)
        self._connection.call(f"{_SERVICE}/DeleteSchedule", request, pb.DeleteScheduleResponse)

    def run(self, name: str) -> str:
        """Publish the message of a schedule now; gives its id."""
        request = pb.RunScheduleRequest(name=name)
        method = f"{_SERVICE}/RunSchedule"
        return self._connection.call(method, request, pb.RunScheduleResponse).message_id

    def _call(self, method: str, request: Message) -> pb.Schedule:
        return self._connection.call(f"{_SERVICE}/{method}", request, pb.Schedule)
