"""Estimates of acts, in numbers and in a sentence, as fanlog.v1.Inspection gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from fanlog.broker.broker import Broker
from fanlog.broker.verbs.estimates import Estimate
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import PartitionId
from fanlog.server import seeking
from fanlog.v1 import inspection_pb2 as pb
from fanlog.v1 import replay_pb2
from fanlog.wire import fields

#: Which acts there are, by the collection of the resource.
ACTS: Final[Mapping[str, tuple[str, ...]]] = {
    "subscriptions": ("seek", "purge", "detach", "delete", "snapshot"),
    "topics": ("delete",),
    "snapshots": ("delete",),
    "schemas": ("delete",),
}
#: Acts that go to a place.
_PLACED: Final = ("seek", "purge")


async def estimate(broker: Broker, request: pb.EstimateRequest) -> pb.EstimateResponse:
    act, collection = act_of(request)
    name = request.resource
    if act not in _PLACED and request.WhichOneof("place") is not None:
        raise InvalidArgument(f"{request.WhichOneof('place')}: {act} goes to no place")
    match collection, act:
        case "subscriptions", "seek":
            found = await _seek(broker, request)
        case "subscriptions", "purge":
            found = await _purge(broker, request)
        case "subscriptions", "snapshot":
            found = await broker.estimates.of_snapshot(name)
        case "subscriptions", _:
            found = await broker.estimates.of_leaving(name)
        case "topics", _:
            found = await broker.estimates.of_topic(name)
        case "snapshots", _:
            found = await broker.estimates.of_snapshot_deletion(name)
        case _:
            found = await broker.estimates.of_schema(name)
    return pb.EstimateResponse(
        sentence=_SENTENCES[collection, act](found),
        reopened=found.reopened,
        acknowledged=found.acknowledged,
        lost=found.lost,
        outstanding=found.outstanding,
        kept=found.kept,
        subscriptions=found.subscriptions,
        snapshots=found.snapshots,
        topics=found.topics,
        estimated=found.is_estimated,
    )


def act_of(request: pb.EstimateRequest) -> tuple[str, str]:
    """The act, and the collection of its resource.

    Raises:
        InvalidArgument: There is no such act.
    """
    resource = names.parse_resource(request.resource)
    known = ACTS.get(resource.collection, ())
    if request.act not in known:
        raise InvalidArgument(
            f"act: {names.shown(request.act)} is none of {', '.join(known)}, the acts on "
            f"{resource.collection}"
        )
    return request.act, resource.collection


async def _seek(broker: Broker, request: pb.EstimateRequest) -> Estimate:
    wanted = replay_pb2.SeekSubscriptionRequest(subscription=request.resource)
    match request.WhichOneof("place"):
        case "time":
            wanted.time.CopyFrom(request.time)
        case "snapshot":
            wanted.snapshot = request.snapshot
        case "position":
            wanted.position = request.position
        case "message_id":
            wanted.message_id = request.message_id
    return await seeking.seek(broker.estimates, wanted)


async def _purge(broker: Broker, request: pb.EstimateRequest) -> Estimate:
    name = request.resource
    purges = broker.purges
    match request.WhichOneof("place"):
        case "time":
            time_ns = fields.time_ns_of(request.time, "time")
            found = await purges.to_time(name, time_ns, dry_run=True)
        case "message_id":
            partition, offset = parse_message_id(request.message_id)
            found = await purges.to_message(name, PartitionId(partition), offset, dry_run=True)
        case None:
            found = await purges.to_now(name, dry_run=True)
        case other:
            raise InvalidArgument(f"{other}: a purge goes to a time or a message, or to now")
    return Estimate(acknowledged=found.purged, outstanding=found.outstanding)


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def _seek_sentence(found: Estimate) -> str:
    return (
        f"{_count(found.reopened, 'message')} would be delivered again; "
        f"{_count(found.acknowledged, 'message')} that "
        f"{'waits' if found.acknowledged == 1 else 'wait'} would be acknowledged{_held(found)}"
    )


def _purge_sentence(found: Estimate) -> str:
    return f"{_count(found.acknowledged, 'message')} would be acknowledged{_held(found)}"


def _leave_sentence(found: Estimate) -> str:
    waits = "waits" if found.lost == 1 else "wait"
    return (
        f"{_count(found.lost, 'message')} that {waits} would never be delivered{_held(found)}; "
        "there is no way back"
    )


def _snapshot_sentence(found: Estimate) -> str:
    return (
        f"the snapshot would keep {_count(found.kept, 'unacknowledged message')}, and all that are "
        "published from then on"
    )


def _topic_sentence(found: Estimate) -> str:
    subscriptions = _count(found.subscriptions, "subscription")
    keep = "keeps" if found.subscriptions == 1 else "keep"
    return (
        f"{subscriptions} {keep} what waits ({_count(found.waiting, 'message')}) and would get "
        f"nothing more; {_count(found.snapshots, 'snapshot')} stay; "
        f"{_count(found.kept, 'message')} are kept now, and those that nobody needs would go"
    )


def _forget_sentence(found: Estimate) -> str:
    return f"{_count(found.kept, 'message')} that it keeps could not be sought back to any more"


def _schema_sentence(found: Estimate) -> str:
    if not found.topics:
        return "no topic has this schema"
    take = "takes" if found.topics == 1 else "take"
    return (
        f"{_count(found.topics, 'topic')} {take} no messages from then on, until other "
        "schema_settings are set"
    )


def _held(found: Estimate) -> str:
    if not found.outstanding:
        return ""
    return f", {found.outstanding:,} of them held by consumers now"


_SENTENCES: Final[Mapping[tuple[str, str], Callable[[Estimate], str]]] = {
    ("subscriptions", "seek"): _seek_sentence,
    ("subscriptions", "purge"): _purge_sentence,
    ("subscriptions", "detach"): _leave_sentence,
    ("subscriptions", "delete"): _leave_sentence,
    ("subscriptions", "snapshot"): _snapshot_sentence,
    ("topics", "delete"): _topic_sentence,
    ("snapshots", "delete"): _forget_sentence,
    ("schemas", "delete"): _schema_sentence,
}
