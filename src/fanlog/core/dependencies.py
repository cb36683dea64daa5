"""Dependencies of messages on others: whether they can be asked for, and which batches have some.

A publisher knows the id of a message when its publish is answered, so one that is not committed yet
is refused: no message depends on itself, on its neighbours in the request, or on a later one, and
there is no cycle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from fanlog.errors import InvalidArgument
from fanlog.model.attributes import DEPENDS_ON
from fanlog.model.dependencies import Cause, Causes, cause_of
from fanlog.model.resources import Offset, PartitionId, Topic
from fanlog.model.terms import TermKind, Terms


class Termed(Protocol):
    """A batch as far as its terms go."""

    @property
    def base_offset(self) -> Offset: ...
    @property
    def terms(self) -> Terms | None: ...


def check(terms: Terms, topic: Topic, end: Callable[[PartitionId], Offset]) -> None:
    """Check that messages which are published now depend on messages of their topic.

    `end` is the committed end of a partition. One that is not there any more may be named.

    Raises:
        InvalidArgument: Names the message and the id.
    """
    column = terms.column(TermKind.DEPENDS_ON)
    for index, number in zip(column.indexes, column.values, strict=True):
        cause = cause_of(number)
        where = f"messages[{index}].attributes: {DEPENDS_ON} has {number}, which"
        if cause.partition not in topic.partitions:
            raise InvalidArgument(
                f"{where} is not a message of topic {topic.name!r}; a message can depend on those "
                "of its own topic alone"
            )
        if cause.offset >= end(cause.partition):
            raise InvalidArgument(
                f"{where} is not published yet; a message can depend on earlier ones alone, and "
                "not on itself"
            )


def causes_in(batches: Iterable[Termed]) -> Causes | None:
    """The messages that those of some batches depend on; None when there are none."""
    found: defaultdict[Offset, list[Cause]] | None = None
    for batch in batches:
        if batch.terms is not None and TermKind.DEPENDS_ON in batch.terms.columns:
            found = defaultdict(list) if found is None else found
            column = batch.terms.column(TermKind.DEPENDS_ON)
            for index, number in zip(column.indexes, column.values, strict=True):
                found[batch.base_offset + index].append(cause_of(number))
    return found
