"""JSON Schema: messages are JSON text, checked by `jsonschema-rs`.

References may point into the definition itself and at the drafts' own schemas; nothing is ever
fetched. `format` is checked, in every draft: authors of a `format` expect it.

JSON Schema itself has no renames, which transforms between revisions need: a property may say
`"x-aliases": ["old"]`.
"""

from __future__ import annotations

import json
from typing import NoReturn

import jsonschema_rs
import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.json_value import Json, JsonObject
from fanlog.model.names import shown
from fanlog.model.resources import Encoding, SchemaType
from fanlog.schema import json_compat
from fanlog.schema.budget import (
    StepBudget,
    budget_to_compare,
    budget_to_compile,
    budget_to_transform,
)
from fanlog.schema.compiled import Impossible, Long, Mismatch, Transform, check_nesting, path_of
from fanlog.schema.json_transform import JsonTransform
from fanlog.schema.json_tree import DRAFTS, Tree
from fanlog.schema.json_work import JsonWork

#: Every pattern is matched in time linear in the text.
_LINEAR = jsonschema_rs.RegexOptions(
    size_limit=limits.SCHEMA_PATTERN_BYTES_MAX, dfa_size_limit=limits.SCHEMA_PATTERN_CACHE_BYTES
)
#: Steps of the library in the time of one of ours.
_PER_STEP = 8
#: Sizes that patterns are told apart by.
_PATTERN_SIZES = tuple(limits.SCHEMA_PATTERN_BYTES_MAX >> shift for shift in (10, 8, 6, 4, 2, 0))
#: Memory of a compiled schema, in bytes for each step that compiling it took: measured.
_BYTES_PER_STEP = 900
_BYTES_PER_BYTE = 10


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
        check_nesting(self._source, "the JSON Schema")
        _refuse_foreign(self._source, ())
        budget = budget_to_compile(definition)
        tree = Tree(self._source, budget)
        patterns = _measure_patterns(tree)
        try:
            self._work = JsonWork(tree, self._source, patterns, budget)
        except RecursionError as error:
            raise InvalidArgument("the JSON Schema refers through too many others") from error
        self.short_bytes = min(
            self._work.bytes_within(limits.SCHEMA_INLINE_STEPS_MAX), limits.SCHEMA_SHORT_BYTES
        )
        self._sure_bytes = self._work.bytes_within(limits.SCHEMA_MESSAGE_STEPS_MAX)
        self._steps_per_byte = self._work.per_byte or 0
        try:
            self._validator = jsonschema_rs.validator_for(
                self._source, offline=True, validate_formats=True, pattern_options=_LINEAR
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise InvalidArgument(f"the JSON Schema is wrong {_where(error)}") from error
        self._is_valid = self._validator.is_valid
        self._has_choices = any(
            key in schema for schema in tree.schemas.values() for key in ("anyOf", "oneOf")
        )
        compiled = sum(patterns[name] for one in tree.schemas.values() for name in _patterns(one))
        self.size_bytes = _BYTES_PER_STEP * budget.spent + _BYTES_PER_BYTE * len(definition)
        self.size_bytes += 2 * compiled

    def check_encoding(self, encoding: Encoding) -> None:
        if encoding != "JSON":
            raise InvalidArgument("encoding: messages of a JSON Schema have the encoding JSON only")

    def is_long(self, data: bytes) -> bool:
        if len(data) <= self._work.bytes_within(limits.SCHEMA_INLINE_STEPS_MAX):
            return False
        try:
            steps, patterns = self._work.count(orjson.loads(data), limits.SCHEMA_INLINE_STEPS_MAX)
        except orjson.JSONDecodeError:
            return False
        return steps + patterns > limits.SCHEMA_INLINE_STEPS_MAX

    def validate(self, data: bytes, encoding: Encoding) -> int:
        assert encoding == "JSON"
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            raise Mismatch(f"expected JSON: {error.msg} at position {error.pos}") from None
        return self._validate(value, len(data))

    def to_json(self, data: bytes, _encoding: Encoding) -> bytes:
        return data

    def breaks(self, writer: JsonSchema, budget: StepBudget | None = None) -> list[str]:
        return json_compat.breaks(self._source, writer._source, budget or budget_to_compare())

    def transform_from(
        self, writer: JsonSchema, encoding: Encoding, *, is_patient: bool = True
    ) -> Transform:
        assert encoding == "JSON"

        made = JsonTransform(self._source, writer._source)

        def transform(data: bytes) -> bytes:
            try:
                # Not by orjson, which makes a float of an integer of more than 64 bits.
                value = made.of(json.loads(data), budget_to_transform())
                text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
                if not is_patient and self.is_long(text):
                    raise Long("the message may take long to be checked")
                self._validate(value, len(text))
            except Mismatch as error:
                raise Impossible(str(error)) from None
            except RecursionError:
                raise Impossible("the message is nested too deeply") from None
            return text

        return transform

    def _validate(self, value: Json, size: int) -> int:
        """Check a value that has so many bytes; raises Mismatch."""
        steps = size * self._steps_per_byte
        if size > self._sure_bytes:
            # Patterns may take less than they might: how long they do is not counted, but timed.
            steps, _ = self._work.count(value, limits.SCHEMA_MESSAGE_STEPS_MAX)
            if steps > limits.SCHEMA_MESSAGE_STEPS_MAX:
                raise Mismatch(
                    f"checking the message takes more than {limits.SCHEMA_MESSAGE_STEPS_MAX} steps"
                )
        try:
            is_valid = self._is_valid(value)
        except ValueError as error:
            # Deeper than the library goes.
            raise Mismatch(str(error)) from None
        if not is_valid:
            self._explain(value)
        return steps // _PER_STEP

    def _explain(self, value: Json) -> NoReturn:
        """Raise Mismatch with the first mistake.

        Of a choice, the library lists every mistake in every branch: too much of a large message.
        """
        if self._has_choices:
            most = limits.SCHEMA_EXPLAIN_STEPS_MAX
            if self._work.count(value, most)[0] > most:
                raise Mismatch(
                    "the message does not conform to the JSON Schema; it is too large for the "
                    "place to be looked for"
                )
        try:
            self._validator.validate(value)
        except jsonschema_rs.ValidationError as error:
            raise Mismatch(_cut(error.message), tuple(error.instance_path)) from None
        raise Mismatch("the message does not conform to the JSON Schema")


def _patterns(schema: JsonObject) -> list[str]:
    """The patterns of one subschema."""
    by_name = schema.get("patternProperties")
    found = [schema.get("pattern"), *(by_name if isinstance(by_name, dict) else ())]
    return [one for one in found if isinstance(one, str)]


def _measure_patterns(tree: Tree) -> dict[str, int]:
    """How large each pattern is when it is compiled.

    Raises:
        InvalidArgument: One of them, or all together, are larger than they may be.
    """
    sizes: dict[str, int] = {}
    total = 0
    for pattern in (one for schema in tree.schemas.values() for one in _patterns(schema)):
        if pattern not in sizes:
            size = _pattern_bytes(pattern)
            if size is None:
                raise InvalidArgument(
                    f"the JSON Schema is wrong at {_path_to(tree.root, pattern)}: {shown(pattern)} "
                    "is not a regex that can be matched in linear time and has, compiled, at most "
                    f"{limits.SCHEMA_PATTERN_BYTES_MAX} bytes"
                )
            sizes[pattern] = size
        total += sizes[pattern]
        if total > limits.SCHEMA_PATTERNS_BYTES_MAX:
            raise InvalidArgument(
                "the JSON Schema is wrong: its patterns, compiled, have more than "
                f"{limits.SCHEMA_PATTERNS_BYTES_MAX} bytes together"
            )
    return sizes


def _pattern_bytes(pattern: str) -> int | None:
    """The smallest limit that a pattern keeps to; None if there is none, or it is no pattern."""
    for size in _PATTERN_SIZES:
        options = jsonschema_rs.RegexOptions(size_limit=size)
        try:
            jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
        except (jsonschema_rs.ValidationError, ValueError):
            continue
        return size
    return None


def _path_to(
    source: JsonObject | list[Json], pattern: str, path: tuple[str | int, ...] = ()
) -> str | None:
    """Where a pattern stands; None for nowhere."""
    steps = source.items() if isinstance(source, dict) else enumerate(source)
    for key, value in steps:
        here = (*path, key)
        if (key == "pattern" and value == pattern) or key == pattern:
            return path_of(here)
        found = _path_to(value, pattern, here) if isinstance(value, dict | list) else None
        if found is not None:
            return found
    return None


def _refuse_foreign(source: JsonObject | list[Json], path: tuple[str | int, ...]) -> None:
    """Refuse references that leave the definition, by name, before they are followed."""
    steps = source.items() if isinstance(source, dict) else enumerate(source)
    for key, value in steps:
        if key in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(value, str):
            if "://" in value and not value.startswith(DRAFTS):
                raise InvalidArgument(
                    f"the JSON Schema is wrong at {path_of((*path, key))}: {shown(value)} lies "
                    "outside the definition; a reference begins with '#'"
                )
        elif isinstance(value, dict | list):
            _refuse_foreign(value, (*path, key))


def _where(error: Exception) -> str:
    if isinstance(error, jsonschema_rs.ValidationError):
        return f"at {path_of(tuple(error.instance_path))}: {_cut(error.message)}"
    return f"at $: {_cut(str(error))}"


def _cut(text: str) -> str:
    return text if len(text) <= 300 else f"{text[:300]}…"
