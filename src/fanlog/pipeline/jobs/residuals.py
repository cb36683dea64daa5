"""The conditions of conjunctions beyond the term that found them, for many pairs at once.

A conjunction has *parts*, each an alternative of terms. For all pairs of row and filter together:
each term's attribute is looked up in its row, its value compared; a part holds where one of its
terms does, and the filter where all of its parts do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fanlog.pipeline.jobs.terms import Term

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: In place of a prefix's length: the whole value, and any value.
_WHOLE, _ANY = -1, -2


class Residuals:
    """The parts of many conjunctions as arrays: filters have parts, parts have terms."""

    def __init__(self, parts: Mapping[int, Sequence[tuple[Term, ...]]], count: int) -> None:
        keys: dict[str, int] = {}
        term_keys, lengths, values = [], [], []
        part_sizes: list[int] = []
        self._first_part = np.zeros(count, np.int64)
        self._part_count = np.zeros(count, np.int64)
        #: Whether a filter is one of these.
        self.is_known: Flags = np.zeros(count, np.bool_)
        for number, of_filter in parts.items():
            self.is_known[number] = True
            self._first_part[number] = len(part_sizes)
            self._part_count[number] = len(of_filter)
            for terms in of_filter:
                part_sizes.append(len(terms))
                for term in terms:
                    term_keys.append(keys.setdefault(term.key, len(keys)))
                    values.append(term.value or "")
                    lengths.append(_length(term))
        self._keys = pa.array(keys.keys(), pa.string())
        self._term_keys = np.array(term_keys, np.int64)
        self._lengths = np.array(lengths, np.int64)
        self._values = pa.array(values, pa.string())
        self._part_sizes = np.array(part_sizes, np.int64)
        self._first_term = np.cumsum(self._part_sizes) - self._part_sizes

    def hold(self, attributes: pa.MapArray, rows: Numbers, filters: Numbers) -> Flags:
        """Which pairs hold; there is at least one part to each."""
        if not len(rows):
            return np.zeros(0, np.bool_)
        counts = self._part_count[filters]
        parts = runs(self._first_part[filters], counts)
        part_rows = np.repeat(rows, counts)
        sizes = self._part_sizes[parts]
        terms = runs(self._first_term[parts], sizes)
        is_met = self._met(attributes, np.repeat(part_rows, sizes), terms)
        of_parts = np.logical_or.reduceat(is_met, np.cumsum(sizes) - sizes)
        return np.logical_and.reduceat(of_parts, np.cumsum(counts) - counts)

    def _met(self, attributes: pa.MapArray, rows: Numbers, terms: Numbers) -> Flags:
        places = self._places(attributes, rows, self._term_keys[terms])
        lengths = self._lengths[terms]
        is_met: Flags = places >= 0
        for length in np.unique(lengths):
            if length == _ANY:
                continue
            chosen = np.flatnonzero(is_met & (lengths == length))
            found = attributes.items.take(pa.array(places[chosen]))
            if length != _WHOLE:
                found = pc.utf8_slice_codeunits(found, 0, int(length))
            wanted = self._values.take(pa.array(terms[chosen]))
            is_met[chosen] = _flags(pc.equal(found, wanted))
        return is_met

    def _places(self, attributes: pa.MapArray, rows: Numbers, keys: Numbers) -> Numbers:
        """Where the values of keys stand in rows; -1 for none."""
        offsets = attributes.offsets.to_numpy()
        first, last = int(offsets[0]), int(offsets[-1])
        found = pc.index_in(attributes.keys.slice(first, last - first), value_set=self._keys)
        numbers = found.fill_null(len(self._keys)).to_numpy(zero_copy_only=False).astype(np.int64)
        width = len(self._keys) + 1
        known = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)) * width + numbers
        order = np.argsort(known, kind="stable")
        wanted = rows * width + keys
        at = np.searchsorted(known, wanted, sorter=order)
        at = np.minimum(at, len(order) - 1)
        if not len(order):
            return np.full(len(rows), -1, np.int64)
        places = order[at]
        return np.where(known[places] == wanted, places + first, -1)


def _length(term: Term) -> int:
    if term.value is None:
        return _ANY
    return len(term.value) if term.is_prefix else _WHOLE


def runs(starts: Numbers, counts: Numbers) -> Numbers:
    """Numbers from each start on, so many of each."""
    steps = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(starts, counts) + steps


def _flags(found: pa.BooleanArray) -> Flags:
    return np.asarray(found.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)
