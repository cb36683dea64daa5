"""Many filters against many messages: attributes exploded, and joined with all predicates at once.

Every filter is *covered* by terms: predicates on one attribute of which at least one holds wherever
the filter does. Attributes of a whole Arrow batch are laid out one below the other and looked up in
the table of all terms, which gives pairs of row and filter. Where a filter is more than its terms,
the pair is a candidate: the other conditions of a conjunction are looked up for all candidates
together (`fanlog.pipeline.jobs.residuals`), and only the rest is for the live matcher, one by one.
A filter without a cover is tried on every row.

Work is done per message and filter only for pairs that match, or nearly do.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from fanlog.pipeline.jobs.residuals import Numbers, Residuals, runs
from fanlog.pipeline.jobs.terms import conjuncts, cover
from fanlog.pipeline.jobs.work import ArrowTask
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_compile import Test, compile_filter
from fanlog.routing.filter_parse import parse

#: Pairs that are gathered before they become sets.
PAIRS_MAX: Final = 4_000_000
#: Between key and value: in neither, since attributes have no control characters in keys.
_BETWEEN: Final = "\0"

#: No pairs.
_NONE: Final = (np.empty(0, np.int64), np.empty(0, np.int64))


class _Lookup:
    """Texts, and the filters each of them leads to, as arrays."""

    def __init__(self, filters: dict[str, list[int]]) -> None:
        self._texts = pa.array(filters.keys(), pa.string())
        counts = np.array([len(one) for one in filters.values()], np.int64)
        self._ends = np.cumsum(counts)
        self._counts = counts
        self._filters = np.array([one for some in filters.values() for one in some], np.int64)

    def pairs(self, texts: pa.Array, rows: Numbers) -> tuple[Numbers, Numbers]:
        """Rows and filters of all texts that are known."""
        found = pc.index_in(texts, value_set=self._texts)
        places = found.fill_null(-1).to_numpy(zero_copy_only=False)
        is_known = places >= 0
        places, rows = places[is_known].astype(np.int64), rows[is_known]
        counts = self._counts[places]
        starts = self._ends[places] - counts
        return np.repeat(rows, counts), self._filters[runs(starts, counts)]


class FanOut:
    """The filters of many subscriptions, by number. Travels to the tasks as their texts."""

    def __init__(self, filters: Sequence[str]) -> None:
        self._trees = [parse(text, limited=False) for text in filters]
        equal: defaultdict[str, list[int]] = defaultdict(list)
        there: defaultdict[str, list[int]] = defaultdict(list)
        begins: defaultdict[int, defaultdict[str, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )
        #: Those that every message passes, and those that are tried on every message.
        self._all: list[int] = []
        self._free: list[int] = []
        is_exact = np.ones(len(filters), np.bool_)
        self._has_several = np.zeros(len(filters), np.bool_)
        for number, tree in enumerate(self._trees):
            if tree is None:
                self._all.append(number)
                continue
            found = cover(tree)
            if found is None:
                self._free.append(number)
                continue
            is_exact[number] = found.is_exact
            self._has_several[number] = len(found.terms) > 1
            for term in found.terms:
                if term.value is None:
                    there[term.key].append(number)
                elif term.is_prefix:
                    text = term.key + _BETWEEN + term.value
                    begins[len(term.value)][text].append(number)
                else:
                    equal[term.key + _BETWEEN + term.value].append(number)
        self._is_exact = is_exact
        self._equal = _Lookup(equal) if equal else None
        self._there = _Lookup(there) if there else None
        self._begins = {length: _Lookup(texts) for length, texts in begins.items()}
        self._tests: dict[int, Test] = {}
        parts = {
            number: asked
            for number, tree in enumerate(self._trees)
            if tree is not None and (asked := conjuncts(tree)) is not None
        }
        self._residuals = Residuals(parts, len(filters)) if parts else None

    @property
    def looks_deeper(self) -> bool:
        """Whether more than attributes may be needed to decide."""
        known = self._is_exact.copy()
        if self._residuals is not None:
            known |= self._residuals.is_known
        return bool(self._free) or not known.all()

    def pairs(self, batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
        """Row and filter of everything that matches; a pair may come twice."""
        attributes = batch.column("attributes")
        sizes = np.diff(attributes.offsets.to_numpy())
        first, last = attributes.offsets[0].as_py(), attributes.offsets[-1].as_py()
        keys = attributes.keys.slice(first, last - first)
        values = attributes.items.slice(first, last - first)
        rows = np.repeat(np.arange(batch.num_rows), sizes)
        found = [self._find_terms(keys, values, rows)] if last > first else []
        every = np.arange(batch.num_rows)
        found += [
            (every, np.full(batch.num_rows, number, np.int64))
            for number in (*self._all, *self._free)
        ]
        if not found:
            return _NONE
        all_rows = np.concatenate([one[0] for one in found])
        all_filters = np.concatenate([one[1] for one in found])
        return self._decide(batch, all_rows, all_filters)

    def _find_terms(
        self, keys: pa.Array, values: pa.Array, rows: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Row and filter of every term that holds, for attributes that stand in some rows."""
        texts = pc.binary_join_element_wise(keys, values, _BETWEEN).dictionary_encode()
        codes = texts.indices.to_numpy()
        # Attributes repeat: each different one is looked up once, where it stands first.
        count = len(texts.dictionary)
        places = np.empty(count, np.int64)
        places[codes[::-1]] = np.arange(len(codes))[::-1]
        led = self._look_up(texts.dictionary, keys.take(places), values.take(places))
        counts = np.bincount(led[0], minlength=count)
        filters = led[1][np.argsort(led[0], kind="stable")]
        starts = np.cumsum(counts) - counts
        return np.repeat(rows, counts[codes]), filters[runs(starts[codes], counts[codes])]

    def _look_up(
        self, texts: pa.Array, keys: pa.Array, values: pa.Array
    ) -> tuple[Numbers, Numbers]:
        """Place and filter of every term that holds for some different attributes."""
        places = np.arange(len(texts))
        found = [_NONE]
        if self._equal is not None:
            found.append(self._equal.pairs(texts, places))
        for length, lookup in self._begins.items():
            starts = pc.utf8_slice_codeunits(values, 0, length)
            begun = pc.binary_join_element_wise(keys, starts, _BETWEEN)
            found.append(lookup.pairs(begun, places))
        if self._there is not None:
            found.append(self._there.pairs(keys, places))
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def _decide(
        self, batch: pa.RecordBatch, rows: Numbers, filters: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Pairs that the terms alone decide, and candidates that pass the test of their filter."""
        is_sure = self._is_exact[filters]
        if self._free:
            is_sure &= ~np.isin(filters, self._free)
        if is_sure.all():
            return rows, filters
        tried_rows, tried = self._once(rows[~is_sure], filters[~is_sure])
        passes = np.zeros(len(tried), np.bool_)
        left = np.arange(len(tried))
        if self._residuals is not None:
            is_known = self._residuals.is_known[tried]
            passes[is_known] = self._residuals.hold(
                batch.column("attributes"), tried_rows[is_known], tried[is_known]
            )
            left = np.flatnonzero(~is_known)
        if len(left):
            # Row by row: a row becomes a message for all of its filters.
            left = left[np.argsort(tried_rows[left], kind="stable")]
            passes[left] = self._try(batch, tried_rows[left], tried[left])
        return (
            np.concatenate([rows[is_sure], tried_rows[passes]]),
            np.concatenate([filters[is_sure], tried[passes]]),
        )

    def _once(self, rows: Numbers, filters: Numbers) -> tuple[Numbers, Numbers]:
        """Pairs without repetitions: only several terms of a filter lead to it several times."""
        has_several = self._has_several[filters]
        if not has_several.any():
            return rows, filters
        width = len(self._trees)
        several = np.unique(rows[has_several] * width + filters[has_several])
        return (
            np.concatenate([rows[~has_several], several // width]),
            np.concatenate([filters[~has_several], several % width]),
        )

    def _try(self, batch: pa.RecordBatch, rows: Numbers, filters: Numbers) -> npt.NDArray[np.bool_]:
        """Try filters on messages, one by one; rows ascend."""
        passes = np.zeros(len(rows), np.bool_)
        messages = _messages(batch, np.unique(rows))
        pairs = zip(rows.tolist(), filters.tolist(), range(len(rows)), strict=True)
        for _, some in groupby(pairs, key=itemgetter(0)):
            message = next(messages)
            for _, number, place in some:
                passes[place] = self._test(number)(message)
        return passes

    def _test(self, number: int) -> Test:
        test = self._tests.get(number)
        if test is None:
            tree = self._trees[number]
            assert tree is not None
            test = self._tests[number] = compile_filter(tree)
        return test


def _messages(batch: pa.RecordBatch, rows: Numbers) -> Iterator[Candidate]:
    some = batch.take(pa.array(rows))
    names = some.schema.names

    def column(name: str, otherwise: object) -> list[Any]:
        return some.column(name).to_pylist() if name in names else [otherwise] * some.num_rows

    times = (
        some.column("publish_time").cast(pa.int64()).to_pylist()
        if "publish_time" in names
        else [0] * some.num_rows
    )
    for attributes, data, key, time_us, topic, message_id in zip(
        column("attributes", ()),
        column("data", b""),
        column("ordering_key", ""),
        times,
        column("topic", ""),
        column("message_id", ""),
        strict=True,
    ):
        yield Candidate(
            dict(attributes),
            data,
            ordering_key=key or "",
            publish_time_us=time_us,
            topic=topic.rpartition("/")[2],
            message_id=message_id,
        )


class OffsetSets:
    """Sets of offsets by filter and partition, gathered from pairs."""

    def __init__(self) -> None:
        self.sets: dict[tuple[int, int], BitMap64] = {}
        self._waiting: list[tuple[Numbers, Numbers, Numbers]] = []
        self._count = 0

    def add(self, filters: Numbers, partitions: Numbers, offsets: Numbers) -> None:
        self._waiting.append((filters, partitions, offsets))
        self._count += len(filters)
        if self._count >= PAIRS_MAX:
            self.flush()

    def flush(self) -> None:
        """Put the gathered pairs into the sets."""
        if not self._count:
            return
        filters, partitions, offsets = (
            np.concatenate(each) for each in zip(*self._waiting, strict=True)
        )
        self._waiting, self._count = [], 0
        lowest = int(partitions.min())
        if lowest == partitions.max():
            self._put(lowest, filters, offsets)
            return
        for partition in np.unique(partitions).tolist():
            is_here = partitions == partition
            self._put(partition, filters[is_here], offsets[is_here])

    def _put(self, partition: int, filters: Numbers, offsets: Numbers) -> None:
        # Small numbers are sorted by their digits, which is several times as fast.
        if filters.max() < 1 << 16:
            filters = filters.astype(np.uint16)
        order = np.argsort(filters, kind="stable")
        filters, offsets = filters[order], offsets[order]
        edges = np.flatnonzero(np.diff(filters)) + 1
        numbers = filters[np.concatenate(([0], edges))].tolist()
        for number, part in zip(numbers, np.split(offsets, edges), strict=True):
            key = (number, partition)
            found = self.sets.get(key)
            if found is None:
                self.sets[key] = _bitmap(part)
            else:
                found |= _bitmap(part)
                self.sets[key] = found


def _bitmap(offsets: Numbers) -> BitMap64:
    # Three times as fast as of the array itself.
    return BitMap64(array("Q", offsets.tobytes()))


SCHEMA: Final = "number int, partition long, offsets binary"


def matching_task(filters: Sequence[str]) -> ArrowTask:
    """The work of a task: sets of offsets by filter and partition, of all its rows."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fan_out, sets = FanOut(filters), OffsetSets()
        for batch in batches:
            rows, numbers = fan_out.pairs(batch)
            partitions = batch.column("partition").to_numpy()
            offsets = batch.column("offset").to_numpy()
            sets.add(numbers, partitions[rows], offsets[rows])
        sets.flush()
        yield pa.RecordBatch.from_pydict(
            {
                "number": pa.array([key[0] for key in sets.sets], pa.int32()),
                "partition": pa.array([key[1] for key in sets.sets], pa.int64()),
                "offsets": pa.array([one.serialize() for one in sets.sets.values()], pa.binary()),
            }
        )

    return run
