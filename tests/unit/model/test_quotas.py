"""Quotas: how they are read, and what they refuse."""

from __future__ import annotations

import pytest

from fanlog.errors import ResourceExhausted
from fanlog.model.quotas import NAMES, NOUNS, OF_PRINCIPALS, Quotas, Usage, parse_quotas


def test_every_kind_has_a_quota_for_all_projects():
    of_projects = {f"all_{noun}" for noun in NOUNS} | set(NOUNS)
    assert of_projects | set(OF_PRINCIPALS) == set(NAMES.values())
    defaults = Quotas()
    assert all(getattr(defaults, f"all_{noun}") >= getattr(defaults, noun) for noun in NOUNS)


def test_the_defaults_allow_ten_thousand_of_each():
    counted = [noun for noun in NOUNS if not noun.endswith(("_bytes", "_shapes", "_jobs"))]
    assert all(getattr(Quotas(), noun) >= 10_000 for noun in counted)


def test_reading():
    found = parse_quotas("topics=5, all-topics=7 label-bytes=0")
    assert (found.topics, found.all_topics, found.label_bytes) == (5, 7, 0)
    assert found.subscriptions == Quotas().subscriptions


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("topic=5", "has no quota 'topic'; there are alerts, all-alerts, all-glob-shapes"),
        ("topics", "must give topics a whole number"),
        ("topics=-1", "must give topics a whole number"),
        ("topics=" + "9" * 5_000, "must give topics a whole number"),
    ],
)
def test_bad_texts(text, says):
    with pytest.raises(ValueError, match=says):
        parse_quotas(text)


def test_a_project_and_all_of_them():
    usage, quotas = Usage(), Quotas(topics=2, all_topics=3)
    usage.change("a", {"topics": 2}, 1)
    quotas.check("topics", "b", usage)
    with pytest.raises(ResourceExhausted, match=r"project 'a' has 2 topics.*quota topics=2"):
        quotas.check("topics", "a", usage)
    usage.change("b", {"topics": 1}, 1)
    with pytest.raises(ResourceExhausted, match=r"all projects have 3.*quota all-topics=3"):
        quotas.check("topics", "b", usage)
    usage.change("a", {"topics": 2}, -1)
    quotas.check("topics", "b", usage)


def test_a_principal_in_all_projects():
    usage, quotas = Usage(), Quotas(principal_topics=2)
    maker = "user:ann@example.com"
    usage.change("a", {"topics": 1, "label_bytes": 5}, 1, maker)
    usage.change("b", {"topics": 1}, 1, maker)
    quotas.check("topics", "a", usage)
    quotas.check("topics", "a", usage, maker="user:eve@example.com")
    # Nobody has a quota of labels.
    quotas.check("label_bytes", "a", usage, maker=maker)
    said = r"ann@example.com has made 2 topics.*quota principal-topics=2"
    with pytest.raises(ResourceExhausted, match=said):
        quotas.check("topics", "c", usage, maker=maker)
    assert usage.refusals == {"principal-topics": 1}
    usage.change("b", {"topics": 1}, -1, maker)
    quotas.check("topics", "c", usage, maker=maker)


def test_less_is_always_allowed():
    usage = Usage()
    usage.change("a", {"label_bytes": 9}, 1)
    Quotas(label_bytes=1).check("label_bytes", "a", usage, -3)
