"""Topic patterns: what is accepted, and that every way to match gives the same answer."""

from __future__ import annotations

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.routing.pattern import Pattern, PatternTrie, canonical_pattern
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw

#: Patterns of one story, and topics it asks for.
PATTERNS = 12
TOPICS = 4


def patterns(data: bytes) -> None:
    """A sentence, or a pattern that one by one, in a trie and by its canonical form is the same."""
    draw = Draw(data)
    kept = [text for _ in range(draw.below(PATTERNS) + 1) if _is_valid(text := draw.text())]
    topics = [text for _ in range(draw.below(TOPICS) + 1) if _is_topic(text := draw.text())]
    names.undotted_hint("a.*", topics)
    trie = PatternTrie[int]()
    for number, pattern in enumerate(kept):
        assert trie.insert(pattern, number)
    nodes = trie.stats().nodes
    for topic in topics:
        before = trie.stats().visits
        found = trie.matches(topic)
        assert trie.stats().visits - before <= (topic.count(".") + 1) * (nodes + 1)
        expected = {number for number, one in enumerate(kept) if Pattern(one).matches(topic)}
        assert set(found) == expected, (topic, kept)
        assert len(found) == len(expected)
        assert trie.matches(topic) == trie.match(topic) == found
    for number, pattern in enumerate(kept):
        assert trie.remove(canonical_pattern(pattern), number)
    assert trie.stats().nodes == 0


def _is_valid(text: str) -> bool:
    full = names.topic_name("p", text)
    try:
        found = names.parse_topic_or_pattern(full)
    except InvalidArgument as error:
        refusal(error)
        return False
    assert str(found) == full
    if not names.is_pattern(full):
        assert names.parse_topic(full) == found
        return True
    assert 0 < len(text) <= limits.PATTERN_LENGTH_MAX
    assert all(text.split("."))
    canonical = canonical_pattern(text)
    assert canonical_pattern(canonical) == canonical
    assert names.parse_topic_or_pattern(names.topic_name("p", canonical)).id == canonical
    names.undotted_hint(text, ["abc", "a.b"])
    return True


def _is_topic(text: str) -> bool:
    try:
        names.parse_topic(names.topic_name("p", text))
    except InvalidArgument as error:
        refusal(error)
        return False
    return True


TARGETS = (Target(name="patterns", run=patterns),)
