"""What the disk says of topics, subscriptions, schemas and policies, and what must be true of it.

Everything here is learnt from commits. What a publish saw is exact, too: whatever was decided
before it is in its commit or an earlier one. So if a commit changes nothing of a topic and its
schema, the messages in it were checked against what stood on the disk before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fanlog.core import records as codec
from fanlog.core.iam import Policy
from fanlog.core.records import (
    PolicyRecord,
    SchemaRecord,
    SchemaRevisionRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.model.attributes import REDRIVEN_FROM, SCHEMA_REVISION
from fanlog.model.resources import (
    PartitionId,
    SchemaRevision,
    SchemaSettings,
    Subscription,
    SubscriptionId,
    Topic,
    TopicId,
)
from simulator.chronicle import Message
from simulator.meanings import DEFINITIONS

KINDS = (PolicyRecord.KIND, SchemaRecord.KIND, SchemaRevisionRecord.KIND)


class Disk:
    """The present of one world's disk."""

    def __init__(self) -> None:
        self.topics: dict[TopicId, Topic] = {}
        self.on: dict[PartitionId, Topic] = {}
        self.subscriptions: dict[SubscriptionId, Subscription] = {}
        #: Subscriptions there ever were.
        self.known: set[SubscriptionId] = set()
        #: Revisions by schema, and by number.
        self.revisions: dict[int, dict[int, SchemaRevision]] = {}
        #: Ids of all revisions there ever were.
        self.revisions_known: set[str] = set()
        #: Some revision was made and deleted by the same commit: nobody saw its id.
        self.has_unseen_revisions = False
        self.policies: dict[int, Policy] = {}
        #: Resources whose policies went with them.
        self.policies_gone: set[int] = set()

    def committed(
        self,
        changes: Iterable[object],
        state: Mapping[bytes, bytes | None],
        messages: Sequence[Message],
    ) -> Iterator[str]:
        """Learn of a commit; gives the sentences of what it breaks."""
        touched = self._catalog_changed(changes)
        touched |= {self._state_changed(key, value) for key, value in state.items()}
        for message in messages:
            topic = self.on.get(message.partition)
            if topic is None or topic.schema_settings is None:
                continue
            if message.source_id or REDRIVEN_FROM in message.attributes:
                # Copies are what they were, and need not conform to anything.
                continue
            settings = topic.schema_settings
            if topic.id not in touched and settings.schema_id not in touched:
                yield from self._conforms(message, settings)

    def _catalog_changed(self, changes: Iterable[object]) -> set[int | None]:
        touched: set[int | None] = set()
        for change in changes:
            match change:
                case TopicRecord(id=number, topic=topic):
                    touched.add(number)
                    before = self.topics.pop(number, None)
                    for partition in before.partitions if before is not None else ():
                        self.on.pop(partition, None)
                    if topic is not None:
                        self.topics[number] = topic
                        self.on |= dict.fromkeys(topic.partitions, topic)
                case SubscriptionRecord(id=owner, subscription=subscription):
                    self.known.add(owner)
                    if subscription is None:
                        self.subscriptions.pop(owner, None)
                    else:
                        self.subscriptions[owner] = subscription
        return touched

    def _state_changed(self, key: bytes, value: bytes | None) -> int | None:
        """Learn of a record of a schema or a policy; gives the id of the schema."""
        if key[:1] not in KINDS:
            return None
        number = int.from_bytes(key[1:9], "big")
        record = None if value is None else codec.decode(key, value)
        match record:
            case SchemaRevisionRecord(revision=revision) if revision is not None:
                self.revisions.setdefault(number, {})[revision.number] = revision
                self.revisions_known.add(revision.id)
            case PolicyRecord(policy=policy) if policy is not None:
                self.policies[number] = policy
            case None if key[:1] == PolicyRecord.KIND:
                self.policies.pop(number, None)
                self.policies_gone.add(number)
            case None if key[:1] == SchemaRevisionRecord.KIND:
                gone = self.revisions.get(number, {}).pop(int.from_bytes(key[9:], "big"), None)
                self.has_unseen_revisions = self.has_unseen_revisions or gone is None
        return None if key[:1] == PolicyRecord.KIND else number

    def _conforms(self, message: Message, settings: SchemaSettings) -> Iterator[str]:
        """What a topic with a schema has is checked, against the newest revision that takes it."""
        where = f"{message.partition}:{message.offset}"
        if settings.schema_id is None:
            yield f"schema: {where} was published, and the schema of its topic was deleted"
            return
        revisions = self.revisions.get(settings.schema_id, {})
        numbers = {revision.id: number for number, revision in revisions.items()}
        first = numbers.get(settings.first_revision_id, 0)
        last = numbers.get(settings.last_revision_id, 1 << 62)
        taken = [
            revisions[number].id
            for number in sorted(revisions, reverse=True)
            if first <= number <= last and DEFINITIONS[revisions[number].definition](message.data)
        ]
        said = message.attributes.get(SCHEMA_REVISION)
        if not taken:
            yield f"schema: {where} was published as {said}, and no revision of its topic takes it"
        elif said != taken[0]:
            yield f"schema: {where} says it is of revision {said}, and {taken[0]} takes it"


class Policies:
    """What was answered about policies."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._answered: dict[int, set[int]] = {}

    def newest(self) -> dict[int, int]:
        """The newest revision that anybody was told of, by resource."""
        return {number: max(revisions) for number, revisions in self._answered.items()}

    def was_set(self, policy: Policy, etag: bytes) -> Iterator[str]:
        """A policy was set, they say."""
        answered = self._answered.setdefault(policy.id, set())
        if policy.revision in answered:
            yield f"iam: revision {policy.revision} of policy {policy.id} was set twice"
        answered.add(policy.revision)
        before = Policy(id=policy.id, revision=policy.revision - 1)
        if etag not in (b"", before.etag):
            yield f"iam: policy {policy.id} was set to {policy.etag!r} by one who read {etag!r}"
        yield from self._is_stored(policy)

    def was_read(self, policy: Policy, newest: Mapping[int, int]) -> Iterator[str]:
        """A policy was read; `newest` is from before."""
        if policy.revision < newest.get(policy.id, 0):
            yield (
                f"iam: revision {policy.revision} of policy {policy.id} was read, after "
                f"{newest[policy.id]} was set"
            )
        if policy.revision:
            yield from self._is_stored(policy)

    def _is_stored(self, policy: Policy) -> Iterator[str]:
        if policy.id in self._disk.policies_gone:
            return
        stored = self._disk.policies.get(policy.id, Policy(id=policy.id))
        is_same = stored.revision > policy.revision or stored == policy
        if stored.revision < policy.revision or not is_same:
            yield f"iam: {policy} was answered, and the disk has {stored}"
