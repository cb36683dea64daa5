"""Decoding: the data of stored messages as JSON, for people who look at them.

A message says itself which revision it conforms to. One that does not, for it was published before
its topic had a schema, is tried with the newest revision that the topic accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from fanlog import limits
from fanlog.broker.schemas.definitions import Definitions
from fanlog.broker.transaction import Ledger
from fanlog.errors import InvalidArgument, SchemaNotFound
from fanlog.model.attributes import SCHEMA_ENCODING, SCHEMA_NAME, SCHEMA_REVISION
from fanlog.model.resources import Encoding, Schema, SchemaRevision, Topic
from fanlog.schema import Compiled, Impossible, Mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The data of a message as JSON, or why there is none; neither where there is no schema."""

    text: str = ""
    error: str = ""
    revision_id: str = ""


NOT_DECODED = Decoded()


@dataclass(eq=False)
class Decoding:
    """Decodes the messages of one broker. Lives on the loop."""

    _ledger: Ledger
    _definitions: Definitions

    async def decode(self, topic: Topic | None, said: Mapping[str, str], data: bytes) -> Decoded:
        """Decode the data of a message of `topic` whose attributes are `said`."""
        try:
            found = self._find(topic, said)
            if found is None:
                return NOT_DECODED
            schema, revision, encoding = found
        except SchemaNotFound as error:
            return Decoded(error=error.message)
        shown = Decoded(revision_id=revision.id)
        most = limits.BROWSE_DECODED_BYTES_MAX
        if len(data) > most:
            return _failed(shown, f"its data has {len(data)} bytes; at most {most} are decoded")
        try:
            compiled = await self._definitions.compile_once(schema.type, revision.definition)
            compiled.check_encoding(encoding)
            await self._definitions.check(compiled, revision.definition, data, encoding)
            text = await self._definitions.apart(
                len(data), limits.SCHEMA_SHORT_BYTES, _text, compiled, data, encoding
            )
        except (Impossible, Mismatch, InvalidArgument) as error:
            return _failed(shown, str(error))
        if len(text) > most:
            return _failed(
                shown, f"as JSON it has {len(text)} characters; at most {most} are shown"
            )
        return Decoded(text=text, revision_id=revision.id)

    def _find(
        self, topic: Topic | None, said: Mapping[str, str]
    ) -> tuple[Schema, SchemaRevision, Encoding] | None:
        """The revision that a message conforms to, or may; raises SchemaNotFound."""
        table = self._ledger.hard.catalog.schemas
        name, encoding = said.get(SCHEMA_NAME, ""), said.get(SCHEMA_ENCODING, "")
        if name and encoding in ("JSON", "BINARY"):
            schema = table.schema(name)
            revision = table.revision(schema, said.get(SCHEMA_REVISION, ""))
            return schema, revision, cast("Encoding", encoding)
        settings = None if topic is None else topic.schema_settings
        if settings is None or settings.schema_id is None:
            return None
        bound = table.by_id(settings.schema_id)
        accepted = table.accepted_revisions(settings)
        if bound is None or not accepted:
            return None
        return bound, accepted[-1], settings.encoding


def _failed(shown: Decoded, why: str) -> Decoded:
    return Decoded(error=why, revision_id=shown.revision_id)


def _text(compiled: Compiled, data: bytes, encoding: Encoding) -> str:
    """Raises Impossible."""
    return compiled.to_json(data, encoding).decode("utf-8", "replace")
