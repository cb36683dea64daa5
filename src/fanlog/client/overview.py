"""Live numbers, problems and tables, `fanlog.v1.Overview`, over a `Connection`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fanlog.client.connection import Connection
from fanlog.v1 import overview_pb2 as pb

_SERVICE: Final = "fanlog.v1.Overview"


class OverviewClient:
    """Names are full, `projects/p/topics/t`. Errors as of `Connection`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def watch(
        self,
        *,
        topics: Iterable[str] = (),
        subscriptions: Iterable[str] = (),
        only_named: bool = False,
    ) -> Iterator[pb.LiveSample]:
        """Yield a sample a second, until the iterator is closed."""
        request = pb.WatchRequest(topics=topics, subscriptions=subscriptions, only_named=only_named)
        return self._connection.stream(f"{_SERVICE}/Watch", request, pb.LiveSample)

    def problems(self, project: str = "") -> pb.ListProblemsResponse:
        """Give what is wrong now, of all projects or of one, `projects/p`."""
        request = pb.ListProblemsRequest(project=project)
        return self._connection.call(f"{_SERVICE}/ListProblems", request, pb.ListProblemsResponse)

    def topics(
        self, project: str, *, contains: str = "", order_by: str = ""
    ) -> Iterator[pb.TopicRow]:
        """Yield the topics of a project with their numbers."""
        request = pb.SearchTopicsRequest(project=project, contains=contains, order_by=order_by)
        method = f"{_SERVICE}/SearchTopics"
        for page in self._connection.pages(method, request, pb.SearchTopicsResponse):
            yield from page.topics

    def subscriptions(
        self, project: str, *, contains: str = "", topic: str = "", order_by: str = ""
    ) -> Iterator[pb.SubscriptionRow]:
        """Yield the subscriptions of a project, or of one of its topics, with their numbers."""
        request = pb.SearchSubscriptionsRequest(
            project=project, contains=contains, topic=topic, order_by=order_by
        )
        method = f"{_SERVICE}/SearchSubscriptions"
        for page in self._connection.pages(method, request, pb.SearchSubscriptionsResponse):
            yield from page.subscriptions

    def topic_page(
        self, project: str, *, contains: str = "", order_by: str = "", page_size: int = 0
    ) -> pb.SearchTopicsResponse:
        """Give the first topics of a project in an order, and how many there are."""
        request = pb.SearchTopicsRequest(
            project=project, contains=contains, order_by=order_by, page_size=page_size
        )
        return self._connection.call(f"{_SERVICE}/SearchTopics", request, pb.SearchTopicsResponse)

    def subscription_page(
        self, project: str, *, contains: str = "", order_by: str = "", page_size: int = 0
    ) -> pb.SearchSubscriptionsResponse:
        """Give the first subscriptions of a project in an order, and how many there are."""
        request = pb.SearchSubscriptionsRequest(
            project=project, contains=contains, order_by=order_by, page_size=page_size
        )
        return self._connection.call(
            f"{_SERVICE}/SearchSubscriptions", request, pb.SearchSubscriptionsResponse
        )

    def server(self) -> pb.ServerDescription:
        request = pb.GetServerRequest()
        return self._connection.call(f"{_SERVICE}/GetServer", request, pb.ServerDescription)
