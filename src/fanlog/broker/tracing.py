"""Tracing: the spans of sampled messages, from their publish to the end of their delivery.

Off unless it is built: the parts that call it have None then, and look at that once a request. A
message is sampled when the context that it brings is, in an attribute or in the head of its
publish, or, without one, by chance. Soft state, bounded: of too many, the oldest are forgotten.

    publish ── commit
       ├─ deliver ─┬─ push
       │           └─ ack
       └─ dead-letter

`deliver` lasts from the hand-out to the acknowledgement, nack or expiry. Under a message's own
context a trace goes on where the publisher began it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from fanlog.broker.clock import Clock
from fanlog.core.share import Decision, Share
from fanlog.log.batch import Batch, Body
from fanlog.model.ids import message_id
from fanlog.model.resources import Offset, PartitionId, Subscription, SubscriptionId
from fanlog.model.spans import Kind, SpanContext, TraceSpan, parse_traceparent

#: The context of each message of a run of `messages` fields that has one, by its index.
ContextsIn = Callable[[bytes], Mapping[int, str]]
#: Where messages are in the log: partition, offset of each, and indexes; see `parts.Placed`.
Placed = tuple[PartitionId, Sequence[Offset], Sequence[int] | None]
Key = tuple[PartitionId, Offset]
#: A message on one subscription.
Held = tuple[SubscriptionId, PartitionId, Offset]

#: Messages of one publish, or of a run of a delivery, that have spans of their own.
REQUEST_MAX = 100
#: Messages whose spans are remembered, about 300 bytes each: published ones, and outstanding ones.
HELD_MAX = 20_000

Value = TypeVar("Value")
_NO_PARENT: Final = b""


class Handed(Protocol):
    """A delivery, as far as it is traced."""

    @property
    def partition(self) -> PartitionId: ...
    @property
    def runs(self) -> Sequence[tuple[Batch, int, int]]: ...


@dataclass(frozen=True, slots=True)
class OpenSpan:
    """A span that is not over."""

    context: SpanContext
    parent_id: bytes
    start_ns: int


@dataclass(slots=True)
class Pushing:
    """A push request under way."""

    #: The context that it carries on; empty when none of its messages is sampled.
    traceparent: str = ""
    #: Why it failed; empty when it did not.
    error: str = ""


class Tracing:
    """The spans of one broker. Lives on the loop."""

    def __init__(
        self,
        clock: Clock,
        *,
        ratio: float,
        contexts_in: ContextsIn,
        tell: Callable[[TraceSpan], None],
        new_bytes: Callable[[int], bytes],
        chance: Callable[[], float],
        last_commit: Callable[[], tuple[float, float]],
    ) -> None:
        """`ratio`: the part of publishes without a context that begin a trace.

        `tell` takes spans that are over; `last_commit` says when the commit that was over last
        began and ended.
        """
        self._clock = clock
        self._ratio = ratio
        self._contexts_in = contexts_in
        self._tell = tell
        self._new_bytes = new_bytes
        self._chance = chance
        self._last_commit = last_commit
        #: The publish of messages, and their deliveries that are not over.
        self._published: OrderedDict[Key, SpanContext] = OrderedDict()
        self._outstanding: OrderedDict[Held, OpenSpan] = OrderedDict()

    # Publishing.

    async def publishing(
        self, topic: str, body: Body, head: str, work: Awaitable[list[Placed]]
    ) -> list[Placed]:
        """Await a publish, with the spans of its sampled messages; `head` is its traceparent."""
        request, messages = self._sample(body, head)
        if request is None and not messages:
            return await work
        start_ns, error = self._now_ns(), ""
        placed: list[Placed] = []
        try:
            placed = await work
            return placed
        except Exception as failure:
            error = repr(failure)
            raise
        finally:
            self._end_publish(topic, body, request, messages, placed, start_ns, error)

    def _sample(self, body: Body, head: str) -> tuple[OpenSpan | None, Mapping[int, SpanContext]]:
        """The span of the request, if it has one, and the sampled messages with their contexts."""
        parent = parse_traceparent(head) if head else None
        found = self._sampled_in(body.content)
        if parent is not None:
            return (self._begin(parent) if parent.is_sampled else None), found
        if not found and self._ratio and self._chance() < self._ratio:
            return self._begin(None), found
        return None, found

    def _end_publish(
        self,
        topic: str,
        body: Body,
        request: OpenSpan | None,
        messages: Mapping[int, SpanContext],
        placed: Sequence[Placed],
        start_ns: int,
        error: str,
    ) -> None:
        keys = _keys(placed)
        about: dict[str, str | int] = {
            "messaging.destination.name": topic,
            "messaging.batch.message_count": body.count,
        }
        if request is not None:
            links = tuple(messages.values())
            self._end("publish", "server", request, about, links=links, error=error)
            self._tell_commit(request.context, start_ns, error)
            # Messages without a context of their own go on under that of their request.
            for index in range(min(body.count, REQUEST_MAX)):
                if index not in messages and index in keys:
                    self._remember(keys[index], request.context)
        for index, parent in messages.items():
            begun = OpenSpan(self._child(parent), parent.span_id, start_ns)
            named = dict(about)
            if index in keys:
                named["messaging.message.id"] = message_id(*keys[index])
                self._remember(keys[index], begun.context)
            self._end("publish", "server", begun, named, error=error)
            self._tell_commit(begun.context, start_ns, error)

    def _tell_commit(self, publish: SpanContext, start_ns: int, error: str) -> None:
        began_s, ended_s = self._last_commit()
        began_ns = max(start_ns, round(began_s * 1e9))
        # A publish that repeats others, or was refused, waited for no commit of its own.
        if not error and round(ended_s * 1e9) >= start_ns:
            begun = OpenSpan(self._child(publish), publish.span_id, began_ns)
            self._end("commit", "internal", begun, {}, end_ns=max(began_ns, round(ended_s * 1e9)))

    # Delivery.

    def delivered(self, subscription: Subscription, deliveries: Iterable[Handed]) -> None:
        """Messages are about to leave."""
        now_ns = self._now_ns()
        for delivery in deliveries:
            for offset, parent in self._sampled_of(delivery):
                begun = OpenSpan(self._child(parent), parent.span_id, now_ns)
                if subscription.is_at_most_once:
                    # They were acknowledged before they left.
                    self._end_delivery(subscription, delivery.partition, offset, begun, "sent")
                else:
                    key = (subscription.id, delivery.partition, offset)
                    _put(self._outstanding, key, begun)

    def settled(
        self, share: Share, decision: Decision, committed: asyncio.Future[None] | None
    ) -> None:
        """A share has decided: deliveries are over, with the commit of that for an end."""
        if not self._outstanding:
            return
        now_ns, settings = self._now_ns(), share.settings
        if decision.acked is not None:
            for offset, begun in self._taken(share, decision.acked):
                self._end_delivery(settings, share.partition, offset, begun, "acknowledged")
                ack = OpenSpan(self._child(begun.context), begun.context.span_id, now_ns)
                self._end_when(committed, "ack", ack, settings.name)
        if decision.failed is not None:
            offsets, nack = decision.failed
            for offset, begun in self._taken(share, offsets):
                error = nack.reason or nack.how
                self._end_delivery(settings, share.partition, offset, begun, nack.how, error)

    def dead_lettered(self, share: Share, letters: Mapping[Offset, str], topic: str) -> None:
        """Messages became dead letters, which are committed next: their message ids by offset."""
        now_ns = self._now_ns()
        for offset, letter_id in letters.items():
            parent = self._published.get((share.partition, offset))
            if parent is not None:
                begun = OpenSpan(self._child(parent), parent.span_id, now_ns)
                about: dict[str, str | int] = {
                    "messaging.destination.name": topic,
                    "messaging.message.id": letter_id,
                    "fanlog.subscription": share.settings.name,
                }
                self._end("dead-letter", "producer", begun, about)

    # Push.

    @contextmanager
    def pushing(
        self, subscription: Subscription, keys: Iterable[Key], url: str
    ) -> Iterator[Pushing]:
        """Around a request with some messages: its span, below the first that is sampled."""
        found = [
            begun
            for partition, offset in keys
            if (begun := self._outstanding.get((subscription.id, partition, offset))) is not None
        ]
        if not found:
            yield Pushing()
            return
        parent, *others = found
        begun = OpenSpan(self._child(parent.context), parent.context.span_id, self._now_ns())
        pushing = Pushing(begun.context.traceparent)
        try:
            yield pushing
        finally:
            links = tuple(one.context for one in others)
            about: dict[str, str | int] = {"url.full": url}
            self._end("push", "client", begun, about, links=links, error=pushing.error)

    # Private.

    def _now_ns(self) -> int:
        return self._clock.wall_ns()

    def _begin(self, parent: SpanContext | None) -> OpenSpan:
        if parent is not None:
            return OpenSpan(self._child(parent), parent.span_id, self._now_ns())
        context = SpanContext(self._new_bytes(16), self._new_bytes(8))
        return OpenSpan(context, _NO_PARENT, self._now_ns())

    def _child(self, parent: SpanContext) -> SpanContext:
        return SpanContext(parent.trace_id, self._new_bytes(8))

    def _sampled_in(self, content: bytes) -> dict[int, SpanContext]:
        """Contexts that messages bring themselves, of those that are sampled."""
        found: dict[int, SpanContext] = {}
        for index, text in self._contexts_in(content).items():
            context = parse_traceparent(text)
            if context is not None and context.is_sampled:
                found[index] = context
                if len(found) >= REQUEST_MAX:
                    break
        return found

    def _sampled_of(self, delivery: Handed) -> Iterator[tuple[Offset, SpanContext]]:
        for batch, first, end in delivery.runs:
            content = batch.content[batch.starts[first] : batch.starts[end]]
            own = self._sampled_in(content)
            for index in range(first, end):
                offset = batch.base_offset + index
                parent = self._published.get((delivery.partition, offset)) or own.get(index - first)
                if parent is not None:
                    yield offset, parent

    def _taken(self, share: Share, offsets: Iterable[Offset]) -> Iterator[tuple[Offset, OpenSpan]]:
        subscription_id, partition = share.settings.id, share.partition
        for offset in offsets:
            begun = self._outstanding.pop((subscription_id, partition, offset), None)
            if begun is not None:
                yield offset, begun

    def _remember(self, key: Key, context: SpanContext) -> None:
        _put(self._published, key, context)

    def _end_delivery(
        self,
        subscription: Subscription,
        partition: PartitionId,
        offset: Offset,
        begun: OpenSpan,
        outcome: str,
        error: str = "",
    ) -> None:
        about: dict[str, str | int] = {
            "messaging.destination.subscription.name": subscription.name,
            "messaging.message.id": message_id(partition, offset),
            "fanlog.outcome": outcome,
        }
        self._end("deliver", "producer", begun, about, error=error)

    def _end_when(
        self, committed: asyncio.Future[None] | None, name: str, begun: OpenSpan, subscription: str
    ) -> None:
        about: dict[str, str | int] = {"messaging.destination.subscription.name": subscription}

        def end(done: asyncio.Future[None] | None) -> None:
            failure = None if done is None or done.cancelled() else done.exception()
            self._end(name, "server", begun, about, error="" if failure is None else repr(failure))

        if committed is None:
            end(None)
        else:
            committed.add_done_callback(end)

    def _end(
        self,
        name: str,
        kind: Kind,
        begun: OpenSpan,
        attributes: Mapping[str, str | int],
        *,
        links: tuple[SpanContext, ...] = (),
        error: str = "",
        end_ns: int | None = None,
    ) -> None:
        end_ns = self._now_ns() if end_ns is None else end_ns
        self._tell(
            TraceSpan(
                context=begun.context,
                parent_id=begun.parent_id,
                name=name,
                kind=kind,
                start_ns=begun.start_ns,
                end_ns=max(begun.start_ns, end_ns),
                attributes={"messaging.system": "gcp_pubsub", **attributes},
                links=links,
                error=error,
            )
        )


def _keys(placed: Sequence[Placed]) -> dict[int, Key]:
    """Where each message of a request is, by its index."""
    return {
        index: (partition, offset)
        for partition, offsets, indexes in placed
        for index, offset in zip(
            range(len(offsets)) if indexes is None else indexes, offsets, strict=True
        )
    }


AnyKey = TypeVar("AnyKey")


def _put(table: OrderedDict[AnyKey, Value], key: AnyKey, value: Value) -> None:
    """Add an entry; of too many, the oldest goes."""
    table[key] = value
    if len(table) > HELD_MAX:
        table.popitem(last=False)
