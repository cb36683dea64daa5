"""A message of one JSON Schema as one of another: defaults filled, aliases followed.

Properties that only the writer's schema knows are dropped. References are followed once for each
subschema, and each object costs the properties that the reader's schema has for it.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

from fanlog.model.json_value import Json, JsonObject
from fanlog.schema.budget import StepBudget
from fanlog.schema.json_keywords import map_at, names_at
from fanlog.schema.json_refs import resolve

#: Names that a property had in earlier revisions.
ALIASES = "x-aliases"

#: Bytes of a default that are written in one step.
_DEFAULT_BYTES_PER_STEP = 16


class _Property(NamedTuple):
    name: str
    schema: Json
    aliases: list[str]
    has_default: bool
    default: Json
    default_steps: int


class JsonTransform:
    """Turns values of a writer's schema into values of a reader's."""

    def __init__(self, reader: Json, writer: Json) -> None:
        self._reader = reader
        self._writer = writer
        self._resolved: dict[tuple[bool, int], JsonObject] = {}
        self._known: dict[int, list[_Property]] = {}

    def of(self, value: Json, budget: StepBudget) -> Json:
        """Give a value of the writer's schema as one of the reader's; it is not checked yet."""
        return self._transform(self._reader, self._writer, value, budget)

    def _transform(self, reader: Json, writer: Json, value: Json, budget: StepBudget) -> Json:
        budget.spend()
        if not isinstance(value, dict | list):
            return value
        read = self._meant(reader, budget, is_reader=True)
        written = self._meant(writer, budget, is_reader=False)
        if isinstance(value, list):
            items, before = read.get("items"), written.get("items")
            return [self._transform(items, before, item, budget) for item in value]
        return self._object(read, written, value, budget)

    def _object(
        self,
        read: JsonObject,
        written: JsonObject,
        value: JsonObject,
        budget: StepBudget,
    ) -> Json:
        properties = self._properties(read, budget)
        known = map_at(written, "properties")
        budget.spend(len(properties) + len(value))
        made: JsonObject = {}
        moved: set[str] = set()
        for one in properties:
            source = one.name
            if source not in value and one.aliases:
                budget.spend(len(one.aliases))
                source = next((old for old in one.aliases if old in value), source)
            if source in value:
                moved.add(source)
                before = known.get(source)
                made[one.name] = self._transform(one.schema, before, value[source], budget)
            elif one.has_default:
                budget.spend(one.default_steps)
                made[one.name] = one.default
        kept = {
            name: item
            for name, item in value.items()
            if name not in moved and name not in known and name not in made
        }
        return made | kept

    def _properties(self, read: JsonObject, budget: StepBudget) -> list[_Property]:
        """The properties of an object that the reader's schema names."""
        found = self._known.get(id(read))
        if found is None:
            found = [
                _property(name, schema, self._meant(schema, budget, is_reader=True))
                for name, schema in map_at(read, "properties").items()
            ]
            self._known[id(read)] = found
        return found

    def _meant(self, schema: Json, budget: StepBudget, *, is_reader: bool) -> JsonObject:
        """The subschema that references lead to in the end."""
        # Neither of them goes away before this does: an `id` means the same all the time.
        key = is_reader, id(schema)
        known = self._resolved.get(key)
        if known is None:
            known = resolve(self._reader if is_reader else self._writer, schema, budget)
            self._resolved[key] = known
        return known


def _property(name: str, schema: Json, meant: JsonObject) -> _Property:
    if "default" not in meant:
        return _Property(name, schema, _aliases(schema), False, None, 0)
    default = meant["default"]
    steps = 1 + len(orjson.dumps(default)) // _DEFAULT_BYTES_PER_STEP
    return _Property(name, schema, _aliases(schema), True, default, steps)


def _aliases(schema: Json) -> list[str]:
    return names_at(schema, ALIASES) if isinstance(schema, dict) else []
