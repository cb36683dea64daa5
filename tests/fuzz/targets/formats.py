"""What is stored: batches, envelopes, records, and a whole file searched for them.

Noise never gets past a checksum, so most inputs are *sealed*: magic and checksums are made right,
and what lies under them is the fuzzer's. That is no idle case. A search of a broken file meets
whatever a publisher once wrote into a message, checksums included.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import pairwise

from crc32c import crc32c

from fanlog import limits
from fanlog.core import records
from fanlog.core.hard_state import HardState
from fanlog.errors import DataLoss
from fanlog.log import batch as codec
from fanlog.log import envelope, salvage
from fanlog.log.batch import BatchDamaged, Body
from fanlog.log.envelope import EnvelopeDamaged
from fanlog.log.seal import UNSEALED
from fuzz.bounds import Target, refusal
from fuzz.draw import Draw

RAW, SEALED, FITTED = range(3)

_CRC = struct.Struct("<I")
_BODY_BYTES_AT = 36
_PAYLOAD_CRC_AT = 56
_HEADER_CRC_AT = 60


def sealed_batch(value: bytes, *, fitted: bool) -> bytes:
    """The same bytes with the magic and both checksums right; `fitted`, the length too."""
    made = bytearray(value.ljust(codec.HEADER_BYTES, b"\0"))
    made[:4] = codec.MAGIC
    if fitted:
        (body_bytes,) = _CRC.unpack_from(made, _BODY_BYTES_AT)
        made[60:64] = _CRC.pack(crc32c(made[:60]))
        try:
            excess = len(made) - codec.decode_header(bytes(made)).value_bytes
        except BatchDamaged:
            excess = 0
        _CRC.pack_into(made, _BODY_BYTES_AT, max(0, body_bytes + excess))
    _CRC.pack_into(made, _PAYLOAD_CRC_AT, crc32c(made[codec.HEADER_BYTES :]))
    _CRC.pack_into(made, _HEADER_CRC_AT, crc32c(made[:_HEADER_CRC_AT]))
    return bytes(made)


def sealed_envelope(value: bytes) -> bytes:
    """The same bytes with the magic, the payload's length and the checksum right."""
    made = bytearray(value.ljust(envelope.HEAD_BYTES, b"\0"))
    made[:4] = envelope.MAGIC
    (key_bytes,) = struct.unpack_from("<H", made, 6)
    _CRC.pack_into(made, 8, max(0, len(made) - envelope.HEAD_BYTES - key_bytes))
    crc = crc32c(made[envelope.HEAD_BYTES :], crc32c(made[: envelope.HEAD_BYTES - 4]))
    _CRC.pack_into(made, envelope.HEAD_BYTES - 4, crc)
    return bytes(made)


def batch(data: bytes) -> None:
    """Refused with BatchDamaged, or encoded again to the same bytes."""
    mode, value = data[:1], data[1:]
    if mode and mode[0] % 3 != RAW:
        value = sealed_batch(value, fitted=mode[0] % 3 == FITTED)
    try:
        header = codec.decode_header(value)
    except BatchDamaged:
        header = None
    try:
        found = codec.decode(value)
        codec.check_slots(found)
    except BatchDamaged:
        return
    assert header is not None
    assert header.value_bytes == len(value)
    assert header.end_offset == found.end_offset
    assert list(found.starts) == sorted(found.starts)
    if len(value) > limits.BATCH_BYTES_MAX:
        return
    body = Body(
        content=found.content,
        starts=found.starts,
        key_hashes=found.key_hashes,
        attributes=found.attributes,
        seal=found.seal or UNSEALED,
    )
    ((base_offset, again),) = codec.encode(
        [body],
        sequence=found.sequence,
        topic=found.topic,
        partition=found.partition,
        base_offset=found.base_offset,
        publish_time_ns=found.publish_time_ns,
    )
    assert base_offset == found.base_offset
    if found.seal is None:
        # Of the first version: it is written as the second.
        assert codec.decode(again) == replace(found, seal=UNSEALED)
    else:
        assert again == value


def an_envelope(data: bytes) -> None:
    """Refused with EnvelopeDamaged, or encoded again to the same bytes."""
    value = sealed_envelope(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    try:
        found = envelope.decode(value)
    except EnvelopeDamaged:
        return
    again = envelope.encode(
        found.kind,
        found.key,
        found.payload,
        sequence=found.sequence,
        publish_time_ns=found.publish_time_ns,
    )
    assert again == value[: found.value_bytes]


def record(data: bytes) -> None:
    """Refused as unknown or damaged, or a record of that key that comes back from its bytes."""
    draw = Draw(data)
    key, value = draw.chunk(), draw.rest()
    try:
        found = records.decode(key, value)
    except (records.UnknownRecord, records.DamagedRecord):
        return
    assert found.key() == key
    again = found.value()
    assert again is not None
    assert records.decode(key, again).value() == again


def state(data: bytes) -> None:
    """Any records at all: a hard state, or DataLoss with a sentence."""
    draw = Draw(data)
    pairs = []
    while not draw.is_empty:
        pairs.append((draw.chunk(), draw.chunk()))
    try:
        hard = HardState.load(dict(pairs).items())
    except DataLoss as error:
        refusal(error)
        return
    for share in hard.shares():
        share.stats(share.cursor.floor)


def search(data: bytes) -> None:
    """A broken file: found is what is sound, and the rest is passed over."""
    draw = Draw(data)
    content = bytearray()
    while not draw.is_empty:
        kind, part = draw.below(4), draw.chunk()
        if kind == 1:
            part = sealed_batch(part, fitted=True)
        elif kind == 2:
            part = sealed_envelope(part)
        content += part
    finds = salvage._search(bytes(content))  # type: ignore[arg-type]
    kept = list(salvage._without_overlaps(finds.places, finds.records))
    for one, other in pairwise(kept):
        assert one.partition < other.partition or one.end_offset <= other.base_offset
    for place in finds.places:
        codec.decode(bytes(content[place.file_position :][: place.value_bytes]))


TARGETS = (
    Target(name="batch", run=batch),
    Target(name="envelope", run=an_envelope),
    Target(name="record", run=record),
    Target(name="state", run=state),
    Target(name="search", run=search),
)
