"""The payloads of entries, as bytes: one codec for each kind.

A commit's payload holds its batches and its state in the bytes that the caches store: applying one
encodes nothing. Encoders return parts, so that a commit's bytes are joined once.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fanlog.log import batch as codec
from fanlog.log import envelope, folder
from fanlog.log.api import KEY_BYTES_MAX, Trim
from fanlog.log.encoded import EncodedBatch, EncodedCommit
from fanlog.log.envelope import Kind
from fanlog.log.replicated.api import Member
from fanlog.log.replicated.bodies import (
    Body,
    Carried,
    Checkpoint,
    HandOver,
    Part,
    Renewal,
    SnapshotPiece,
    StageEnd,
    StagePiece,
    StagesRemoved,
    TakeOver,
)
from fanlog.model.resources import PartitionId

IDENTITY_BYTES = 16
NONCE_BYTES = 16
CARD_BYTES_MAX = 4 * 1024
NAME_BYTES_MAX = 1024
MEMBERS_MAX = 64


def encode(body: Body) -> tuple[int, list[Part]]:
    """The number of the body's kind, and its payload in parts."""
    number, encoder, _ = _KINDS[type(body)]
    return number, encoder(body)


def is_known(kind: int) -> bool:
    return kind in _DECODERS


def decode(kind: int, payload: memoryview, sequence: int) -> Body:
    """The body of a payload; `sequence` is that of its head.

    Raises:
        ValueError: A field is out of range, or the payload is longer or shorter than it says.
    """
    reader = _Reader(payload)
    body = _DECODERS[kind](reader, sequence)
    reader.end()
    return body


class _Reader:
    """Takes a payload apart, from its begin on."""

    def __init__(self, payload: memoryview) -> None:
        self._payload = payload
        self._at = 0

    def take(self, count: int) -> memoryview:
        part = self._payload[self._at : self._at + count]
        if len(part) != count:
            raise ValueError("it is cut short")
        self._at += count
        return part

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self.take(layout.size))

    def short(self, bytes_max: int) -> bytes:
        """Bytes behind their length, u16."""
        (count,) = self.fields(_U16)
        if count > bytes_max:
            raise ValueError(f"a field of {count} bytes, at most {bytes_max} are allowed")
        return self.take(count).tobytes()

    def text(self) -> str:
        return self.short(NAME_BYTES_MAX).decode()

    def lengths(self, count: int) -> array[int]:
        """So many u32."""
        found = array("I")
        found.frombytes(self.take(count * found.itemsize))
        if codec.SWAPS:  # pragma: no cover - a machine of the other byte order
            found.byteswap()
        return found

    def end(self) -> None:
        if self._at != len(self._payload):
            raise ValueError("there are bytes behind its end")


_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")


def _short(content: bytes, bytes_max: int) -> bytes:
    assert len(content) <= bytes_max
    return _U16.pack(len(content)) + content


def _text(text: str) -> bytes:
    return _short(text.encode(), NAME_BYTES_MAX)


def _lengths(values: Sequence[Part]) -> bytes:
    lengths = array("I", map(len, values))
    if codec.SWAPS:  # pragma: no cover - a machine of the other byte order
        lengths.byteswap()
    return lengths.tobytes()


# Take-over.

_IDS = struct.Struct("<16s16s")


def _encode_take_over(body: TakeOver) -> list[Part]:
    return [_IDS.pack(body.identity, body.nonce), _short(body.card, CARD_BYTES_MAX)]


def _decode_take_over(reader: _Reader, _: int) -> TakeOver:
    identity, nonce = reader.fields(_IDS)
    return TakeOver(identity=identity, nonce=nonce, card=reader.short(CARD_BYTES_MAX))


# Commits.

# publish time; how many batches, state values, removed keys, trims
_COMMIT = struct.Struct("<QIIII")
_TRIM = struct.Struct("<IQB")


def _encode_commit(body: EncodedCommit) -> list[Part]:
    batches = [batch.value for batch in body.batches]
    values = [value for _, value in body.state if value is not None]
    removed = [_short(key, KEY_BYTES_MAX) for key, value in body.state if value is None]
    trims = [_TRIM.pack(trim.partition, max(0, trim.before), trim.dropped) for trim in body.trims]
    counts = len(batches), len(values), len(removed), len(trims)
    head = _COMMIT.pack(body.publish_time_ns, *counts)
    lengths = _lengths(batches) + _lengths(values)
    return [head, lengths, *removed, *trims, *batches, *values]


