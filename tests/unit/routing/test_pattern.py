"""Topic patterns: what matches what, and how much work it is."""

from __future__ import annotations

import pytest

from fanlog import limits
from fanlog.model import names
from fanlog.routing.globs import GlobIndex, fits
from fanlog.routing.pattern import Pattern, PatternTrie

#: A pattern, topics it matches, topics it does not.
GOLDEN = [
    ("orders.*.created", "orders.eu.created orders..created", "orders.created orders.a.b.created"),
    ("*", "abc a-b", "a.b a. a.."),
    ("*.*", "a.b a.", "abc a.b.c a.."),
    ("orders.*", "orders.eu orders.", "orders ordersEu orders.eu.x orders.."),
    ("*.created", "a.created", "created a.b.created acreated"),
    # Any number of segments, none too.
    ("#", "abc a.b a..b a. a.b.c.d", ""),
    ("orders.#", "orders orders.eu orders.eu.created orders. orders..", "ordersEu order a.orders"),
    ("#.created", "created a.created a.b.created a..created", "createds a.recreated created.a"),
    ("a.#.z", "a.z a.b.z a.b.c.z a..z a.z.z", "a z az a.zz a.b.z.y b.a.z"),
    ("#.a.#", "a a.b b.a c.b.a.b a.", "b ab b.ab.c"),
    ("a.#.m.#.z", "a.m.z a.x.m.z a.m.m.z a.m.x.y.z a.z.m.z", "a.z a.m a.m.z.y a.m.zz am.z"),
    ("#.a.#.a.#", "a.a b.a.c.a.d a.a.a", "a b.a a.b ab.ba"),
    ("a.#.b.c", "a.b.c a.x.b.c a.b.c.b.c a.b.b.c", "a.b a.c b.c a.b.c.d"),
    ("#.a.*.b.#", "a.x.b x.a.a.b.b a..b", "a.b a.x.y.b"),
    # Wildcards that are neighbours.
    ("#.#", "abc a.b a.", ""),
    ("#.*", "abc a.b a.b.c a.", ""),
    ("*.#.*", "a.b a.b.c a.", "abc"),
    ("a.*.#", "a.b a.b.c a. a..", "a abc"),
    ("a.#.*.b", "a.x.b a.x.y.b a..b a.b.b", "a.b a.x.b.c"),
    # Within a segment.
    ("Order*", "OrderPlaced Order Orders", "order OrderPlaced.eu Order. anOrder"),
    ("Order.*", "Order.placed Order.", "OrderPlaced Order Order.placed.eu"),
    ("us-*", "us-east us-", "us eu-us- us-east.a"),
    ("*-eu-*", "a-eu-b a-eu- a-eu-eu-b -eu--eu-", "a-eu a-eub eu- a-.eu-b"),
    ("*-eu", "a-eu -eu a-eu-eu", "eu a-eu-b a.b-eu"),
    ("a*a", "aa aba aaa a-a-a", "a ab a.a"),
    ("a*b*c", "abc aXbYc abbcc abcbc", "acb ab ac a.b.c abcd"),
    ("a*bc*bc", "abcbc abcXbc abcbcbc", "abc abcb abbc"),
    ("*ab*ab*ab*", "ababab XabXabXabX", "abab ab-ab-a-b"),
    ("shop.us-*.#.item*", "shop.us-1.item shop.us-.a.b.items", "shop.eu.item shop.us-1.a"),
    ("#.x*", "x a.xy x.x", "a xa.b x."),
    ("x%+~_-*.a", "x%+~_-.a x%+~_-q.a", "xx.a"),
    # No wildcard at all.
    ("abc", "abc", "abcd ab abc. .abc"),
    ("a..b", "a..b", "a.b a.x.b a...b"),
    ("a.b.", "a.b.", "a.b a.b.c"),
]


def rows() -> list[tuple[str, str, bool]]:
    return [
        (pattern, topic, is_match)
        for pattern, yes, no in GOLDEN
        for topics, is_match in ((yes, True), (no, False))
        for topic in topics.split()
    ]


@pytest.mark.parametrize(("pattern", "topic", "is_match"), rows())
def test_golden(pattern: str, topic: str, is_match: bool) -> None:
    assert Pattern(pattern).matches(topic) is is_match
    trie = PatternTrie[int]()
    trie.insert(pattern, 1)
    assert trie.match(topic) == ((1,) if is_match else ())


