"""Which values one JSON Schema allows and another refuses, in sentences.

Two questions are asked. `jsonschema-rs` decides whether one schema contains the other; where it can
prove that, nothing breaks. Where it cannot, the keywords are compared one by one: each that became
narrower is named with its path, and one with an unknown effect counts as a break.

**Writers are taken at their word:** a message has the properties that its writer's schema names,
even where the schema would let others pass. Otherwise adding an optional property to an ordinary,
open schema would break every such schema, since some message might have had it with another type.
"""

from __future__ import annotations

import jsonschema_rs

from fanlog.model.json_value import Json, JsonObject
from fanlog.model.names import shown
from fanlog.schema.budget import StepBudget
from fanlog.schema.compiled import path_of
from fanlog.schema.json_keywords import list_at, map_at, names_at
from fanlog.schema.json_refs import resolve

Path = tuple[str | int, ...]

#: Keywords that allow or refuse nothing.
_SILENT = frozenset(
    {
        "$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description",
        "default", "examples", "deprecated", "readOnly", "writeOnly", "x-aliases",
        "contentMediaType", "contentEncoding", "$vocabulary",
    }
)  # fmt: skip
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_STRUCTURE = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items"}
)
#: Values of one `enum` that the library is asked about: it takes 80 ms for these.
_LISTED_MAX = 2_000
_TYPES = ("null", "boolean", "number", "string", "array", "object")


def breaks(reader: Json, writer: Json, budget: StepBudget) -> list[str]:
    """List why the reader's schema refuses some values that the writer's allows.

    The library's part of it is not counted: callers compare definitions of strangers in a process
    that can be ended.
    """
    covered = _covers(reader, writer)
    if covered == "yes":
        return []
    try:
        found = _Comparison(reader, writer, budget).breaks(reader, writer, ())
    except RecursionError:
        found = ["$: the definitions are nested too deeply to be compared"]
    if not found and covered == "no":
        found = ["$: the schema refuses something that the other allows"]
    return found


def _covers(reader: Json, writer: Json) -> str:
    if _lists_much(reader) or _lists_much(writer):
        return "unknown"
    try:
        return str(_canonical(reader).covers(_canonical(_close(writer))))
    except (ValueError, RecursionError):
        return "unknown"


def _lists_much(schema: Json) -> bool:
    """Whether values are listed that the library would compare each with each."""
    left = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if len(list_at(one, "enum")) > _LISTED_MAX:
                return True
            left += one.values()
        elif isinstance(one, list):
            left += one
    return False


def _canonical(schema: Json) -> jsonschema_rs.CanonicalSchema:
    assert isinstance(schema, dict | bool)
    return jsonschema_rs.canonicalize(schema, validate_formats=True, offline=True)