def _decode_commit(reader: _Reader, sequence: int) -> EncodedCommit:
    publish_time_ns, batch_count, value_count, removed_count, trim_count = reader.fields(_COMMIT)
    batch_lengths, lengths = reader.lengths(batch_count), reader.lengths(value_count)
    removed = [reader.short(KEY_BYTES_MAX) for _ in range(removed_count)]
    trims = [_make_trim(*reader.fields(_TRIM)) for _ in range(trim_count)]
    batches = [_take_batch(reader, length) for length in batch_lengths]
    if any(batch.sequence != sequence for batch in batches):
        raise ValueError("a batch of another commit")
    state: list[tuple[bytes, Part | None]] = [_take_state(reader, length) for length in lengths]
    if not all(removed):
        raise ValueError("an empty key")
    state += [(key, None) for key in removed]
    return EncodedCommit(sequence, publish_time_ns, batches, state, trims)


def _make_trim(partition: int, before: int, flags: int) -> Trim:
    if flags > 1:
        raise ValueError(f"a trim with flags {flags:#x}")
    return Trim(partition=PartitionId(partition), before=before, dropped=bool(flags))


def _take_batch(reader: _Reader, length: int) -> EncodedBatch:
    value = reader.take(length)
    header = codec.decode_header(value)
    if header.value_bytes != length or not header.message_count:
        raise ValueError("a batch whose header gives it another length")
    return EncodedBatch(
        header.partition, header.base_offset, header.end_offset, header.sequence, value
    )


def _take_state(reader: _Reader, length: int) -> tuple[bytes, memoryview]:
    value = reader.take(length)
    kind, key, _ = envelope.peek(value)
    if kind is not Kind.STATE or len(key) > KEY_BYTES_MAX:
        raise ValueError(f"a record of kind {kind} with a key of {len(key)} bytes")
    return key, value


# Renewals and hand-overs.

_MEMBER = struct.Struct("<q")


def _encode_renewal(body: Renewal) -> list[Part]:
    assert len(body.members) <= MEMBERS_MAX
    parts: list[Part] = [_U16.pack(len(body.members))]
    for member in body.members:
        parts += [_MEMBER.pack(member.applied_offset), _short(member.card, CARD_BYTES_MAX)]
    return parts


def _decode_renewal(reader: _Reader, _: int) -> Renewal:
    (count,) = reader.fields(_U16)
    members = []
    for _ in range(count):
        (applied_offset,) = reader.fields(_MEMBER)
        members.append(Member(reader.short(CARD_BYTES_MAX), applied_offset))
    return Renewal(members=tuple(members))


def _encode_hand_over(body: HandOver) -> list[Part]:
    return [_text(body.successor)]


def _decode_hand_over(reader: _Reader, _: int) -> HandOver:
    return HandOver(successor=reader.text())


# Checkpoints, snapshots, carried batches.

_CHECKPOINT = struct.Struct("<16sQQ16s")
_PLACE = struct.Struct("<q")
_CARRIED = struct.Struct("<qQ")
_ROW = struct.Struct("<IQQ")
_PIECE_COUNTS = struct.Struct("<II")
#: Longest key of a snapshot: the space, and the key of state.
_PIECE_KEY_BYTES_MAX = 1 + KEY_BYTES_MAX


def _encode_checkpoint(body: Checkpoint) -> list[Part]:
    fields = body.identity, body.publish_time_ns, body.total_bytes, body.nonce
    return [_CHECKPOINT.pack(*fields), _short(body.card, CARD_BYTES_MAX)]


def _decode_checkpoint(reader: _Reader, _: int) -> Checkpoint:
    identity, publish_time_ns, total_bytes, nonce = reader.fields(_CHECKPOINT)
    return Checkpoint(
        identity=identity,
        publish_time_ns=publish_time_ns,
        total_bytes=total_bytes,
        nonce=nonce,
        card=reader.short(CARD_BYTES_MAX),
    )


def _encode_piece(body: SnapshotPiece) -> list[Part]:
    values = [value for _, value in body.state]
    return [
        _PLACE.pack(body.begin),
        _short(body.first, _PIECE_KEY_BYTES_MAX),
        _short(body.until, _PIECE_KEY_BYTES_MAX),
        _PIECE_COUNTS.pack(len(body.rows), len(values)),
        *(_ROW.pack(*row) for row in body.rows),
        _lengths(values),
        *values,
    ]


