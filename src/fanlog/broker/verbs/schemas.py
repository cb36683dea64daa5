"""The verbs of schemas, and the check of messages published to topics that have one.

A message is tried against the revisions its topic accepts, the newest first, and stored with
attributes that say which one it conforms to. A large request lets other tasks run between its
messages, and a message that is not short is checked elsewhere, so that the loop stays free.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.ports import Contents
from fanlog.broker.schemas.definitions import Definitions
from fanlog.broker.transaction import Ledger
from fanlog.core import revision_labels
from fanlog.errors import FailedPrecondition, InvalidArgument, SchemaIncompatible, SchemaMismatch
from fanlog.log.batch import Body
from fanlog.model import names
from fanlog.model.attributes import SCHEMA_ENCODING, SCHEMA_NAME, SCHEMA_REVISION
from fanlog.model.quotas import Quotas
from fanlog.model.resources import (
    Compatibility,
    Encoding,
    Schema,
    SchemaRevision,
    SchemaSettings,
    SchemaType,
    Topic,
    TopicId,
)
from fanlog.schema import Compiled, Mismatch
from fanlog.schema.examination import Question

#: About so much is checked before others are let in: half a millisecond's work, mostly. A message
#: costs as much as so many bytes besides its own.
CHECKED_BYTES_MAX = 64 * 1024
_MESSAGE_BYTES = 256
#: The same in steps, which a short message may take many of; one that does not conform counts as so
#: many.
CHECKED_STEPS_MAX = 20_000
_REFUSED_STEPS = 2_000
#: Topics whose accepted revisions are kept ready; those of others are looked up.
READY_TOPICS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _Accepted:
    """One revision that a topic accepts."""

    revision: SchemaRevision
    type: SchemaType
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Ready:
    settings: SchemaSettings
    revisions: Sequence[SchemaRevision]
    accepted: list[_Accepted]


class Schemas:
    """Schema verbs of one broker."""

    def __init__(
        self,
        ledger: Ledger,
        clock: Clock,
        quotas: Quotas,
        definitions: Definitions,
        contents: Contents | None,
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._quotas = quotas
        self.definitions = definitions
        self._contents = contents
        #: The revisions that each topic accepts, while its settings and the schema's stay.
        self._ready: dict[TopicId, _Ready] = {}

    # Verbs.

    async def create(
        self,
        name: str,
        kind: SchemaType,
        definition: str,
        compatibility: Compatibility | None = None,
    ) -> tuple[Schema, SchemaRevision]:
        """Make a schema with its first revision.

        Raises:
            AlreadyExists: One of that name exists.
            InvalidArgument: The definition is wrong; the sentence says where.
            ResourceExhausted: The project has as many schemas as it may.
        """
        await self.validate_schema(kind, definition)
        schema, revision, records = self._ledger.hard.catalog.create_schema(
            name, kind, definition, compatibility or "NONE", self._clock.now()
        )
        self._check_quotas(name, definition, schemas=1)
        await self._ledger.commit(records)
        return schema, revision

    async def get(self, name: str, revision_id: str = "") -> tuple[Schema, SchemaRevision]:
        """A schema at a revision, the latest for none; raises SchemaNotFound."""
        table = self._ledger.hard.catalog.schemas
        schema = table.schema(name)
        revision = table.revision(schema, revision_id)
        await self._ledger.sync()
        return schema, revision

    async def list_all(
        self, project: str, after: str, limit: int
    ) -> list[tuple[Schema, SchemaRevision]]:
        """Schemas of a project at their latest revisions, by name."""
        table = self._ledger.hard.catalog.schemas
        found = islice(table.names(names.schema_name(project, ""), after), limit)
        schemas = [table.schema(name) for name in found]
        pairs = [(schema, table.revision(schema, "")) for schema in schemas]
        await self._ledger.sync()
        return pairs

    async def revisions(self, name: str) -> tuple[Schema, Sequence[SchemaRevision]]:
        """A schema and all its revisions, the newest first; raises SchemaNotFound."""
        table = self._ledger.hard.catalog.schemas
        schema = table.schema(name)
        found = table.revisions(schema.id)[::-1]
        await self._ledger.sync()
        return schema, found

    async def commit(
        self,
        name: str,
        kind: SchemaType,
        definition: str,
        compatibility: Compatibility | None = None,
    ) -> tuple[Schema, SchemaRevision]:
        """Add a revision; `compatibility`, if given, is the schema's from this one on.

        Raises:
            SchemaNotFound: There is no such schema.
            InvalidArgument: The definition is wrong, or of another type than the schema.
            SchemaIncompatible: It breaks the schema's promise; all breaks are listed.
            ResourceExhausted: The schema has as many revisions as it may.
        """
        schema = self._ledger.hard.catalog.schemas.schema(name)
        if schema.type != kind:
            raise InvalidArgument(
                f"schema.type: {name!r} is of type {schema.type}; all revisions of a schema are of "
                f"one type, and this one is {kind}"
            )
        return await self._add(name, definition, compatibility)

    async def rollback(
        self, name: str, revision_id: str, compatibility: Compatibility | None = None
    ) -> tuple[Schema, SchemaRevision]:
        """Add a revision that is a copy of an earlier one; raises as `commit` does."""
        table = self._ledger.hard.catalog.schemas
        earlier = table.revision(table.schema(name), revision_id)
        return await self._add(name, earlier.definition, compatibility)

    async def delete_revision(self, name: str, revision_id: str) -> tuple[Schema, SchemaRevision]:
        """Remove a revision; its messages stay. Gives the latest that is left.

        Raises:
            SchemaNotFound: There is no such schema, or no such revision.
            FailedPrecondition: It is the only one, or the settings of a topic name it.
        """
        catalog = self._ledger.hard.catalog
        schema = catalog.schemas.schema(name)
        revision = catalog.schemas.revision(schema, revision_id)
        for topic in catalog.topics_with(schema):
            settings = topic.schema_settings
            assert settings is not None
            revision_labels.check_unasked(catalog, topic, revision)
            if revision.id in (settings.first_revision_id, settings.last_revision_id):
                raise FailedPrecondition(
                    f"revision {revision.id} is the first or last that topic {topic.name!r} "
                    "accepts; update its schema_settings first"
                )
        records = catalog.schemas.delete_revision(schema, revision)
        left = [one for one in catalog.schemas.revisions(schema.id) if one != revision][-1]
        await self._ledger.commit(records)
        return self._ledger.hard.catalog.schemas.schema(name), left

    async def delete(self, name: str) -> None:
        """Remove a schema; topics that have it show `_deleted-schema_` and take no messages."""
        catalog = self._ledger.hard.catalog
        await self._ledger.commit(catalog.delete_schema(catalog.schemas.schema(name)))

    async def validate_schema(self, kind: SchemaType, definition: str) -> None:
        """Raises InvalidArgument if the definition is wrong; nothing is kept of it."""
        question = Question(about="definition", type=kind, definition=definition)
        await self.definitions.ask(question)

    async def validate_message(
        self, kind: SchemaType, definition: str, data: bytes, encoding: Encoding
    ) -> None:
        """Raises SchemaMismatch if the data does not conform."""
        question = Question(
            about="messages",
            type=kind,
            definition=definition,
            encoding=encoding,
            messages=[data],
        )
        [sentence] = (await self.definitions.ask(question)).sentences
        if sentence is not None:
            raise SchemaMismatch(f"message: {sentence}")

    # Publishing.

    async def check(self, topic: Topic, body: Body) -> tuple[Topic, Body]:
        """Check messages that are to be published to a topic; give them as they are to be stored.

        Gives the topic as it is by then, too.

        Raises:
            SchemaMismatch: Names the message, the path and the expectation.
            FailedPrecondition: The topic's schema was deleted.
            TopicNotFound: The topic was deleted meanwhile.
        """
        while True:
            settings = topic.schema_settings
            if settings is None:
                return topic, body
            made = await self._conforming(topic, settings, body)
            present = self._ledger.hard.catalog.topic(topic.name)
            if present.schema_settings == settings:
                return present, made
            topic = present

    async def _conforming(self, topic: Topic, settings: SchemaSettings, body: Body) -> Body:
        assert self._contents is not None, "a broker with schemas needs to read messages"
        accepted = self._accepted(topic, settings)
        newest, encoding = accepted[0], settings.encoding
        schema = await self._compile(newest)
        validate, short_bytes = schema.validate, schema.short_bytes
        chosen: list[_Accepted] = []
        steps = 0
        while len(chosen) < body.count:
            first = len(chosen)
            if first:
                await asyncio.sleep(0)
            for data in self._contents.payloads(body, first, _stretch_end(body, first)):
                try:
                    if len(data) <= short_bytes:
                        steps += validate(data, encoding)
                    else:
                        definition = newest.revision.definition
                        await self.definitions.check(schema, definition, data, encoding)
                    chosen.append(newest)
                except Mismatch as error:
                    steps += _REFUSED_STEPS
                    older = await self._older(accepted, encoding, len(chosen), data, error)
                    chosen.append(older)
                if steps > CHECKED_STEPS_MAX:
                    steps = 0
                    await asyncio.sleep(0)
        if all(one is chosen[0] for one in chosen):
            return replace(body, attributes={**body.attributes, **chosen[0].attributes})
        return self._contents.attributed(body, [one.attributes for one in chosen])

    async def _older(
        self,
        accepted: Sequence[_Accepted],
        encoding: Encoding,
        index: int,
        data: bytes,
        error: Mismatch,
    ) -> _Accepted:
        """Give the newest older revision that data conforms to; the newest's is the error."""
        for one in accepted[1:]:
            await asyncio.sleep(0)
            schema = await self._compile(one)
            try:
                if len(data) <= schema.short_bytes:
                    schema.validate(data, encoding)
                else:
                    await self.definitions.check(schema, one.revision.definition, data, encoding)
            except Mismatch:
                continue
            return one
        newest, older = accepted[0], len(accepted) - 1
        do = "revisions do" if older > 1 else "revision does"
        also = f"; {older} older {do} not take it either" if older else ""
        raise SchemaMismatch(
            f"messages[{index}].data: {error} (revision {newest.revision.id} of "
            f"{newest.attributes[SCHEMA_NAME]}, {encoding}{also})"
        )

    async def _compile(self, one: _Accepted) -> Compiled:
        """A revision that a topic accepts, compiled.

        Raises:
            FailedPrecondition: It was committed when more was allowed.
        """
        try:
            return await self.definitions.compile_once(one.type, one.revision.definition)
        except InvalidArgument as error:
            raise FailedPrecondition(
                f"revision {one.revision.id} of {one.attributes[SCHEMA_NAME]!r} cannot be used: "
                f"{error.message}"
            ) from None

    def _accepted(self, topic: Topic, settings: SchemaSettings) -> list[_Accepted]:
        """The revisions that a topic accepts, the newest first."""
        if settings.schema_id is None:
            raise FailedPrecondition(
                f"the schema of topic {topic.name!r}, {settings.schema!r}, was deleted; update or "
                "clear its schema_settings before publishing"
            )
        table = self._ledger.hard.catalog.schemas
        revisions = table.revisions(settings.schema_id)
        ready = self._ready.get(topic.id)
        if ready is not None and ready.settings is settings and ready.revisions is revisions:
            return ready.accepted
        schema = table.by_id(settings.schema_id)
        assert schema is not None
        accepted = [
            _Accepted(
                revision,
                schema.type,
                {
                    SCHEMA_NAME: schema.name,
                    SCHEMA_ENCODING: settings.encoding,
                    SCHEMA_REVISION: revision.id,
                },
            )
            for revision in table.accepted_revisions(settings)
        ]
        if len(self._ready) >= READY_TOPICS_MAX:
            self._ready.clear()
        self._ready[topic.id] = _Ready(settings, revisions, accepted)
        return accepted

    # Private.

    def _check_quotas(self, name: str, definition: str, schemas: int = 0) -> None:
        """Raises ResourceExhausted: A quota leaves no room for another revision, or schema."""
        more = {"schemas": schemas, "schema_revisions": 1, "schema_bytes": len(definition)}
        usage, project = self._ledger.hard.catalog.usage, names.project_of(name)
        for noun, count in more.items():
            self._quotas.check(noun, project, usage, count)

    async def _add(
        self, name: str, definition: str, compatibility: Compatibility | None
    ) -> tuple[Schema, SchemaRevision]:
        while True:
            table = self._ledger.hard.catalog.schemas
            schema = table.schema(name)
            earlier = table.revisions(schema.id)
            level = compatibility or schema.compatibility
            await self._check_compatible(schema, level, definition, earlier)
            # Another revision may have been committed while this one was compared.
            table = self._ledger.hard.catalog.schemas
            if table.schema(name) == schema and table.revisions(schema.id) == earlier:
                break
        revision, records = table.add_revision(schema, definition, self._clock.now())
        self._check_quotas(name, definition)
        changed = replace(schema, compatibility=level)
        settings = table.put(changed) if changed != schema else []
        await self._ledger.commit([*settings, *records])
        return changed, revision

    async def _check_compatible(
        self,
        schema: Schema,
        level: Compatibility,
        definition: str,
        earlier: Sequence[SchemaRevision],
    ) -> None:
        if level == "NONE":
            await self.validate_schema(schema.type, definition)
            return
        against = earlier if level.endswith("_TRANSITIVE") else earlier[-1:]
        question = Question(
            about="breaks",
            type=schema.type,
            definition=definition,
            level=level,
            earlier=[(one.id, one.definition) for one in against],
        )
        found = [one for one in (await self.definitions.ask(question)).sentences if one]
        if found:
            listed = "; ".join(found[: limits.SCHEMA_BREAKS_SHOWN_MAX])
            rest = len(found) - limits.SCHEMA_BREAKS_SHOWN_MAX
            more = f"; and {rest} more" if rest > 0 else ""
            raise SchemaIncompatible(
                f"the definition breaks the compatibility {level} of {schema.name!r}: "
                f"{listed}{more}"
            )


def _stretch_end(body: Body, first: int) -> int:
    """Where a stretch of messages from `first` on ends that is checked without a pause."""
    starts, count = body.starts, body.count
    most = starts[first] + _MESSAGE_BYTES * first + CHECKED_BYTES_MAX
    ends = range(first + 1, count + 1)
    fitting = bisect_right(ends, most, key=lambda end: starts[end] + _MESSAGE_BYTES * end)
    return first + max(1, fitting)
