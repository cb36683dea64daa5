"""The index of filters alone: `python -m bench.filter_index`. No server, one core.

A message has five attributes: `tenant`, `kind`, `region` and `user`, each one of as many values as
there are filters for it, and a numeric `price` between 0 and 10,000, which no two messages share.
Of the filters

- 70 % are one equality: `attributes.tenant = "tenant-17"`;
- 20 % are an equality and a prefix, which half of the messages have:
  `attributes.kind = "kind-9" AND hasPrefix(attributes.user, "u")`;
- 10 % are ranges: nineteen in twenty `attributes.price >= A AND attributes.price < B`, all of
  different A and B, so wide that about one holds a price; the others one-sided,
  `attributes.price >= A`, with A so high that again about one is met.

The widths shrink and the values multiply as filters do, so that about ten match a message however
many there are. Attributes are parsed, a few messages before they are matched, as a server would;
data is not looked at. Each figure is the median of some rounds in processor time, over messages
that are never seen twice, and beside it that of the best round, which a busy machine disturbs less.
What is found is checked against plain evaluation.

A second table has 10,000 filters of one awkward shape each, and the time for one message.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench import machine
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import And, Attribute, Compare, Filter, Glob, Op, Or, Prefix
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_index import FilterIndex

COUNTS = (1_000, 10_000, 100_000)
#: What must be reached with 10,000 filters, and how much slower 100,000 may be.
RATE_MIN = 150_000
SLOWDOWN_MAX = 2.0
MESSAGES = 20_000
BATCH = 200
ROUNDS = 7
CHECKED = 5
AWKWARD = 10_000
AWKWARD_ROUNDS = 21
SEED = 7

NAMES = ("tenant", "kind", "region", "user")
PRICE_MAX = 10_000.0


def filters(count: int, chance: random.Random) -> list[Filter]:
    """Make so many filters, in the shares that the module says."""
    found: list[Filter] = [_equality(count, chance) for _ in range(count * 7 // 10)]
    found += [_equality_and_prefix(count, chance) for _ in range(count * 2 // 10)]
    ranges = count - len(found)
    found += [_range(place, ranges, chance) for place in range(ranges)]
    chance.shuffle(found)
    return found


def messages(filter_count: int, count: int, chance: random.Random) -> list[Candidate]:
    """Make messages that about ten of so many filters match."""
    found = []
    for _ in range(count):
        attributes = {name: _value(name, filter_count, chance) for name in NAMES}
        attributes["price"] = f"{chance.uniform(0, PRICE_MAX):.6f}"
        found.append(Candidate(attributes))
    return found


def _value(name: str, filter_count: int, chance: random.Random) -> str:
    # Of the equality filters seven or eight have one of a message's values, and of those with a
    # prefix two, of which one is met.
    start = chance.choice("uv") if name == "user" else ""
    return f"{start}{name}-{chance.randrange(max(1, filter_count * 7 // 75))}"


def _equality(count: int, chance: random.Random) -> Filter:
    name = chance.choice(NAMES[:3])
    return Compare(Attribute(name), Op.EQ, _value(name, count, chance))


def _equality_and_prefix(count: int, chance: random.Random) -> Filter:
    start = Prefix(Attribute("user"), chance.choice("uv"))
    return And((_equality(count, chance), start))


def _range(place: int, count: int, chance: random.Random) -> Filter:
    price = Attribute("price")
    if place % 20 == 0:
        return Compare(price, Op.GE, PRICE_MAX - PRICE_MAX * 40 / count * chance.random())
    low = chance.uniform(0, PRICE_MAX)
    high = low + 2 * chance.random() * PRICE_MAX / count
    return And((Compare(price, Op.GE, low), Compare(price, Op.LT, high)))


@dataclass(frozen=True, slots=True)
class Measured:
    rate: float
    rate_best: float
    matches: float
    add_s: float
    remove_s: float
    bytes_each: float


def measure(count: int) -> Measured:
    """Measure an index of so many filters, and check it."""
    chance = random.Random(SEED)
    trees = filters(count, chance)
    index = FilterIndex[int]()
    started = time.process_time()
    for id_, tree in enumerate(trees):
        index.add(id_, tree)
    add_s = (time.process_time() - started) / count
    _check(index, trees, messages(count, CHECKED, chance))
    gc.collect()
    gc.freeze()
    rounds = [_round(index, count, chance) for _ in range(ROUNDS)]
    gc.unfreeze()
    started = time.process_time()
    for id_ in range(count):
        index.remove(id_)
    remove_s = (time.process_time() - started) / count
    spent_s = [spent for spent, _ in rounds]
    return Measured(
        rate=MESSAGES / statistics.median(spent_s),
        rate_best=MESSAGES / min(spent_s),
        matches=sum(matched for _, matched in rounds) / MESSAGES / ROUNDS,
        add_s=add_s,
        remove_s=remove_s,
        bytes_each=_bytes_each(trees),
    )


def _round(index: FilterIndex[int], count: int, chance: random.Random) -> tuple[float, int]:
    spent_s, matched = 0.0, 0
    for _ in range(MESSAGES // BATCH):
        batch = messages(count, BATCH, chance)
        started = time.process_time()
        for message in batch:
            matched += len(index.match(message))
        spent_s += time.process_time() - started
    return spent_s, matched


def _check(index: FilterIndex[int], trees: Sequence[Filter], batch: list[Candidate]) -> None:
    tests = [compile_filter(tree) for tree in trees]
    for message in batch:
        expected = [id_ for id_, test in enumerate(tests) if test(message)]
        if sorted(index.match(message)) != expected:
            sys.exit(f"WRONG: not what plain evaluation finds for {message}")


def _bytes_each(trees: Sequence[Filter]) -> float:
    """What the index takes for a filter, besides the filter."""
    tracemalloc.start()
    index = FilterIndex[int]()
    for id_, tree in enumerate(trees):
        index.add(id_, tree)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / len(trees)


def awkward() -> Iterator[tuple[str, Iterable[Filter], Candidate]]:
    """Give shapes of filters that an index might be bad at, and a message for each."""
    a, b, n = Attribute("a"), Attribute("b"), Attribute("n")
    everywhere = range(AWKWARD)
    same = Compare(a, Op.EQ, "v")
    message = Candidate({"a": "v", "b": "w", "n": "5000.5"})
    yield "all the same, all match", (same for _ in everywhere), message
    yield "thresholds, all match", (Compare(n, Op.GE, -i) for i in everywhere), message
    yield "thresholds, half match", (Compare(n, Op.GE, i) for i in everywhere), message
    yield (
        "nested intervals, half match",
        (_interval(n, i, 2e4 - i) for i in everywhere),
        message,
    )
    yield "intervals in a row, one matches", (_interval(n, i, i + 1) for i in everywhere), message
    yield (
        "an equality that all share, and an interval",
        (And((same, *_interval(n, i, i + 1).children)) for i in everywhere),
        message,
    )
    yield (
        "an AND of two intervals, one of which all share",
        (
            And((*_interval(b, "a", "z").children, *_interval(n, i, i + 1).children))
            for i in everywhere
        ),
        message,
    )
    yield (
        "an AND of two overlapping intervals: one look-up, the rest run",
        (
            And((*_interval(b, "a", f"z{i}").children, *_interval(n, i, i + 1).children))
            for i in everywhere
        ),
        message,
    )
    yield (
        "an OR of two equalities",
        (Or((Compare(a, Op.EQ, f"{i}"), Compare(b, Op.EQ, f"{i}"))) for i in everywhere),
        message,
    )
    yield (
        "inequalities, all match: run one by one",
        (Compare(a, Op.NE, f"{i}") for i in everywhere),
        message,
    )
    yield (
        "suffixes, none match: run one by one",
        (Glob(a, ("", f"{i}")) for i in everywhere),
        message,
    )


def _interval(field: Attribute, low: float | str, high: float | str) -> And:
    return And((Compare(field, Op.GE, low), Compare(field, Op.LT, high)))


def print_awkward() -> None:
    print(f"\n   us each  matches  {AWKWARD:,} filters")
    for name, trees, message in awkward():
        index = FilterIndex[int]()
        for id_, tree in enumerate(trees):
            index.add(id_, tree)
        times_s = []
        for _ in range(AWKWARD_ROUNDS):
            started = time.process_time()
            matches = len(index.match(message))
            times_s.append(time.process_time() - started)
        print(f"{statistics.median(times_s) * 1e6:>10,.1f} {matches:>8,}  {name}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.filter_index", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, metavar="N")
    options = parser.parse_args(arguments)
    print("   filters  messages/s     best  us each  matches  add us  remove us  bytes each")
    rates = {}
    for count in options.counts:
        found = measure(count)
        rates[count] = found.rate
        print(
            f"{count:>10,} {found.rate:>11,.0f} {found.rate_best:>8,.0f} {1e6 / found.rate:>8.2f}"
            f" {found.matches:>8.1f} {found.add_s * 1e6:>7.1f} {found.remove_s * 1e6:>10.1f}"
            f" {found.bytes_each:>11,.0f}"
        )
    if 10_000 in rates:
        print(f"{RATE_MIN:,}/s with 10,000: {_said(rates[10_000] >= RATE_MIN)}")
    if {10_000, 100_000} <= rates.keys():
        slowdown = rates[10_000] / rates[100_000]
        reached = _said(slowdown <= SLOWDOWN_MAX)
        print(f"100,000 at most {SLOWDOWN_MAX:.0f} times slower, is {slowdown:.2f}: {reached}")
    print_awkward()
    print(f"\nload average {machine.load():.2f}")
    return 0


def _said(is_reached: bool) -> str:
    return "yes" if is_reached else "NO"


if __name__ == "__main__":
    sys.exit(main())
