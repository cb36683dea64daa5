"""Envelopes: small records that describe themselves."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from fanlog.log import envelope
from fanlog.log.envelope import EnvelopeDamaged, Kind, Record


def encode(payload: bytes = b"payload", key: bytes = b"key") -> bytes:
    return envelope.encode(Kind.STATE, key, payload, sequence=3, publish_time_ns=4)


@pytest.mark.parametrize("payload", [b"", b"payload", b"x" * 100_000])
@pytest.mark.parametrize("key", [b"k", b"\0" * 511])
def test_round_trip(key: bytes, payload: bytes):
    value = encode(payload, key)
    assert envelope.decode(value) == Record(Kind.STATE, key, payload, 3, 4, len(value))
    assert envelope.decode(memoryview(value)) == envelope.decode(value)


def test_what_follows_is_ignored():
    value = encode()
    assert envelope.decode(value + b"more") == envelope.decode(value)


def test_every_flipped_bit_is_noticed():
    value = encode()
    for index in range(len(value)):
        for bit in range(8):
            damaged = bytearray(value)
            damaged[index] ^= 1 << bit
            with pytest.raises(EnvelopeDamaged):
                envelope.decode(bytes(damaged))


def test_every_truncation_is_noticed():
    value = encode()
    for length in range(len(value)):
        with pytest.raises(EnvelopeDamaged):
            envelope.decode(value[:length])


@pytest.mark.parametrize("position", [4, 5])
def test_another_version_or_kind_is_not_guessed_at(position: int):
    value = bytearray(encode())
    value[position] = 9
    crc = crc32c(bytes(value[32:]), crc32c(bytes(value[:28])))
    value[28:32] = crc.to_bytes(4, "little")
    with pytest.raises(EnvelopeDamaged, match="this build reads version 1"):
        envelope.decode(bytes(value))


def test_empty_key_is_our_mistake():
    with pytest.raises(AssertionError):
        encode(key=b"")
