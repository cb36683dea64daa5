"""Messages of colours, filters that tell them apart, and short words for tests of filters."""

from __future__ import annotations

from typing import Any

from server.conftest import RunningServer

RED, BLUE = 'attributes.colour = "red"', 'attributes.colour = "blue"'
NOTHING = 'attributes.colour = "no such colour"'
BACKLOG = "fanlog_backlog_messages"


def data(received: list[Any]) -> list[bytes]:
    return [one.message.data for one in received]


def take(server: RunningServer, subscription: str) -> list[bytes]:
    """Pull what is there now and acknowledge it."""
    received = server.pull(subscription)
    if received:
        server.ack(subscription, received)
    return data(received)


def refilter(server: RunningServer, subscription: str, text: str) -> Any:
    request = {
        "subscription": {"name": subscription, "filter": text},
        "update_mask": {"paths": ["filter"]},
    }
    return server.subscriber.update_subscription(request=request, retry=None)


def shown(server: RunningServer, subscription: str) -> str:
    return str(server.subscriber.get_subscription(subscription=subscription).filter)


def publish_colours(server: RunningServer, topic: str, *colours: str, key: str = "") -> None:
    """A message of each colour, numbered from 0 within the call: `red-0`, `blue-1`."""
    for number, colour in enumerate(colours):
        server.publish(topic, f"{colour}-{number}".encode(), key=key, colour=colour)
