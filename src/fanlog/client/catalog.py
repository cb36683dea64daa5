"""Facts about resources beyond Google's fields, such as their age, over a `Client`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fanlog import limits
from fanlog.client.client import CallFailed, Client
from fanlog.v1 import catalog_pb2 as pb

_SERVICE = "fanlog.v1.Catalog"


class Catalog:
    """Descriptions by full name. Of a server that has none of them nothing is known."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def topics(self, names: Sequence[str]) -> dict[str, Any]:
        """A TopicDescription for each topic that exists."""
        found: dict[str, Any] = {}
        for some in _parts(names):
            answer = self._call(
                "DescribeTopics", pb.DescribeTopicsRequest(topics=some), pb.DescribeTopicsResponse
            )
            found |= {one.name: one for one in answer.topics}
        return found

    def subscriptions(self, names: Sequence[str]) -> dict[str, Any]:
        """A SubscriptionDescription for each subscription that exists."""
        found: dict[str, Any] = {}
        for some in _parts(names):
            answer = self._call(
                "DescribeSubscriptions",
                pb.DescribeSubscriptionsRequest(subscriptions=some),
                pb.DescribeSubscriptionsResponse,
            )
            found |= {one.name: one for one in answer.subscriptions}
        return found

    def revision_numbers(self, schema: str) -> dict[str, int]:
        """The number of each revision of a schema by its id; none of one that is gone by now."""
        request = pb.DescribeSchemaRequest(name=schema)
        answer = self._call("DescribeSchema", request, pb.SchemaDescription)
        return {one.id: one.number for one in answer.revisions}

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        try:
            return self._client.call(f"{_SERVICE}/{method}", request, answer)
        except CallFailed as failure:
            if failure.status not in ("UNIMPLEMENTED", "NOT_FOUND"):
                raise
            return answer()


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(names), limits.DESCRIBED_MAX):
        yield names[first : first + limits.DESCRIBED_MAX]
