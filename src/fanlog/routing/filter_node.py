"""One node of the index: the filters that a message still may pass, and where each is decided.

The index is a tree. On the way from its root to a node a message has met the first steps of some
conjunctions; a node holds the rest of these. It has filters that a message passes by coming here,
tests to be run, and tables: under each key that the message meets there, a filter or the next node.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, TypeAlias, final

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import And, Attribute, Envelope, Field, Filter, Payload
from fanlog.routing.filter_compile import Test, compile_filter, reader, scan_number
from fanlog.routing.filter_conjunctions import Between, Conjunction, Equal, Starts, Step, key_of
from fanlog.routing.predicate_tables import (
    PrefixTable,
    RangeTable,
    SlotTable,
    number_ranges,
    string_ranges,
)

#: Conjunctions that a node runs one by one before it makes tables: a few tests cost less time than
#: the look-ups, and far less memory.
WAITING_MAX = 4


class Group:
    """All ids with one filter."""

    __slots__ = ("ids", "key", "places", "postings", "tree")

    def __init__(self, key: object, tree: Filter) -> None:
        self.key = key
        self.tree = tree
        #: One list for good, because the tables hold it too.
        self.ids: list[Any] = []
        #: Where each id is in `ids`, once there are many and one was removed.
        self.places: dict[Hashable, int] | None = None
        self.postings: tuple[Posting, ...] = ()


class Posting:
    """One conjunction of a group's filter."""

    __slots__ = ("group", "ids", "is_only", "rest", "steps")

    def __init__(self, group: Group, conjunction: Conjunction, *, is_only: bool) -> None:
        self.group = group
        self.ids = group.ids
        self.steps = conjunction.steps
        self.rest = conjunction.rest
        #: Whether a message that meets it cannot meet another one of the same group.
        self.is_only = is_only

    def test(self, depth: int) -> Test:
        """Give the tests of all steps from `depth` on, and of the rest, as one test."""
        left: list[Filter] = [test for step in self.steps[depth:] for test in step.tests]
        left += self.rest
        return compile_filter(left[0] if len(left) == 1 else And(tuple(left)))


#: The value of a table under a key: the list of a group's ids, if a message that comes there passes
#: its filter and nothing else is filed there; otherwise an `IndexNode`.
Slot: TypeAlias = "list[Any] | IndexNode"


class FieldTables:
    """All tables of one field; each is None while it is empty."""

    __slots__ = ("equal", "numbers", "prefixes", "present", "strings")

    def __init__(self) -> None:
        self.equal: dict[object, Slot] | None = None
        self.prefixes: PrefixTable[Slot] | None = None
        self.numbers: RangeTable[Slot] | None = None
        self.strings: RangeTable[Slot] | None = None
        #: Its one key is the empty string.
        self.present: dict[str, Slot] | None = None

    def drop_empty(self) -> bool:
        """Let go of tables that have nothing left, and say whether none has."""
        self.equal = self.equal or None
        self.prefixes = self.prefixes or None
        self.numbers = self.numbers or None
        self.strings = self.strings or None
        self.present = self.present or None
        return not (self.equal or self.prefixes or self.numbers or self.strings or self.present)

    def find_string(self, text: str, found: list[Slot]) -> None:
        """Find the slots of all predicates that a string outside the payload meets."""
        if self.numbers is not None:
            number = scan_number(text)
            if number is not None:
                found += self.numbers.find(number)
        if self.prefixes is not None:
            found += self.prefixes.find(text)
        if self.strings is not None:
            found += self.strings.find(text)
        if self.present is not None:
            found.append(self.present[""])
        if self.equal is not None and (slot := self.equal.get(text)) is not None:
            found.append(slot)

    def find_json(self, value: Any, found: list[Slot]) -> None:
        """Find the slots that a value in the payload, or a number elsewhere, meets."""
        kind = type(value)
        if self.present is not None:
            found.append(self.present[""])
        if kind is int or kind is float:
            value = float(value)
            if self.numbers is not None:
                found += self.numbers.find(value)
        elif kind is str:
            if self.prefixes is not None:
                found += self.prefixes.find(value)
            if self.strings is not None:
                found += self.strings.find(value)
        elif kind is bool:
            value = key_of(value)
        else:
            return
        if self.equal is not None and (slot := self.equal.get(value)) is not None:
            found.append(slot)


