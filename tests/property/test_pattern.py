"""The trie and the compiled pattern against the definition written down, and a plain dict."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.routing.globs import fits
from fanlog.routing.pattern import Pattern, PatternTrie, canonical_pattern

# Few letters, so that things match.
words = st.text("ab", max_size=3)
segments = (
    st.sampled_from(["*", "#"])
    | st.text("ab", min_size=1, max_size=3)
    | st.text("ab*", min_size=2, max_size=6).filter(lambda text: "**" not in text)
)
patterns = st.lists(segments, min_size=1, max_size=7).map(".".join)
topics = st.lists(words, min_size=1, max_size=8).map(".".join).filter(bool)


def matches_by_definition(pattern: str, topic: str) -> bool:
    said, told = pattern.split("."), topic.split(".")

    @cache
    def rest_matches(i: int, j: int) -> bool:
        if i == len(said):
            return j == len(told)
        if said[i] == "#":
            return rest_matches(i + 1, j) or (j < len(told) and rest_matches(i, j + 1))
        return j < len(told) and glob(said[i], told[j]) and rest_matches(i + 1, j + 1)

    return rest_matches(0, 0)


def glob(said: str, told: str) -> bool:
    if not said:
        return not told
    if said[0] == "*":
        return glob(said[1:], told) or (bool(told) and glob(said, told[1:]))
    return told[:1] == said[0] and glob(said[1:], told[1:])


@given(patterns, topics)
@settings(max_examples=1_000)
def test_a_pattern_is_its_definition(pattern: str, topic: str) -> None:
    expected = matches_by_definition(pattern, topic)
    assert Pattern(pattern).matches(topic) is expected
    trie = PatternTrie[int]()
    trie.insert(pattern, 7)
    assert trie.match(topic) == ((7,) if expected else ())


@given(patterns, topics)
@settings(max_examples=500)
def test_the_canonical_pattern_matches_the_same(pattern: str, topic: str) -> None:
    canonical = canonical_pattern(pattern)
    assert canonical_pattern(canonical) == canonical
    assert matches_by_definition(canonical, topic) is matches_by_definition(pattern, topic)


@given(st.text("ab*", min_size=1, max_size=8).filter(lambda text: "*" in text), words)
@settings(max_examples=500)
def test_a_glob_is_its_definition(said: str, told: str) -> None:
    assert fits(told, said) is glob(said, told)


@given(st.sets(patterns, min_size=1, max_size=40), st.lists(topics, min_size=1, max_size=10))
@settings(max_examples=150)
def test_many_patterns(some: set[str], asked: list[str]) -> None:
    trie = PatternTrie[str]()
    for pattern in some:
        trie.insert(pattern, pattern)
    for topic in asked:
        expected = sorted(pattern for pattern in some if matches_by_definition(pattern, topic))
        assert sorted(trie.match(topic)) == expected
        assert sorted(trie.matches(topic)) == expected


@given(st.text("ab.*#1ö", max_size=8))
@settings(max_examples=500)
def test_what_is_accepted_is_a_pattern_or_a_name(text: str) -> None:
    full = names.topic_name("p", text)
    try:
        found = names.parse_topic_or_pattern(full)
    except InvalidArgument:
        return
    assert str(found) == full
    if names.is_pattern(full):
        assert all(text.split("."))
    else:
        assert names.parse_topic(full) == found


class TrieOverTime(RuleBasedStateMachine):
    """Patterns come and go; whatever is asked in between, cached or not, a dict knows as well."""

    def __init__(self) -> None:
        super().__init__()
        self.trie = PatternTrie[int]()
        self.known: dict[tuple[str, int], None] = {}

    @rule(pattern=patterns, kept=st.integers(0, 3))
    def insert(self, pattern: str, kept: int) -> None:
        key = (canonical_pattern(pattern), kept)
        assert self.trie.insert(pattern, kept) is (key not in self.known)
        self.known[key] = None

    @rule(pattern=patterns, kept=st.integers(0, 3))
    def remove_any(self, pattern: str, kept: int) -> None:
        self._remove(canonical_pattern(pattern), kept)

    @precondition(lambda self: self.known)
    @rule(draw=st.data())
    def remove_known(self, draw: st.DataObject) -> None:
        self._remove(*draw.draw(st.sampled_from(list(self.known))))

    def _remove(self, pattern: str, kept: int) -> None:
        is_known = (pattern, kept) in self.known
        assert self.trie.remove(pattern, kept) is is_known
        self.known.pop((pattern, kept), None)

    @rule(topic=topics)
    def match(self, topic: str) -> None:
        expected = {kept for pattern, kept in self.known if matches_by_definition(pattern, topic)}
        for found in (self.trie.matches(topic), self.trie.match(topic), self.trie.matches(topic)):
            assert len(found) == len(expected)
            assert set(found) == expected

    @invariant()
    def the_trie_is_no_larger_than_its_patterns(self) -> None:
        stats = self.trie.stats()
        paths = {
            tuple(pattern.split(".")[:depth])
            for pattern, _ in self.known
            for depth in range(1, pattern.count(".") + 2)
        }
        assert stats.nodes == len(paths)
        assert stats.ids == len(self.known) == len(self.trie)
        assert stats.patterns == len({pattern for pattern, _ in self.known})


TrieOverTime.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_the_trie_over_time = TrieOverTime.TestCase
