"""A message of one JSON Schema as one of another: defaults filled, aliases followed.

What only the writer's schema knows is dropped. References are followed once for each subschema, and
each object costs the properties that the reader's schema has for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from fanlog.schema.budget import Budget
from fanlog.schema.json_refs import resolved

#: Names that a property had in earlier revisions.
ALIASES = "x-aliases"

#: Bytes of a default that are written in one step.
_DEFAULT_BYTES_PER_STEP = 16


class JsonTransform:
    """Turns values of a writer's schema into values of a reader's."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self._reader = reader
        self._writer = writer
        self._resolved: dict[tuple[bool, int], Mapping[str, Any]] = {}
        self._default_steps: dict[int, int] = {}

    def of(self, value: Any, budget: Budget) -> Any:
        """Give a value of the writer's schema as one of the reader's; it is not checked yet."""
        return self._made(self._reader, self._writer, value, budget)

    def _made(self, reader: Any, writer: Any, value: Any, budget: Budget) -> Any:
        budget.spend()
        if not isinstance(value, dict | list):
            return value
        read = self._meant(reader, budget, is_reader=True)
        written = self._meant(writer, budget, is_reader=False)
        if isinstance(value, list):
            items, before = read.get("items"), written.get("items")
            return [self._made(items, before, item, budget) for item in value]
        return self._object(read, written, value, budget)

    def _object(
        self,
        read: Mapping[str, Any],
        written: Mapping[str, Any],
        value: dict[str, Any],
        budget: Budget,
    ) -> Any:
        read_properties = _mapping(read, "properties")
        written_properties = _mapping(written, "properties")
        budget.spend(len(read_properties) + len(value))
        made: dict[str, Any] = {}
        moved: set[str] = set()
        for name, one in read_properties.items():
            aliases = _aliases(one)
            budget.spend(len(aliases))
            source = next((old for old in (name, *aliases) if old in value), None)
            if source is not None:
                moved.add(source)
                before = written_properties.get(source)
                made[name] = self._made(one, before, value[source], budget)
            else:
                plain = self._meant(one, budget, is_reader=True)
                if "default" in plain:
                    budget.spend(self._steps(plain))
                    made[name] = plain["default"]
        kept = {
            name: item
            for name, item in value.items()
            if name not in moved and name not in written_properties and name not in made
        }
        return made | kept

    def _meant(self, schema: Any, budget: Budget, *, is_reader: bool) -> Mapping[str, Any]:
        """What a subschema means, its references followed."""
        # Neither of them goes away before this does: an `id` means the same all the time.
        key = is_reader, id(schema)
        known = self._resolved.get(key)
        if known is None:
            known = resolved(self._reader if is_reader else self._writer, schema, budget)
            self._resolved[key] = known
        return known

    def _steps(self, plain: Mapping[str, Any]) -> int:
        known = self._default_steps.get(id(plain))
        if known is None:
            known = 1 + len(orjson.dumps(plain["default"])) // _DEFAULT_BYTES_PER_STEP
            self._default_steps[id(plain)] = known
        return known


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def _aliases(schema: Any) -> list[str]:
    aliases = schema.get(ALIASES, []) if isinstance(schema, dict) else []
    return [alias for alias in aliases if isinstance(alias, str)] * isinstance(aliases, list)
