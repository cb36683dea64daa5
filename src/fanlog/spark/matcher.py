"""A filter on rows in a task: the live matcher of the broker, before anything becomes a column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from fanlog.log.batch import Batch
from fanlog.routing.candidate import Candidate
from fanlog.routing.filter_ast import Filter
from fanlog.routing.filter_compile import compile_filter
from fanlog.routing.filter_index import FilterIndex
from fanlog.routing.filter_parse import parse
from fanlog.wire.candidates import candidates


class Matcher:
    """Says which messages pass all of some filters."""

    def __init__(self, filters: tuple[str, ...]) -> None:
        trees: list[Filter] = []
        for text in filters:
            # A subscription's filter was accepted under the limits of its time.
            tree = parse(text, limited=False)
            if tree is not None:
                trees.append(tree)
        self._tests = [compile_filter(tree) for tree in trees]
        # Knows how far the filters look, so that no more than that is parsed.
        self._needs: FilterIndex[int] = FilterIndex()
        for number, tree in enumerate(trees):
            self._needs.add(number, tree)

    def stored(self, batch: Batch, first: int, end: int, topic: str) -> list[int]:
        """Indexes of the messages of a stored batch, from `first` to before `end`, that pass."""
        found = candidates(batch, first, end, _topic_id(topic), self._needs)
        return [index for index, each in enumerate(found, first) if self._passes(each)]

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of an Arrow batch that pass."""
        wanted = [self._passes(candidate) for candidate in self._candidates(batch)]
        return batch if all(wanted) else batch.filter(pa.array(wanted, pa.bool_()))

    def _passes(self, candidate: Candidate) -> bool:
        return all(test(candidate) for test in self._tests)

    def _candidates(self, batch: pa.RecordBatch) -> Iterator[Candidate]:
        count = batch.num_rows
        needs = self._needs

        def column(name: str, is_needed: bool, otherwise: object) -> list[Any]:
            return batch.column(name).to_pylist() if is_needed else [otherwise] * count

        times = batch.column("publish_time").cast(pa.int64()).to_pylist()
        for attributes, data, key, time_us, topic, id_ in zip(
            column("attributes", needs.needs_attributes, ()),
            column("data", needs.needs_payload, b""),
            column("ordering_key", needs.needs_message, ""),
            times,
            column("topic", True, ""),
            column("message_id", True, ""),
            strict=True,
        ):
            yield Candidate(
                dict(attributes),
                data,
                ordering_key=key,
                publish_time_us=time_us,
                topic=_topic_id(topic),
                message_id=id_,
            )


def _topic_id(topic: str) -> str:
    return topic.rpartition("/")[2]
