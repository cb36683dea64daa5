"""From a definition to a schema that can be used; compiled once for every revision.

This is the one place that knows all types. Which revisions exist is the catalog's.
"""

from __future__ import annotations

from functools import lru_cache

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import SchemaType
from fanlog.schema.avro import AvroSchema
from fanlog.schema.compiled import Compiled
from fanlog.schema.json_schema import JsonSchema
from fanlog.schema.protobuf import ProtobufSchema

#: Compiled definitions that are kept; one has a few hundred kilobytes at most, most far less.
COMPILED_MAX = 1_000


def compile_schema(kind: SchemaType, definition: str) -> Compiled:
    """Compile a definition, or give what was compiled of the same text before.

    Raises:
        InvalidArgument: The sentence says where the definition is wrong.
    """
    if not definition.strip():
        raise InvalidArgument("definition: a schema needs one, but it is empty")
    size = len(definition.encode())
    if size > limits.SCHEMA_DEFINITION_BYTES_MAX:
        raise InvalidArgument(
            f"definition: {size} bytes; at most {limits.SCHEMA_DEFINITION_BYTES_MAX} are allowed"
        )
    return _compiled(kind, definition)


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(kind: SchemaType, definition: str) -> Compiled:
    match kind:
        case "AVRO":
            return AvroSchema(definition)
        case "PROTOCOL_BUFFER":
            return ProtobufSchema(definition)
        case "JSON":
            return JsonSchema(definition)
