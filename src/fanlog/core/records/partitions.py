"""Records of partitions: trims, what was published lately, addressed messages and special ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from fanlog.core.records.codec import BITMAP, Form, Stored, numbers, record
from fanlog.model.resources import Offset, PartitionId
from fanlog.model.sequences import PRINT_BYTES


@record("B", key=numbers(">I"), value=numbers("<Q"))
@dataclass(frozen=True, slots=True)
class Trimmed(Stored):
    """The last commit of which a partition has let go of a message."""

    partition: PartitionId
    #: None when the partition is gone.
    sequence: int | None


@record("D", key=numbers(">I16s"), value=numbers("<Qd"))
@dataclass(frozen=True, slots=True)
class DedupEntry(Stored):
    """The message that was published with a dedup id lately; the id is kept as its hash."""

    partition: PartitionId
    digest: bytes
    #: None forgets the id.
    offset: Offset | None
    expires_s: float


@record("Y", key=numbers(">IQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class AddressRecord(Stored):
    """Offsets of one partition that are for one subscription alone, which may be gone."""

    partition: PartitionId
    addressee: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets or not self.addressee:
            raise ValueError("it has nothing that is addressed, or addresses nobody")


@record("k", key=numbers(">IBQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class AgendaChunk(Stored):
    """Offsets of one chunk whose messages ask for the same (`fanlog.core.agenda`)."""

    partition: PartitionId
    #: Which list: 0 of messages to be delivered later, 1 to 9 of those with that priority, 10 of
    #: those that are held back behind a gap.
    listing: int
    chunk: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets:
            raise ValueError("it lists nothing")


def _pack_offsets(offsets: Sequence[Offset]) -> bytes:
    return struct.pack(f"<I{len(offsets)}Q", len(offsets), *offsets)


def _unpack_offsets(body: bytes) -> tuple[tuple[Offset, ...]]:
    (count,) = struct.unpack_from("<I", body)
    return (struct.unpack(f"<{count}Q", body[4:]),)


@record("o", key=numbers(">IQ"), value=Form(_pack_offsets, _unpack_offsets))
@dataclass(frozen=True, slots=True)
class PlaceRecord(Stored):
    """Messages that were held back, and stand behind a later one (`fanlog.core.places`)."""

    partition: PartitionId
    #: The message that they stand behind.
    anchor: Offset
    #: In their order; None when there are none any more.
    offsets: tuple[Offset, ...] | None

    def check(self) -> None:
        if not self.offsets or max(self.offsets) > self.anchor:
            raise ValueError("it moves nothing, or something that is later already")


def _unpack_numbers(body: bytes) -> tuple[Offset, float, bytes]:
    base, arrived_s, count = struct.unpack_from("<QdI", body)
    prints = body[_NUMBERS_HEAD:]
    if len(prints) != count * PRINT_BYTES:
        raise ValueError("it has not as many messages as it says")
    return base, arrived_s, prints


_NUMBERS_HEAD = struct.calcsize("<QdI")


@record("m", key=numbers(">I16s"), value=numbers("<QQQd"))
@dataclass(frozen=True, slots=True)
class PublisherRecord(Stored):
    """How far a publisher has come that numbers its messages; its name is kept as its hash."""

    partition: PartitionId
    digest: bytes
    #: None forgets the publisher.
    epoch: int | None
    #: The highest number that it has used, and the one up to which none is missing any more.
    last: int
    settled: int
    used_s: float


@record(
    "q",
    key=numbers(">I16sQ"),
    value=Form(
        lambda base, arrived_s, prints: (
            struct.pack("<QdI", base, arrived_s, len(prints) // PRINT_BYTES) + prints
        ),
        _unpack_numbers,
        3,
    ),
)
@dataclass(frozen=True, slots=True)
class NumbersRecord(Stored):
    """Messages of a publisher with consecutive numbers, at consecutive offsets."""

    partition: PartitionId
    digest: bytes
    first: int
    #: The offset of the first; None forgets them.
    base: Offset | None
    arrived_s: float
    #: A hash of each, of eight bytes.
    prints: bytes

    def check(self) -> None:
        if not self.prints or len(self.prints) % PRINT_BYTES:
            raise ValueError("it has no messages, or part of one")


@record("f", key=numbers(">I"), value=numbers("<QQ"))
@dataclass(frozen=True, slots=True)
class ForgottenRecord(Stored):
    """How many publishers a partition has forgotten, and the highest epoch of one of them."""

    partition: PartitionId
    #: None when the partition is gone.
    count: int | None
    epoch: int


@record("n", key=numbers(">IQQ"), value=BITMAP)
@dataclass(frozen=True, slots=True)
class TenantChunk(Stored):
    """Offsets of one chunk whose messages are one tenant's (`fanlog.core.agenda`)."""

    partition: PartitionId
    #: The number of the tenant (`fanlog.model.terms.tenant_number`), or of some that share one.
    tenant: int
    chunk: int
    #: None when there are none any more; never changed in place.
    offsets: BitMap64 | None

    def check(self) -> None:
        if not self.offsets or not self.tenant:
            raise ValueError("it lists nothing, or for nobody")


PublisherState = PublisherRecord | NumbersRecord | ForgottenRecord
PartitionRecord = (
    Trimmed | DedupEntry | AddressRecord | AgendaChunk | TenantChunk | PlaceRecord | PublisherState
)
