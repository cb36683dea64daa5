"""From a definition to a schema that can be used.

This is the one place that knows all types. Which revisions exist is the catalog's.
"""

from __future__ import annotations

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.resources import SchemaType
from fanlog.schema.compiled import Compiled


def compile_schema(kind: SchemaType, definition: str) -> Compiled:
    """Compile a definition. Nothing is cached here: callers keep the schemas they need again.

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
    # Types are imported when one is first used: they take a tenth of a server's start.
    match kind:
        case "AVRO":
            from fanlog.schema.avro import AvroSchema

            return AvroSchema(definition)
        case "PROTOCOL_BUFFER":
            from fanlog.schema.protobuf import ProtobufSchema

            return ProtobufSchema(definition)
        case "JSON":
            from fanlog.schema.json_schema import JsonSchema

            return JsonSchema(definition)
