"""Messages in the data of a stream, however the data is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanlog.transport.messages import MessageReader, MessageRefused, frame_message

SIZE_MAX = 20_000


def read(*pieces: bytes) -> list[tuple[bytes, bool]]:
    found: list[tuple[bytes, bool]] = []
    reader = MessageReader(SIZE_MAX, lambda message, folded: found.append((message, folded)))
    for piece in pieces:
        reader.feed(piece)
    return found


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 7, 300, 4_096, 9_000]), st.booleans()), max_size=6),
    st.lists(st.sampled_from([1, 3, 4, 5, 6, 100, 4_095, 4_096, 5_000]), min_size=1, max_size=8),
)
def test_messages_are_the_same_however_the_data_is_cut(
    messages: list[tuple[int, bool]], cuts: list[int]
) -> None:
    wanted = [(bytes([n % 251]) * size, folded) for n, (size, folded) in enumerate(messages)]
    data = b"".join(bytes([folded]) + frame_message(content)[1:] for content, folded in wanted)
    pieces, position = [], 0
    while position < len(data):
        size = cuts[len(pieces) % len(cuts)]
        pieces.append(data[position : position + size])
        position += size
    assert read(*pieces) == wanted


def test_a_message_under_way_tells_how_much_is_missing() -> None:
    reader = MessageReader(SIZE_MAX, lambda message, folded: None)
    data = frame_message(b"x" * 10_000)
    reader.feed(data[:3])
    assert (reader.is_inside, reader.held_bytes, reader.missing_bytes) == (True, 3, 0)
    reader.feed(data[3:6_000])
    assert (reader.is_inside, reader.held_bytes, reader.missing_bytes) == (True, 6_000, 4_005)
    reader.feed(data[6_000:])
    assert (reader.is_inside, reader.held_bytes, reader.missing_bytes) == (False, 0, 0)


@pytest.mark.parametrize("cut", [5, 3])
def test_a_message_that_is_too_long_is_refused_by_its_prefix(cut: int) -> None:
    data = b"\0" + (SIZE_MAX + 1).to_bytes(4)
    with pytest.raises(MessageRefused, match="at most 20000 are allowed"):
        read(data[:cut], data[cut:])


@pytest.mark.parametrize("cut", [6, 3])
def test_unknown_flags_are_refused(cut: int) -> None:
    data = b"\2" + frame_message(b"x")[1:]
    with pytest.raises(MessageRefused, match="unknown flags"):
        read(data[:cut], data[cut:])


def test_crumbs_of_a_message_are_one_part() -> None:
    reader = MessageReader(SIZE_MAX, lambda message, folded: None)
    for byte in frame_message(b"x" * 3_000)[:-1]:
        reader.feed(bytes([byte]))
    assert len(reader._parts) == 1
