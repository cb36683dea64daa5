"""Dependencies: messages that name others, which are to be acknowledged first. Pure values.

A message names them by their ids (`fanlog-depends-on`). Between its publish and its delivery an id
is kept as the number that it reads as.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import ids, names
from fanlog.model.attributes import DEPENDS_ON
from fanlog.model.resources import Offset, PartitionId

#: What a number of a term holds. Partitions are counted up, and would pass it after 18 million.
_NUMBER_MAX = 2**64 - 1


class Cause(NamedTuple):
    """A message that another one depends on."""

    partition: PartitionId
    offset: Offset

    @property
    def id(self) -> str:
        return ids.message_id(self.partition, self.offset)


#: The causes of some messages, by the offset of each.
Causes = Mapping[Offset, Sequence[Cause]]


def cause_of(number: int) -> Cause:
    """The message whose id reads as this number."""
    partition, offset = divmod(number, limits.OFFSET_MAX)
    return Cause(PartitionId(partition), offset)


def parse(index: int, text: str) -> list[int]:
    """The numbers of the message ids in an attribute, each once.

    Raises:
        InvalidArgument: Names the message by its index, the value, and what is allowed.
    """
    found: dict[int, None] = {}
    for part in text.split(","):
        one = part.strip()
        if ids.find_message_id(one) is None or int(one) > _NUMBER_MAX:
            raise InvalidArgument(
                f"messages[{index}].attributes: {DEPENDS_ON} has {names.shown(one)}, which is not "
                "an id of this service; message ids with commas between them are allowed"
            )
        found[int(one)] = None
    if len(found) > limits.DEPENDENCIES_MAX:
        raise InvalidArgument(
            f"messages[{index}].attributes: {DEPENDS_ON} has {len(found)} message ids; at most "
            f"{limits.DEPENDENCIES_MAX} are allowed"
        )
    return list(found)
