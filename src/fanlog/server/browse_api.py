"""fanlog.v1.Browse, for any surface."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.schemas.decoding import NOT_DECODED, Decoded
from fanlog.broker.verbs.browsing import (
    Browse,
    Browsed,
    BrowsePlace,
    Looked,
    Matches,
    WantedMessages,
)
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import PartitionId, Subscription, SubscriptionId
from fanlog.routing import filter_words
from fanlog.routing.filter_ast import Filter, Payload
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_conjunctions import fields_of
from fanlog.routing.filter_parse import FilterError, parse
from fanlog.routing.filter_print import to_text
from fanlog.server.methods import method
from fanlog.v1 import browse_pb2 as pb
from fanlog.wire import fields, paging
from fanlog.wire.publish import key_hash

#: Where a refusal says it is; in a key of the JSON form columns count within that key.
_COLUMN = re.compile(r" at column (\d+)\b(?! of )")
_NO_ROOM = "the page has no room for it; look at this message alone"


async def messages(broker: Broker, request: pb.BrowseMessagesRequest) -> pb.BrowseMessagesResponse:
    topic, subscription = _sources(request.topic, request.subscription)
    most = _bounded(
        "max_messages",
        request.max_messages,
        limits.BROWSE_MESSAGES_DEFAULT,
        limits.BROWSE_MESSAGES_MAX,
    )
    data_bytes_max = _bounded(
        "max_data_bytes",
        request.max_data_bytes,
        limits.BROWSE_DATA_BYTES_DEFAULT,
        limits.MESSAGE_BYTES_MAX,
    )
    partitions, reader = broker.browsing.partitions_of(topic, subscription)
    way = "back" if request.newest_first else "on"
    scope = f"messages of {topic} {subscription} {way}"
    page = paging.parse_page(scope, 0, request.page_token)
    place = BrowsePlace.parse(page.after) if page.after else None
    time_ns: int | None = None
    match request.WhichOneof("start"):
        case "time":
            time_ns = fields.time_ns_of(request.time, "time")
        case "message_id" if place is None:
            place = _place_of(request)
        case "offset" if place is None:
            place = _place_at(request, partitions)
    found = await broker.browsing.page(
        Browse(
            partitions=partitions,
            reader=reader,
            wanted=_wanted(request, reader),
            newest_first=request.newest_first,
            place=place,
            time_ns=time_ns,
            most=most,
            data_bytes_max=data_bytes_max,
        )
    )
    answer = pb.BrowseMessagesResponse(
        looked_at=found.looked.messages,
        looked_at_bytes=found.looked.size_bytes,
        damaged=found.looked.damaged,
        next_page_token="" if found.after is None else paging.token(scope, str(found.after)),
    )
    if found.looked.until_ns is not None:
        answer.looked_until.FromNanoseconds(found.looked.until_ns)
    left_bytes = limits.ANSWER_BYTES_MAX
    for one in found.found:
        decoded = NOT_DECODED
        if request.decode:
            decoded = await _decode(broker, one)
            if answer.messages and len(decoded.text) > left_bytes:
                decoded = Decoded(error=_NO_ROOM, revision_id=decoded.revision_id)
            left_bytes -= len(decoded.text)
        answer.messages.append(_browsed_pb(broker, one, data_bytes_max, decoded))
    return answer


async def parse_filter(_: Broker, request: pb.ParseFilterRequest) -> pb.ParseFilterResponse:
    try:
        tree = parse(request.filter)
        compiled = None if tree is None else compile_filter(tree)
    except FilterError as error:
        found = _COLUMN.search(error.message)
        # What ends too early is told behind the last character.
        column = min(int(found[1]), len(request.filter) + 1) if found else 0
        problem = pb.FilterProblem(message=error.message, column=column)
        return pb.ParseFilterResponse(problem=problem)
    if tree is None or compiled is None:
        return pb.ParseFilterResponse()
    return pb.ParseFilterResponse(
        filter=to_text(tree), tree=_node_pb(tree), reads_data=_reads_data(tree)
    )


async def try_filter(broker: Broker, request: pb.TryFilterRequest) -> pb.TryFilterResponse:
    if bool(request.topic) == bool(request.subscription):
        raise InvalidArgument("topic, subscription: one of them is needed, and not both")
    topic, subscription = _sources(request.topic, request.subscription)
    last = _bounded("last", request.last, limits.TRY_MESSAGES_DEFAULT, limits.TRY_MESSAGES_MAX)
    samples_max = _bounded(
        "max_samples", request.max_samples, limits.TRY_SAMPLES_DEFAULT, limits.TRY_SAMPLES_MAX
    )
    matches = _matches(request.filter)
    partitions, _ = broker.browsing.partitions_of(topic, subscription)
    tried = _Tried(matches, samples_max)
    # One more message of each kind than the last: they are looked at as they come.
    looked = Looked(messages_max=limits.TRY_MESSAGES_MAX, bytes_max=limits.TRY_BYTES_MAX)
    is_whole = await broker.browsing.latest(partitions, last, tried.note, looked)
    answer = pb.TryFilterResponse(
        looked_at=tried.looked_at,
        matched=tried.matched,
        cut_short=not is_whole,
        damaged=looked.damaged,
        matching=[_sample_pb(broker, one) for one in tried.matching],
        others=[_sample_pb(broker, one) for one in tried.others],
    )
    if tried.earliest_ns is not None:
        answer.looked_back_to.FromNanoseconds(tried.earliest_ns)
    return answer


@dataclass(slots=True)
class _Tried:
    """A filter on messages as they come."""

    _matches: Matches
    _samples_max: int
    looked_at: int = 0
    matched: int = 0
    matching: list[Browsed] = field(default_factory=list)
    others: list[Browsed] = field(default_factory=list)
    earliest_ns: int | None = None

    def note(self, one: Browsed) -> None:
        self.looked_at += 1
        time_ns = one.batch.publish_time_ns
        self.earliest_ns = time_ns if self.earliest_ns is None else min(self.earliest_ns, time_ns)
        is_match = self._matches(one.message)
        self.matched += is_match
        samples = self.matching if is_match else self.others
        if len(samples) < self._samples_max:
            samples.append(one)


def _sources(topic: str, subscription: str) -> tuple[str, str]:
    if not topic and not subscription:
        raise InvalidArgument("topic, subscription: one of them is needed")
    return (
        topic and str(names.parse_topic(topic)),
        subscription and str(names.parse_subscription(subscription)),
    )


def _bounded(name: str, given: int, default: int, most: int) -> int:
    if not 0 <= given <= most:
        raise InvalidArgument(f"{name}: {given} is out of range; 0 to {most}")
    return given or default


def _place_of(request: pb.BrowseMessagesRequest) -> BrowsePlace:
    if not request.message_id:
        raise InvalidArgument("message_id: is empty; it needs the id of a message")
    partition, offset = parse_message_id(request.message_id)
    return BrowsePlace(PartitionId(partition), offset + request.newest_first, is_alone=True)


def _place_at(request: pb.BrowseMessagesRequest, partitions: object) -> BrowsePlace:
    if not request.topic:
        raise InvalidArgument("offset: is one of a topic; name the topic")
    if not 0 <= request.offset < limits.OFFSET_MAX:
        raise InvalidArgument(f"offset: {request.offset} is out of range")
    assert isinstance(partitions, list | tuple)
    if len(partitions) != 1:
        raise InvalidArgument("offset: the topic has many partitions; give a message_id")
    return BrowsePlace(partitions[0], request.offset + request.newest_first, is_alone=True)


def _wanted(request: pb.BrowseMessagesRequest, reader: Subscription | None) -> WantedMessages:
    if len(request.attributes) > limits.ATTRIBUTES_MAX:
        raise InvalidArgument(
            f"attributes: {len(request.attributes)}; a message has {limits.ATTRIBUTES_MAX} at most"
        )
    trees = [parse(request.filter)]
    if reader is not None and reader.filter:
        trees.append(parse(reader.filter, limited=False))
    tests = [compile_filter(tree) for tree in trees if tree is not None]
    matches: Matches | None = None
    if len(tests) == 1:
        [matches] = tests
    elif tests:
        first, second = tests
        matches = lambda one: first(one) and second(one)  # noqa: E731
    return WantedMessages(
        ordering_key=request.ordering_key,
        key_hash=key_hash(request.ordering_key),
        attributes=dict(request.attributes),
        matches=matches,
    )


def _matches(text: str) -> Matches:
    """Raises FilterError."""
    tree = parse(text)
    return (lambda _: True) if tree is None else compile_filter(tree)


def _reads_data(tree: Filter) -> bool:
    return any(isinstance(one, Payload) for one in fields_of(tree))


def _node_pb(tree: Filter) -> pb.FilterNode:
    return pb.FilterNode(
        kind=filter_words.kind_of(tree),
        words=filter_words.in_words(tree),
        text=to_text(tree),
        parts=map(_node_pb, filter_words.parts_of(tree)),
    )


async def _decode(broker: Broker, one: Browsed) -> Decoded:
    topic = broker.hard.catalog.topic_of(one.batch.partition)
    return await broker.decoding.decode(topic, one.message.attributes, one.message.data)


def _sample_pb(broker: Broker, one: Browsed) -> pb.BrowsedMessage:
    return _browsed_pb(broker, one, limits.TRY_DATA_BYTES, NOT_DECODED)


def _browsed_pb(
    broker: Broker, one: Browsed, data_bytes_max: int, decoded: Decoded
) -> pb.BrowsedMessage:
    message, batch = one.message, one.batch
    found = pb.BrowsedMessage(
        topic=broker.hard.catalog.topic_name_of(batch.partition),
        offset=one.offset,
        data_bytes=len(message.data),
        data_cut=len(message.data) > data_bytes_max,
        size_bytes=one.size_bytes,
        tier=one.tier,
        decoded=decoded.text,
        decoding_error=decoded.error,
        schema_revision_id=decoded.revision_id,
    )
    if batch.seal is not None and batch.seal.addressee:
        addressee = broker.hard.catalog.subscription_by_id(SubscriptionId(batch.seal.addressee))
        found.addressee = "" if addressee is None else addressee.name
    shown = found.message
    shown.data, shown.ordering_key = message.data[:data_bytes_max], message.ordering_key
    shown.message_id = message.message_id
    shown.attributes.update(message.attributes)
    shown.publish_time.FromNanoseconds(batch.publish_time_ns)
    return found


METHODS = (
    method("Messages", pb.BrowseMessagesRequest, pb.BrowseMessagesResponse, messages),
    method("ParseFilter", pb.ParseFilterRequest, pb.ParseFilterResponse, parse_filter),
    method("TryFilter", pb.TryFilterRequest, pb.TryFilterResponse, try_filter),
)