def _decode_piece(reader: _Reader, _: int) -> SnapshotPiece:
    (begin,) = reader.fields(_PLACE)
    first, until = reader.short(_PIECE_KEY_BYTES_MAX), reader.short(_PIECE_KEY_BYTES_MAX)
    row_count, value_count = reader.fields(_PIECE_COUNTS)
    rows = []
    for _ in range(row_count):
        partition, start, end = reader.fields(_ROW)
        if start > end:
            raise ValueError(f"partition {partition} from {start} to {end}")
        rows.append((PartitionId(partition), start, end))
    state = [_take_state(reader, length) for length in reader.lengths(value_count)]
    if begin < 0 or (until and until <= first):
        raise ValueError("a piece that ends before it begins")
    return SnapshotPiece(
        begin=begin, first=first, until=until, rows=tuple(rows), state=tuple(state)
    )


def _encode_carried(body: Carried) -> list[Part]:
    values = [batch.value for batch in body.batches]
    return [
        _CARRIED.pack(body.begin, body.up_to),
        _short(body.first, folder.COMMIT_KEY_BYTES),
        _short(body.until, folder.COMMIT_KEY_BYTES),
        _U32.pack(len(values)),
        _lengths(values),
        *values,
    ]


def _decode_carried(reader: _Reader, _: int) -> Carried:
    begin, up_to = reader.fields(_CARRIED)
    first, until = reader.short(folder.COMMIT_KEY_BYTES), reader.short(folder.COMMIT_KEY_BYTES)
    (count,) = reader.fields(_U32)
    batches = [_take_batch(reader, length) for length in reader.lengths(count)]
    if begin < 0 or (until and until <= first) or any(one.sequence > up_to for one in batches):
        raise ValueError("batches beyond the end of their pass")
    return Carried(begin=begin, up_to=up_to, first=first, until=until, batches=tuple(batches))


# Stages.

_POSITION = struct.Struct("<Q")
_POSITION_MAX = 1 << 62


#: They become names of files.
_STAGE_ID = re.compile(r"[0-9A-Za-z_-]{1,100}")


def _encode_stage_piece(body: StagePiece) -> list[Part]:
    return _encode_stage(body.stage_id, body.position, body.content)


def _decode_stage_piece(reader: _Reader, _: int) -> StagePiece:
    stage_id, position, content = _take_stage(reader)
    return StagePiece(stage_id=stage_id, position=position, content=content)


def _encode_stage_end(body: StageEnd) -> list[Part]:
    return _encode_stage(body.stage_id, body.position, body.said)


def _decode_stage_end(reader: _Reader, _: int) -> StageEnd:
    stage_id, position, said = _take_stage(reader)
    return StageEnd(stage_id=stage_id, position=position, said=said.tobytes())


def _encode_stage(stage_id: str, position: int, content: Part) -> list[Part]:
    return [_text(stage_id), _POSITION.pack(position), _U32.pack(len(content)), content]


def _take_stage(reader: _Reader) -> tuple[str, int, memoryview]:
    stage_id = _take_stage_id(reader)
    (position,), (count,) = reader.fields(_POSITION), reader.fields(_U32)
    if position > _POSITION_MAX:
        raise ValueError(f"a stage of {position} bytes")
    return stage_id, position, reader.take(count)


def _take_stage_id(reader: _Reader) -> str:
    stage_id = reader.text()
    if not _STAGE_ID.fullmatch(stage_id):
        raise ValueError(f"a stage with the id {stage_id!r}")
    return stage_id


def _encode_stages_removed(body: StagesRemoved) -> list[Part]:
    return [_U32.pack(len(body.stage_ids)), *map(_text, body.stage_ids)]


def _decode_stages_removed(reader: _Reader, _: int) -> StagesRemoved:
    (count,) = reader.fields(_U32)
    return StagesRemoved(stage_ids=tuple(_take_stage_id(reader) for _ in range(count)))


_Encoder: TypeAlias = Callable[[Any], list[Part]]
_Decoder: TypeAlias = Callable[[_Reader, int], Body]

#: Numbers are stored and never change meaning.
_KINDS: dict[type[Body], tuple[int, _Encoder, _Decoder]] = {
    TakeOver: (1, _encode_take_over, _decode_take_over),
    EncodedCommit: (2, _encode_commit, _decode_commit),
    Renewal: (3, _encode_renewal, _decode_renewal),
    HandOver: (4, _encode_hand_over, _decode_hand_over),
    Checkpoint: (5, _encode_checkpoint, _decode_checkpoint),
    SnapshotPiece: (6, _encode_piece, _decode_piece),
    Carried: (7, _encode_carried, _decode_carried),
    StagePiece: (8, _encode_stage_piece, _decode_stage_piece),
    StageEnd: (9, _encode_stage_end, _decode_stage_end),
    StagesRemoved: (10, _encode_stages_removed, _decode_stages_removed),
}
_DECODERS = {number: decoder for number, _, decoder in _KINDS.values()}
