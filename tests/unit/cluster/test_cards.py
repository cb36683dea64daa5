"""Cards of nodes, as they stand in the log."""

from __future__ import annotations

import pytest

from fanlog.cluster.cards import NodeCard

CARD = NodeCard(name="a", link_address="10.0.0.1:8087", api_address="10.0.0.1:8085")


def test_a_card_is_read_as_it_was_written():
    assert NodeCard.from_bytes(CARD.to_bytes()) == CARD


def test_what_a_later_version_says_more_is_passed_over():
    raw = CARD.to_bytes()[:-1] + b',"colour":"red"}'
    assert NodeCard.from_bytes(raw) == CARD


@pytest.mark.parametrize(
    "raw", [b"", b"null", b"[]", b'"a"', b'{"name":"a"}', b'{"name":1,"link":"x","api":"y"}']
)
def test_rubbish_is_no_card(raw):
    with pytest.raises(ValueError):
        NodeCard.from_bytes(raw)
