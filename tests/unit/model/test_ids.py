"""Ids as texts."""

from __future__ import annotations

import pytest

from fanlog.errors import InvalidArgument
from fanlog.model.ids import ack_id, find_message_id, message_id, parse_message_id


def test_message_ids() -> None:
    assert message_id(1, 0) == "1000000000000"
    assert parse_message_id(message_id(42, 123_456)) == (42, 123_456)
    assert parse_message_id("9999999999999") == (9, 10**12 - 1)


@pytest.mark.parametrize(
    "text", ["", "1", "000000000001", "0000000000001", "1x0000000000", "-1" * 9]
)
def test_message_ids_that_are_not_ours(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^message id: .* is not an id of this service$"):
        parse_message_id(text)
    assert find_message_id(text) is None


def test_an_ack_id_ends_with_the_offset() -> None:
    assert ack_id("f" * 40, 10**12 - 1) == "f" * 40 + "00e8d4a50fff"
