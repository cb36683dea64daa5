"""Bridges from one revision of a schema to another: compiled once, and found again. Soft state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from fanlog import limits
from fanlog.broker.schemas.definitions import COMPILED_INLINE_CHARACTERS_MAX, Definitions
from fanlog.broker.transaction import Ledger
from fanlog.errors import InvalidArgument, SchemaNotFound
from fanlog.model.attributes import SCHEMA_ENCODING, SCHEMA_NAME, SCHEMA_REVISION
from fanlog.model.resources import Encoding, SchemaId, SchemaType
from fanlog.schema import Compiled, Impossible, Long, Mismatch, Transform
from fanlog.schema.examination import Question
from fanlog.schema.sized_cache import SizedCache


@dataclass(frozen=True, slots=True)
class Bridge:
    """From one revision to another: both definitions compiled, and the transformation."""

    writer: Compiled
    reader: Compiled
    written: str
    read: str
    encoding: Encoding
    transform: Transform

    @property
    def size_bytes(self) -> int:
        return self.writer.size_bytes + self.reader.size_bytes

    def convert(self, data: bytes) -> tuple[bytes, int]:
        """The data in the revision that is read, and about how many steps that took.

        Raises:
            Mismatch: It does not conform to the revision it says; before its topic had a schema, a
                publisher may have said anything.
            Impossible: The sentence says why.
            Long: It may take long.
        """
        if self.writer.is_long(data):
            raise Long("the message may take long to be checked")
        steps = self.writer.validate(data, self.encoding)
        if steps > limits.SCHEMA_TRANSFORM_STEPS_MAX:
            raise Impossible(
                f"transforming the message takes more than {limits.SCHEMA_TRANSFORM_STEPS_MAX} "
                "steps"
            )
        return self.transform(data), steps


class Bridges:
    """The bridges of one broker. Lives on the loop."""

    def __init__(self, ledger: Ledger, definitions: Definitions) -> None:
        self._ledger = ledger
        self._definitions = definitions
        #: By schema, revision written, revision read and encoding; a sentence where there is none.
        self._kept: SizedCache[tuple[SchemaId, str, str, Encoding], Bridge | str] = SizedCache(
            limits.SCHEMA_CACHE_BYTES_MAX
        )

    async def find(self, said: Mapping[str, str], reader: str) -> Bridge | str:
        """The bridge from a message with these attributes to `reader`, or why there is none."""
        name, encoding = said.get(SCHEMA_NAME, ""), said.get(SCHEMA_ENCODING, "")
        writer = said.get(SCHEMA_REVISION, "")
        if not (name and writer and encoding in ("JSON", "BINARY")):
            return "it was published without a schema"
        table = self._ledger.hard.catalog.schemas
        try:
            schema = table.schema(name)
            written, read = table.revision(schema, writer), table.revision(schema, reader)
        except SchemaNotFound as error:
            return error.message
        key = schema.id, written.id, read.id, cast("Encoding", encoding)
        found = self._kept.get(key)
        if found is None:
            found = await self._build(schema.type, written.definition, read.definition, key[3])
            self._kept.put(key, found, len(found) if isinstance(found, str) else found.size_bytes)
        return found

    async def _build(
        self, kind: SchemaType, written: str, read: str, encoding: Encoding
    ) -> Bridge | str:
        try:
            writer = await self._definitions.compile_once(kind, written)
            reader = await self._definitions.compile_once(kind, read)
            writer.check_encoding(encoding)
            transform = await self._definitions.apart(
                max(len(written), len(read)),
                COMPILED_INLINE_CHARACTERS_MAX,
                lambda: reader.transform_from(writer, encoding, is_patient=False),
            )
        except (Impossible, InvalidArgument) as error:
            return str(error)
        return Bridge(writer, reader, written, read, encoding, transform)

    async def transform(self, bridge: Bridge | str, data: bytes) -> tuple[bytes | None, str, int]:
        """The data as it is wanted, or why there is none; and about how many steps that took."""
        if isinstance(bridge, str):
            return None, bridge, 0
        try:
            try:
                made, steps = await self._definitions.apart(
                    len(data), limits.SCHEMA_SHORT_BYTES, bridge.convert, data
                )
            except Long:
                made, steps = await self._transform_apart(bridge, data), 0
        except (Impossible, Mismatch, InvalidArgument) as error:
            return None, str(error), 0
        if len(made) > limits.PUBLISH_BYTES_MAX:
            why = f"it would have {len(made)} bytes, more than {limits.PUBLISH_BYTES_MAX}"
            return None, why, steps
        return made, "", steps

    async def _transform_apart(self, bridge: Bridge, data: bytes) -> bytes:
        """Have a message transformed that may take long; raises Impossible."""
        question = Question(
            about="transformed",
            type=bridge.reader.type,
            definition=bridge.read,
            earlier=[("", bridge.written)],
            encoding=bridge.encoding,
            messages=[data],
        )
        found = await self._definitions.examiner.ask(question)
        if found.sentences[0] is not None:
            raise Impossible(found.sentences[0])
        return found.made[0]
