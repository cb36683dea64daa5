"""Names that the server gives to subscriptions and snapshots that were asked for without one.

Google's API says of both that the server assigns a random name then, in the project of the topic,
or of the subscription. A caller that asks again because it heard no answer gets another one.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from fanlog.model import names
from fanlog.wire import types


def name_subscription(request: types.Subscription, is_taken: Callable[[str], bool]) -> None:
    """Give the Subscription of a CreateSubscription a name if it has none.

    Raises:
        InvalidArgument: Its topic is no topic name, so that there is no project to be in.
    """
    if not request.name:
        project = names.parse_topic_or_pattern(request.topic).project
        request.name = _free(is_taken, lambda new: names.subscription_name(project, f"sub-{new}"))


def name_snapshot(request: types.CreateSnapshotRequest, is_taken: Callable[[str], bool]) -> None:
    """Give a CreateSnapshotRequest a name if it has none; raises as `name_subscription` does."""
    if not request.name:
        project = names.parse_subscription(request.subscription).project
        request.name = _free(is_taken, lambda new: names.snapshot_name(project, f"snapshot-{new}"))


def _free(is_taken: Callable[[str], bool], name_of: Callable[[str], str]) -> str:
    while is_taken(name := name_of(secrets.token_hex(8))):
        pass
    return name
