"""The text of filters: what is accepted and as which tree, what is refused and how, and limits."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.routing.filter_ast import (
    And,
    Attribute,
    Compare,
    Envelope,
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
from fanlog.routing.filter_parse import FilterError, parse
from fanlog.routing.filter_print import to_text
from unit.routing.filter_tables import rows

A, B, C, D = (Has(Attribute(key)) for key in "abcd")
K = Attribute("k")


@pytest.mark.parametrize(("written", "printed"), rows("filters_accepted.txt"))
def test_accepted(written: str, printed: str) -> None:
    tree = parse(written)
    assert tree is not None
    assert to_text(tree) == printed
    # Equality alone would take 1 for 1.0 and for true.
    assert repr(parse(printed)) == repr(tree)


@pytest.mark.parametrize(("written", "sentence"), rows("filters_refused.txt"))
def test_refused(written: str, sentence: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(written)
    assert refused.value.message == sentence


@pytest.mark.parametrize(
    ("written", "tree"),
    [
        ('attributes.k = "v"', Compare(K, Op.EQ, "v")),
        ('attributes.k != "v"', Compare(K, Op.NE, "v")),
        ("attributes:k", Has(K)),
        ('hasAttribute("k")', Has(K)),
        ('hasPrefix(attributes.k, "p")', Prefix(K, "p")),
        ('k: "p"', Prefix(K, "p")),
        ("k = us-*", Prefix(K, "us-")),
        ("k = *", Has(K)),
        ("k = a*b**c*", Glob(K, ("a", "b", "c", ""))),
        ("k = *a", Glob(K, ("", "a"))),
        ("k != a*b", Not(Glob(K, ("a", "b")))),
        (r'k = "a\*"', Compare(K, Op.EQ, "a*")),
        ("k = 5", Compare(K, Op.EQ, "5")),
        ("k < 5", Compare(K, Op.LT, 5)),
        ('k < "5"', Compare(K, Op.LT, "5")),
        ("k IN (b, 1, b)", In(K, ("b", "1"))),
        ("topic = orders", Compare(Envelope.TOPIC, Op.EQ, "orders")),
        ('publish_time > "1970-01-01T00:00:01.5Z"', Compare(Envelope.PUBLISH_TIME, Op.GT, 1500000)),
        ('publish_time = "1969-12-31T23:59:59Z"', Compare(Envelope.PUBLISH_TIME, Op.EQ, -1000000)),
        ("payload.a[0].b = 5", Compare(Payload(("a", 0, "b")), Op.EQ, 5)),
        ("payload.a = 5.0", Compare(Payload(("a",)), Op.EQ, 5.0)),
        ("payload.a = true", Compare(Payload(("a",)), Op.EQ, True)),
        ('payload.a = "true"', Compare(Payload(("a",)), Op.EQ, "true")),
        ("payload:[0]", Has(Payload((0,)))),
        ('payload."0" = 1', Compare(Payload(("0",)), Op.EQ, 1)),
        ("payload.a IN (1, true, 1.0)", In(Payload(("a",)), (1, True))),
        ("NOT attributes:a AND attributes:b", And((Not(A), B))),
        ("NOT (attributes:a AND attributes:b)", Not(And((A, B)))),
        ("--attributes:a", Not(Not(A))),
        ("attributes:a AND (attributes:b AND attributes:c)", And((A, B, C))),
        ("(attributes:a OR attributes:b) OR attributes:c", Or((A, B, C))),
        (
            "(attributes:a OR attributes:b) AND (attributes:c OR attributes:d)",
            And((Or((A, B)), Or((C, D)))),
        ),
    ],
)
def test_trees(written: str, tree: Filter) -> None:
    assert repr(parse(written)) == repr(tree)


@pytest.mark.parametrize("text", ["", " ", "\t\r\n "])
def test_empty_text_is_no_filter(text: str) -> None:
    assert parse(text) is None


def test_space_and_lines_are_free() -> None:
    assert parse(' attributes:a\n\tAND\r\nattributes.k\n=\n"v" ') == And(
        (A, Compare(K, Op.EQ, "v"))
    )


def test_columns_count_characters() -> None:
    with pytest.raises(FilterError, match='at column 11, found "&&"'):
        parse('k = "😀é😀" && a = 1')


def test_a_refusal_is_an_invalid_argument() -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse("k")
    assert (refused.value.code, refused.value.http_status) == ("INVALID_ARGUMENT", 400)


def test_half_characters_are_refused() -> None:
    with pytest.raises(FilterError, match="half of a surrogate pair at column 6"):
        parse('k = "\ud800"')


@pytest.mark.parametrize(
    "written",
    [
        "k" * 3_000,
        f"{'k' * 3_000} = ",
        f"k = v {'w' * 3_000}",
        f"payload{'.a' * 1_500} ?",
        f"topic = {'a/' * 1_500}",
        f"attributes.{'k.' * 1_500} = 5",
        f'publish_time = "{"9" * 3_000}"',
    ],
)
def test_refusals_of_long_words_are_short(written: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse(written)
    assert len(refused.value.message) < 400


# Limits.


def refusal(text: str) -> str:
    with pytest.raises(FilterError) as refused:
        parse(text)
    return refused.value.message


def padded(text: str, size_bytes: int) -> str:
    """The same filter with its last value as long as it must be."""
    missing = size_bytes - len(text.encode())
    return f'{text[:-1]}{"é" * (missing // 2)}{"x" * (missing % 2)}"'


@pytest.mark.parametrize(
    "written",
    [
        'attributes.k = "v"',
        'attributes:k AND -attributes."a.b" != "v"',
        'NOT (attributes:k OR attributes:j) AND hasPrefix(attributes.k, "*")',
        'attributes:k OR attributes.k = "a\\"b"',
    ],
)
def test_google_limit(written: str) -> None:
    head, _, tail = written.rpartition('"')
    at_most = f'{head}{"x" * (256 - len(written))}"{tail}'
    assert parse(at_most) is not None
    assert refusal(at_most.replace("xx", "xxx", 1)) == (
        "filter: 257 bytes; at most 256 are allowed "
        "where nothing is used that Google's filters do not have"
    )
    # What is printed is spelled out, and may be longer than what it came from.
    assert parse(at_most.replace("xx", "xxx", 1), limited=False) is not None


@pytest.mark.parametrize(
    "ours",
    [
        'k = "v"',
        'topic = "v"',
        'payload.a = "v"',
        "payload:a",
        "attributes.k = v",
        'attributes.k = "v*w"',
        r'attributes.k = "\*"',
        r'hasPrefix(attributes.k, "\*")',
        'attributes.k: "v"',
        'attributes.k < "v"',
        'attributes.k IN ("v")',
        'hasAttribute("k")',
        'hasPrefix(k, "v")',
        "hasPrefix(attributes.k, v)",
    ],
)
def test_anything_of_ours_lifts_google_limit(ours: str) -> None:
    assert parse(padded(f'{ours} AND attributes.j = "v"', limits.FILTER_BYTES_MAX)) is not None
    assert parse(padded(f'{ours} OR attributes.j = "v"', 257)) is not None


def test_bytes_are_counted_in_utf8() -> None:
    text = padded('k = "v"', limits.FILTER_BYTES_MAX + 1)
    assert len(text) < limits.FILTER_BYTES_MAX
    assert refusal(text) == "filter: 4097 bytes; at most 4096 are allowed"


def test_predicates() -> None:
    at_most = " AND ".join(["k=v"] * limits.FILTER_PREDICATES_MAX)
    assert parse(at_most) is not None
    assert refusal(f"{at_most} AND k=v") == (
        "filter: 101 predicates; at most 100 are allowed (IN with many values is one)"
    )
    many = ", ".join(map(str, range(500)))
    assert parse(f"k IN ({many}) AND j = 1") is not None


@pytest.mark.parametrize("opening", ["(", "NOT ", "-", "NOT(", "- ("])
def test_nesting(opening: str) -> None:
    closing = ")" if "(" in opening else ""
    times = limits.FILTER_NESTING_MAX // (1 + opening.endswith("(") * (opening != "("))
    assert parse(f"{opening * times}k=v{closing * times}") is not None
    assert refusal(f"{opening * (times + 1)}k=v{closing * (times + 1)}").startswith(
        "filter: 33 levels of parentheses and NOT at column "
    )


def test_nesting_counts_what_the_tree_has() -> None:
    """AND and OR in turn need no parentheses for the outermost, and `!=` may hide a NOT."""

    def layers(count: int, text: str) -> str:
        for level in range(count):
            text = f"a=1 {('AND', 'OR')[level % 2]} ({text})"
        return text

    assert parse(layers(31, "k != us-*")) is not None
    assert refusal(layers(32, "k != us-*")) == (
        "filter: 33 levels of AND, OR and NOT; at most 32 are allowed"
    )


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4_096,
        "-" * 4_096,
        "NOT " * 1_000,
        '{"a":' * 800,
        "{" + '"any":[{' * 400,
        '{"a":' + "[" * 4_000,
    ],
)
def test_depth_is_refused_long_before_python_gives_up(text: str) -> None:
    """Even with little of the stack left."""

    def deep(left: int, act: Callable[[], None]) -> None:
        deep(left - 1, act) if left else act()

    room = 350
    frame, used = sys._getframe(), 0
    while frame is not None:
        used, frame = used + 1, frame.f_back  # type: ignore[assignment]

    def act() -> None:
        with pytest.raises(FilterError, match=r"levels of|within each other|expected"):
            parse(text)

    deep(sys.getrecursionlimit() - used - room, act)


def test_time_grows_with_the_text_only() -> None:
    """No row of one character may cost more than its length: these take seconds if squared."""
    for text in ("\\" * 100_000, "*" * 100_000, "a" * 100_000, "1" * 100_000, " " * 100_000):
        with pytest.raises(FilterError):
            parse(f'k ? "{text}', limited=False)
        with pytest.raises(FilterError):
            parse(f'k = "{text}', limited=False)
        with pytest.raises(FilterError):
            parse(f'{{"k": ["{text}"', limited=False)
