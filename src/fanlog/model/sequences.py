"""Numbers of publishers: what a message says of its place in its publisher's sequence. Pure values.

A publisher that numbers its messages (`fanlog-publisher`, `fanlog-sequence`) may repeat one that it
does not know the fate of, and is told when it counts wrongly. `fanlog.core.publishers` decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import (
    CLIENT_PREFIX,
    DEDUP_ID,
    PUBLISHER,
    PUBLISHER_EPOCH,
    SEQUENCE,
    SEQUENCES,
)

#: Bytes of the hash by which a message is told from another one with its number.
PRINT_BYTES = 8
_NUMBER = re.compile(r"[0-9]{1,19}", re.ASCII)
_IN_BYTES = tuple(name.encode() for name in SEQUENCES)


class Numbered(NamedTuple):
    """What a message says of itself."""

    publisher: str
    epoch: int
    number: int
    #: A hash of what it says otherwise: a repetition has the same one.
    fingerprint: bytes


def names_in(content: bytes) -> bool:
    """Whether the name of such an attribute is in the bytes of messages: hardly any has one."""
    return any(name in content for name in _IN_BYTES)


def numbers_of(
    messages: Iterable[tuple[bytes, Mapping[str, str], str]],
) -> Sequence[Numbered | None] | None:
    """What messages given as (data, attributes, ordering key) say; None when none has a number.

    Raises:
        InvalidArgument: Names the message by its index, the value, and what is allowed.
    """
    found = [numbered(index, *message) for index, message in enumerate(messages)]
    return found if any(found) else None


def numbered(
    index: int, data: bytes, attributes: Mapping[str, str], ordering_key: str
) -> Numbered | None:
    """What one message says; None if it has no number. Raises as `numbers_of` does."""
    where = f"messages[{index}].attributes:"
    if SEQUENCE not in attributes:
        if PUBLISHER_EPOCH in attributes:
            raise InvalidArgument(
                f"{where} {PUBLISHER_EPOCH} is given without {SEQUENCE}; an epoch is one of numbers"
            )
        return None
    publisher = attributes.get(PUBLISHER, "")
    if not publisher:
        raise InvalidArgument(
            f"{where} {SEQUENCE} is given without {PUBLISHER}; a number counts the messages of one "
            "publisher"
        )
    if DEDUP_ID in attributes:
        raise InvalidArgument(
            f"{where} {SEQUENCE} and {DEDUP_ID} both say what the message repeats; leave one of "
            "them out"
        )
    number = _number(where, SEQUENCE, attributes[SEQUENCE])
    epoch = _number(where, PUBLISHER_EPOCH, attributes.get(PUBLISHER_EPOCH, "0"))
    return Numbered(publisher, epoch, number, fingerprint_of(data, attributes, ordering_key))


def fingerprint_of(data: bytes, attributes: Mapping[str, str], ordering_key: str) -> bytes:
    """A hash of a message, as its publisher means it: the order of attributes says nothing.

    Attributes that official clients add for themselves differ from one attempt to the next.
    """
    found = blake2b(data, digest_size=PRINT_BYTES)
    for text in (
        ordering_key,
        *(
            part
            for key in sorted(attributes)
            for part in (key, attributes[key])
            if not key.startswith(CLIENT_PREFIX)
        ),
    ):
        part = text.encode()
        found.update(len(part).to_bytes(4, "big") + part)
    return found.digest()


def attributes_for(
    *, publisher: str | None = None, sequence: int | None = None, epoch: int | None = None
) -> dict[str, str]:
    """The attributes that say so; the server checks what they say."""
    found: dict[str, str] = {}
    if publisher is not None:
        found[PUBLISHER] = publisher
    if sequence is not None:
        found[SEQUENCE] = str(sequence)
    if epoch is not None:
        found[PUBLISHER_EPOCH] = str(epoch)
    return found


def _number(where: str, name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > limits.SEQUENCE_MAX:
        raise InvalidArgument(
            f"{where} {name} is {names.shown(text)}; a whole number from 0 to "
            f"{limits.SEQUENCE_MAX} is allowed"
        )
    return int(text)
