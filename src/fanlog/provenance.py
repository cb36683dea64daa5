"""Attributes by which a message says where it comes from; the broker puts them there.

Google's names where it has some. They are in the log and in the lake, so they never change.
"""

from __future__ import annotations

from typing import Final

#: What a dead letter says of its original and of how that failed: Google's four, then ours.
ATTEMPTS: Final = "CloudPubSubDeadLetterSourceDeliveryCount"
SUBSCRIPTION: Final = "CloudPubSubDeadLetterSourceSubscription"
PROJECT: Final = "CloudPubSubDeadLetterSourceSubscriptionProject"
PUBLISH_TIME: Final = "CloudPubSubDeadLetterSourceTopicPublishTime"
REASON: Final = "fanlog-dead-letter-reason"
SOURCE_TOPIC: Final = "fanlog-source-topic"
SOURCE_ID: Final = "fanlog-source-message-id"
DEAD_LETTER: Final = (
    *(ATTEMPTS, SUBSCRIPTION, PROJECT, PUBLISH_TIME),
    *(REASON, SOURCE_TOPIC, SOURCE_ID),
)

#: What a message says of the schema it was checked by.
SCHEMA_NAME: Final = "googclient_schemaname"
SCHEMA_ENCODING: Final = "googclient_schemaencoding"
SCHEMA_REVISION: Final = "googclient_schemarevisionid"