def test_golden_patterns_all_in_one_trie() -> None:
    trie = PatternTrie[str]()
    for pattern, _, _ in GOLDEN:
        assert trie.insert(pattern, pattern)
    for topic in {topic for _, topic, _ in rows()}:
        expected = {pattern for pattern, _, _ in GOLDEN if Pattern(pattern).matches(topic)}
        found = trie.match(topic)
        assert set(found) == expected
        assert len(found) == len(expected)


def test_golden_patterns_are_valid() -> None:
    for pattern, _, _ in GOLDEN:
        if names.is_pattern(pattern):
            names.parse_topic_or_pattern(names.topic_name("p", pattern))


def test_a_pattern_shows_what_the_user_wrote() -> None:
    assert Pattern("#.*").text == "#.*"
    assert repr(Pattern("a.#")) == "Pattern('a.#')"


# What is kept.


def test_patterns_that_say_the_same_share_a_node() -> None:
    trie = PatternTrie[int]()
    for id_, pattern in enumerate(["a.#.*", "a.*.#", "a.#.*.#"]):
        assert trie.insert(pattern, id_)
    stats = trie.stats()
    assert (stats.patterns, stats.ids, stats.nodes) == (1, 3, 3)
    assert trie.match("a.b") == (0, 1, 2)


def test_inserting_and_removing_twice_changes_nothing() -> None:
    trie = PatternTrie[int]()
    for id_ in (1, 2):
        assert trie.insert("a.*", id_)
        assert not trie.insert("a.*", id_)
    version = trie.version
    assert not trie.insert("a.*", 1)
    for unknown in (("a.*", 3), ("a", 1), ("a.#", 1), ("b", 1), ("a.b*", 1), ("a.*.c", 1)):
        assert not trie.remove(*unknown)
    assert (trie.version, len(trie)) == (version, 2)
    assert trie.remove("a.*", 1)
    assert not trie.remove("a.*", 1)
    assert trie.match("a.b") == (2,)
    assert trie.remove("a.*", 2)
    assert not trie.remove("a.*", 2)
    assert (len(trie), trie.stats().nodes) == (0, 0)


def test_an_id_of_several_patterns_comes_once() -> None:
    trie = PatternTrie[str]()
    for pattern in ("#", "a.*", "a.b", "*.b*"):
        trie.insert(pattern, "s")
    assert trie.match("a.b") == ("s",)
    trie.remove("a.b", "s")
    assert trie.match("a.b") == ("s",)


def test_removal_leaves_nothing_behind() -> None:
    trie = PatternTrie[int]()
    patterns = [pattern for pattern, _, _ in GOLDEN]
    for id_ in (1, 2, 3):
        for pattern in patterns:
            trie.insert(pattern, id_)
    most = trie.stats().nodes
    for id_ in (2, 1):
        for pattern in patterns:
            trie.remove(pattern, id_)
    assert trie.stats().nodes == most
    for pattern in reversed(patterns):
        assert trie.match(_some_topic(pattern)) != ()
        trie.remove(pattern, 3)
    stats = trie.stats()
    assert (stats.patterns, stats.ids, stats.nodes) == (0, 0, 0)
    assert trie._root.is_bare


def _some_topic(pattern: str) -> str:
    return next(yes.split()[0] for known, yes, _ in GOLDEN if known == pattern)


# The cache.


def test_answers_are_remembered_until_something_changes() -> None:
    trie = PatternTrie[int]()
    trie.insert("a.*", 1)
    first = trie.matches("a.b")
    assert trie.matches("a.b") is first
    visits = trie.stats().visits
    trie.matches("a.b")
    assert trie.stats().visits == visits
    version = trie.version
    trie.insert("a.#", 2)
    assert trie.version != version
    assert set(trie.matches("a.b")) == {1, 2}
    trie.remove("a.*", 1)
    assert trie.matches("a.b") == (2,)


def test_that_nothing_matches_is_remembered_too() -> None:
    trie = PatternTrie[int]()
    trie.insert("a.*", 1)
    assert trie.matches("b") == ()
    visits = trie.stats().visits
    assert trie.matches("b") == ()
    assert trie.stats().visits == visits


def test_the_cache_is_bounded_and_keeps_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATTERN_CACHE_TOPICS_MAX", 20)
    trie = PatternTrie[int]()
    trie.insert("#", 1)
    often = trie.matches("often")
    for number in range(1_000):
        trie.matches(f"t{number}")
        assert trie.matches("often") is often
        stats = trie.stats()
        assert stats.cached_topics <= 20
        assert stats.cached_ids == stats.cached_topics


