"""The work that a JSON Schema makes of a message, counted before the library is asked.

The library does not count, and holds the interpreter while it works. So this file computes an upper
bound of the work for a message, in steps of some 15 ns. A *place* is a set of subschemas that look
at the same value of a message, each as often as it does: two references to one subschema look
twice, and in a lattice of them that doubles with every level. Places are made as messages reach
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress

import orjson

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.json_value import Json, JsonObject
from fanlog.schema.budget import StepBudget
from fanlog.schema.json_keywords import list_at, map_at
from fanlog.schema.json_tree import DRAFT, UNKNOWN, Tree

#: A message has no more values than half its bytes.
_BYTES_PER_VALUE = 2
#: Steps, at each value below it, of a draft's own schema; and of one that cannot be looked at.
_OUTSIDE = {id(DRAFT): 300, id(UNKNOWN): limits.SCHEMA_INLINE_STEPS_MAX}
#: Bytes of listed values that are compared in one step.
_LISTED_BYTES_PER_STEP = 8
#: Steps for each item that must differ from all others.
_UNIQUE_STEPS = 20
#: Worst time of a pattern for one character: an eighth of a nanosecond for each byte it has.
_PATTERN_BYTES_PER_STEP = 128
#: Steps in which all places are looked at when a definition is compiled, or are not: some, and so
#: many for each subschema.
_GLANCE_STEPS, _GLANCE_STEPS_EACH = 2_000, 8
#: Places that are kept for messages.
_KEPT_MAX = 2_000

#: Stand for the names and numbers of children that no subschema asks for.
_ANY_PROPERTY = None
_ANY_ITEM = -1

#: How often each subschema looks, by its `id`.
_Looks = Mapping[int, int]


class _Enough(Exception):
    """There are more places than are looked at."""


class ValuePlace:
    """The subschemas that look at one value, and the steps that takes."""

    __slots__ = (
        "child_steps", "items", "key_steps", "keys", "known", "named", "object_steps", "rest",
        "steps", "text_steps",
    )  # fmt: skip

    def __init__(self) -> None:
        #: For any value; for an object besides; for each character, child, character of a key.
        self.steps = self.object_steps = self.text_steps = self.child_steps = self.key_steps = 0
        self.named: dict[str | int | None, Counter[int]] = {}
        self.rest: Counter[int] = Counter()
        self.items: Counter[int] = Counter()
        self.keys: Counter[int] = Counter()
        self.known: dict[str | int | None, ValuePlace] = {}


class JsonWork:
    """The steps of messages of one schema."""

    def __init__(
        self, tree: Tree, root: JsonObject, patterns: Mapping[str, int], budget: StepBudget
    ) -> None:
        self._tree = tree
        self._patterns = patterns
        self._budget: StepBudget | None = budget
        self._together: dict[int, _Looks | None] = {}
        self._places: dict[frozenset[tuple[int, int]], ValuePlace] = {}
        self._leaf = ValuePlace()
        for key in tree.schemas:
            self._same(key)
        self._root = self._place({id(root): 1})
        # Some have no end, and others are many: a glance is enough.
        glance = _GLANCE_STEPS + _GLANCE_STEPS_EACH * len(tree.schemas)
        self._budget = StepBudget(glance, "a glance at the places", _Enough)
        #: Steps that a byte of a message may cost; None where that has no end.
        self.per_byte: int | None = None
        self._once = 0
        with suppress(_Enough):
            self.per_byte, self._once = self._worst()
        if self._root.steps > limits.SCHEMA_MESSAGE_STEPS_MAX:
            raise InvalidArgument(
                f"the JSON Schema looks at a message in more than "
                f"{limits.SCHEMA_MESSAGE_STEPS_MAX} steps, whatever is in it: its references "
                "multiply"
            )
        # From here on messages pay for the work, and the places that they need are made again.
        self._budget = None
        self._forget()
        self._together.clear()

    def bytes_within(self, steps: int) -> int:
        """The bytes up to which no message, with any content, takes more than `steps` steps."""
        return max(0, (steps - self._once) // self.per_byte) if self.per_byte else 0

    def count(self, value: Json, most: int) -> tuple[int, int]:
        """Steps of a message, and those of them that are for patterns.

        Counting ends where the first are more than `most`.
        """
        total = patterns = 0
        left = [(self._root, value)]
        while left and total <= most:
            place, one = left.pop()
            total += place.steps
            if isinstance(one, str):
                patterns += place.text_steps * len(one)
                continue
            if not isinstance(one, dict | list):
                continue
            total += place.child_steps * len(one)
            children: Iterable[tuple[str | int, Json]]
            if isinstance(one, dict):
                total += place.object_steps
                patterns += place.key_steps * sum(map(len, one))
                if place.keys:
                    looks = self._place(place.keys)
                    left += [(looks, key) for key in one]
                children, others = one.items(), place.rest
            else:
                children, others = enumerate(one), place.items
            if place.named or others:
                # Each of them has a step at least.
                if not place.named and total + len(one) > most:
                    return total + len(one), patterns
                left += [(self._below(place, key, others), part) for key, part in children]
        return total, patterns

    def _below(self, place: ValuePlace, key: str | int | None, others: Counter[int]) -> ValuePlace:
        """The place of a child: the subschemas for its name, and those for all children."""
        named = place.named.get(key)
        if named is None:
            if not others:
                return self._leaf
            key = _ANY_PROPERTY if others is place.rest else _ANY_ITEM
            named = Counter()
        known = place.known.get(key)
        if known is None:
            known = place.known[key] = self._place(named + others)
        return known

    def _place(self, looks: _Looks) -> ValuePlace:
        identity = frozenset(looks.items())
        known = self._places.get(identity)
        if known is None:
            if self._budget is None and len(self._places) >= _KEPT_MAX:
                self._forget()
            known = self._places[identity] = self._make(looks)
        return known

    def _forget(self) -> None:
        self._root.known.clear()
        self._places.clear()

    def _make(self, looks: _Looks) -> ValuePlace:
        self._spend()
        place = ValuePlace()
        for first, times in looks.items():
            for key, inner in self._same(first).items():
                self._spend()
                self._look(place, key, times * inner)
        return place

    def _look(self, place: ValuePlace, key: int, times: int) -> None:
        """Add the work of one subschema that looks so many times."""
        schema, edges = self._tree.schemas[key], self._tree.edges[key]
        place.steps += times * (1 + len(schema) + _count_listed(schema) + _OUTSIDE.get(key, 0))
        place.object_steps += times * sum(
            len(map_at(schema, name)) + len(list_at(schema, name))
            for name in ("properties", "required", "dependentRequired", "dependencies")
        )
        if "pattern" in schema:
            place.text_steps += times * self._pattern_steps(schema["pattern"])
        by_pattern = map_at(schema, "patternProperties")
        place.key_steps += times * sum(map(self._pattern_steps, by_pattern))
        if schema.get("uniqueItems") is True:
            place.child_steps += times * _UNIQUE_STEPS
        if "unevaluatedProperties" in schema or "unevaluatedItems" in schema:
            # Subschemas beside it look at the value again, once for each child.
            place.child_steps += times * sum(self._same(key).values())
        for name, part in edges.named:
            place.named.setdefault(name, Counter())[id(part)] += times
        for part in edges.rest:
            place.rest[id(part)] += times
        for part in edges.items:
            place.items[id(part)] += times
        for part in edges.keys:
            place.keys[id(part)] += times

    def _pattern_steps(self, pattern: Json) -> int:
        size = self._patterns.get(pattern, 0) if isinstance(pattern, str) else 0
        return 1 + size // _PATTERN_BYTES_PER_STEP

    def _same(self, key: int) -> _Looks:
        """All that look at a value when a subschema does, itself included."""
        known = self._together.get(key)
        if known is not None:
            return known
        if key in self._together:
            raise InvalidArgument(
                "the JSON Schema refers to itself without going further into the message"
            )
        self._together[key] = None
        looks = Counter({key: 1})
        for part in (*self._tree.edges[key].same, *self._tree.targets[key]):
            for inner, times in self._same(id(part)).items():
                looks[inner] += times
            self._spend(len(looks) // 4)
        self._together[key] = looks
        return looks

    def _spend(self, steps: int = 1) -> None:
        if self._budget is not None:
            self._budget.spend(steps)

    def _worst(self) -> tuple[int, int]:
        """Steps for each byte, and once: of the worst of all places."""
        seen: dict[int, ValuePlace] = {}
        left: list[ValuePlace] = [self._root]
        while left:
            place = left.pop()
            if id(place) in seen:
                continue
            seen[id(place)] = place
            left += self._children(place)
        values = max(one.steps + one.object_steps + one.child_steps for one in seen.values())
        texts = max(max(one.text_steps, one.key_steps) for one in seen.values())
        return values // _BYTES_PER_VALUE + 1 + texts, values

    def _children(self, place: ValuePlace) -> Iterable[ValuePlace]:
        for key in place.named:
            yield self._below(place, key, place.rest if isinstance(key, str) else place.items)
        for looks in (place.rest, place.items, place.keys):
            if looks:
                yield self._place(looks)


def _count_listed(schema: JsonObject) -> int:
    """Steps to compare a value with those that are listed."""
    listed = [schema[key] for key in ("enum", "const") if key in schema]
    return sum(len(orjson.dumps(one)) // _LISTED_BYTES_PER_STEP for one in listed)
