"""Entries are read back as they were, or not at all."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from entry_samples import CARD, CHAIN, NONCE, samples
from fanlog.log.replicated import entries
from fanlog.log.replicated.bodies import Carried, HandOver, SnapshotPiece, TakeOver
from fanlog.log.replicated.entries import EntryDamaged, Head, StrayRecord

TAG = entries.cluster_tag("here")


def resealed(value: bytes) -> bytes:
    """The same bytes under good checksums, as a broken program would write them."""
    payload = value[entries.HEAD_BYTES :]
    fields = value[:52] + struct.pack("<II", len(payload), crc32c(payload))
    return fields + struct.pack("<I", crc32c(fields)) + payload


@pytest.mark.parametrize("name", samples())
def test_round_trip(name: str):
    value, entry = entries.encode(TAG, *samples()[name])
    assert entries.decode(TAG, value) == entry
    assert entry.size_bytes == len(value)
    assert resealed(value) == value


@pytest.mark.parametrize("name", samples())
def test_every_bit_is_under_a_checksum(name: str):
    value, _ = entries.encode(TAG, *samples()[name])
    for index in range(len(value)):
        damaged = bytearray(value)
        damaged[index] ^= 1 << index % 8
        with pytest.raises(EntryDamaged):
            entries.decode(TAG, bytes(damaged))


@pytest.mark.parametrize("name", samples())
def test_an_entry_that_is_cut_short_or_too_long_is_refused(name: str):
    value, _ = entries.encode(TAG, *samples()[name])
    # Nothing at all is no part of an entry.
    for end in range(1, len(value)):
        with pytest.raises(EntryDamaged):
            entries.decode(TAG, value[:end])
        if end >= entries.HEAD_BYTES:
            with pytest.raises(EntryDamaged):
                entries.decode(TAG, resealed(value[:end]))
    with pytest.raises(EntryDamaged, match="behind its end"):
        entries.decode(TAG, resealed(value + b"\0"))


def test_an_entry_of_another_cluster_is_recognised():
    value, _ = entries.encode(entries.cluster_tag("there"), *samples()["commit"])
    with pytest.raises(StrayRecord, match="another cluster"):
        entries.decode(TAG, value)


@pytest.mark.parametrize(("index", "content"), [(4, 2), (5, 99), (5, 0), (6, 1)])
def test_a_newer_version_kind_or_flag_is_refused_with_a_sentence(index: int, content: int):
    value, _ = entries.encode(TAG, *samples()["commit"])
    newer = bytearray(value)
    newer[index] = content
    with pytest.raises(EntryDamaged, match="update this node"):
        entries.decode(TAG, resealed(bytes(newer)))


@pytest.mark.parametrize(
    "head",
    [
        Head(-2, -1, 0, entries.NO_CHAIN),
        Head(3, -1, 1, entries.NO_CHAIN),
        Head(3, -1, 0, CHAIN),
    ],
)
def test_a_take_over_claims_nothing_it_cannot_know(head: Head):
    body = TakeOver(identity=bytes(16), nonce=NONCE, card=CARD)
    value, _ = entries.encode(TAG, head, body)
    with pytest.raises(EntryDamaged, match="a take-over with"):
        entries.decode(TAG, value)


@pytest.mark.parametrize("head", [Head(-1, 3, 1, CHAIN), Head(7, 7, 1, CHAIN)])
def test_an_entry_lies_behind_the_begin_of_its_term(head: Head):
    value, _ = entries.encode(TAG, head, HandOver(successor=""))
    with pytest.raises(EntryDamaged, match="expects to lie"):
        entries.decode(TAG, value)


def test_pieces_go_forward():
    head = Head(1, 2, 1, CHAIN)
    piece = SnapshotPiece(begin=2, first=b"b", until=b"a", rows=(), state=())
    carried = Carried(begin=2, up_to=1, first=b"b", until=b"a", batches=())
    for body in (piece, carried):
        value, _ = entries.encode(TAG, head, body)
        with pytest.raises(EntryDamaged):
            entries.decode(TAG, value)


def test_a_batch_of_another_commit_is_refused():
    head, body = samples()["commit"]
    value, _ = entries.encode(TAG, head._replace(sequence=5), body)
    with pytest.raises(EntryDamaged, match="another commit"):
        entries.decode(TAG, value)


def test_the_chain_tells_place_and_content():
    value, _ = entries.encode(TAG, *samples()["renewal"])
    other, _ = entries.encode(TAG, *samples()["hand-over"])
    head = entries.HEAD_BYTES
    chains = {
        entries.chain_after(chain, offset, one[:head])
        for chain in (CHAIN, entries.NO_CHAIN)
        for offset in (0, 1)
        for one in (value, other)
    }
    assert len(chains) == 8
