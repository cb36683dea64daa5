"""Resource names: what is accepted, and what a refusal says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fanlog import limits, names
from fanlog.errors import InvalidArgument


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
