"""Ids as texts: the forms of message ids and ack ids, written and read.

message id:  partition, decimal · offset, 12 decimal digits
ack id:      the lease's prefix, 40 hex digits · offset, 12 hex digits
"""

from __future__ import annotations

from typing import Final

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names

#: Digits of the offset in a message id; the partition's number stands before them.
OFFSET_DIGITS: Final = 12
#: Hex digits of the prefix that all ack ids of a lease share, and of the offset behind it.
ACK_PREFIX_DIGITS: Final = 40
ACK_OFFSET_DIGITS: Final = 12

#: Digits of the largest partition that a batch's header can name.
_PARTITION_DIGITS_MAX: Final = len(str(2**32 - 1))


def message_id(partition: int, offset: int) -> str:
    """Give the id of a message: a decimal number, as clients expect of one."""
    assert partition >= 1
    assert 0 <= offset < limits.OFFSET_MAX
    return f"{partition}{offset:0{OFFSET_DIGITS}d}"


def find_message_id(text: str) -> tuple[int, int] | None:
    """Give the partition and offset of a message id; None for a text that is none."""
    head, tail = text[:-OFFSET_DIGITS], text[-OFFSET_DIGITS:]
    if not (text.isascii() and head.isdigit() and tail.isdigit()) or head[0] == "0":
        return None
    # Longer than any: `int` would refuse it with an error of its own.
    if len(head) > _PARTITION_DIGITS_MAX:
        return None
    return int(head), int(tail)


def parse_message_id(text: str) -> tuple[int, int]:
    """Give the partition and offset of a message id.

    Raises:
        InvalidArgument: Not an id this service gives.
    """
    found = find_message_id(text)
    if found is None:
        raise InvalidArgument(f"message id: {names.shown(text)} is not an id of this service")
    return found


def ack_id(prefix: str, offset: int) -> str:
    """Give the ack id of a message in the lease with that prefix."""
    return f"{prefix}{offset:0{ACK_OFFSET_DIGITS}x}"


assert limits.OFFSET_MAX == 10**OFFSET_DIGITS
assert limits.OFFSET_MAX <= 16**ACK_OFFSET_DIGITS