def test_the_cache_is_bounded_by_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATTERN_CACHE_IDS_MAX", 100)
    trie = PatternTrie[int]()
    for id_ in range(30):
        trie.insert("#", id_)
    for number in range(100):
        assert len(trie.matches(f"t{number}")) == 30
        assert trie.stats().cached_ids <= 100
    for id_ in range(30, 300):
        trie.insert("#", id_)
    # One answer that is larger than all may be together is remembered alone.
    for number in range(3):
        trie.matches(f"t{number}")
        assert len(trie._cache.young) == 1


# How much work it is: counted, not timed.


@pytest.mark.parametrize(
    "segments",
    [["#", "a"] * 60, ["#", "a"] * 60 + ["#"], ["#", "a*"] * 40 + ["b"], ["#", "*a*"] * 40],
    ids=["tail", "open", "prefix", "infix"],
)
def test_many_wildcards_are_not_exponential(segments: list[str]) -> None:
    pattern = ".".join(segments)
    names.parse_topic_or_pattern(names.topic_name("p", pattern))
    trie = PatternTrie[int]()
    trie.insert(pattern, 1)
    nodes = trie.stats().nodes
    for topic in (".".join("a" * 128), ".".join("a" * 127) + "b", ".".join("ab" * 60)):
        before = trie.stats().visits
        assert trie.match(topic) == ((1,) if Pattern(pattern).matches(topic) else ())
        assert trie.stats().visits - before <= (topic.count(".") + 1) * (nodes + 1)


def test_a_topic_of_dots_only_is_not_exponential() -> None:
    trie = PatternTrie[int]()
    trie.insert("#.*.a.#.*.b.#.*.c", 1)
    assert trie.match("x" + "." * 254) == ()
    assert trie.stats().visits <= 255 * (trie.stats().nodes + 1)


def test_a_match_visits_what_it_leads_to_and_not_what_there_is() -> None:
    trie = PatternTrie[int]()
    for tenant in range(3_000):
        trie.insert(f"t{tenant}.orders.*.created", tenant)
        trie.insert(f"t{tenant}.#", tenant)
        trie.insert(f"#.t{tenant}", tenant)
    assert trie.match("t17.orders.eu.created") == (17,)
    # Before each segment: the node of the topic so far, that behind the tenant's `#`, the root's.
    assert trie.stats().visits <= 4 * 3


def test_many_globs_of_a_node_are_looked_up_and_not_tried() -> None:
    globs = GlobIndex[int]()
    for number in range(1_000):
        globs.add(f"r{number:03}-*", number)
        globs.add(f"*-z{number:03}", 1_000 + number)
        globs.add(f"*-m{number:03}-*", 2_000 + number)
    assert globs.find("r007-m123-z999") == [7, 1_999, 2_123]
    # One for each of the three shapes: the third's part between is known at one place only.
    assert globs.frames("r007-m123-z999") == ["r007-*", "*-z999", "*-m123-*"]
    # And no more than one for each place where the longest part between could be.
    for number in range(1_000):
        globs.add(f"*{'a' * (number % 100 + 1)}*{number}*", 3_000 + number)
    assert len(globs.frames("a" * 255)) <= 2 + 103 * 255


@pytest.mark.parametrize(
    ("glob", "yes", "no"),
    [
        ("a*", "a ab", "b ba"),
        ("*a*", "a bab aa", "b"),
        ("a*a", "aa aba", "a"),
        ("*aa*aa*", "aaaa baabaab", "aaa"),
        ("ab*ba", "abba abxba", "aba"),
        ("a*bb*c*bb*z", "abbcbbz a-bb-c-bb-z", "abbbbz abbcbz abbbcz"),
    ],
)
def test_globs(glob: str, yes: str, no: str) -> None:
    index = GlobIndex[str]()
    assert not index
    index.add(glob, glob)
    assert index.get(glob) == glob
    assert index.get(glob + "x") is None
    for text in yes.split():
        assert fits(text, glob)
        assert index.find(text) == [glob]
    for text in no.split():
        assert not fits(text, glob)
        assert index.find(text) == []
    index.remove(glob)
    assert not index
    assert index.find(yes.split()[0]) == []


def test_globs_of_one_frame_are_kept_apart() -> None:
    index = GlobIndex[int]()
    index.add("a*long*b", 0)
    index.add("a*x*long*b", 1)
    index.add("a*long*y*b", 2)
    assert index.find("a-x-long-y-b") == [0, 1, 2]
    assert index.find("a-long-x-b") == [0]
    index.remove("a*x*long*b")
    assert index.find("a-x-long-b") == [0]
    assert index.get("a*long*y*b") == 2
