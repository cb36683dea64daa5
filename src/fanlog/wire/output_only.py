"""Fields of Google's messages that the service sets, and how a request that sets them is treated.

Clients read a resource, change it and send it back whole, and some publish a message as they got
it: such fields are *ignored* in a request, because official clients send them. A field that no
client sends by accident is *refused*. None of them can be named in an update mask. The page
`docs/reference/output_only.md` is made of this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class OutputOnly:
    message: str
    field: str
    #: The requests it may be set in.
    requests: tuple[str, ...]
    set_by_caller: Literal["ignored", "refused"]
    why: str
    #: Path in an update mask, which is refused; empty where there is no such mask.
    mask: str = ""


_WHOLE = "a resource that was read is sent back whole"
_REPUBLISHED = (
    "Java's client publishes a message that it received as it is; the service gives its own"
)

FIELDS: Final = (
    OutputOnly("PubsubMessage", "message_id", ("Publish",), "ignored", _REPUBLISHED),
    OutputOnly("PubsubMessage", "publish_time", ("Publish",), "ignored", _REPUBLISHED),
    OutputOnly("Topic", "state", ("CreateTopic", "UpdateTopic"), "ignored", _WHOLE, "state"),
    OutputOnly(
        "Topic",
        "satisfies_pzs",
        ("CreateTopic", "UpdateTopic"),
        "ignored",
        "Google's documentation says so of it",
        "satisfies_pzs",
    ),
    OutputOnly(
        "Subscription",
        "state",
        ("CreateSubscription", "UpdateSubscription"),
        "ignored",
        _WHOLE,
        "state",
    ),
    OutputOnly(
        "Subscription",
        "topic_message_retention_duration",
        ("CreateSubscription", "UpdateSubscription"),
        "ignored",
        _WHOLE,
        "topic_message_retention_duration",
    ),
    OutputOnly(
        "Subscription",
        "detached",
        ("CreateSubscription",),
        "refused",
        "DetachSubscription does that; a subscription made detached would get nothing",
        "detached",
    ),
    OutputOnly(
        "Subscription",
        "analytics_hub_subscription_info",
        ("CreateSubscription",),
        "refused",
        "no answer of this service has it",
        "analytics_hub_subscription_info",
    ),
    OutputOnly(
        "BigQueryConfig",
        "state",
        ("CreateSubscription", "UpdateSubscription"),
        "ignored",
        _WHOLE,
        "bigquery_config.state",
    ),
    OutputOnly(
        "CloudStorageConfig",
        "state",
        ("CreateSubscription", "UpdateSubscription"),
        "ignored",
        _WHOLE,
        "cloud_storage_config.state",
    ),
    OutputOnly("Snapshot", "topic", ("UpdateSnapshot",), "ignored", _WHOLE, "topic"),
    OutputOnly("Schema", "revision_id", ("CreateSchema", "CommitSchema"), "ignored", _WHOLE),
    OutputOnly(
        "Schema", "revision_create_time", ("CreateSchema", "CommitSchema"), "ignored", _WHOLE
    ),
)


def ignored_fields(message: str) -> frozenset[str]:
    """The fields of a message that a caller may set and that change nothing."""
    return frozenset(
        one.field for one in FIELDS if one.message == message and one.set_by_caller == "ignored"
    )
