"""How trees are printed: what needs quotes or escapes, and where parentheses go."""

from __future__ import annotations

import pytest

from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
    Field,
    Filter,
    Glob,
    Has,
    In,
    Not,
    Op,
    Or,
    Payload,
    Prefix,
)
from fanlog.routing.filter_parse import parse
from fanlog.routing.filter_print import to_text

A, B, C = (Has(Attribute(key)) for key in "abc")
K, P = Attribute("k"), Payload(("a",))


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        (And((A, Or((B, C)))), "attributes:a AND (attributes:b OR attributes:c)"),
        (Or((And((A, B)), C)), "(attributes:a AND attributes:b) OR attributes:c"),
        (Not(Or((A, B))), "NOT (attributes:a OR attributes:b)"),
        (And((Not(A), B)), "NOT attributes:a AND attributes:b"),
        (Not(Not(A)), "NOT NOT attributes:a"),
        (Not(Compare(K, Op.EQ, "v")), 'NOT attributes.k = "v"'),
        (Compare(K, Op.NE, 'a*"\\'), r'attributes.k != "a\*\"\\"'),
        (Compare(K, Op.LT, "a*"), 'attributes.k < "a*"'),
        (Prefix(K, "a*\n"), r'hasPrefix(attributes.k, "a*\n")'),
        (Glob(K, ("a*", "\\", "")), r'attributes.k = "a\**\\*"'),
        (In(K, ("*", "")), r'attributes.k IN ("\*", "")'),
        (In(P, (True, 1.0, -5, "x")), 'payload.a IN (true, 1.0, -5, "x")'),
        (Compare(P, Op.EQ, 10**300), f"payload.a = 1{'0' * 300}"),
        (Compare(P, Op.EQ, -1.5e-300), "payload.a = -1.5e-300"),
        (Compare(P, Op.NE, False), "payload.a != false"),
        (Compare(Envelope.PUBLISH_TIME, Op.GE, 1), 'publish_time >= "1970-01-01T00:00:00.000001Z"'),
        (Has(Envelope.ORDERING_KEY), 'ordering_key = "*"'),
        (Has(Payload((0, "a"))), "payload:[0].a"),
    ],
)
def test_text(tree: Filter, text: str) -> None:
    assert to_text(tree) == text
    assert repr(parse(text)) == repr(tree)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (Attribute(""), 'attributes.""'),
        (Attribute("a.b"), 'attributes."a.b"'),
        (Attribute('"\\*'), r'attributes."\"\\*"'),
        (Attribute("é"), 'attributes."é"'),
        (Attribute("a b"), 'attributes."a b"'),
        (Attribute("-"), "attributes.-"),
        (Attribute("IN"), "attributes.IN"),
        (Payload(("a", 0, 10, "b")), "payload.a[0][10].b"),
        (Payload(("0", "")), 'payload.0.""'),
        (Payload(("a.b", "[0]")), 'payload."a.b"."[0]"'),
        (Envelope.TOPIC, "topic"),
        (Envelope.MESSAGE_ID, "message_id"),
    ],
)
def test_fields(field: Field, text: str) -> None:
    tree = Compare(field, Op.EQ, "v")
    assert to_text(tree) == f'{text} = "v"'
    assert repr(parse(to_text(tree))) == repr(tree)
    assert repr(parse(to_text(Has(field)))) == repr(Has(field))


def test_every_character_survives() -> None:
    for begin in range(0, 0x110000, 0x1000):
        if 0xD000 <= begin < 0xE000:
            continue
        text = "".join(map(chr, range(begin, begin + 0x1000)))
        tree = And((Compare(K, Op.EQ, text), Prefix(Attribute(text), text)))
        assert parse(to_text(tree), limited=False) == tree
