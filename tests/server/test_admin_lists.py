"""Lists in pages: complete, in order, and steady while entries come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from google.api_core.exceptions import InvalidArgument

from server.conftest import PROJECT, RunningServer
from server.unique import unique


class Lists:
    """The five lists of the API, over one topic of a project of its own."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self.project = f"projects/{unique('lists')}"
        self.topic = f"{self.project}/topics/aaa-topic"
        self.subscription = f"{self.project}/subscriptions/aaa-sub"
        server.publisher.create_topic(name=self.topic)
        server.subscriber.create_subscription(name=self.subscription, topic=self.topic)

    def make(self, kind: str, number: int) -> str:
        publisher, subscriber = self._server.publisher, self._server.subscriber
        if kind == "topics":
            return publisher.create_topic(name=f"{self.project}/topics/t-{number:05d}").name
        if "subscriptions" in kind:
            name = f"{self.project}/subscriptions/s-{number:05d}"
            return subscriber.create_subscription(name=name, topic=self.topic).name
        name = f"{self.project}/snapshots/n-{number:05d}"
        return subscriber.create_snapshot(name=name, subscription=self.subscription).name

    def delete(self, name: str) -> None:
        if "/topics/" in name:
            self._server.publisher.delete_topic(topic=name)
        elif "/subscriptions/" in name:
            self._server.subscriber.delete_subscription(subscription=name)
        else:
            self._server.subscriber.delete_snapshot(snapshot=name)

    def page(self, kind: str, **fields: Any) -> tuple[list[str], str]:
        """Names of one page, and the next page's token."""
        publisher, subscriber = self._server.publisher, self._server.subscriber
        lists: dict[str, tuple[Callable[..., Any], dict[str, str], str]] = {
            "topics": (publisher.list_topics, {"project": self.project}, "topics"),
            "subscriptions": (
                subscriber.list_subscriptions,
                {"project": self.project},
                "subscriptions",
            ),
            "snapshots": (subscriber.list_snapshots, {"project": self.project}, "snapshots"),
            "topic subscriptions": (
                publisher.list_topic_subscriptions,
                {"topic": self.topic},
                "subscriptions",
            ),
            "topic snapshots": (
                publisher.list_topic_snapshots,
                {"topic": self.topic},
                "snapshots",
            ),
        }
        verb, scope, answer = lists[kind]
        [response] = [next(iter(verb(request=scope | fields).pages))]
        entries: Sequence[Any] = getattr(response, answer)
        names = [entry if isinstance(entry, str) else entry.name for entry in entries]
        return names, response.next_page_token

    def walk(self, kind: str, page_size: int) -> list[list[str]]:
        pages, token = [], ""
        while True:
            names, token = self.page(kind, page_size=page_size, page_token=token)
            pages.append(names)
            if not token:
                return pages


KINDS = ["topics", "subscriptions", "snapshots", "topic subscriptions", "topic snapshots"]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def of_kind(names: list[str]) -> list[str]:
    """Without the one topic and subscription that every project has."""
    return [name for name in names if "/aaa-" not in name]


def test_pages_hold_everything_once_and_in_order(server, kind):
    lists = Lists(server)
    made = [lists.make(kind, number) for number in (6, 2, 4, 1, 5, 3, 0)]
    pages = lists.walk(kind, 3)
    assert [len(page) for page in pages[:-1]] == [3] * (len(pages) - 1)
    assert of_kind([name for page in pages for name in page]) == sorted(made)
    everything, token = lists.page(kind)
    assert of_kind(everything) == sorted(made)
    assert token == ""


def test_a_page_that_fits_exactly_is_the_last_one(server, kind):
    lists = Lists(server)
    made = [lists.make(kind, number) for number in range(3)]
    whole, _ = lists.page(kind)
    names, token = lists.page(kind, page_size=len(whole))
    assert of_kind(names) == made
    assert token == ""


def test_entries_that_come_and_go_neither_repeat_nor_hide_others(server, kind):
    lists = Lists(server)
    made = {number: lists.make(kind, number) for number in range(10, 40, 2)}
    first, token = lists.page(kind, page_size=7)
    seen = of_kind(first)
    # Before the page, its last entry, and after it: made and deleted.
    lists.make(kind, 1)
    late = lists.make(kind, 39)
    lists.delete(seen[-1])
    lists.delete(seen[0])
    lists.delete(made[36])
    while token:
        names, token = lists.page(kind, page_size=3, page_token=token)
        seen += of_kind(names)
    expected = [name for number, name in made.items() if number != 36]
    assert seen == [*expected, late]


def test_a_walk_goes_on_after_a_restart(start_server):
    server = start_server()
    lists = Lists(server)
    made = [lists.make("topics", number) for number in range(6)]
    first, token = lists.page("topics", page_size=3)
    server.restart()
    rest, token = lists.page("topics", page_size=10, page_token=token)
    assert of_kind(first + rest) == made
    assert token == ""


def test_projects_are_lists_of_their_own(server):
    first, second = Lists(server), Lists(server)
    first.make("topics", 1)
    assert second.page("topics")[0] == [second.topic]
    # A project whose name begins like another's.
    longer = f"{first.project}-and-more/topics/other"
    server.publisher.create_topic(name=longer)
    assert longer not in first.page("topics")[0]
    assert list(server.publisher.list_topics(project="projects/nobody")) == []


def test_sizes_and_tokens_that_are_refused(server, kind):
    lists = Lists(server)
    lists.make(kind, 1)
    lists.make(kind, 2)
    with pytest.raises(InvalidArgument, match="page_size: -1"):
        lists.page(kind, page_size=-1)
    for token in ("nonsense", "AAAA", "é", "="):
        with pytest.raises(InvalidArgument, match="page_token"):
            lists.page(kind, page_token=token)
    _, token = lists.page(kind, page_size=1)
    with pytest.raises(InvalidArgument, match="another list"):
        Lists(server).page(kind, page_token=token)


def test_a_project_that_is_not_a_name_is_refused(server):
    for project in ("", PROJECT, "projects/", "projects/a/topics"):
        for verb in (
            server.publisher.list_topics,
            server.subscriber.list_subscriptions,
            server.subscriber.list_snapshots,
        ):
            with pytest.raises(InvalidArgument, match="project"):
                verb(request={"project": project})
