"""Ack ids: made, read, and refused."""

from __future__ import annotations

import pytest

from fanlog.core.ack_ids import PREFIX_LENGTH, AckIds, ParsedAckIds
from fanlog.model.ids import ACK_OFFSET_DIGITS

LENGTH = PREFIX_LENGTH + ACK_OFFSET_DIGITS

IDS = AckIds(lambda _: b"secret")


def ack_id(offset: int, *, subscription: int = 3, partition: int = 7, generation: int = 9) -> str:
    return f"{IDS.prefix(subscription, partition, generation)}{offset:012x}"


def test_what_was_made_is_read():
    largest = 2**48 - 1
    ids = [
        ack_id(0),
        ack_id(largest),
        ack_id(5, generation=2**64 - 1),
        ack_id(6, partition=8),
    ]
    assert {len(text) for text in ids} == {LENGTH}
    assert IDS.parse(3, ids) == ParsedAckIds(
        offsets={7: {9: [0, largest], 2**64 - 1: [5]}, 8: {9: [6]}}
    )


def test_nothing_is_nothing():
    assert IDS.parse(3, []) == ParsedAckIds()


def test_ids_of_another_subscription_are_foreign():
    theirs = [ack_id(1, subscription=4), ack_id(2, subscription=4)]
    parsed = IDS.parse(3, [ack_id(1), *theirs])
    assert parsed == ParsedAckIds(offsets={7: {9: [1]}}, foreign=theirs)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "made up",
        "0" * LENGTH,
        "é" * LENGTH,
        ack_id(1)[:-1],
        ack_id(1) + "0",
        ack_id(1)[:PREFIX_LENGTH],
        ack_id(10).upper(),
        f"{AckIds(lambda _: b'other').prefix(3, 7, 9)}{1:012x}",
    ],
)
def test_what_is_no_id_of_this_broker_is_malformed(text):
    assert IDS.parse(3, [text]) == ParsedAckIds(malformed=[text])


@pytest.mark.parametrize("place", [0, 8, 16, 31, 32, 39])
def test_a_changed_prefix_is_malformed(place):
    text = ack_id(1)
    changed = text[:place] + ("1" if text[place] != "1" else "2") + text[place + 1 :]
    assert IDS.parse(3, [changed]).malformed == [changed]


@pytest.mark.parametrize(
    "offset",
    [
        "-00000000001",
        "+00000000001",
        "0x0000000001",
        " 00000000001",
        "00000_000001",
        "00000000001 ",
        "00000000000g",
        "\u0660" * 12,
    ],
)
def test_an_offset_is_twelve_hex_digits(offset):
    wrong, right = ack_id(0)[:PREFIX_LENGTH] + offset, ack_id(1)
    parsed = IDS.parse(3, [wrong, right])
    assert parsed == ParsedAckIds(offsets={7: {9: [1]}}, malformed=[wrong])
    assert IDS.parse(3, [wrong]) == ParsedAckIds(malformed=[wrong])


def test_lengths_that_make_up_for_each_other_are_malformed():
    prefix = ack_id(0)[:PREFIX_LENGTH]
    ids = [prefix + "0" * 11, prefix + "0" * 13]
    assert IDS.parse(3, ids).malformed == ids


def test_ids_of_one_lease_are_read_as_one_by_one():
    ids = [ack_id(offset) for offset in (7, 0, 2**48 - 1, 7)]
    assert IDS.parse(3, ids) == ParsedAckIds(offsets={7: {9: [7, 0, 2**48 - 1, 7]}})
    assert IDS.parse(4, ids) == ParsedAckIds(foreign=ids)
    other = f"{AckIds(lambda _: b'other').prefix(3, 7, 9)}{1:012x}"
    assert IDS.parse(3, [other, other]) == ParsedAckIds(malformed=[other, other])


@pytest.mark.parametrize(
    "offset", ["00000000000g", "00000000000A", "0x0000000001", "+00000000001", "00000000000\u0661"]
)
def test_one_bad_offset_among_those_of_a_lease_is_malformed_alone(offset):
    good = [ack_id(1), ack_id(2)]
    bad = good[0][:PREFIX_LENGTH] + offset
    parsed = IDS.parse(3, [good[0], bad, good[1]])
    assert parsed == ParsedAckIds(offsets={7: {9: [1, 2]}}, malformed=[bad])