class PathTables:
    """The tables of all payload fields below one place, as a tree of their paths."""

    __slots__ = ("below", "tables")

    def __init__(self) -> None:
        self.tables: FieldTables | None = None
        self.below: dict[str | int, PathTables] = {}

    def find(self, value: object, found: list[Slot]) -> None:
        """Walk the value and the paths together: a part that only one of them has costs nothing."""
        if value is None:
            return
        if self.tables is not None:
            self.tables.find_json(value, found)
        below = self.below
        if not below:
            return
        if type(value) is dict:
            # An index is no name, and JSON has no names but strings: they never meet.
            for name in value if len(value) < len(below) else below:
                if name in below and name in value:
                    below[name].find(value[name], found)
        elif type(value) is list:
            for index in range(len(value)) if len(value) < len(below) else below:
                if index in below and type(index) is int and index < len(value):
                    below[index].find(value[index], found)


@final
class IndexNode:
    """See the module. All fields but `depth` are made when they are needed."""

    __slots__ = (
        "again",
        "attributes",
        "depth",
        "ends",
        "envelope",
        "equal",
        "is_split",
        "payload",
        "tests",
        "waiting_count",
    )

    def __init__(self, depth: int, *, is_split: bool = False) -> None:
        #: How many steps lead here.
        self.depth = depth
        #: Whether conjunctions with further steps are filed in tables, or wait among the tests.
        self.is_split = is_split
        self.waiting_count = 0
        #: Ids of groups passed by coming here, under the identities of their lists; groups that may
        #: be passed elsewhere too are in `again`.
        self.ends: dict[int, list[Any]] | None = None
        self.again: dict[Group, None] | None = None
        self.tests: dict[Posting, Test] | None = None
        #: Equality of attributes, by key and value: the commonest test has one table for all.
        self.equal: dict[tuple[str, object], Slot] | None = None
        self.attributes: dict[str, FieldTables] | None = None
        self.envelope: dict[Envelope, FieldTables] | None = None
        self.payload: PathTables | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.ends or self.again or self.tests or self.has_tables)

    @property
    def has_tables(self) -> bool:
        return bool(self.equal or self.attributes or self.envelope or self.payload)

    def insert(self, posting: Posting) -> None:
        if len(posting.steps) > self.depth:
            self._insert_step(posting)
        elif posting.rest:
            self._insert_test(posting)
        elif posting.is_only:
            self.ends = self.ends or {}
            self.ends[id(posting.ids)] = posting.ids
        else:
            self.again = self.again or {}
            self.again[posting.group] = None

    def remove(self, posting: Posting) -> None:
        """Take out a posting that was inserted, and the tables and nodes that are empty then."""
        if self.tests and posting in self.tests:
            del self.tests[posting]
            self.waiting_count -= len(posting.steps) > self.depth
        elif len(posting.steps) > self.depth:
            self._remove_step(posting)
        elif posting.is_only:
            assert self.ends is not None
            del self.ends[id(posting.ids)]
        else:
            assert self.again is not None
            # Two conjunctions of a group may be the same one.
            self.again.pop(posting.group, None)

    def find_slots(self, candidate: Candidate) -> list[Slot]:
        """Give the slots of all keys in the tables that the message meets."""
        found: list[Slot] = []
        if self.equal:
            found += filter(None, map(self.equal.get, candidate.attributes.items()))
        if self.attributes:
            attributes, by_key = candidate.attributes, self.attributes
            # The fewer are walked, and looked up among the more.
            if len(by_key) < len(attributes):
                for key, tables in by_key.items():
                    if key in attributes:
                        tables.find_string(attributes[key], found)
            else:
                for key, value in attributes.items():
                    if key in by_key:
                        by_key[key].find_string(value, found)
        if self.envelope:
            for field, tables in self.envelope.items():
                value = _ENVELOPE[field](candidate)
                if field is Envelope.PUBLISH_TIME:
                    tables.find_json(value, found)
                elif value is not None:
                    tables.find_string(value, found)
        if self.payload is not None:
            self.payload.find(candidate.payload, found)
        return found

    def _insert_test(self, posting: Posting) -> None:
        self.tests = self.tests or {}
        self.tests[posting] = posting.test(self.depth)

    def _insert_step(self, posting: Posting) -> None:
        if not self.is_split:
            if self.waiting_count < WAITING_MAX:
                self.waiting_count += 1
                self._insert_test(posting)
                return
            self._split()
        step = posting.steps[self.depth]
        table = self._table(step)
        for key in _keys(step):
            slot = table.get(key)
            if slot is None and self._is_last(posting):
                table[key] = posting.ids
                continue
            if type(slot) is not IndexNode:
                node = IndexNode(self.depth + 1)
                if slot is not None:
                    node.ends = {id(slot): slot}
                table[key] = slot = node
            slot.insert(posting)

    def _is_last(self, posting: Posting) -> bool:
        is_end = len(posting.steps) == self.depth + 1 and not posting.rest
        return is_end and posting.is_only

    def _split(self) -> None:
        self.is_split, self.waiting_count = True, 0
        for posting in [each for each in self.tests or () if len(each.steps) > self.depth]:
            assert self.tests is not None
            del self.tests[posting]
            self._insert_step(posting)

    def _remove_step(self, posting: Posting) -> None:
        step = posting.steps[self.depth]
        table = self._table(step)
        for key in _keys(step):
            slot = table.get(key)
            if slot is None:
                # A filter may say one thing twice: then the first conjunction took all with it.
                continue
            if type(slot) is IndexNode:
                slot.remove(posting)
                if not slot.is_empty:
                    continue
            else:
                assert slot is posting.ids
            del table[key]
        self._drop_if_empty(step.field)

    def _table(self, step: Step) -> SlotTable[Slot]:
        """Find or make the table that a step is filed in."""
        if isinstance(step, Equal) and isinstance(step.field, Attribute):
            if self.equal is None:
                self.equal = {}
            return self.equal
        tables = self._tables(step.field)
        match step:
            case Equal():
                tables.equal = tables.equal or {}
                return tables.equal
            case Starts():
                tables.prefixes = tables.prefixes or PrefixTable()
                return tables.prefixes
            case Between(is_number=True):
                tables.numbers = tables.numbers or number_ranges()
                return tables.numbers
            case Between():
                tables.strings = tables.strings or string_ranges()
                return tables.strings
            case _:
                tables.present = tables.present or {}
                return tables.present

    def _tables(self, field: Field) -> FieldTables:
        match field:
            case Attribute(key):
                self.attributes = self.attributes or {}
                return self.attributes.setdefault(key, FieldTables())
            case Payload(path):
                self.payload = place = self.payload or PathTables()
                for name in path:
                    place = place.below.setdefault(name, PathTables())
                place.tables = place.tables or FieldTables()
                return place.tables
            case _:
                self.envelope = self.envelope or {}
                return self.envelope.setdefault(field, FieldTables())

    def _drop_if_empty(self, field: Field) -> None:
        match field:
            case Attribute(key):
                if self.attributes and key in self.attributes and self.attributes[key].drop_empty():
                    del self.attributes[key]
            case Payload(path):
                if self.payload is not None and _prune(self.payload, path):
                    self.payload = None
            case _:
                if self.envelope and field in self.envelope and self.envelope[field].drop_empty():
                    del self.envelope[field]


_ENVELOPE = {field: reader(field) for field in Envelope}


def _keys(step: Step) -> tuple[object, ...]:
    match step:
        case Equal(Attribute(name), keys):
            return tuple((name, key) for key in keys)
        case Equal(_, keys):
            return keys
        case Starts(_, prefix):
            return (prefix,)
        case Between(low=low, high=high):
            return ((low, high),)
        case _:
            return ("",)


def _prune(tables: PathTables, path: tuple[str | int, ...]) -> bool:
    """Remove empty tables on the way down a path, and say whether nothing is left."""
    if path:
        if path[0] in tables.below and _prune(tables.below[path[0]], path[1:]):
            del tables.below[path[0]]
    elif tables.tables is not None and tables.tables.drop_empty():
        tables.tables = None
    return tables.tables is None and not tables.below
