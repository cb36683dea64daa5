"""A JSON Schema as a graph: its subschemas, and which of them look at which part of a message.

References are followed as the drafts say: within the definition, by pointer, anchor or `$id`. One
that leaves it can only mean a draft's own schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeGuard
from urllib.parse import unquote, urldefrag, urljoin

from fanlog.model.json_value import Json, JsonObject
from fanlog.schema.budget import StepBudget
from fanlog.schema.json_keywords import list_at, map_at

#: Base of a definition that does not say its own.
_BASE = "http://schema.invalid/"

#: Keywords whose schema looks at the same value: alone, in a list, by name.
_SAME = ("not", "if", "then", "else")
_SAME_LISTS = ("allOf", "anyOf", "oneOf")
_SAME_MAPS = ("dependentSchemas", "dependencies")
#: Keywords whose schema looks at every property, or at every item.
_REST = ("additionalProperties", "unevaluatedProperties")
_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


#: Stand for schemas that are not in the definition and look at everything below: those of the
#: drafts, and the target of a reference that only the library can follow, if it can.
DRAFT: JsonObject = {}
DRAFT |= {"additionalProperties": DRAFT, "items": DRAFT}
UNKNOWN: JsonObject = {}
UNKNOWN |= {"additionalProperties": UNKNOWN, "items": UNKNOWN}
DRAFTS = ("http://json-schema.org/", "https://json-schema.org/")


class Edges(NamedTuple):
    """The subschemas of one schema, by the part of the message that they look at."""

    same: list[JsonObject]
    named: list[tuple[str | int, JsonObject]]
    rest: list[JsonObject]
    items: list[JsonObject]
    keys: list[JsonObject]
    references: list[tuple[str, str]]


def edges(schema: JsonObject) -> Edges:
    """The subschemas of a schema; values that are no schemas are left out."""
    return Edges(
        same=[
            *_objects(schema.get(key) for key in _SAME),
            *_objects(one for key in _SAME_LISTS for one in list_at(schema, key)),
            *_objects(one for key in _SAME_MAPS for one in map_at(schema, key).values()),
        ],
        named=[
            *((name, one) for name, one in map_at(schema, "properties").items() if _is(one)),
            *((at, one) for at, one in enumerate(list_at(schema, "prefixItems")) if _is(one)),
            *((at, one) for at, one in enumerate(list_at(schema, "items")) if _is(one)),
        ],
        rest=[
            *_objects(schema.get(key) for key in _REST),
            *_objects(map_at(schema, "patternProperties").values()),
        ],
        items=list(_objects(schema.get(key) for key in _ITEMS)),
        keys=list(_objects([schema.get("propertyNames")])),
        references=[
            (key, found) for key in _REFERENCES if isinstance(found := schema.get(key), str)
        ],
    )


class Tree:
    """All subschemas of a definition that can be reached; each is known by its `id`."""

    def __init__(self, root: JsonObject, budget: StepBudget) -> None:
        self.root = root
        self._budget = budget
        self._bases: dict[int, str] = {}
        self._resources: dict[str, list[JsonObject]] = {}
        self._anchors: dict[str, list[JsonObject]] = {}
        self._dynamic: dict[str, list[JsonObject]] = {}
        self.schemas: dict[int, JsonObject] = {}
        self.edges: dict[int, Edges] = {}
        #: The targets of the references of a schema.
        self.targets: dict[int, list[JsonObject]] = {}
        self._resources.setdefault(_BASE, []).append(root)
        self._add(root, _BASE)
        self._follow()

    def _add(self, schema: JsonObject, base: str) -> None:
        """Take in a schema and all that stand in it."""
        left = [(schema, base)]
        while left:
            one, base = left.pop()
            if id(one) in self.schemas:
                continue
            self._budget.spend(1 + len(one) // 4)
            base = self._add_names(one, base)
            self.schemas[id(one)] = one
            self._bases[id(one)] = base
            found = self.edges[id(one)] = edges(one)
            below = [*found.same, *found.rest, *found.items, *found.keys]
            below += [part for _, part in found.named]
            below += [
                part
                for key in ("$defs", "definitions")
                for part in _objects(map_at(one, key).values())
            ]
            left += [(part, base) for part in below]

    def _add_names(self, schema: JsonObject, base: str) -> str:
        for key in ("$id", "id"):
            name = schema.get(key)
            if isinstance(name, str):
                self._budget.spend(1 + (len(base) + len(name)) // 64)
                url = _join(base, name)
                if name.startswith("#"):
                    self._anchors.setdefault(url, []).append(schema)
                else:
                    base = urldefrag(url).url
                    self._resources.setdefault(base, []).append(schema)
        for key in ("$anchor", "$dynamicAnchor"):
            name = schema.get(key)
            if isinstance(name, str):
                self._anchors.setdefault(f"{base}#{name}", []).append(schema)
                self._dynamic.setdefault(name, []).append(schema)
        return base

    def _follow(self) -> None:
        """Find the targets of references; a pointer may make a schema of an object that is none."""
        done: set[int] = set()
        while left := [key for key in self.schemas if key not in done]:
            for key in left:
                done.add(key)
                found: list[JsonObject] = []
                for keyword, reference in self.edges[key].references:
                    self._budget.spend(1 + len(reference) // 16)
                    found += self._targets(keyword, reference, self._bases[key])
                self.targets[key] = found

    def _targets(self, keyword: str, reference: str, base: str) -> Iterator[JsonObject]:
        url, fragment = urldefrag(_join(base, reference))
        name = unquote(fragment)
        found: list[Json] = []
        if keyword != "$ref":
            # Whichever is met first on the way: any of them.
            found += self._dynamic.get(name, [])
            found += [one for several in self._resources.values() for one in several] * (not name)
        if not name or name.startswith("/"):
            found += [_follow_pointer(one, name) for one in self._resources.get(url, [])]
        else:
            found += self._anchors.get(f"{url}#{name}", [])
        found = [one for one in found if _is(one) or isinstance(one, bool)]
        if not found:
            found = [DRAFT if url.startswith(DRAFTS) else UNKNOWN]
        # The same schema may be found in two ways.
        for one in {id(one): one for one in found if _is(one)}.values():
            self._add(one, url)
            yield one


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _follow_pointer(root: Json, pointer: str) -> Json:
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(root, dict) and key in root:
            root = root[key]
        elif isinstance(root, list) and key.isdecimal() and len(key) < 8 and int(key) < len(root):
            root = root[int(key)]
        else:
            return None
    return root


def _is(schema: Json) -> TypeGuard[JsonObject]:
    return isinstance(schema, dict)


def _objects(found: Iterable[Json]) -> Iterator[JsonObject]:
    return (one for one in found if isinstance(one, dict))
