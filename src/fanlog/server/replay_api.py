"""fanlog.v1.Replay, for any surface."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from pyroaring import BitMap64

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.verbs.reopening import Wanted
from fanlog.broker.verbs.seek_answers import DROPPED
from fanlog.core.dead_letter import Letter, LetterGroup, LetterOutcome, LetterPlace, LetterSelection
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import PartitionId
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_parse import parse
from fanlog.server import seeking
from fanlog.server.calls import Call
from fanlog.server.methods import method, method_with_call
from fanlog.server.permissions import CONSUME
from fanlog.server.remarks import make_hints
from fanlog.v1 import message_pb2
from fanlog.v1 import replay_pb2 as pb
from fanlog.wire import fields, paging
from fanlog.wire.bitmaps import parse_offsets

#: A larger bitmap is read in a thread, and so is one of each so many bytes of smaller ones.
_LARGE_BYTES = 64 * 1024

#: Requests that settle dead letters; that select some; that have a window of times.
_Settles = pb.RedriveRequest | pb.DiscardRequest
_Selects = pb.ListDeadLettersRequest | pb.CountDeadLettersRequest | _Settles
_HasWindow = pb.ReopenRequest | _Selects


async def reopen(broker: Broker, request: pb.ReopenRequest, call: Call) -> pb.ReopenResponse:
    name = _check_subscription(request.subscription)
    request_id = _check_request_id(request.request_id)
    start_ns, end_ns = _read_window(request)
    has_window = request.HasField("start_time") or request.HasField("end_time")
    ways = [bool(request.offsets), bool(request.message_ids), has_window]
    if sum(ways) != 1:
        raise InvalidArgument(
            "reopen needs one of offsets, message_ids and a window of start_time or end_time; "
            f"it has {sum(ways)}"
        )
    if has_window:
        done = await broker.reopening.reopen_window(name, start_ns, end_ns, request_id)
    elif request.offsets:
        done = await broker.reopening.reopen(name, await _read_wanted(broker, request), request_id)
    else:
        sets: defaultdict[PartitionId, BitMap64] = defaultdict(BitMap64)
        for partition, offset in _read_ids(request.message_ids, limits.REOPEN_IDS_MAX):
            sets[partition].add(offset)
        done = await broker.reopening.reopen(name, Wanted(sets), request_id)
    if done.dropped:
        said = f"{done.dropped} of the messages at most {DROPPED}"
        call.set_trailing_metadata(make_hints([said]))
    return pb.ReopenResponse(
        reopened=done.reopened,
        skipped=sum(done.skipped.values()),
        skipped_messages=[
            pb.SkippedMessages(reason=reason, count=count) for reason, count in done.skipped.items()
        ],
    )


async def _read_wanted(broker: Broker, request: pb.ReopenRequest) -> Wanted:
    """The offsets of a request: ranges as far as the log has them, and bitmaps."""
    if len(request.offsets) > limits.REOPEN_SETS_MAX:
        raise InvalidArgument(
            f"offsets: {len(request.offsets)} sets; {limits.REOPEN_SETS_MAX} are allowed at most"
        )
    wanted, read_bytes = Wanted(), 0
    for index, one in enumerate(request.offsets):
        field = f"offsets[{index}]"
        if not 1 <= one.partition < 1 << 32:
            raise InvalidArgument(f"{field}.partition: {one.partition} is no partition")
        partition = PartitionId(one.partition)
        if one.bitmap:
            if one.start or one.end:
                raise InvalidArgument(f"{field}: has a bitmap and a range; it may have one of them")
            read_bytes += len(one.bitmap)
            if read_bytes > _LARGE_BYTES:
                read_bytes = 0
                offsets = await asyncio.to_thread(parse_offsets, one.bitmap, f"{field}.bitmap")
            else:
                offsets = parse_offsets(one.bitmap, f"{field}.bitmap")
            wanted.add(partition, offsets)
        elif 0 <= one.start < one.end <= limits.OFFSET_MAX:
            bounds = broker.reopening.bounds(partition)
            wanted.add_range(partition, one.start, one.end, bounds)
        else:
            raise InvalidArgument(f"{field}: [{one.start}, {one.end}) is no range of offsets")
    return wanted


async def seek(broker: Broker, request: pb.SeekSubscriptionRequest) -> pb.SeekSubscriptionResponse:
    moved = await seeking.seek(broker.seeks, request)
    answer = pb.SeekSubscriptionResponse(
        reopened=moved.reopened, acknowledged=moved.acknowledged, hint=moved.hint
    )
    if moved.reopened_from_ns is not None:
        answer.reopened_from.FromNanoseconds(moved.reopened_from_ns)
    return answer


async def list_dead_letters(
    broker: Broker, request: pb.ListDeadLettersRequest
) -> pb.ListDeadLettersResponse:
    name = _check_subscription(request.subscription)
    page = paging.read_page(_scope(name), request)
    after = LetterPlace.parse(page.after) if page.after else None
    found, place = await broker.dead_letters.list_all(
        name, _read_selection(request), after, page.size
    )
    return pb.ListDeadLettersResponse(
        letters=map(_letter_pb, found), next_page_token=_token(name, place)
    )


async def count_dead_letters(
    broker: Broker, request: pb.CountDeadLettersRequest
) -> pb.CountDeadLettersResponse:
    name = _check_subscription(request.subscription)
    scope = f"counts of {_scope(name)}"
    page = paging.parse_page(scope, 0, request.page_token)
    after = LetterPlace.parse(page.after) if page.after else None
    groups, rest, place = await broker.dead_letters.count(name, _read_selection(request), after)
    return pb.CountDeadLettersResponse(
        groups=map(_group_pb, groups),
        rest=rest,
        next_page_token="" if place is None else paging.token(scope, str(place)),
    )


def _group_pb(one: LetterGroup) -> pb.LetterGroup:
    found = pb.LetterGroup(
        source_subscription=one.source_subscription,
        reason=one.reason,
        letters=one.letters,
        message_id=one.example,
    )
    found.first_time.FromNanoseconds(one.first_ns)
    found.last_time.FromNanoseconds(one.last_ns)
    return found


async def redrive(broker: Broker, request: pb.RedriveRequest, call: Call) -> pb.RedriveResponse:
    # Whatever the policies of subscriptions say now: each letter says where it failed.
    may = partial(call.caller.may, CONSUME)
    name = _check_subscription(request.subscription)
    request_id = _check_request_id(request.request_id)
    selection = _read_choice(request)
    if selection is None:
        ids = _read_ids(request.message_ids, limits.LETTERS_MAX)
        outcome = await broker.dead_letters.redrive(
            name, ids, request_id, copies=request.copies, may=may
        )
    elif request_id:
        raise InvalidArgument(
            "request_id: goes with message_ids; a selection can be sent again as it is, for "
            "what was redriven is acknowledged"
        )
    else:
        outcome = await broker.dead_letters.redrive_all(
            *(name, selection, _read_place(name, request), _read_most(request)),
            copies=request.copies,
            may=may,
        )
    return pb.RedriveResponse(
        reopened=outcome.reopened,
        copied=outcome.copied,
        skipped=len(outcome.skipped) + outcome.skipped_before,
        skipped_letters=_skipped_pb(outcome),
        next_page_token=_token(name, outcome.next),
    )


async def discard(broker: Broker, request: pb.DiscardRequest) -> pb.DiscardResponse:
    name = _check_subscription(request.subscription)
    selection = _read_choice(request)
    if selection is None:
        ids = _read_ids(request.message_ids, limits.LETTERS_MAX)
        outcome = await broker.dead_letters.discard(name, ids)
    else:
        outcome = await broker.dead_letters.discard_all(
            name, selection, _read_place(name, request), _read_most(request)
        )
    return pb.DiscardResponse(
        discarded=outcome.discarded,
        skipped=len(outcome.skipped) + outcome.skipped_before,
        skipped_letters=_skipped_pb(outcome),
        next_page_token=_token(name, outcome.next),
    )


def _check_subscription(name: str) -> str:
    return str(names.parse_subscription(name))


def _check_request_id(text: str) -> str:
    if len(text.encode()) > limits.REQUEST_ID_BYTES_MAX:
        raise InvalidArgument(
            f"request_id: {len(text.encode())} bytes; at most {limits.REQUEST_ID_BYTES_MAX}"
        )
    return text


def _read_window(request: _HasWindow) -> tuple[int, int | None]:
    start_ns, end_ns = 0, None
    if request.HasField("start_time"):
        start_ns = fields.time_ns_of(request.start_time, "start_time")
    if request.HasField("end_time"):
        end_ns = fields.time_ns_of(request.end_time, "end_time")
        if end_ns <= start_ns:
            raise InvalidArgument("end_time: must be later than start_time")
    return start_ns, end_ns


def _read_ids(texts: Iterable[str], most: int) -> list[tuple[PartitionId, int]]:
    ids = list(texts)
    if len(ids) > most:
        raise InvalidArgument(f"message_ids: {len(ids)} of them; at most {most} are allowed")
    found: list[tuple[PartitionId, int]] = []
    for text in ids:
        partition, offset = parse_message_id(text)
        found.append((PartitionId(partition), offset))
    return found


def _read_selection(request: _Selects) -> LetterSelection:
    source = request.source_subscription
    start_ns, end_ns = _read_window(request)
    tree = parse(request.filter)
    return LetterSelection(
        source and str(names.parse_subscription(source, field="source_subscription")),
        request.reason,
        start_ns,
        end_ns,
        None if tree is None else compile_filter(tree),
    )


def _read_choice(request: _Settles) -> LetterSelection | None:
    """The selection of letters; None when they are named by their ids."""
    selection = _read_selection(request)
    has_criteria = selection != LetterSelection()
    is_selected = request.all or has_criteria
    if bool(request.message_ids) == is_selected:
        raise InvalidArgument(
            "say which letters: message_ids, or all, or some of source_subscription, reason, "
            "start_time, end_time and filter"
        )
    if request.message_ids and (request.max_messages or request.page_token):
        raise InvalidArgument("max_messages, page_token: go with a selection, not with message_ids")
    return selection if is_selected else None


def _read_most(request: _Settles) -> int:
    if not 0 <= request.max_messages <= limits.LETTERS_MAX:
        raise InvalidArgument(
            f"max_messages: {request.max_messages} is out of range; 0 to {limits.LETTERS_MAX}"
        )
    return request.max_messages or limits.LETTERS_DEFAULT


def _scope(name: str) -> str:
    return f"dead letters of {name}"


def _read_place(name: str, request: _Settles) -> LetterPlace | None:
    page = paging.parse_page(_scope(name), 0, request.page_token)
    return LetterPlace.parse(page.after) if page.after else None


def _token(name: str, place: LetterPlace | None) -> str:
    return "" if place is None else paging.token(_scope(name), str(place))


def _skipped_pb(outcome: LetterOutcome) -> list[pb.SkippedLetter]:
    shown = outcome.skipped[: limits.LETTERS_SHOWN_MAX]
    return [pb.SkippedLetter(message_id=letter, reason=why) for letter, why in shown]


def _letter_pb(letter: Letter) -> pb.DeadLetter:
    message = message_pb2.Message(
        data=letter.message.data,
        attributes=dict(letter.message.attributes),
        message_id=letter.id,
        ordering_key=letter.message.ordering_key,
    )
    message.publish_time.FromNanoseconds(letter.publish_time_ns)
    return pb.DeadLetter(
        message=message,
        source_subscription=letter.source_subscription,
        source_topic=letter.source_topic,
        source_message_id=letter.source_id,
        delivery_attempts=letter.attempts,
        reason=letter.reason,
        leased=letter.is_leased,
    )


METHODS = (
    method_with_call("Reopen", pb.ReopenRequest, pb.ReopenResponse, reopen, "subscription"),
    method("Seek", pb.SeekSubscriptionRequest, pb.SeekSubscriptionResponse, seek, "subscription"),
    method(
        "ListDeadLetters", pb.ListDeadLettersRequest, pb.ListDeadLettersResponse, list_dead_letters
    ),
    method_with_call("Redrive", pb.RedriveRequest, pb.RedriveResponse, redrive, "subscription"),
    method(
        "CountDeadLetters",
        pb.CountDeadLettersRequest,
        pb.CountDeadLettersResponse,
        count_dead_letters,
    ),
    method("Discard", pb.DiscardRequest, pb.DiscardResponse, discard, "subscription"),
)
