"""Keywords of a JSON Schema, read as the type that they should have; other values count as absent.

Definitions come from callers: a keyword may have any value before the library has checked it.
"""

from __future__ import annotations

from fanlog.model.json_value import Json, JsonObject


def map_at(schema: JsonObject, keyword: str) -> JsonObject:
    found = schema.get(keyword)
    return found if isinstance(found, dict) else {}


def list_at(schema: JsonObject, keyword: str) -> list[Json]:
    found = schema.get(keyword)
    return found if isinstance(found, list) else []


def names_at(schema: JsonObject, keyword: str) -> list[str]:
    """The strings of a list."""
    return [one for one in list_at(schema, keyword) if isinstance(one, str)]
