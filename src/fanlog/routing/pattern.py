"""Topic patterns: which of a million of them match a topic, and which topics match one of them.

A topic's id is cut at its dots into segments; two dots side by side have an empty segment between
them. A pattern matches segment by segment:

| In a pattern               | In the topic                                                  |
|----------------------------|---------------------------------------------------------------|
| `*` alone                  | exactly one segment, empty or not                             |
| `#` alone, anywhere        | any number of segments, none too                              |
| a segment with `*` in it   | one segment, with any run of characters, or none, at each `*` |
| any other segment          | the same segment                                              |

The trie has a node for each beginning of a pattern. A topic is read once, from left to right, with
the set of all nodes that its segments so far lead to; so the work is bounded by the number of its
segments times the number of nodes they can lead to, for any set of patterns, and no way is tried
twice. Patterns that say the same (`canonical_pattern`) share a node.

Topics and patterns are given as ids, without their project: each project has its own trie.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from sys import intern
from typing import Any, Generic, TypeVar

from fanlog import limits
from fanlog.routing.globs import GlobIndex

#: The id of a subscription, say, that is kept for a pattern; never None.
Id = TypeVar("Id", bound=Hashable)


def canonical_pattern(pattern: str) -> str:
    """Give the one id for all that match the same topics by moving or repeating `#` only.

    Among neighbours that are `*` and `#` only the number of `*` counts, and whether there is a `#`:
    `#.#` is `#`, and `#.*` is `*.#`, one segment or more.
    """
    segments: list[str] = []
    for segment in pattern.split("."):
        if segments and segments[-1] == "#" and segment in ("*", "#"):
            segments[-1:] = ("*", "#") if segment == "*" else ("#",)
        else:
            segments.append(segment)
    return ".".join(segments)


class Pattern:
    """One pattern, ready to be tried on many topics."""

    __slots__ = ("_fullmatch", "text")

    def __init__(self, text: str) -> None:
        """Prepare the id of a valid pattern; it may also be a name without wildcards."""
        #: As the user wrote it.
        self.text = text
        self._fullmatch = re.compile(_expression(canonical_pattern(text))).fullmatch

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def matches(self, topic_id: str) -> bool:
        return self._fullmatch(topic_id + ".") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrieStats:
    #: Different patterns, and ids kept for all of them.
    patterns: int
    ids: int
    nodes: int
    #: Different shapes of globs, counted where each segment is looked up.
    shapes: int
    #: Topics remembered, and the ids remembered for them.
    cached_topics: int
    cached_ids: int
    #: Pairs of a segment and a node that topics were looked up with, cached ones not counted.
    visits: int


class PatternTrie(Generic[Id]):
    """Ids by pattern, found by topic. Not safe to share between threads.

    Invariants: every node but the root leads to an id; cached answers are of this `version`.
    """

    __slots__ = ("_cache", "_ids", "_nodes", "_patterns", "_root", "_shapes", "_visits", "version")

    def __init__(self) -> None:
        self._root: _Node = _Node("")
        self._cache: _Cache[Id] = _Cache()
        #: Changes whenever an answer may have changed: for callers that cache answers.
        self.version = 0
        self._patterns = 0
        self._ids = 0
        self._nodes = 0
        self._shapes = 0
        self._visits = 0

    def __len__(self) -> int:
        return self._ids

    def insert(self, pattern: str, kept: Id) -> bool:
        """Keep an id for a pattern, given as its id; False when it is kept for it already."""
        node = self._root
        for segment in canonical_pattern(pattern).split("."):
            child = node.child(segment)
            if child is None:
                self._shapes -= node.shapes
                child = node.grow(intern(segment))
                self._shapes += node.shapes
                self._nodes += 1
            node = child
        is_first = node.ids is None
        if not node.keep(kept):
            return False
        self._patterns += is_first
        self._ids += 1
        self._note_change()
        return True

    def remove(self, pattern: str, kept: Id) -> bool:
        """Forget an id for a pattern, and nodes that led only to it; False if it is not there."""
        path = [self._root]
        for segment in canonical_pattern(pattern).split("."):
            child = path[-1].child(segment)
            if child is None:
                return False
            path.append(child)
        if not path[-1].forget(kept):
            return False
        self._patterns -= path[-1].ids is None
        self._ids -= 1
        while len(path) > 1 and path[-1].is_bare:
            bare = path.pop()
            self._shapes -= path[-1].shapes
            path[-1].prune(bare.label)
            self._shapes += path[-1].shapes
            self._nodes -= 1
        self._note_change()
        return True

    def count_missing_shapes(self, pattern: str) -> int:
        """How many shapes of globs a pattern would add: each costs every new topic a look-up."""
        node: _Node | None = self._root
        missing = 0
        for segment in canonical_pattern(pattern).split("."):
            child = None if node is None else node.child(segment)
            if child is None and "*" in segment and segment != "*":
                globs = None if node is None else node.globs
                missing += globs is None or not globs.has_shape(segment)
            node = child
        return missing

    def match(self, topic_id: str) -> tuple[Id, ...]:
        """Look up the ids kept for all patterns that match: each once, always in one order."""
        found: list[Id] = []
        nodes = [node for node in self._walk(topic_id) if node.ids is not None]
        for node in nodes:
            if type(node.ids) is dict:
                found += node.ids
            else:
                found.append(node.ids)
        # An id may be kept for several patterns.
        return tuple(found) if len(nodes) < 2 else tuple(dict.fromkeys(found))

    def matches(self, topic_id: str) -> tuple[Id, ...]:
        """Give the answer of `match`, remembered until a pattern comes or goes."""
        found = self._cache.young.get(topic_id)
        if found is not None:
            return found
        found = self._cache.take_old(topic_id)
        if found is None:
            found = self.match(topic_id)
        self._cache.add(topic_id, found)
        return found

    def stats(self) -> TrieStats:
        return TrieStats(
            patterns=self._patterns,
            ids=self._ids,
            nodes=self._nodes,
            shapes=self._shapes,
            cached_topics=self._cache.topics,
            cached_ids=self._cache.ids,
            visits=self._visits,
        )

    def _note_change(self) -> None:
        self.version += 1
        if self._cache.young:
            self._cache = _Cache()

    def _walk(self, topic_id: str) -> list[_Node]:
        """Give the nodes that a topic leads to, each once."""
        # A node behind `#` stays once it is reached, and is all that two ways lead to: from its
        # parent, and from itself. Hence the dict for them, while the others cannot come twice.
        staying: dict[_Node, None] = {}
        reached = [self._root]
        if self._root.any_number is not None:
            staying[self._root.any_number] = None
        for segment in topic_id.split("."):
            nodes = [*reached, *staying] if staying else reached
            if not nodes:
                break
            self._visits += len(nodes)
            reached = []
            for node in nodes:
                exact = node.exact
                if exact is not None:
                    if type(exact) is dict:
                        child = exact.get(segment)
                        if child is not None:
                            reached.append(child)
                    elif exact.label == segment:
                        reached.append(exact)
                if node.one is not None:
                    reached.append(node.one)
                if node.globs is not None:
                    reached += node.globs.find(segment)
            for node in reached:
                if node.any_number is not None:
                    staying[node.any_number] = None
        return [*reached, *staying]


class _Node:
    """A beginning of patterns.

    A million patterns make some millions of these, most with one child or one id: such a one stands
    for itself, and a dict only where there are more.
    """

    __slots__ = ("any_number", "exact", "globs", "ids", "label", "one")

    def __init__(self, label: str) -> None:
        #: The segment that leads here.
        self.label = label
        #: The ids of the pattern that ends here: None, an id, or a dict of them.
        self.ids: Any = None
        #: Children by segment: None, the only one, or a dict of them.
        self.exact: Any = None
        self.one: _Node | None = None
        self.any_number: _Node | None = None
        self.globs: GlobIndex[_Node] | None = None

    @property
    def shapes(self) -> int:
        return 0 if self.globs is None else self.globs.shapes

    @property
    def is_bare(self) -> bool:
        return (
            self.ids is None
            and self.exact is None
            and self.one is None
            and self.any_number is None
            and self.globs is None
        )

    def child(self, segment: str) -> _Node | None:
        if segment == "*":
            return self.one
        if segment == "#":
            return self.any_number
        if "*" in segment:
            return self.globs.get(segment) if self.globs is not None else None
        exact: dict[str, _Node] | _Node | None = self.exact
        if isinstance(exact, dict):
            return exact.get(segment)
        return exact if exact is not None and exact.label == segment else None

    def grow(self, segment: str) -> _Node:
        """Add a child that is not there."""
        child = _Node(segment)
        if segment == "*":
            self.one = child
        elif segment == "#":
            self.any_number = child
        elif "*" in segment:
            if self.globs is None:
                self.globs = GlobIndex()
            self.globs.add(segment, child)
        elif self.exact is None:
            self.exact = child
        elif type(self.exact) is dict:
            self.exact[segment] = child
        else:
            self.exact = {self.exact.label: self.exact, segment: child}
        return child

    def prune(self, segment: str) -> None:
        """Remove a child that is there."""
        if segment == "*":
            self.one = None
        elif segment == "#":
            self.any_number = None
        elif "*" in segment:
            assert self.globs is not None
            self.globs.remove(segment)
            self.globs = self.globs or None
        elif type(self.exact) is dict:
            del self.exact[segment]
            if len(self.exact) == 1:
                (self.exact,) = self.exact.values()
        else:
            self.exact = None

    def keep(self, kept: Hashable) -> bool:
        if self.ids is None:
            self.ids = kept
        elif type(self.ids) is dict:
            if kept in self.ids:
                return False
            self.ids[kept] = None
        elif self.ids == kept:
            return False
        else:
            self.ids = {self.ids: None, kept: None}
        return True

    def forget(self, kept: Hashable) -> bool:
        if type(self.ids) is dict:
            if kept not in self.ids:
                return False
            del self.ids[kept]
            if len(self.ids) == 1:
                (self.ids,) = self.ids
            return True
        if self.ids is None or self.ids != kept:
            return False
        self.ids = None
        return True


class _Cache(Generic[Id]):
    """Answers by topic in two generations.

    An answer that is asked for moves to the young one; when that is full it becomes the old one,
    and the old one is dropped. So frequent topics stay, and a hit among the young costs one lookup.
    """

    __slots__ = ("_ids_old", "_ids_young", "_old", "young")

    def __init__(self) -> None:
        self.young: dict[str, tuple[Id, ...]] = {}
        self._old: dict[str, tuple[Id, ...]] = {}
        self._ids_young = 0
        self._ids_old = 0

    @property
    def topics(self) -> int:
        return len(self.young) + len(self._old)

    @property
    def ids(self) -> int:
        return self._ids_young + self._ids_old

    def take_old(self, topic_id: str) -> tuple[Id, ...] | None:
        found = self._old.pop(topic_id, None)
        if found is not None:
            self._ids_old -= len(found)
        return found

    def add(self, topic_id: str, found: tuple[Id, ...]) -> None:
        is_full = (
            len(self.young) >= limits.PATTERN_CACHE_TOPICS_MAX // 2
            or self._ids_young + len(found) > limits.PATTERN_CACHE_IDS_MAX // 2
        )
        if is_full and self.young:
            self._old, self._ids_old = self.young, self._ids_young
            self.young, self._ids_young = {}, 0
        self.young[topic_id] = found
        self._ids_young += len(found)


#: A segment of a topic, with a dot behind it: the whole topic is tried with one more at its end.
_ANY_SEGMENT = r"[^.]*+\."


def _expression(pattern: str) -> str:
    """Write a canonical pattern as a regular expression that never backtracks far.

    The segments between two `#` are taken where they first come, and for good: if the rest fits
    behind a later place, it fits behind the first.
    """
    first, *others = _between(pattern)
    if not others:
        return first
    *between, final = others
    middle = "".join(rf"(?>(?:{_ANY_SEGMENT})*?{run})" for run in between)
    return first + middle + rf"(?:{_ANY_SEGMENT})*{final}"


def _between(pattern: str) -> list[str]:
    """Write the segments before, between and behind the `#` of a pattern, as expressions."""
    runs = [""]
    for segment in pattern.split("."):
        if segment == "#":
            runs.append("")
        else:
            runs[-1] += _segment_expression(segment)
    return runs


def _segment_expression(segment: str) -> str:
    if segment == "*":
        return _ANY_SEGMENT
    first, *others = map(re.escape, segment.split("*"))
    if not others:
        return rf"{first}\."
    *between, final = others
    middle = "".join(rf"(?>[^.]*?{part})" for part in between)
    return rf"(?>{first}{middle}[^.]*{final}\.)"
