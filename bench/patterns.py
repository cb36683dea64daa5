"""Topic patterns alone: the trie in a process of its own, with no server around it.

`python -m bench.patterns 1000000` prints what `make bench` reads.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import psutil

from bench import child
from bench.servers import Server
from bench.session import Sample
from fanlog.routing.pattern import Pattern, PatternTrie

T = TypeVar("T")

#: Patterns that a tenant has on average, and those that look at all tenants' topics.
PATTERNS_PER_TENANT = 10
OPERATORS_PATTERNS = 200
#: Topics that are looked up; of them those that are asked for again and again.
TOPICS = 100_000
HOT_TOPICS = 10_000
HOT_ROUNDS = 50
#: Topics that there are when somebody subscribes to a pattern.
EXISTING_TOPICS = 10_000
CHECKED_TOPICS = 300

NOUNS = ("orders", "carts", "payments", "refunds", "users", "invoices", "shipments", "stock")
REGIONS = ("us-east", "us-west", "eu-north", "eu-south", "ap-east", "sa-east")
VERBS = ("created", "updated", "deleted", "paid", "shipped", "failed")


def measure(_server: Server, count: int) -> Sample:
    return child.measured("bench.patterns", count)


def sample(count: int) -> Sample:
    rng = random.Random(count)
    tenants = max(1, count // PATTERNS_PER_TENANT)
    patterns = [_pattern(rng, tenants) for _ in range(count - OPERATORS_PATTERNS)]
    patterns += [_operators_pattern(rng) for _ in range(OPERATORS_PATTERNS)]
    rng.shuffle(patterns)
    topics = [_topic(rng, tenants) for _ in range(TOPICS)]
    ids = list(range(count))
    trie, insert_s, size_bytes = _filled(patterns, ids)
    rounds_s = [_each(trie.match, topics) for _ in range(3)]
    # The best of three: what else happens on the machine takes longer than a match.
    each_s = [min(three) for three in zip(*rounds_s, strict=True)]
    hot = topics[:HOT_TOPICS]
    matched = sum(len(trie.matches(topic)) for topic in hot)
    cached_s = statistics.median(_seconds(trie.matches, hot) for _ in range(HOT_ROUNDS))
    one = [_seconds(Pattern(pattern).matches, topics[:EXISTING_TOPICS]) for pattern in patterns[:9]]
    stats = trie.stats()
    problems = _problems(trie, patterns, topics[:CHECKED_TOPICS])
    pairs = list(zip(patterns, ids, strict=True))
    remove_s = _seconds(lambda pair: trie.remove(*pair), pairs)
    left = trie.stats().nodes
    note = (
        f"{stats.patterns:,} different patterns of {tenants:,} tenants in {stats.nodes:,} nodes, "
        f"{matched / len(hot):.1f} matching a topic; {count / insert_s:,.0f} inserted a second, "
        f"{count / remove_s:,.0f} removed"
    )
    return Sample(
        figures={
            "uncached": len(topics) / statistics.median(map(sum, rounds_s)),
            "p99": statistics.quantiles(each_s, n=100)[98] * 1e3,
            "cached": len(hot) / cached_s,
            "bytes": size_bytes / count,
            "globs": _globs_matched(rng, count // 10),
            "existing": statistics.median(one) * 1e3,
        },
        problems=(*problems, *([f"{left:,} nodes left when all was removed"] if left else [])),
        notes=(note,),
    )


def _pattern(rng: random.Random, tenants: int) -> str:
    tenant, noun, verb = f"tenant{rng.randrange(tenants)}", rng.choice(NOUNS), rng.choice(VERBS)
    kinds = {
        f"{tenant}.{noun}.*.{verb}": 50,
        f"{tenant}.{noun}.#": 15,
        f"{tenant}.#": 10,
        f"{tenant}.#.{verb}": 10,
        f"{tenant}.{noun}.{rng.choice(REGIONS)[:3]}*.{verb}": 10,
        f"{tenant}.*.*-{rng.choice(REGIONS)[3:]}.{verb}": 5,
    }
    return rng.choices(list(kinds), list(kinds.values()))[0]


def _operators_pattern(rng: random.Random) -> str:
    noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
    return rng.choice(
        (
            f"*.{noun}.{rng.choice(REGIONS)}.{verb}",
            f"#.audit{rng.randrange(100)}.{verb}",
            f"tenant{rng.randrange(10, 100)}*.{noun}.*.{verb}",
            f"*{rng.randrange(10, 100)}.{noun}.#.{verb}",
        )
    )


def _topic(rng: random.Random, tenants: int) -> str:
    parts = (rng.choice(NOUNS), rng.choice(REGIONS), rng.choice(VERBS))
    return ".".join((f"tenant{rng.randrange(tenants)}", *parts))


def _filled(patterns: Sequence[str], ids: Sequence[int]) -> tuple[PatternTrie[int], float, int]:
    gc.collect()
    process = psutil.Process()
    before = process.memory_info().rss
    trie = PatternTrie[int]()
    began = time.perf_counter()
    for pattern, kept in zip(patterns, ids, strict=True):
        trie.insert(pattern, kept)
    seconds = time.perf_counter() - began
    gc.collect()
    return trie, seconds, process.memory_info().rss - before


def _globs_matched(rng: random.Random, count: int) -> float:
    """Give how many topics a second are matched where so many globs stand in the same place."""
    kinds = ("host{}-*", "*-zone{}", "*-rack{}-*", "host{}-*-zone7")
    trie = PatternTrie[int]()
    for number in range(count):
        trie.insert(f"metrics.{kinds[number % len(kinds)].format(number)}.cpu", number)
    numbers = [[rng.randrange(count) for _ in range(3)] for _ in range(TOPICS // 10)]
    topics = [f"metrics.host{a}-rack{b}-zone{c}.cpu" for a, b, c in numbers]
    return len(topics) / _seconds(trie.match, topics)


def _each(call: Callable[[str], object], topics: Iterable[str]) -> list[float]:
    taken = []
    clock = time.perf_counter
    for topic in topics:
        began = clock()
        call(topic)
        taken.append(clock() - began)
    return taken


def _seconds(call: Callable[[T], object], arguments: Sequence[T]) -> float:
    began = time.perf_counter()
    for argument in arguments:
        call(argument)
    return time.perf_counter() - began


def _problems(trie: PatternTrie[int], patterns: list[str], topics: list[str]) -> tuple[str, ...]:
    """Ask the patterns one by one: those of the topic's tenant, and those of all tenants."""
    by_start: dict[str, list[int]] = {}
    for kept, pattern in enumerate(patterns):
        start = pattern.partition(".")[0]
        by_start.setdefault("" if "*" in start or "#" in start else start, []).append(kept)
    ready = {kept: Pattern(patterns[kept]) for kept in by_start.get("", [])}
    wrong = 0
    for topic in topics:
        own = {kept: Pattern(patterns[kept]) for kept in by_start.get(topic.partition(".")[0], [])}
        expected = {kept for kept, one in (ready | own).items() if one.matches(topic)}
        wrong += set(trie.match(topic)) != expected
    return (f"{wrong:,} topics matched other patterns than they should",) if wrong else ()


if __name__ == "__main__":
    child.report(sample(int(sys.argv[1])))
