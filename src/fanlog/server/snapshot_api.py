"""The methods of google.pubsub.v1.Subscriber for snapshots, and Seek."""

from __future__ import annotations

from google.protobuf.empty_pb2 import Empty

from fanlog.broker.broker import Broker
from fanlog.core.drops import told
from fanlog.model import names
from fanlog.model.resources import Snapshot
from fanlog.server import assigned_names, remarks, seeking
from fanlog.server.calls import Call
from fanlog.server.methods import method, method_with_call
from fanlog.wire import paging, resources, types


async def get_snapshot(
    broker: Broker, request: types.GetSnapshotRequest, call: Call
) -> types.Snapshot:
    name = str(names.parse_snapshot(request.snapshot))
    snapshot = await broker.snapshots.get(name)
    _say_dropped(broker, snapshot, call)
    return resources.snapshot_pb(snapshot)


async def list_snapshots(
    broker: Broker, request: types.ListSnapshotsRequest
) -> types.ListSnapshotsResponse:
    project = names.parse_project(request.project)
    page = paging.read_page(f"snapshots of {request.project}", request)
    found = await broker.snapshots.list_all(project, page.after, page.size + 1)
    shown, token = page.fill(found, lambda snapshot: snapshot.name, resources.snapshot_pb)
    return types.ListSnapshotsResponse(snapshots=shown, next_page_token=token)


def _say_dropped(broker: Broker, snapshot: Snapshot, call: Call) -> None:
    counts = broker.snapshots.dropped(snapshot)
    if counts:
        said = (
            f"{told(counts)} messages were dropped by the backlog policy before the snapshot was "
            "made: they are acknowledged in it"
        )
        call.set_trailing_metadata(remarks.make_hints([said]))


async def create_snapshot(
    broker: Broker, request: types.CreateSnapshotRequest, call: Call
) -> types.Snapshot:
    assigned_names.name_snapshot(request, broker.hard.catalog.has_snapshot)
    spec = resources.snapshot_spec(request)
    snapshot = await broker.snapshots.create(spec)
    _say_dropped(broker, snapshot, call)
    return resources.snapshot_pb(snapshot)


async def update_snapshot(broker: Broker, request: types.UpdateSnapshotRequest) -> types.Snapshot:
    update = resources.snapshot_update(request)
    return resources.snapshot_pb(await broker.snapshots.update(update))


async def delete_snapshot(broker: Broker, request: types.DeleteSnapshotRequest) -> Empty:
    await broker.snapshots.delete(str(names.parse_snapshot(request.snapshot)))
    return Empty()


async def seek(broker: Broker, request: types.SeekRequest, call: Call) -> types.SeekResponse:
    moved = await seeking.seek(broker.seeks, request)
    hinted = remarks.make_hints([moved.hint] if moved.hint else [])
    call.set_trailing_metadata((*seeking.describe(moved), *hinted))
    return types.SeekResponse()


METHODS = (
    method_with_call("GetSnapshot", types.GetSnapshotRequest, types.Snapshot, get_snapshot),
    method(
        "ListSnapshots", types.ListSnapshotsRequest, types.ListSnapshotsResponse, list_snapshots
    ),
    method_with_call(
        "CreateSnapshot",
        types.CreateSnapshotRequest,
        types.Snapshot,
        create_snapshot,
        *("name", "subscription"),
    ),
    method(
        "UpdateSnapshot",
        types.UpdateSnapshotRequest,
        types.Snapshot,
        update_snapshot,
        "snapshot.name",
    ),
    method("DeleteSnapshot", types.DeleteSnapshotRequest, Empty, delete_snapshot, "snapshot"),
    method_with_call("Seek", types.SeekRequest, types.SeekResponse, seek, "subscription"),
)
