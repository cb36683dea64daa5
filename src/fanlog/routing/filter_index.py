"""Many filters at once: which of them a message passes, at a cost that grows with how many do.

Filters are taken apart into conjunctions (`filter_conjunctions`), and these are filed in a tree of
tables (`filter_node`, `predicate_tables`), where one look-up answers for all filters that ask the
same field: equality by hash, prefixes by hash of each length, ranges by order. Tests that no table
can answer, such as `!=` or a glob's middle, are run only for messages that pass the other tests of
their conjunction; only a filter made of nothing else is run for every message.

The ids come in no particular order. Ids with the same filter share all but their place in a list:
a thousand of them cost a message little more than one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Filter,
    In,
    Not,
    Or,
    Payload,
)
from fanlog.routing.filter_conjunctions import conjunctions, fields_of
from fanlog.routing.filter_node import Group, IndexNode, Posting

#: From so many ids with one filter on, they are removed by place instead of by search.
SEARCHED_MAX = 16

Id = TypeVar("Id", bound=Hashable)


class FilterIndex(Generic[Id]):
    """Filters by id; given a message, the ids of the filters that it passes.

    Not safe to share between threads.
    """

    def __init__(self) -> None:
        self._root = IndexNode(0, is_split=True)
        self._groups: dict[object, Group] = {}
        self._group_of: dict[Id, Group] = {}
        #: Groups that look at attributes, at the payload, and at the ordering key.
        self._attribute_count = 0
        self._payload_count = 0
        self._key_count = 0
        #: Grows with every change, so that a value derived from the index can tell its age.
        self.version = 0

    def __len__(self) -> int:
        return len(self._group_of)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing at all: no id, and nothing left of those that were."""
        return not self._group_of and not self._groups and self._root.is_empty

    def __contains__(self, id_: object) -> bool:
        return id_ in self._group_of

    @property
    def needs_attributes(self) -> bool:
        """Whether `match` looks at attributes at all; if not, a candidate may come without."""
        return self._attribute_count > 0

    @property
    def needs_message(self) -> bool:
        """Whether `match` reads the message itself; if not, its topic, id and time are enough."""
        return self.needs_attributes or self.needs_payload or self._key_count > 0

    @property
    def needs_payload(self) -> bool:
        """Whether `match` may look at the data; if not, a candidate may come without."""
        return self._payload_count > 0

    def add(self, id_: Id, tree: Filter) -> None:
        """File a filter under an id, instead of the one that it has, if any."""
        if id_ in self._group_of:
            self.remove(id_)
        key = _identity(tree)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, tree)
            self._file(group)
        if group.places is not None:
            group.places[id_] = len(group.ids)
        group.ids.append(id_)
        self._group_of[id_] = group
        self.version += 1

    def remove(self, id_: Id) -> None:
        """Forget an id and its filter.

        Raises:
            KeyError: There is no such id.
        """
        group = self._group_of.pop(id_)
        if len(group.ids) == 1:
            del self._groups[group.key]
            self._count(group.tree, -1)
            for posting in group.postings:
                self._root.remove(posting)
        else:
            _remove_from(group, id_)
        self.version += 1

    def match(self, candidate: Candidate) -> list[Id]:
        """Give the ids of the filters that the message passes: each once, in a new list."""
        ids: list[Id] = []
        again: list[Group] = []
        nodes = [self._root]
        for node in nodes:
            if node.ends:
                for more in node.ends.values():
                    ids += more
            if node.again:
                again += node.again
            if node.tests:
                for posting, test in node.tests.items():
                    if test(candidate):
                        if posting.is_only:
                            ids += posting.ids
                        else:
                            again.append(posting.group)
            if node.is_split:
                for slot in node.find_slots(candidate):
                    if type(slot) is IndexNode:
                        nodes.append(slot)
                    else:
                        ids += slot
        if again:
            for group in dict.fromkeys(again):
                ids += group.ids
        return ids

    def _file(self, group: Group) -> None:
        found = conjunctions(group.tree)
        group.postings = tuple(Posting(group, each, is_only=len(found) == 1) for each in found)
        for posting in group.postings:
            self._root.insert(posting)
        self._count(group.tree, 1)

    def _count(self, tree: Filter, change: int) -> None:
        fields = set(fields_of(tree))
        kinds = {type(field) for field in fields}
        self._attribute_count += change * (Attribute in kinds)
        self._payload_count += change * (Payload in kinds)
        self._key_count += change * (Envelope.ORDERING_KEY in fields)


def _remove_from(group: Group, id_: Hashable) -> None:
    """Take one of several ids out; the last takes its place where a search would be long."""
    if group.places is None:
        if len(group.ids) <= SEARCHED_MAX:
            group.ids.remove(id_)
            return
        group.places = {each: place for place, each in enumerate(group.ids)}
    place, last = group.places.pop(id_), group.ids.pop()
    if place < len(group.ids):
        group.ids[place] = last
        group.places[last] = place


def _identity(tree: Filter) -> object:
    """Give a key that two filters share only if they mean the same.

    The tree itself is nearly that; but to Python 1 equals true, so that the key of a tree with
    booleans also says which of its values are booleans.
    """
    kinds = tuple(type(value) is bool for value in _values(tree))
    return (tree, kinds) if True in kinds else tree


def _values(tree: Filter) -> Iterator[object]:
    match tree:
        case And(children) | Or(children):
            for child in children:
                yield from _values(child)
        case Not(child):
            yield from _values(child)
        case Compare(value=value):
            yield value
        case In(values=values):
            yield from values
        case _:
            pass
