"""Filters and messages for property tests: few names and few values, so that they often meet.

`trees()` gives what the parser can make, in its normal form: AND and OR have at least two children
and none of their own kind, a glob is neither a prefix nor a mere star, the values of an IN are
distinct, numbers fit a double, and nobody asks whether a message has a publish time.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from fanlog.routing.candidate import Candidate
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
    Predicate,
    Prefix,
    Value,
)

#: Strings that are numbers to one reader or another; JSON has its own mind about each.
NUMBER_LIKE = (
    "0", "1", "5", "-1", "-0", "1.5", "-0.0", "1e3", "1E+3", "1e-3", "1000", "10", "9", "05", "01",
    " 5", "5 ", "5\n", "+1", ".5", "5.", "1_0", "0x10", "0b1", "\u0661", "\uff15", "nan", "NaN",
    "inf", "-Infinity", "1e999", "-1e999", "1e-999", "--1", "-", "e3", "1e", "true", "null",
    "9007199254740993", "9007199254740992", "18446744073709551616", "1" * 400,
)  # fmt: skip
#: Strings that are prefixes of one another, or differ where code points and UTF-16 disagree.
PLAIN = (
    "", "a", "b", "ab", "aba", "abab", "abc", "us-", "us-east", "us-east1", "eu-west", "A", "*",
    "a*b", "\\", '"', "\n", "\0", "a\0", "a\0b", "\u00e9", "e\u0301", "\uffff", "\U00010000",
    "\U0001f600", "order.created", "order.deleted", "don't", "$a", "%", "_", "a_b", "a%b",
)  # fmt: skip
NUMBERS: tuple[int | float, ...] = (
    0, 1, -1, 5, 10, 1000, 0.0, -0.0, 1.0, 0.5, 1.5, 1e3, 1e-3, 5e-324, 1e308, -1e308, 2**53,
    2**53 + 1, -(2**53) - 1, 2**63, 2**64, 10**30, 1.7976931348623157e308,
)  # fmt: skip
#: Microseconds since 1970; whole ones only, within the years that a time can be written in.
TIMES = (0, 1, 999_999, 1_000_000, 1_700_000_000_000_000, 1_700_000_000_000_001)
TOPICS = ("orders", "orders.eu", "payments", "a")
MESSAGE_IDS = ("0", "7", "17", "1-5", "a")
KEYS = ("k", "region", "n")
NAMES = ("a", "b", "k")

EQUALITY = (Op.EQ, Op.NE)
ORDER = (Op.LT, Op.LE, Op.GT, Op.GE)

texts = st.sampled_from(PLAIN + NUMBER_LIKE) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)
numbers: st.SearchStrategy[int | float] = st.sampled_from(NUMBERS) | st.floats(
    allow_nan=False, allow_infinity=False
)
attributes = st.sampled_from(KEYS).map(Attribute)
paths = st.lists(st.sampled_from((*NAMES, 0, 1)), min_size=1, max_size=3).map(tuple)
payloads = paths.map(Payload)
#: Fields whose values are strings, always.
string_fields: st.SearchStrategy[Field] = attributes | st.sampled_from(
    [Envelope.ORDERING_KEY, Envelope.TOPIC, Envelope.MESSAGE_ID]
)


def trees(*, depth: int = 3) -> st.SearchStrategy[Filter]:
    """Filters with at most so many levels of AND, OR and NOT."""
    leaf: st.SearchStrategy[Filter] = predicates()
    if depth == 0:
        return leaf
    below = trees(depth=depth - 1)
    return st.one_of(
        leaf,
        below.map(Not),
        st.lists(
            below.filter(lambda child: not isinstance(child, And)), min_size=2, max_size=4
        ).map(lambda children: And(tuple(children))),
        st.lists(below.filter(lambda child: not isinstance(child, Or)), min_size=2, max_size=4).map(
            lambda children: Or(tuple(children))
        ),
    )


def predicates() -> st.SearchStrategy[Predicate]:
    fields = string_fields | payloads
    return st.one_of(
        fields.map(Has),
        (fields | st.just(Envelope.PUBLISH_TIME)).flatmap(_comparisons),
        (fields | st.just(Envelope.PUBLISH_TIME)).flatmap(_memberships),
        fields.flatmap(lambda field: st.builds(Prefix, st.just(field), _texts_of(field))),
        fields.flatmap(lambda field: st.builds(Glob, st.just(field), _parts())),
    )


def candidates() -> st.SearchStrategy[Candidate]:
    """Messages with any of the fields that filters ask for, and data that may be no JSON."""
    return st.builds(
        Candidate,
        st.dictionaries(st.sampled_from((*KEYS, "other")), texts, max_size=4),
        payload_bytes(),
        ordering_key=st.just("") | texts,
        publish_time_us=st.sampled_from(TIMES),
        topic=st.sampled_from(TOPICS),
        message_id=st.sampled_from(MESSAGE_IDS),
    )


def payload_bytes() -> st.SearchStrategy[bytes]:
    written = st.recursive(
        _json_scalars(),
        lambda inner: st.lists(inner, max_size=3) | _objects(inner),
        max_leaves=8,
    )
    return st.one_of(
        _objects(written).map(_dumped),
        written.map(_dumped),
        st.sampled_from(NOT_QUITE_JSON),
        st.binary(max_size=8),
    )


#: Data that some readers of JSON take and others do not, and data with a twist.
NOT_QUITE_JSON = (
    b"", b" ", b"null", b"nul", b"{", b'{"a":1,}', b"{'a':1}", b'{"a":NaN}', b'{"a":1e999}',
    b'{"a":-1e999}', b'{"a":01}', b'{"a":+1}', b'{"a":.5}', b'{"a":1.}', b'\xef\xbb\xbf{"a":1}',
    b'{"a":"\xff"}', b'{"a":"\\ud800"}', b'{"a":"\\ud83d\\ude00"}', b'{"a":1,"a":2}',
    b' {"a" : 1} \n', b'{"a":1} x', b'{"a":1e3}', b'{"a":-0}', b'{"a":-0.0}',
    b'{"a":9007199254740993}', b'{"a":18446744073709551616}', b'{"a":1000000000000000000000000}',
    b'{"a":1e-999}', b'{"k":{"a":[null,{"b":true}]}}', b'[[0],[1]]', b'{"0":5}', b'{"a":{"0":1}}',
)  # fmt: skip


def _comparisons(field: Field) -> st.SearchStrategy[Compare]:
    equality = st.builds(Compare, st.just(field), st.sampled_from(EQUALITY), _values_of(field))
    order = st.builds(Compare, st.just(field), st.sampled_from(ORDER), _ordered_values(field))
    return equality | order


def _memberships(field: Field) -> st.SearchStrategy[In]:
    values = st.lists(_values_of(field), min_size=1, max_size=4, unique_by=_identity)
    return st.builds(In, st.just(field), values.map(tuple))


def _values_of(field: Field) -> st.SearchStrategy[Value]:
    """What the field may be said to equal."""
    if field is Envelope.PUBLISH_TIME:
        return st.sampled_from(TIMES)
    if isinstance(field, Payload):
        return st.one_of(texts, numbers, st.booleans())
    return _texts_of(field)


def _ordered_values(field: Field) -> st.SearchStrategy[Value]:
    if field is Envelope.PUBLISH_TIME:
        return st.sampled_from(TIMES)
    return numbers | _texts_of(field)


def _texts_of(field: Field) -> st.SearchStrategy[str]:
    if field is Envelope.TOPIC:
        return st.sampled_from((*TOPICS, "", "order", "z"))
    if field is Envelope.MESSAGE_ID:
        return st.sampled_from((*MESSAGE_IDS, "", "1"))
    return texts


def _parts() -> st.SearchStrategy[tuple[str, ...]]:
    """Parts of a glob that is no prefix and no mere star."""
    piece = st.sampled_from(("", "a", "b", "ab", "us-", "1", "e", "r", "."))
    middle = st.lists(piece.filter(bool), max_size=2)
    parts = st.tuples(piece, middle, piece).map(lambda three: (three[0], *three[1], three[2]))
    return parts.filter(lambda found: len(found) > 2 or found[-1] != "")


def _json_scalars() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.none(), st.booleans(), texts, numbers, st.integers(-(2**70), 2**70), st.just({})
    )


def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from((*NAMES, "other")), values, max_size=3)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _identity(value: Value) -> tuple[type, Value]:
    """1 and 1.0 are one value; 1 and true are two."""
    return (type(value), value) if isinstance(value, bool | str) else (float, float(value))
