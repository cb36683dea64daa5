"""Publishes of a test's own, each tried once, and what became of them."""

from __future__ import annotations

import google.pubsub_v1 as gapic
from google.api_core.exceptions import GoogleAPICallError

from crash.world import topic_name
from kafka.changes import PATIENCE_S
from kafka.troubled import FLOW, Troubled


class Answers:
    """Safe to publish by from many threads."""

    def __init__(self, running: Troubled) -> None:
        self._history = running.load.history
        self.answered: list[bytes] = []
        self.refused: list[GoogleAPICallError] = []

    def publish(
        self, client: gapic.PublisherClient, data: bytes, *, timeout_s: float = 2 * PATIENCE_S
    ) -> None:
        try:
            answer = client.publish(
                topic=topic_name(FLOW), messages=[{"data": data}], retry=None, timeout=timeout_s
            )
        except GoogleAPICallError as error:
            self.refused.append(error)
            return
        self._history.published(FLOW, [(answer.message_ids[0], data)])
        self.answered.append(data)
