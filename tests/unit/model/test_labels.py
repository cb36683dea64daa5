"""Labels: Google's rules for all, our own for those we read."""

from __future__ import annotations

import pytest

from fanlog.errors import InvalidArgument
from fanlog.model.labels import SUBSCRIPTION_LABELS, Start, check_labels, parse_start
from fanlog.model.specs import SubscriptionSpec


def spec(ordering: bool = False, **labels: str) -> SubscriptionSpec:
    return SubscriptionSpec(
        name="projects/p/subscriptions/billing",
        topic="projects/p/topics/orders",
        enable_message_ordering=ordering,
        labels={key.replace("_", "-"): value for key, value in labels.items()},
    )


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"env": "prod", "a-b_c9": "", "ключ": "значение", "日本": "日本9"},
        {"k" * 63: "v" * 63},
        {f"k{number}": "" for number in range(64)},
        {"goog-terraform-provisioned": "true"},
    ],
)
def test_good_labels(labels: dict[str, str]) -> None:
    check_labels(labels, SUBSCRIPTION_LABELS, "a subscription")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({f"k{number}": "" for number in range(65)}, "labels: 65 labels; at most 64 are allowed"),
        ({"": "v"}, "labels: the key '' is not allowed; a key has 1 to 63 lower-case letters"),
        ({"Env": "v"}, "labels: the key 'Env' is not allowed"),
        ({"9a": "v"}, "labels: the key '9a' is not allowed"),
        ({"-a": "v"}, "labels: the key '-a' is not allowed"),
        ({"a.b": "v"}, "labels: the key 'a.b' is not allowed"),
        ({"k" * 64: "v"}, f"labels: the key '{'k' * 64}' is not allowed"),
        ({"k": "V"}, "labels: the value 'V' of 'k' is not allowed; a value has up to 63"),
        ({"k": "v" * 64}, f"labels: the value '{'v' * 64}' of 'k' is not allowed"),
        ({"k": "a b"}, "labels: the value 'a b' of 'k' is not allowed"),
        ({"fanlog-start": "x" * 64}, f"labels: the value '{'x' * 64}' of 'fanlog-start' is not"),
        ({"fanlog-": "x"}, "labels: 'fanlog-' is not a label this service knows"),
    ],
)
def test_bad_labels(labels: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_labels(labels, SUBSCRIPTION_LABELS, "a subscription")
    assert caught.value.message.startswith(sentence)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("now", "now"),
        ("earliest", "earliest"),
        ("1970-01-01T00:00:00Z", 0.0),
        ("1970-01-02t01:00:00.5+01:00", 86_400.5),
        ("2026-01-31T12:00:00.123456789Z", 1_769_860_800.123456),
    ],
)
def test_start(text: str, start: Start) -> None:
    assert parse_start(text) == start
    assert spec(fanlog_start=text).start == start


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Now",
        "yesterday",
        "2026-01-31",
        "2026-01-31T12:00:00",
        "2026-02-30T00:00:00Z",
        "20260131",
    ],
)
def test_bad_start(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^label fanlog-start: .* or an RFC 3339 time such"):
        spec(fanlog_start=text)


def test_no_label_starts_now() -> None:
    assert spec().start == "now"


@pytest.mark.parametrize(
    ("labels", "ordering", "sentence"),
    [
        ({"fanlog_ordering": "total"}, True, "label fanlog-ordering: 'total' is not 'strict' or"),
        ({"fanlog_ordering": "strict"}, False, "label fanlog-ordering: needs enable_message_order"),
        ({"fanlog_dead_letter": "yes"}, False, "label fanlog-dead-letter: 'yes' is not 'auto'"),
    ],
)
def test_our_labels_refused(labels: dict[str, str], ordering: bool, sentence: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        spec(ordering, **labels)
    assert caught.value.message.startswith(sentence)


def test_ordering_labels() -> None:
    spec(True, fanlog_ordering="strict")
    spec(True, fanlog_ordering="key")
