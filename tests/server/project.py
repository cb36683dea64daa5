"""A project of a test's own, and short words for what tests of patterns do in it."""

from __future__ import annotations

from typing import Any

from server.conftest import RunningServer
from server.unique import unique

#: The attribute that says where a message of a pattern comes from.
TOPIC = "fanlog-topic"


class Project:
    """A project of a test's own, so that `#` means its topics and no other's."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.name = unique("project")

    def topic_name(self, topic: str) -> str:
        return f"projects/{self.name}/topics/{topic}"

    def topic(self, topic: str, **fields: Any) -> str:
        return self.server.topic(name=self.topic_name(topic), **fields)

    def topics(self, *topics: str) -> list[str]:
        return [self.topic(topic) for topic in topics]

    def subscription(self, pattern: str, **fields: Any) -> str:
        name = f"projects/{self.name}/subscriptions/{unique('sub')}"
        return self.server.subscription(self.topic_name(pattern), **{"name": name} | fields)

    def publish(self, topic: str, *data: bytes, **fields: str) -> list[str]:
        return self.server.publish(self.topic_name(topic), *data, **fields)

    def delete(self, topic: str) -> None:
        self.server.publisher.delete_topic(topic=self.topic_name(topic))

    def snapshot(self, subscription: str) -> str:
        name = f"projects/{self.name}/snapshots/{unique('snapshot')}"
        self.server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
        return name

    def seek(self, subscription: str, **target: Any) -> None:
        request = {"subscription": subscription} | target
        self.server.subscriber.seek(request=request, retry=None)

    def pull(self, subscription: str) -> list[tuple[str, bytes]]:
        """What is there now as (topic, data), by topic, each topic in its order."""
        return self.shown(self.server.pull(subscription))

    def take(self, subscription: str) -> list[tuple[str, bytes]]:
        """As `pull`, and acknowledged."""
        received = self.server.pull(subscription)
        if received:
            self.server.ack(subscription, received)
        return self.shown(received)

    def shown(self, received: list[Any]) -> list[tuple[str, bytes]]:
        prefix = self.topic_name("")
        found = []
        for one in received:
            topic = one.message.attributes[TOPIC]
            assert topic.startswith(prefix), topic
            found.append((topic.removeprefix(prefix), one.message.data))
        return sorted(found, key=lambda pair: pair[0])

    def readers(self, topic: str) -> list[str]:
        found = self.server.publisher.list_topic_subscriptions(topic=self.topic_name(topic))
        return list(found)
