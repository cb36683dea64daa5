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
that are never seen twice; what is found is checked against plain evaluation.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Sequence

from bench import machine
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import And, Attribute, Compare, Filter, Op, Prefix
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_index import FilterIndex

COUNTS = (1_000, 10_000, 100_000)
#: What must be reached with 10,000 filters, and how much slower 100,000 may be.
RATE_MIN = 150_000
SLOWDOWN_MAX = 2.0
MESSAGES = 20_000
BATCH = 200
ROUNDS = 5
CHECKED = 5
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


def measure(count: int) -> tuple[float, float, float, float]:
    """Give messages per second, matches per message, seconds to add a filter, and bytes for it."""
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
    rate = MESSAGES / statistics.median(spent_s for spent_s, _ in rounds)
    matches = sum(matched for _, matched in rounds) / MESSAGES / ROUNDS
    return rate, matches, add_s, _bytes_each(trees)


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.filter_index", description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, metavar="N")
    options = parser.parse_args(arguments)
    print("   filters   messages/s  us each  matches  add us  B each")
    rates = {}
    for count in options.counts:
        rate, matches, add_s, bytes_each = measure(count)
        rates[count] = rate
        print(
            f"{count:>10,} {rate:>12,.0f} {1e6 / rate:>8.2f} {matches:>8.1f}"
            f" {add_s * 1e6:>7.1f} {bytes_each:>7,.0f}"
        )
    if 10_000 in rates:
        print(f"must reach {RATE_MIN:,}/s with 10,000: {_said(rates[10_000] >= RATE_MIN)}")
    if {10_000, 100_000} <= rates.keys():
        slowdown = rates[10_000] / rates[100_000]
        print(
            f"100,000 at most {SLOWDOWN_MAX:.0f} times slower, is {slowdown:.2f}:"
            f" {_said(slowdown <= SLOWDOWN_MAX)}"
        )
    print(f"load average {machine.load():.2f}")
    return 0


def _said(is_reached: bool) -> str:
    return "yes" if is_reached else "NO"


if __name__ == "__main__":
    sys.exit(main())
