"""JSON Schema: messages are JSON text, checked by `jsonschema-rs`.

References may point into the definition itself and at the drafts' own schemas; nothing is ever
fetched. `format` is checked, in every draft: who writes one expects it.

Turning one revision's message into another's knows no rename of its own in JSON Schema: a property
may say `"x-aliases": ["old"]`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import orjson

from fanlog.errors import InvalidArgument
from fanlog.model import Encoding, SchemaType
from fanlog.names import shown
from fanlog.schema import json_compat
from fanlog.schema.compiled import Impossible, Mismatch, Transform, path_of
from fanlog.schema.json_refs import resolved

#: Names that a property had in earlier revisions.
ALIASES = "x-aliases"


class JsonSchema:
    """A compiled JSON Schema; see `Compiled`."""

    type: SchemaType = "JSON"

    def __init__(self, definition: str) -> None:
        try:
            self._source = orjson.loads(definition)
        except orjson.JSONDecodeError as error:
            raise InvalidArgument(
                f"the JSON Schema is not JSON: {error.msg} at line {error.lineno}, "
                f"column {error.colno}"
            ) from error
        if not isinstance(self._source, dict):
            raise InvalidArgument("the JSON Schema is not an object")
        _refuse_foreign(self._source, ())
        try:
            self._validator = jsonschema_rs.validator_for(
                self._source,
                offline=True,
                validate_formats=True,
                # Patterns are matched in time linear in the text, whoever wrote them.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise InvalidArgument(f"the JSON Schema is wrong {_where(error)}") from error
        self._is_valid = self._validator.is_valid

    def check_encoding(self, encoding: Encoding) -> None:
        if encoding != "JSON":
            raise InvalidArgument("encoding: messages of a JSON Schema have the encoding JSON only")

    def validate(self, data: bytes, encoding: Encoding) -> None:
        assert encoding == "JSON"
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        self._validate(value)

    def breaks(self, writer: JsonSchema) -> list[str]:
        return json_compat.breaks(self._source, writer._source)

    def transform_from(self, writer: JsonSchema, encoding: Encoding) -> Transform:
        assert encoding == "JSON"

        def transform(data: bytes) -> bytes:
            try:
                # Not by orjson, which makes a float of an integer of more than 64 bits.
                before = json.loads(data)
                value = _made(self._source, self._source, writer._source, writer._source, before)
                self._validate(value)
                return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
            except Mismatch as error:
                raise Impossible(str(error)) from None
            except RecursionError:
                raise Impossible("the message is nested too deeply") from None

        return transform

    def _validate(self, value: Any) -> None:
        try:
            if self._is_valid(value):
                return
            errors = list(self._validator.iter_errors(value))
        except ValueError as error:
            # Deeper than the library goes.
            raise Mismatch(str(error)) from None
        first = min(errors, key=lambda error: len(error.instance_path))
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise Mismatch(f"{_cut(first.message)}{more}", tuple(first.instance_path))


def _made(reader_root: Any, reader: Any, writer_root: Any, writer: Any, value: Any) -> Any:
    """Fill defaults, follow aliases and drop what only the writer's schema knows."""
    read, written = resolved(reader_root, reader), resolved(writer_root, writer)
    if isinstance(value, list):
        return [
            _made(reader_root, read.get("items"), writer_root, written.get("items"), item)
            for item in value
        ]
    if not isinstance(value, dict):
        return value
    read_properties = _mapping(read, "properties")
    written_properties = _mapping(written, "properties")
    made: dict[str, Any] = {}
    moved: set[str] = set()
    for name, one in read_properties.items():
        source = next((old for old in (name, *_aliases(one)) if old in value), None)
        if source is not None:
            moved.add(source)
            before = written_properties.get(source)
            made[name] = _made(reader_root, one, writer_root, before, value[source])
        else:
            plain = resolved(reader_root, one)
            if "default" in plain:
                made[name] = plain["default"]
    kept = {
        name: item
        for name, item in value.items()
        if name not in moved and name not in written_properties and name not in made
    }
    return made | kept


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def _aliases(schema: Any) -> list[str]:
    aliases = schema.get(ALIASES, []) if isinstance(schema, dict) else []
    return [alias for alias in aliases if isinstance(alias, str)] * isinstance(aliases, list)


def _refuse_foreign(source: Any, path: tuple[str | int, ...]) -> None:
    """Refuse references that leave the definition, by name, before anybody looks for them."""
    steps = source.items() if isinstance(source, dict) else enumerate(source)
    for key, value in steps:
        if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
            if "://" in value and not value.startswith(("http://json-schema.org/", _DRAFTS)):
                raise InvalidArgument(
                    f"the JSON Schema is wrong at {path_of((*path, key))}: {shown(value)} lies "
                    "outside the definition; a reference begins with '#'"
                )
        elif isinstance(value, dict | list):
            _refuse_foreign(value, (*path, key))


_DRAFTS = "https://json-schema.org/"


def _where(error: Exception) -> str:
    if isinstance(error, jsonschema_rs.ValidationError):
        return f"at {path_of(tuple(error.instance_path))}: {_cut(error.message)}"
    return f"at $: {_cut(str(error))}"


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
