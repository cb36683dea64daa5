"""Which schemas exist, and their revisions. All of it hard state; part of the catalog.

A schema's name, type and compatibility are one record, each of its revisions another: a definition
is large, and is written once. Records may come in any order of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import assert_never

from fanlog import limits
from fanlog.core.names_table import NamesTable
from fanlog.core.records import SchemaRecord, SchemaRevisionRecord
from fanlog.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    ResourceExhausted,
    SchemaNotFound,
)
from fanlog.model.names import shown
from fanlog.model.resources import (
    Compatibility,
    Schema,
    SchemaId,
    SchemaRevision,
    SchemaSettings,
    SchemaType,
)

Revisions = tuple[SchemaRevision, ...]


class SchemaTable:
    """Schemas by name, and revisions of each in order. Not safe to share between threads."""

    def __init__(self) -> None:
        self._schemas: dict[SchemaId, Schema] = {}
        self._names = NamesTable[SchemaId]()
        self._revisions: dict[SchemaId, Revisions] = {}

    # Looking up.

    def find(self, name: str) -> Schema | None:
        schema_id = self._names.ids.get(name)
        return None if schema_id is None else self._schemas[schema_id]

    def schema(self, name: str) -> Schema:
        """Raises SchemaNotFound."""
        schema = self.find(name)
        if schema is None:
            raise SchemaNotFound(f"schema {name!r} does not exist")
        return schema

    def by_id(self, schema_id: SchemaId) -> Schema | None:
        return self._schemas.get(schema_id)

    def names(self, prefix: str, after: str) -> Iterator[str]:
        return self._names.names_after(prefix, after)

    def revisions(self, schema_id: SchemaId) -> Revisions:
        """The revisions of a schema, the oldest first; the same tuple until one comes or goes."""
        return self._revisions.get(schema_id, ())

    def revision(self, schema: Schema, revision_id: str) -> SchemaRevision:
        """The revision of that id or number, the latest for none; raises SchemaNotFound."""
        revisions = self.revisions(schema.id)
        if not revision_id:
            return revisions[-1]
        for revision in revisions:
            if revision_id in (revision.id, str(revision.number)):
                return revision
        raise SchemaNotFound(f"schema {schema.name!r} has no revision {revision_id!r}")

    def accepted_revisions(self, settings: SchemaSettings) -> Revisions:
        """The revisions that a topic's messages may conform to, the newest first."""
        assert settings.schema_id is not None
        schema = self._schemas[settings.schema_id]
        revisions = self.revisions(schema.id)
        first = last = None
        if settings.first_revision_id:
            first = self.revision(schema, settings.first_revision_id).number
        if settings.last_revision_id:
            last = self.revision(schema, settings.last_revision_id).number
        return tuple(
            one
            for one in reversed(revisions)
            if (first is None or one.number >= first) and (last is None or one.number <= last)
        )

    def bind(self, settings: SchemaSettings) -> SchemaSettings:
        """Complete the settings of a topic with the ids of the schema and revisions they name.

        Raises:
            SchemaNotFound: There is no such schema, or no such revision of it.
            InvalidArgument: The first revision is after the last, or it has no such encoding.
        """
        schema = self.schema(settings.schema)
        bound = replace(
            settings,
            schema_id=schema.id,
            first_revision_id=self._id_of(schema, settings.first_revision_id),
            last_revision_id=self._id_of(schema, settings.last_revision_id),
        )
        if schema.type == "JSON" and settings.encoding != "JSON":
            raise InvalidArgument(
                f"schema_settings.encoding: {settings.encoding}; messages of a JSON Schema such as "
                f"{schema.name!r} have the encoding JSON only"
            )
        if not self.accepted_revisions(bound):
            raise InvalidArgument(
                f"schema_settings: first_revision_id {shown(bound.first_revision_id)} is a later "
                f"revision than last_revision_id {shown(bound.last_revision_id)}"
            )
        return bound

    def _id_of(self, schema: Schema, revision_id: str) -> str:
        """The id of a revision that may be given by its number; empty stays empty."""
        return self.revision(schema, revision_id).id if revision_id else ""

    # Changing.

    def create(
        self,
        schema_id: SchemaId,
        name: str,
        kind: SchemaType,
        compatibility: Compatibility,
    ) -> tuple[Schema, list[SchemaRecord]]:
        """Raises AlreadyExists."""
        if name in self._names.ids:
            raise AlreadyExists(f"schema {name!r} exists already")
        schema = Schema(id=schema_id, name=name, type=kind, compatibility=compatibility)
        return schema, [SchemaRecord(schema_id, schema)]

    def put(self, schema: Schema) -> list[SchemaRecord]:
        return [SchemaRecord(schema.id, schema)]

    def add_revision(
        self, schema: Schema, definition: str, now: float
    ) -> tuple[SchemaRevision, list[SchemaRevisionRecord]]:
        """Raises ResourceExhausted."""
        revisions = self.revisions(schema.id)
        if len(revisions) >= limits.SCHEMA_REVISIONS_MAX:
            raise ResourceExhausted(
                f"schema {schema.name!r} has {len(revisions)} revisions, as many as it may; "
                "delete one that nobody needs"
            )
        number = max(schema.last_number, revisions[-1].number if revisions else 0) + 1
        revision = SchemaRevision(
            schema_id=schema.id,
            number=number,
            id=_revision_id(schema.id, number, definition),
            definition=definition,
            created_s=now,
        )
        return revision, [SchemaRevisionRecord(schema.id, number, revision)]

    def delete_revision(
        self, schema: Schema, revision: SchemaRevision
    ) -> list[SchemaRecord | SchemaRevisionRecord]:
        """Raises FailedPrecondition."""
        revisions = self.revisions(schema.id)
        if len(revisions) == 1:
            raise FailedPrecondition(
                f"{revision.id} is the only revision of {schema.name!r}; delete the schema instead"
            )
        gone: list[SchemaRecord | SchemaRevisionRecord] = [
            SchemaRevisionRecord(schema.id, revision.number, None)
        ]
        if revision == revisions[-1]:
            # The number of a revision is never given twice, and the highest is not known from the
            # others once this one is gone.
            gone += self.put(replace(schema, last_number=revision.number))
        return gone

    def delete(self, schema: Schema) -> list[SchemaRecord | SchemaRevisionRecord]:
        gone = [SchemaRevisionRecord(schema.id, r.number, None) for r in self.revisions(schema.id)]
        return [SchemaRecord(schema.id, None), *gone]

    def apply(self, record: SchemaRecord | SchemaRevisionRecord) -> None:
        """Change hard state. The only method that does."""
        match record:
            case SchemaRecord(id=schema_id, schema=schema):
                before = self._schemas.pop(schema_id, None)
                if schema is not None:
                    self._schemas[schema_id] = schema
                    self._names.add(schema.name, schema_id)
                elif before is not None:
                    self._names.remove(before.name)
            case SchemaRevisionRecord(id=schema_id, number=number, revision=revision):
                others = [r for r in self.revisions(schema_id) if r.number != number]
                if revision is not None:
                    others.append(revision)
                if others:
                    self._revisions[schema_id] = tuple(sorted(others, key=lambda r: r.number))
                else:
                    self._revisions.pop(schema_id, None)
            case _:
                assert_never(record)

    def counts(self, schema_id: SchemaId) -> dict[str, int]:
        """The quotas that a schema and its revisions use, by noun."""
        revisions = self.revisions(schema_id)
        return {
            "schemas": 1,
            "schema_revisions": len(revisions),
            "schema_bytes": sum(len(one.definition) for one in revisions),
        }

    def __len__(self) -> int:
        return len(self._schemas)


def _revision_id(schema_id: SchemaId, number: int, definition: str) -> str:
    """Eight hex digits, as Google's ids are; the same for the same place and definition."""
    text = f"{schema_id}/{number}/{definition}".encode()
    return blake2b(text, digest_size=4).hexdigest()
