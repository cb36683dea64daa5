"""The batch codec: what goes in comes out, cuts and merges, and no damage passes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from crc32c import crc32c

from fanlog import limits
from fanlog.log import batch as codec
from fanlog.log.batch import Batch, BatchDamaged, Body
from fanlog.log.plain import encode_plain, plain_batch, plain_bytes
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import make_body, messages_of


def encode(*bodies: Body, base_offset: int = 100) -> list[tuple[int, bytes]]:
    return list(
        codec.encode(
            bodies,
            sequence=5,
            topic=6,
            partition=PartitionId(7),
            base_offset=base_offset,
            publish_time_ns=1_700_000_000_123_456_789,
        )
    )


def encode_one(*bodies: Body) -> bytes:
    ((_, value),) = encode(*bodies)
    return value


def decode_all(values: Sequence[tuple[int, bytes]]) -> list[Batch]:
    return [codec.decode(value) for _, value in values]


def test_one_body():
    value = encode_one(make_body(b"one", b"", b"three"))
    assert codec.decode(value) == Batch(
        topic=6,
        partition=PartitionId(7),
        base_offset=100,
        sequence=5,
        publish_time_ns=1_700_000_000_123_456_789,
        starts=array("I", [0, 3, 3, 8]),
        key_hashes=None,
        attributes={},
        content=b"onethree",
        seal=UNSEALED,
    )


@pytest.mark.parametrize(
    "body",
    [
        make_body(b"one"),
        make_body(b"one", b"", b"three"),
        make_body(b"one", b"two", key_hashes=[1, 0]),
        make_body(b"one", seal=Seal(is_letter=True, hops=3)),
        make_body(bytes(limits.BATCH_BYTES_MAX - codec.HEADER_BYTES - 8)),
    ],
)
def test_a_plain_batch_is_what_is_read_back(body):
    value = encode_one(body)
    batch = plain(body)
    assert batch == codec.decode(value)
    assert encode_plain(batch) == value
    assert plain_bytes(batch) == len(value)


@pytest.mark.parametrize(
    "body",
    [
        make_body(b"one", attributes={"a": "b"}),
        make_body(b"one", seal=Seal(is_copy=True, addressee=1)),
        make_body(bytes(limits.BATCH_BYTES_MAX - codec.HEADER_BYTES - 7)),
        make_body(*[bytes(limits.BATCH_BYTES_MAX // 2)] * 2),
    ],
)
def test_no_batch_is_plain_that_has_more_or_would_be_cut(body):
    assert plain(body) is None


def plain(body: Body) -> Batch | None:
    return plain_batch(
        body,
        sequence=5,
        topic=6,
        partition=PartitionId(7),
        base_offset=100,
        publish_time_ns=1_700_000_000_123_456_789,
    )


def test_header_says_the_same_as_the_batch():
    body = make_body(b"one", b"two", key_hashes=[1, 2], attributes={"a": "b"})
    value = encode_one(body)
    header = codec.decode_header(value)
    assert (header.base_offset, header.end_offset) == (100, 102)
    assert header.has_key_hashes
    assert header.value_bytes == len(value)


def test_the_first_version_knew_no_seals():
    value = bytearray(encode_one(make_body(b"one", seal=Seal(is_letter=True))))
    value[4] = 1
    value[60:64] = crc32c(bytes(value[:60])).to_bytes(4, "little")
    with pytest.raises(BatchDamaged, match="format version 1 with flags 0x2"):
        codec.decode(bytes(value))


def test_bodies_with_other_seals_are_other_batches():
    plain, letter = make_body(b"one"), make_body(b"two", seal=Seal(is_letter=True))
    copies = [make_body(b"x", seal=Seal(is_copy=True, addressee=n)) for n in (1, 1, 2)]
    found = decode_all(encode(plain, letter, *copies, plain))
    assert [(batch.count, str(batch.seal)) for batch in found] == [
        (1, ""),
        (1, "letter"),
        (2, "copy to=1"),
        (1, "copy to=2"),
        (1, ""),
    ]


def test_values_may_be_views():
    value = encode_one(make_body(b"one", b"two"))
    batch = codec.decode(memoryview(value))
    assert batch == codec.decode(value)
    assert isinstance(batch.content, bytes)


@pytest.mark.parametrize("starts", [[0, 3, 6], (0, 3, 6), array("I", [0, 3, 6])])
def test_starts_may_be_any_sequence(starts: Sequence[int]):
    body = Body(content=b"onetwo", starts=starts, key_hashes=tuple(starts[:2]))
    batch = codec.decode(encode_one(body, body))
    assert messages_of([batch]) == [b"one", b"two", b"one", b"two"]
    assert batch.key_hashes is not None
    assert list(batch.key_hashes) == [0, 3, 0, 3]


def test_attributes_of_any_text():
    attributes = {"k": "v", "empty": "", "é": "\N{PILE OF POO}" * 300}
    assert codec.decode(encode_one(make_body(b"x", attributes=attributes))).attributes == attributes


def test_waiting_publishes_become_one_batch():
    bodies = [make_body(b"message %d" % i) for i in range(200)]
    ((base_offset, value),) = encode(*bodies)
    batch = codec.decode(value)
    assert base_offset == batch.base_offset == 100
    assert messages_of([batch]) == [b"message %d" % i for i in range(200)]
    assert batch.key_hashes is None


def test_merging_keeps_keys_beside_none():
    batch = codec.decode(
        encode_one(make_body(b"a"), make_body(b"b", b"c", key_hashes=[8, 0]), make_body(b"d"))
    )
    assert batch.key_hashes is not None
    assert list(batch.key_hashes) == [0, 8, 0, 0]
    assert messages_of([batch]) == [b"a", b"b", b"c", b"d"]


def test_bodies_with_other_attributes_are_not_merged():
    bodies = [make_body(b"a"), make_body(b"b", attributes={"k": "v"}), make_body(b"c")]
    values = encode(*bodies)
    assert [base_offset for base_offset, _ in values] == [100, 101, 102]
    assert [dict(batch.attributes) for batch in decode_all(values)] == [{}, {"k": "v"}, {}]


@pytest.mark.parametrize("key_hashes", [None, range(1_000)])
def test_large_body_is_cut_as_late_as_it_can_be(key_hashes: Sequence[int] | None):
    messages = [b"%04d" % i + b"x" * 1_020 for i in range(1_000)]
    values = encode(make_body(*messages, key_hashes=key_hashes))
    batches = decode_all(values)
    assert messages_of(batches) == messages
    slot_bytes = 4 if key_hashes is None else 12
    for (base_offset, value), batch in zip(values, batches, strict=True):
        assert len(value) <= limits.BATCH_BYTES_MAX
        assert base_offset == batch.base_offset
        if batch is not batches[-1]:
            assert len(value) + 1_024 + slot_bytes > limits.BATCH_BYTES_MAX
    if key_hashes is not None:
        assert [h for batch in batches for h in batch.key_hashes or ()] == list(range(1_000))


def test_message_larger_than_a_batch_has_its_own():
    messages = [b"small", b"L" * limits.BATCH_BYTES_MAX, b"M" * 3_000_000, b"small too"]
    batches = decode_all(encode(make_body(*messages)))
    assert [batch.count for batch in batches] == [1, 1, 1, 1]
    assert messages_of(batches) == messages


def test_exactly_full():
    room = limits.BATCH_BYTES_MAX - codec.HEADER_BYTES - 3 * 4
    assert len(encode_one(make_body(b"x", b"y" * (room - 1)))) == limits.BATCH_BYTES_MAX
    assert len(encode(make_body(b"x", b"y" * room))) == 2
    assert len(encode_one(make_body(b"x"), make_body(b"y" * (room - 1)))) == limits.BATCH_BYTES_MAX
    assert len(encode(make_body(b"x"), make_body(b"y" * room))) == 2


def test_the_rest_of_a_cut_body_takes_what_follows():
    third = limits.BATCH_BYTES_MAX // 3
    values = encode(make_body(*[b"a" * third] * 3), make_body(b"b"), make_body(b"c"))
    assert [batch.count for batch in decode_all(values)] == [2, 3]


def test_nothing_gives_nothing():
    assert encode() == []


@pytest.mark.parametrize(
    "body",
    [
        Body(content=b"", starts=[0]),
        Body(content=b"x", starts=[1, 1]),
        Body(content=b"x", starts=[0, 2]),
        Body(content=b"x", starts=[0, 1], key_hashes=[1, 2]),
    ],
)
def test_bodies_that_make_no_sense_are_our_mistake(body: Body):
    with pytest.raises(AssertionError):
        encode(body)


SMALL = [
    encode_one(make_body(b"one", b"two")),
    encode_one(make_body(b"one", b"two", key_hashes=[1, 2], attributes={"k": "v"})),
]


@pytest.mark.parametrize("value", SMALL)
def test_every_flipped_bit_is_noticed(value: bytes):
    for index in range(len(value)):
        for bit in range(8):
            damaged = bytearray(value)
            damaged[index] ^= 1 << bit
            with pytest.raises(BatchDamaged):
                codec.decode(bytes(damaged))
            if index < codec.HEADER_BYTES:
                with pytest.raises(BatchDamaged):
                    codec.decode_header(bytes(damaged))


@pytest.mark.parametrize("value", SMALL)
def test_every_truncation_is_noticed(value: bytes):
    for length in range(len(value)):
        with pytest.raises(BatchDamaged):
            codec.decode(value[:length])
    with pytest.raises(BatchDamaged, match="the header says"):
        codec.decode(value + b"\0")


def test_reasons_name_what_is_wrong():
    value = SMALL[0]
    with pytest.raises(BatchDamaged, match="cut short"):
        codec.decode(value[:10])
    with pytest.raises(BatchDamaged, match="not a batch"):
        codec.decode(bytes(200))
    with pytest.raises(BatchDamaged, match="header fails its checksum"):
        codec.decode(value[:20] + b"\xff" + value[21:])
    with pytest.raises(BatchDamaged, match="payload fails its checksum"):
        codec.decode(value[:-1] + b"\xff")


@pytest.mark.parametrize(("position", "text"), [(4, "version 16"), (6, "flags 0x10")])
def test_another_format_is_not_guessed_at(position: int, text: str):
    value = bytearray(SMALL[0])
    # All flags of later versions mean something.
    value[4] = 1
    value[position] = 16
    value[60:64] = crc32c(bytes(value[:60])).to_bytes(4, "little")
    with pytest.raises(BatchDamaged, match=f"{text}.*this build reads versions 1 to 3"):
        codec.decode(bytes(value))