def _close(schema: Json) -> Json:
    """Give a writer's schema without the properties that it does not name."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for key in ("items", "additionalProperties"):
        if isinstance(made.get(key), dict):
            made[key] = _close(made[key])
    for key in ("properties", "$defs", "definitions"):
        if parts := map_at(made, key):
            made[key] = {name: _close(one) for name, one in parts.items()}
    # Where several schemas hold for one object, its properties are those of all: it stays open.
    is_alone = not made.keys() & {"allOf", "anyOf", "oneOf", "$ref", "if", "patternProperties"}
    if "properties" in made and is_alone and made.get("additionalProperties", True) is True:
        made["additionalProperties"] = False
    return made


class _Comparison:
    def __init__(self, reader_root: Json, writer_root: Json, budget: StepBudget) -> None:
        self._reader_root = reader_root
        self._writer_root = writer_root
        self._budget = budget
        #: By `id`: subschemas stay where they are as long as their roots do.
        self._seen: set[tuple[int, int]] = set()

    def breaks(self, reader: Json, writer: Json, path: Path) -> list[str]:
        if reader is True or reader == {}:
            return []
        if reader is False:
            return [] if writer is False else [f"{path_of(path)}: nothing is allowed here any more"]
        self._budget.spend(1 + len(path) // 4)
        pair = id(reader), id(writer)
        if pair in self._seen:
            return []
        self._seen.add(pair)
        read = resolve(self._reader_root, reader, self._budget)
        written = resolve(self._writer_root, writer, self._budget)
        self._budget.spend(len(read) + len(written))
        return [
            *self._types(read, written, path),
            *self._values(read, written, path),
            *_bounds(read, written, path),
            *self._objects(read, written, path),
            *self._items(read, written, path),
            *_others(read, written, path),
        ]

    def _types(self, read: JsonObject, written: JsonObject, path: Path) -> list[str]:
        if "type" not in read or "enum" in written or "const" in written:
            return []
        allowed = _types_of(read)
        lost = sorted(one for one in _types_of(written) if not _is_in(one, allowed))
        expected = f"{path_of(path)}: expects {' or '.join(sorted(allowed))}"
        if "type" not in written:
            return [f"{expected}; the other writes anything"] if lost else []
        return [f"{expected}; the other writes {one}, too" for one in lost]

    def _objects(self, read: JsonObject, written: JsonObject, path: Path) -> list[str]:
        properties, before = map_at(read, "properties"), map_at(written, "properties")
        required = names_at(read, "required")
        self._budget.spend(len(before) + len(required))
        found = []
        surely = set(names_at(written, "required"))
        for name in required:
            if name in surely:
                continue
            is_new = name not in before
            found.append(
                f"{path_of((*path, name))}: is required; the other "
                f"{'does not know it' if is_new else 'may leave it out'}"
            )
        rest = read.get("additionalProperties", True)
        for name, one in before.items():
            if name in properties:
                found += self.breaks(properties[name], one, (*path, name))
            elif rest is False:
                found.append(f"{path_of((*path, name))}: is not allowed; the other writes it")
            elif isinstance(rest, dict):
                found += self.breaks(rest, one, (*path, name))
        return [*found, *self._additional(read, written, path)]

    def _additional(self, read: JsonObject, written: JsonObject, path: Path) -> list[str]:
        rest = read.get("additionalProperties", True)
        before = written.get("additionalProperties", True)
        # An object with a type and nothing else may have any properties.
        is_free = before is True and "properties" not in written and written.get("type") == "object"
        if isinstance(before, dict) and isinstance(rest, dict):
            return self.breaks(rest, before, (*path, "*"))
        if rest is not True and (is_free or isinstance(before, dict)):
            return [f"{path_of(path)}: additional properties are restricted; the other writes any"]
        return []

    def _items(self, read: JsonObject, written: JsonObject, path: Path) -> list[str]:
        if "items" not in read or "array" not in _types_of(written):
            return []
        return self.breaks(read["items"], written.get("items", True), (*path, "*"))

    def _values(self, read: JsonObject, written: JsonObject, path: Path) -> list[str]:
        """Compare the values of `enum` and `const`."""
        allowed = _list_values(read)
        if allowed is None:
            return []
        before = _list_values(written)
        if before is None:
            return [f"{path_of(path)}: expects one of {len(allowed)} values; the other writes any"]
        self._budget.spend(len(allowed) + len(before))
        plain = {value for value in allowed if not isinstance(value, dict | list)}
        large = [value for value in allowed if isinstance(value, dict | list)]
        found = []
        for value in before:
            if isinstance(value, dict | list):
                self._budget.spend(len(large))
                is_allowed = value in large
            else:
                is_allowed = value in plain
            if not is_allowed:
                found.append(f"{path_of(path)}: does not allow {shown(str(value))} any more")
        return found


def _types_of(schema: JsonObject) -> set[str]:
    kind = schema.get("type")
    return {kind} if isinstance(kind, str) else set(names_at(schema, "type") or _TYPES)


def _is_in(kind: str, allowed: set[str]) -> bool:
    return kind in allowed or (kind == "integer" and "number" in allowed)


def _list_values(schema: JsonObject) -> list[Json] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _bounds(read: JsonObject, written: JsonObject, path: Path) -> list[str]:
    found = []
    for key in (*_LOWER, *_UPPER):
        if key in read and not _is_within(read[key], written.get(key), is_lower=key in _LOWER):
            before = written.get(key)
            said = "has none" if before is None else f"has {before}"
            found.append(f"{path_of(path)}: {key} is {read[key]}; the other {said}")
    return found


def _is_within(bound: Json, before: Json, *, is_lower: bool) -> bool:
    if not isinstance(bound, int | float) or not isinstance(before, int | float):
        return False
    return before >= bound if is_lower else before <= bound


def _others(read: JsonObject, written: JsonObject, path: Path) -> list[str]:
    """Name the other keywords of the reader that the writer does not have with the same value."""
    known = _SILENT | _STRUCTURE | {*_LOWER, *_UPPER}
    return [
        f"{path_of(path)}: {key} is new or changed; whether the other keeps to it cannot be shown"
        for key, value in read.items()
        if key not in known and written.get(key) != value
    ]
