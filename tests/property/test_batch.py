"""Any bodies, cut and merged as they may be, read back as the messages that went in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fanlog import limits
from fanlog.log import batch as codec
from fanlog.log import envelope
from fanlog.log.batch import BatchDamaged, Body
from fanlog.log.envelope import Kind
from fanlog.log.seal import UNSEALED, Seal
from fanlog.model.resources import PartitionId
from fanlog.testing.conformance import make_body, messages_of

#: Small, so that cuts and merges happen with small examples.
BATCH_BYTES_MAX = 256

u64 = st.integers(0, 2**64 - 1)
seals = st.builds(
    Seal,
    is_letter=st.booleans(),
    is_copy=st.booleans(),
    addressee=st.just(0) | u64,
    hops=st.just(0) | st.integers(0, 255),
)


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    messages = draw(st.lists(st.binary(max_size=120), min_size=1, max_size=12))
    keys = st.lists(u64, min_size=len(messages), max_size=len(messages))
    attributes = st.dictionaries(st.text(max_size=4), st.text(max_size=8), max_size=2)
    return make_body(
        *messages,
        key_hashes=draw(st.none() | keys),
        attributes=draw(st.just({}) | attributes),
        seal=draw(st.just(UNSEALED) | seals),
    )


def split(body: Body) -> list[bytes]:
    return [body.content[body.starts[i] : body.starts[i + 1]] for i in range(body.count)]


@given(
    bodies=st.lists(bodies(), max_size=6),
    sequence=u64,
    topic=u64,
    partition=st.integers(0, 2**32 - 1),
    base_offset=st.integers(0, 2**63),
    publish_time_ns=u64,
)
def test_what_goes_in_comes_out(
    bodies: Sequence[Body],
    sequence: int,
    topic: int,
    partition: int,
    base_offset: int,
    publish_time_ns: int,
):
    with patch.object(limits, "BATCH_BYTES_MAX", BATCH_BYTES_MAX):
        values = list(
            codec.encode(
                bodies,
                sequence=sequence,
                topic=topic,
                partition=PartitionId(partition),
                base_offset=base_offset,
                publish_time_ns=publish_time_ns,
            )
        )
    batches = [codec.decode(value) for _, value in values]
    assert messages_of(batches) == [message for body in bodies for message in split(body)]
    assert [h for batch in batches for h in batch.key_hashes or [0] * batch.count] == [
        h for body in bodies for h in body.key_hashes or [0] * body.count
    ]
    assert [batch.attributes for batch in batches for _ in range(batch.count)] == [
        body.attributes for body in bodies for _ in range(body.count)
    ]
    assert [batch.seal for batch in batches for _ in range(batch.count)] == [
        body.seal for body in bodies for _ in range(body.count)
    ]
    position = base_offset
    for (base, value), batch in zip(values, batches, strict=True):
        assert base == batch.base_offset == position
        assert len(value) <= BATCH_BYTES_MAX or batch.count == 1
        assert (batch.sequence, batch.topic) == (sequence, topic)
        assert (batch.partition, batch.publish_time_ns) == (partition, publish_time_ns)
        position = batch.end_offset


@given(bodies=st.lists(bodies(), max_size=6))
def test_sizes_are_known_before_values_are_made(bodies: Sequence[Body]):
    with patch.object(limits, "BATCH_BYTES_MAX", BATCH_BYTES_MAX):
        assert codec.stored_bytes(bodies) == sum(map(len, encode(bodies)))


@given(bodies=st.lists(bodies(), min_size=2, max_size=6))
def test_neighbours_that_fit_together_are_together(bodies: Sequence[Body]):
    begins = dict(zip(accumulate((body.count for body in bodies), initial=0), bodies, strict=False))
    with patch.object(limits, "BATCH_BYTES_MAX", BATCH_BYTES_MAX):
        for batch in map(codec.decode, encode(bodies)):
            body = begins.get(batch.end_offset)
            if body is None or (body.attributes, body.seal) != (batch.attributes, batch.seal):
                continue
            hashes = [*(batch.key_hashes or [0] * batch.count), *(body.key_hashes or [])]
            is_keyed = batch.key_hashes is not None or body.key_hashes is not None
            hashes += [0] * (batch.count + body.count - len(hashes))
            together = make_body(
                *messages_of([batch]),
                *split(body),
                key_hashes=hashes if is_keyed else None,
                attributes=body.attributes,
                seal=body.seal,
            )
            assert len(encode([together])) > 1


@given(body=bodies(), position=st.floats(0, 1, exclude_max=True), noise=st.integers(1, 255))
def test_a_changed_byte_is_noticed(body: Body, position: float, noise: int):
    for value in encode([body]):
        damaged = bytearray(value)
        damaged[int(position * len(value))] ^= noise
        try:
            codec.decode(bytes(damaged))
        except BatchDamaged:
            continue
        raise AssertionError("a changed byte was not noticed")


@given(value=st.binary(max_size=200))
def test_noise_is_not_a_batch(value: bytes):
    for noise in (value, codec.MAGIC + value):
        try:
            codec.decode(noise)
        except BatchDamaged:
            continue
        raise AssertionError("noise was taken for a batch")


@given(
    kind=st.sampled_from(Kind),
    key=st.binary(min_size=1, max_size=511),
    payload=st.binary(max_size=500),
    sequence=u64,
    publish_time_ns=u64,
)
def test_envelopes(kind: Kind, key: bytes, payload: bytes, sequence: int, publish_time_ns: int):
    value = envelope.encode(kind, key, payload, sequence=sequence, publish_time_ns=publish_time_ns)
    record = envelope.decode(value)
    assert record == (kind, key, payload, sequence, publish_time_ns, len(value))


def encode(bodies: Sequence[Body]) -> list[bytes]:
    values = codec.encode(
        bodies, sequence=1, topic=1, partition=PartitionId(1), base_offset=0, publish_time_ns=1
    )
    return [value for _, value in values]


@given(seal=seals)
def test_a_seal_is_the_same_in_the_lake(seal: Seal):
    assert Seal.parse(str(seal)) == seal


@given(text=st.text(max_size=20) | st.text("letr copy=to0123", max_size=20))
def test_a_text_that_is_no_seal_is_refused(text: str):
    try:
        seal = Seal.parse(text)
    except ValueError:
        return
    assert str(seal) == text
