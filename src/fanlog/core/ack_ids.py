"""Ack ids: which lease of which message, in a form that cannot be guessed.

    8 hex subscription · 8 hex partition · 16 hex generation · 8 hex tag · 12 hex offset

Everything before the offset is the same for all messages of a lease: it is made once per lease and
checked once per request. The tag is keyed with a secret of the broker, so an id of another broker,
or one made up, is refused as malformed rather than taken for another message.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hmac import compare_digest

from fanlog.model.ids import ACK_OFFSET_DIGITS, ACK_PREFIX_DIGITS
from fanlog.model.resources import Offset, PartitionId

PREFIX_LENGTH = ACK_PREFIX_DIGITS
_HEX = "0123456789abcdef"


@dataclass(slots=True)
class ParsedAckIds:
    """Ack ids of one request, by partition and generation."""

    #: By partition and generation.
    offsets: dict[PartitionId, dict[int, list[Offset]]] = field(default_factory=dict)
    #: Ids of another subscription, or of an earlier one of that name.
    foreign: list[str] = field(default_factory=list)
    #: Not ids of this broker at all.
    malformed: list[str] = field(default_factory=list)


class AckIds:
    """Makes and reads ack ids."""

    __slots__ = ("_secret_of",)

    def __init__(self, secret_of: Callable[[int], bytes]) -> None:
        """`secret_of` gives the secret of a generation."""
        self._secret_of = secret_of

    def prefix(self, subscription: int, partition: int, generation: int) -> str:
        """The beginning that all ack ids of one lease share."""
        text = f"{subscription:08x}{partition:08x}{generation:016x}"
        return text + self._tag(text, generation)

    def parse(self, subscription: int, ack_ids: Iterable[str]) -> ParsedAckIds:
        """Sort the ids of a request to `subscription`."""
        parsed = ParsedAckIds()
        ids = list(ack_ids)
        # Most often all are of one lease, and then none needs to be looked at by itself.
        found = _offsets_of_one(ids)
        if found is not None and self._is_ours(prefix := ids[0][:PREFIX_LENGTH]):
            if int(prefix[:8], 16) != subscription:
                parsed.foreign = ids
            else:
                partition, generation = _place_of(prefix)
                parsed.offsets[partition] = {generation: found}
            return parsed
        by_prefix: defaultdict[str, list[str]] = defaultdict(list)
        for ack_id in ids:
            by_prefix[ack_id[:PREFIX_LENGTH]].append(ack_id)
        for prefix, ids in by_prefix.items():
            if not self._is_ours(prefix):
                parsed.malformed.extend(ids)
                continue
            if int(prefix[:8], 16) != subscription:
                parsed.foreign.extend(ids)
                continue
            offsets = [ack_id[PREFIX_LENGTH:] for ack_id in ids]
            if not _are_offsets(offsets):
                parsed.malformed += [i for i in ids if not _are_offsets([i[PREFIX_LENGTH:]])]
                offsets = [text for text in offsets if _are_offsets([text])]
            if offsets:
                partition, generation = _place_of(prefix)
                by_generation = parsed.offsets.setdefault(partition, {})
                by_generation[generation] = [int(text, 16) for text in offsets]
        return parsed

    def _is_ours(self, prefix: str) -> bool:
        # Digits first: of all tags made up, one in four thousand million is right.
        if len(prefix) != PREFIX_LENGTH or prefix.strip(_HEX):
            return False
        return compare_digest(self._tag(prefix[:32], int(prefix[16:32], 16)), prefix[32:])

    def _tag(self, text: str, generation: int) -> str:
        secret = self._secret_of(generation)
        return hashlib.blake2b(text.encode(), key=secret, digest_size=4).hexdigest()


def _place_of(prefix: str) -> tuple[PartitionId, int]:
    """The partition and the generation of a lease."""
    return PartitionId(int(prefix[8:16], 16)), int(prefix[16:32], 16)


def _offsets_of_one(ids: list[str]) -> list[Offset] | None:
    """The offsets in ids that share the prefix of the first; None when they are not of that form.

    As many pieces as ids, each of twelve digits, behind as many prefixes: so is each id, then.
    """
    if not ids or set(map(len, ids)) != {PREFIX_LENGTH + ACK_OFFSET_DIGITS}:
        return None
    pieces = "".join(ids).split(ids[0][:PREFIX_LENGTH])[1:]
    digits = "".join(pieces)
    if len(pieces) != len(ids) or set(map(len, pieces)) != {ACK_OFFSET_DIGITS}:
        return None
    if digits.strip(_HEX):
        return None
    # Twelve digits are six bytes, of the eight of a number.
    numbers = bytes.fromhex("0000" + "0000".join(pieces))
    return list(struct.unpack(f">{len(pieces)}Q", numbers))


def _are_offsets(texts: list[str]) -> bool:
    """Whether each is twelve hex digits: `int` alone would also take signs, blanks and `0x`."""
    return all(len(text) == ACK_OFFSET_DIGITS for text in texts) and not "".join(texts).strip(_HEX)
