"""Planted bugs of push, dedup ids, schemas and policies; see `mutants`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fanlog import limits
from fanlog.broker.broker import Broker
from fanlog.broker.verbs.iam import Iam
from fanlog.broker.verbs.schemas import Schemas
from fanlog.core.catalog import Catalog
from fanlog.core.dedup import Admission, DedupWindow
from fanlog.core.flow import Credit
from fanlog.core.iam import Policy
from fanlog.core.redelivery import Failures
from fanlog.core.schemas import SchemaTable
from fanlog.errors import FanlogError
from fanlog.model import resources
from fanlog.model.resources import FIRST_IMMEDIATE
from fanlog.push.rules.breaker import Breaker
from fanlog.push.rules.window import Window
from fanlog.push.senders import sender
from fanlog.push.senders.consumer import Consumer
from fanlog.push.senders.forwarder import Forwarder
from fanlog.push.senders.sender import Sender
from simulator.planting import mutant
from simulator.torn import torn

# Push.


@mutant("a failed push is acknowledged", 20, (Sender, "_nack_all"), needs="pushes")
def _(_: Any) -> Any:
    async def acknowledged(self: Sender, _: Any, messages: Any, outcome: Any) -> None:
        self._acknowledge(messages)

    return acknowledged


@mutant("the window of a push is not asked", 20, (Sender, "_room"), needs="pushes")
def _(_: Any) -> Any:
    return lambda self: 100


@mutant("the window of a push never shrinks", 20, (Window, "note_failure"), needs="pushes")
def _(_: Any) -> Any:
    return lambda self: None


@mutant("the breaker never opens", 20, (Breaker, "note_failure"), needs="pushes")
def _(_: Any) -> Any:
    return lambda self, now: False


@mutant("a breaker that is half open lets a window through", 400, (Sender, "_room"), needs="pushes")
def _(_: Any) -> Any:
    def room(self: Sender) -> int:
        is_open = self.breaker.state(self._clock.now()) == "open"
        return 0 if is_open else self.window.size - len(self._sending)

    return room


@mutant("who is gone is pushed to", 40, (Sender, "_turn_off"), needs="pushes")
def _(_: Any) -> Any:
    return lambda self, reason: None


@mutant("Retry-After is not obeyed", 20, (Sender, "_nack"), needs="pushes")
def _(nack: Any) -> Any:
    return lambda self, subscription, refused: nack(
        self, subscription, [(one, replace(how, delay_s=None)) for one, how in refused]
    )


@mutant("a pushed message that failed comes again at once", 20, (Failures, "waits"), needs="pushes")
def _(waits: Any) -> Any:
    def none(self: Failures, nack: Any, schedule: Any, jitter: float) -> Any:
        is_set = nack.delay_s is not None or schedule != FIRST_IMMEDIATE
        return waits(self, nack, schedule, jitter) if is_set else None

    return none


@mutant(
    "pushed messages of a key overtake each other",
    20,
    (resources.Subscription, "ordering"),
    needs="pushes",
)
def _(_: Any) -> Any:
    return property(lambda self: "key" if self.enable_message_ordering else "none")


@mutant("what is pulled is still pushed", 60, (sender, "is_pushed"), needs="push_changes")
def _(_: Any) -> Any:
    return lambda subscription: True


@mutant("a sender that is sent away stays away", 100, (Consumer, "_run"), needs="pushes")
def _(run: Any) -> Any:
    async def once(self: Consumer) -> None:
        with suppress(FanlogError):
            _, feed = self._broker.attach(self.name)
            self._feed = feed
            credit = Credit(limits.PUSH_WINDOW_FIRST, limits.PUSH_BYTES_MAX)
            await self._take_all(feed, credit)
        # As if it were there still.
        await asyncio.get_running_loop().create_future()

    return once


# Forwarding.


def _split(*, is_ack_first: bool) -> Any:
    def make(commit: Any) -> Any:
        async def twice(self: Forwarder, *args: Any) -> None:
            work = commit(self, *args)
            try:
                with torn(self._broker.ledger, is_records_first=is_ack_first):
                    step = work.send(None)
            except StopIteration:
                return
            # It was asked for already, by the other one.
            step._asyncio_future_blocking = False
            try:
                await step
            finally:
                work.close()

        return twice

    return make


mutant(
    "a forwarded copy and its ack are two commits", 40, (Forwarder, "_commit"), needs="forwards"
)(_split(is_ack_first=False))
mutant("the ack of what is forwarded comes first", 20, (Forwarder, "_commit"), needs="forwards")(
    _split(is_ack_first=True)
)


# Dedup ids.


@mutant("dedup ids are lost with the process", 20, (DedupWindow, "admit"), needs="dedups")
def _(admit: Any) -> Any:
    def soft(self: DedupWindow, *args: Any, **kwargs: Any) -> Admission:
        admission: Admission = admit(self, *args, **kwargs)
        for record in admission.records:
            self.apply(record)
        return replace(admission, records=admission.records[:1])

    return soft


@mutant(
    "a repeated publish does not wait for the first", 20, (Broker, "publish_once"), needs="dedups"
)
def _(_: Any) -> Any:
    async def publish_once(self: Broker, name: str, body: Any, dedup_ids: Sequence[str]) -> Any:
        self.access.check_serving()
        topic = self.hard.catalog.topic(name)
        if topic.schema_settings is not None:
            topic, body = await self.schemas.check(topic, body)
        [partition] = topic.partitions
        transaction = self.ledger.begin()
        admission = self.hard.dedup_on(partition).admit(
            dedup_ids,
            base_offset=transaction.end(partition),
            now=self.clock.now(),
            window_s=topic.dedup_window_s,
            most=1_000,
        )
        if admission.fresh:
            transaction.apply(admission.records)
            transaction.append(topic.id, partition, body.only(admission.fresh))
            await transaction.commit()
        return [(partition, admission.offsets, None)]

    return publish_once


@mutant("a request's own messages are never the same", 20, (DedupWindow, "admit"), needs="dedups")
def _(admit: Any) -> Any:
    def apart(self: DedupWindow, dedup_ids: Sequence[str], **kwargs: Any) -> Admission:
        own = [text if text not in dedup_ids[:i] else "" for i, text in enumerate(dedup_ids)]
        return admit(self, own, **kwargs)  # type: ignore[no-any-return]

    return apart


@mutant("the window of dedup ids is too short", 20, (DedupWindow, "admit"), needs="dedups")
def _(admit: Any) -> Any:
    return lambda self, ids, *, window_s, **kwargs: admit(
        self, ids, window_s=window_s / 10, **kwargs
    )


# Schemas.


@mutant("a topic never learns of revisions", 20, (Schemas, "_accepted"), needs="schemas")
def _(accepted: Any) -> Any:
    def remembered(self: Schemas, topic: Any, settings: Any) -> Any:
        ready = self._ready.get(topic.id)
        if ready is not None and ready.settings == settings and settings.schema_id is not None:
            return ready.accepted
        return accepted(self, topic, settings)

    return remembered


@mutant(
    "the oldest revision that takes a message counts",
    20,
    (SchemaTable, "accepted_revisions"),
    needs="schemas",
)
def _(accepted: Any) -> Any:
    return lambda self, settings: accepted(self, settings)[::-1]


@mutant("what has no schema any more takes anything", 40, (Schemas, "check"), needs="schemas")
def _(check: Any) -> Any:
    async def lenient(self: Schemas, topic: Any, body: Any) -> Any:
        if topic.schema_settings.schema_id is None:
            return topic, body
        return await check(self, topic, body)

    return lenient


@mutant("a message that does not conform is taken", 20, (Schemas, "_older"), needs="schemas")
def _(_: Any) -> Any:
    async def taken(self: Schemas, accepted: Any, *_: Any) -> Any:
        return accepted[0]

    return taken


@mutant("a revision is answered before its commit", 20, (Schemas, "_add"), needs="schemas")
def _(add: Any) -> Any:
    async def hasty(self: Schemas, *args: Any) -> Any:
        table = self._ledger.hard.catalog.schemas
        schema = table.schema(args[0])
        revision, records = table.add_revision(schema, args[1], self._clock.now())
        self._ledger.commit(records)
        return schema, revision

    return hasty


# Policies.


@mutant("an etag is not looked at", 20, (Policy, "replace"), needs="policies")
def _(replace_bindings: Any) -> Any:
    return lambda self, bindings, etag: replace_bindings(self, bindings, b"")


@mutant("a policy is answered before its commit", 20, (Iam, "set_policy"), needs="policies")
def _(_: Any) -> Any:
    async def hasty(self: Iam, resource: Any, bindings: Any, etag: bytes) -> Policy:
        catalog = self._ledger.hard.catalog
        policy = catalog.policy(self._id_of(resource)).replace(bindings, etag)
        self._ledger.commit(catalog.put_policy(policy))
        return policy

    return hasty


@mutant("a policy outlives its resource", 20, (Catalog, "_drop_policy"), needs="policies")
def _(_: Any) -> Any:
    return lambda self, resource_id: []
