"""Resource names: what is accepted, and what a refusal says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.routing.pattern import canonical_pattern


@pytest.mark.parametrize(
    "topic",
    ["abc", "a-b_c.d~e+f%", "A12", "goo", "Goog", "xgoog", "a" * limits.NAME_LENGTH_MAX],
)
def test_valid_ids(topic: str) -> None:
    name = names.parse_topic(names.topic_name("p", topic))
    assert (name.project, name.collection, name.id) == ("p", "topics", topic)
    assert str(name) == f"projects/p/topics/{topic}"


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "ab",
        "1abc",
        "-abc",
        "goog",
        "googx",
        "a b",
        "abc\n",
        "äbc",
        "a/b",
        "abc/",
        "a*c",
        "a" * (limits.NAME_LENGTH_MAX + 1),
    ],
)
def test_invalid_ids(topic: str) -> None:
    with pytest.raises(InvalidArgument):
        names.parse_topic(names.topic_name("p", topic))


@pytest.mark.parametrize("project", ["p", "example.com:my-app", "my project", "ä", "p" * 255])
def test_projects_are_lenient(project: str) -> None:
    assert names.parse_topic(names.topic_name(project, "abc")).project == project
    assert names.parse_project(names.project_name(project)) == project
    assert names.project_of(names.topic_name(project, "abc")) == project


@pytest.mark.parametrize("name", ["", "p", "projects", "projects/", "projects/a/b", "project/p"])
def test_invalid_projects(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"'projects/\{project\}'"):
        names.parse_project(name)


@pytest.mark.parametrize("project", ["", "a\nb", "\x00", "p" * 256])
def test_invalid_projects_in_names(project: str) -> None:
    with pytest.raises(InvalidArgument, match="1 to 255 printable characters and no slash"):
        names.parse_topic(names.topic_name(project, "abc"))


@pytest.mark.parametrize(
    ("parse", "name", "sentence"),
    [
        (names.parse_topic, "", "topic: a name is required, but it is empty"),
        (
            names.parse_topic,
            "abc",
            "topic: 'abc' is not of the form 'projects/{project}/topics/{id}'",
        ),
        (
            names.parse_topic,
            "projects/p/subscriptions/abc",
            (
                "topic: 'projects/p/subscriptions/abc' is not of the form "
                "'projects/{project}/topics/{id}'"
            ),
        ),
        (
            names.parse_subscription,
            "projects/p/subscriptions/1x",
            (
                "subscription: 'projects/p/subscriptions/1x' ends in the id '1x'; an id has 3 to "
                "255 characters of letters, digits and -_.~+%, begins with a letter and not with "
                "'goog'"
            ),
        ),
        (
            names.parse_snapshot,
            "projects//snapshots/abc",
            (
                "snapshot: 'projects//snapshots/abc' names the project ''; a project id has 1 to "
                "255 printable characters and no slash"
            ),
        ),
    ],
)
def test_sentences(parse: Callable[[str], object], name: str, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(name)
    assert caught.value.message == sentence


def test_the_field_is_the_callers() -> None:
    with pytest.raises(InvalidArgument, match=r"^name: "):
        names.parse_snapshot("x", field="name")


def test_formatting() -> None:
    assert names.subscription_name("p", "abc") == "projects/p/subscriptions/abc"
    assert names.snapshot_name("p", "abc") == "projects/p/snapshots/abc"


def test_a_long_value_is_cut_in_sentences() -> None:
    assert names.shown("x" * 120) == repr("x" * 120)
    assert names.shown("x" * 5_000) == f"'{'x' * 120}'… (5000 characters)"


def test_dead_letter_topic_of_a_subscription() -> None:
    made = names.dead_letter_topic_of("projects/p/subscriptions/jobs")
    assert made == "projects/p/topics/jobs.dead-letters"
    with pytest.raises(InvalidArgument, match=r"^label fanlog-dead-letter: .*3 to 255"):
        names.dead_letter_topic_of(names.subscription_name("p", "a" * 250))


# Topic patterns: how they are written. What they match is in tests/unit/routing.

PATTERNS = [
    "*", "#", "a.#", "#.a", "a.*.b", "a.#.b", "#.#", "*.#.*", "Order*", "us-*", "*-eu-*", "a*b*c.d",
    "goo*", "*goog", "#.goog", "*.1", "*1", "#.-x", "*.%~+_",
    "*" + "a" * (limits.PATTERN_LENGTH_MAX - 1),
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_valid_patterns(pattern: str) -> None:
    full = names.topic_name("p", pattern)
    found = names.parse_topic_or_pattern(full)
    assert (found.project, found.id, str(found)) == ("p", pattern, full)
    assert names.is_pattern(full)
    assert names.is_pattern(pattern)
    with pytest.raises(InvalidArgument):
        names.parse_topic(full)
    with pytest.raises(InvalidArgument):
        names.parse_subscription(names.subscription_name("p", pattern))


RULE = (
    "'*' is one whole segment, or any run of characters within one; "
    "'#' alone between dots is any number of segments"
)


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [
        ("a..*", f"has an empty segment 2, at position 3; {RULE}"),
        (".*", f"has an empty segment 1, at position 1; {RULE}"),
        ("*.", f"has an empty segment 2, at position 3; {RULE}"),
        ("a.b.c#", f"has 'c#', where '#' is not alone, as its segment 3, at position 5; {RULE}"),
        ("*#", f"has '*#', where '#' is not alone, as its segment 1, at position 1; {RULE}"),
        ("##", f"has '##', where '#' is not alone, as its segment 1, at position 1; {RULE}"),
        ("a.**", f"has '**', where two '*' meet, as its segment 2, at position 3; {RULE}"),
        ("a.b**c", f"has 'b**c', where two '*' meet, as its segment 2, at position 3; {RULE}"),
        (
            "ab.ö*",
            (
                "has 'ö' at position 4; a pattern has letters, digits, -_.~+% and the wildcards "
                "* and #"
            ),
        ),
        ("1*", "begins with '1'; a topic's id begins with a letter"),
        ("-.#", "begins with '-'; a topic's id begins with a letter"),
        ("goog*", "begins with 'goog', as no topic's id does"),
        ("google.#", "begins with 'goog', as no topic's id does"),
    ],
)
def test_invalid_patterns(pattern: str, wrong: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        names.parse_topic_or_pattern(names.topic_name("p", pattern))
    assert caught.value.message == f"topic: the pattern {pattern!r} {wrong}"


def test_a_pattern_is_no_longer_than_a_name() -> None:
    with pytest.raises(InvalidArgument, match=r"^x: .*\(256 characters\) is longer than 255"):
        names.parse_topic_or_pattern(names.topic_name("p", "*" + "a" * 255), field="x")


@pytest.mark.parametrize("topic", ["abc", "a..b", "a.b."])
def test_a_name_without_wildcards_is_no_pattern(topic: str) -> None:
    full = names.topic_name("p", topic)
    assert not names.is_pattern(full)
    assert names.parse_topic_or_pattern(full) == names.parse_topic(full)


def test_what_is_wrong_with_a_name_is_said_as_of_names() -> None:
    with pytest.raises(InvalidArgument, match="an id has 3 to 255 characters"):
        names.parse_topic_or_pattern("projects/p/topics/ab")
    with pytest.raises(InvalidArgument, match="not of the form"):
        names.parse_topic_or_pattern("projects/p/subscriptions/a*")
    with pytest.raises(InvalidArgument, match="it is empty"):
        names.parse_topic_or_pattern("")


def test_a_project_is_never_a_pattern() -> None:
    assert not names.is_pattern("projects/*/topics/abc")
    assert names.parse_topic_or_pattern("projects/#/topics/abc").project == "#"


@pytest.mark.parametrize(
    ("pattern", "canonical"),
    [
        ("#", "#"),
        ("#.#", "#"),
        ("#.#.#", "#"),
        ("#.*", "*.#"),
        ("*.#", "*.#"),
        ("#.*.#.*", "*.*.#"),
        ("*.*", "*.*"),
        ("a.#.*.b.#.#", "a.*.#.b.#"),
        ("#.a*.#", "#.a*.#"),
        ("#.a.*.#.*.b", "#.a.*.*.#.b"),
        ("a..b", "a..b"),
    ],
)
def test_canonical_patterns(pattern: str, canonical: str) -> None:
    assert canonical_pattern(pattern) == canonical
    assert canonical_pattern(canonical) == canonical


@pytest.mark.parametrize("pattern", ["Order.*", "Order.#"])
def test_a_hint_where_no_topic_has_the_dot(pattern: str) -> None:
    topics = ["OrderShipped", "Cart", "OrderPlaced", "Orders.eu"]
    assert names.undotted_hint(pattern, topics) == (
        f"'{pattern}' matches no topic yet: its last dot begins a segment; "
        "'Order*' would match 'OrderPlaced', 'OrderShipped'"
    )
    more = [f"Order{number}" for number in range(1_003)]
    assert str(names.undotted_hint(pattern, more)).endswith(
        "'Order*' would match 'Order0', 'Order1', 'Order10' and 1,000 more"
    )


def test_a_hint_below_the_first_segment() -> None:
    hint = names.undotted_hint("shop.Order.*", ["shop.OrderPlaced", "OrderPlaced"])
    assert str(hint).endswith("'shop.Order*' would match 'shop.OrderPlaced'")


@pytest.mark.parametrize(
    ("pattern", "topics"),
    [
        ("Order.*", []),
        ("Order.*", ["Cart", "Order"]),
        ("Order.*", ["OrderPlaced", "Order.placed"]),
        ("Order.#", ["OrderPlaced", "Order"]),
        ("Order.*", ["Orders.eu"]),
        ("Order*", ["Order.placed"]),
        ("*.*", ["OrderPlaced"]),
        ("Order.*.eu", ["OrderPlaced"]),
        ("Order.p*", ["OrderPlaced"]),
        ("#", ["OrderPlaced"]),
    ],
)
def test_no_hint(pattern: str, topics: list[str]) -> None:
    assert names.undotted_hint(pattern, topics) is None


@pytest.mark.parametrize("collection", ["topics", "subscriptions", "snapshots"])
def test_a_resource_of_any_kind(collection):
    name = f"projects/p/{collection}/orders"
    found = names.parse_resource(name)
    assert (str(found), found.collection) == (name, collection)


@pytest.mark.parametrize("name", ["", "orders", "projects/p/queues/orders", "projects/p/topics/o"])
def test_a_resource_that_is_none(name):
    with pytest.raises(InvalidArgument, match="policy_of"):
        names.parse_resource(name, field="policy_of")
