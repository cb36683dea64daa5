"""The schema of a topic with its revisions, as an export needs it; travels to tasks as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import cast

from fanlog.model.attributes import SCHEMA_ENCODING, SCHEMA_REVISION
from fanlog.model.resources import Encoding, SchemaType
from fanlog.pipeline.export.rules.decoders import Decoder, make_decoder
from fanlog.pipeline.export.rules.shapes import Misfit


@dataclass(frozen=True, slots=True)
class TopicSchema:
    """Definitions of one schema by revision id, the newest that the topic accepts among them."""

    type: SchemaType
    newest: str
    definitions: Mapping[str, str] = field(default_factory=dict)

    def newest_decoder(self) -> Decoder:
        return _decoder(self.type, self.definitions[self.newest])

    def decoder_of(self, attributes: Mapping[str, str]) -> tuple[Decoder, Encoding]:
        """The decoder of a message with these attributes, and its encoding.

        Raises:
            Misfit: It names no revision, or one that is gone.
        """
        revision = attributes.get(SCHEMA_REVISION)
        if revision is None:
            raise Misfit("the message names no revision: it was published without a schema")
        definition = self.definitions.get(revision)
        if definition is None:
            raise Misfit(f"revision {revision} of the schema is gone")
        encoding = attributes.get(SCHEMA_ENCODING, "JSON")
        return _decoder(self.type, definition), cast(Encoding, encoding)


@lru_cache(maxsize=100)
def _decoder(kind: SchemaType, definition: str) -> Decoder:
    return make_decoder(kind, definition)
