"""One face for every surface: what they all say, and how they refuse.

Google's own client is in `official_surfaces`, over gRPC and REST; the forms of REST are in
`json_surfaces`, by hand.

Each speaks of resources by id, in the server's default project, and shows them as protobuf's JSON
in snake_case. An error is `Refused`, with the name of its status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fanlog.config import PROJECT_DEFAULT as PROJECT


class Refused(Exception):
    """A request was refused: with this status, this HTTP code, this reason and sentence."""

    def __init__(self, status: str, code: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {message}")
        self.status, self.code, self.reason, self.message = status, code, reason, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One message, as any surface shows it."""

    ack_id: str
    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str
    message_id: str
    attempt: int


def topic_name(topic: str) -> str:
    return f"projects/{PROJECT}/topics/{topic}"


def subscription_name(subscription: str) -> str:
    return f"projects/{PROJECT}/subscriptions/{subscription}"


def snapshot_name(snapshot: str) -> str:
    return f"projects/{PROJECT}/snapshots/{snapshot}"
