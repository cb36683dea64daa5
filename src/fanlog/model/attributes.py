"""The names that mean something: `fanlog-…` and Google's, of attributes, labels and metadata.

They are in the log, in the lake and in clients' programs, so they never change. A name is written
down here and nowhere else.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

#: Everything that begins so is the service's; a name it does not know is refused.
PREFIX: Final = "fanlog-"
#: Attributes of messages that begin so are Google's, and refused from a publisher…
RESERVED_PREFIX: Final = "goog"
#: …but for these, which official clients set themselves (trace context, compression).
CLIENT_PREFIX: Final = "googclient_"
#: The context of a trace, in the form of W3C's header `traceparent`.
CLIENT_TRACEPARENT: Final = "googclient_traceparent"

# --- Attributes of messages: instructions -------------------------------------------------------

#: Publishing the same value of this twice publishes one message.
DEDUP_ID: Final = "fanlog-dedup-id"
#: All instructions about dedup begin so: replays leave them out.
DEDUP_PREFIX: Final = "fanlog-dedup-"
#: Names the publisher: on a topic that is ordered by publisher its messages are in order.
PUBLISHER: Final = "fanlog-publisher"
#: The number of a message in the sequence of its publisher, which counts anew in a higher epoch.
SEQUENCE: Final = "fanlog-sequence"
PUBLISHER_EPOCH: Final = "fanlog-publisher-epoch"
SEQUENCES: Final = (SEQUENCE, PUBLISHER_EPOCH)
#: The ordering key of all messages on a topic with a total order.
TOTAL_KEY: Final = "fanlog-total"
#: Terms (`fanlog.model.terms`): deliver it so many seconds later, or at an RFC 3339 time; not when
#: it has been deliverable for so many seconds; before others; after messages with these ids.
DELAY: Final = "fanlog-delay"
DELIVER_AT: Final = "fanlog-deliver-at"
TTL: Final = "fanlog-ttl"
PRIORITY: Final = "fanlog-priority"
DEPENDS_ON: Final = "fanlog-depends-on"
#: Whose message it is: some subscriptions serve tenants in turn.
TENANT: Final = "fanlog-tenant"
TERMS: Final = (DELAY, DELIVER_AT, TTL, PRIORITY, DEPENDS_ON, TENANT)
#: What is over when a message is copied: dead letters, forwards and replays leave them out.
PASSING: Final = (DELAY, DELIVER_AT, TTL, DEPENDS_ON, *SEQUENCES)

# --- Attributes of messages: where they come from. The broker puts them there -------------------

#: On a dead letter, about its original and how that failed: Google's four, then ours.
LETTER_ATTEMPTS: Final = "CloudPubSubDeadLetterSourceDeliveryCount"
LETTER_SUBSCRIPTION: Final = "CloudPubSubDeadLetterSourceSubscription"
LETTER_PROJECT: Final = "CloudPubSubDeadLetterSourceSubscriptionProject"
LETTER_PUBLISH_TIME: Final = "CloudPubSubDeadLetterSourceTopicPublishTime"
LETTER_REASON: Final = "fanlog-dead-letter-reason"
#: On dead letters, redriven copies and forwarded messages: the message it was made of.
SOURCE_TOPIC: Final = "fanlog-source-topic"
SOURCE_ID: Final = "fanlog-source-message-id"
DEAD_LETTER: Final = (
    *(LETTER_ATTEMPTS, LETTER_SUBSCRIPTION, LETTER_PROJECT, LETTER_PUBLISH_TIME),
    *(LETTER_REASON, SOURCE_TOPIC, SOURCE_ID),
)
#: Of a redriven copy: the letter it was made of; and the id that the message had when it was
#: published, however often it was copied since: consumers that know messages by their id use it.
REDRIVEN_FROM: Final = "fanlog-redriven-from"
ORIGINAL_ID: Final = "fanlog-original-message-id"

#: The topic of a message that a pattern delivers.
TOPIC: Final = "fanlog-topic"
#: The key slot of a message that is delivered to the consumer that has it.
KEY_SLOT: Final = "fanlog-slot"
#: The part of all messages that the sample has which a delivered message is in.
SAMPLE_RATE: Final = "fanlog-sample-rate"
#: On a message of the service itself that says what a sample left out: how many messages.
SAMPLE_SUMMARY: Final = "fanlog-sample-summary"

#: On a message that was checked by a schema: which one, and how it is encoded.
SCHEMA_NAME: Final = "googclient_schemaname"
SCHEMA_ENCODING: Final = "googclient_schemaencoding"
SCHEMA_REVISION: Final = "googclient_schemarevisionid"
#: The revision it was written in, when it is delivered in another; why it could not be.
SCHEMA_WRITTEN: Final = "fanlog-schema-written-revision"
SCHEMA_REASON: Final = "fanlog-schema-reason"

#: On a message that a replay published again into another topic: where it was first.
ORIGIN_PREFIX: Final = "fanlog-origin-"
ORIGIN_TOPIC: Final = "fanlog-origin-topic"
ORIGIN_ID: Final = "fanlog-origin-message-id"
ORIGIN_TIME: Final = "fanlog-origin-publish-time"
ORIGIN_JOB: Final = "fanlog-origin-job"

#: On a message that a schedule published: which one, and the time of the tick, RFC 3339 in UTC.
SCHEDULE: Final = "fanlog-schedule"
TICK: Final = "fanlog-tick"

#: On a message that an alert published: which one, `began` or `ended`, its condition, the resource
#: that it is about if it is not the server, since when, RFC 3339 in UTC, and how many messages of
#: this alert there are with it.
ALERT: Final = "fanlog-alert"
ALERT_STATE: Final = "fanlog-alert-state"
ALERT_CONDITION: Final = "fanlog-alert-condition"
ALERT_RESOURCE: Final = "fanlog-alert-resource"
ALERT_TIME: Final = "fanlog-alert-time"
ALERT_NUMBER: Final = "fanlog-alert-number"

#: Attributes that a publisher may set: the instructions, and those that consumers copy when they
#: publish a received message again. The latter are data: the broker does not believe them.
PUBLISHED: Final = frozenset(
    {
        *(DEDUP_ID, PUBLISHER, *SEQUENCES, *TERMS),
        *(LETTER_REASON, SOURCE_TOPIC, SOURCE_ID, REDRIVEN_FROM, ORIGINAL_ID),
        *(TOPIC, KEY_SLOT, SAMPLE_RATE, SAMPLE_SUMMARY),
        *(SCHEMA_WRITTEN, SCHEMA_REASON, ORIGIN_TOPIC, ORIGIN_ID, ORIGIN_TIME, ORIGIN_JOB),
        *(SCHEDULE, TICK),
        *(ALERT, ALERT_STATE, ALERT_CONDITION, ALERT_RESOURCE, ALERT_TIME, ALERT_NUMBER),
    }
)

# --- Labels of topics and subscriptions ---------------------------------------------------------

LABEL_START: Final = "fanlog-start"
#: On a topic, what its messages are ordered by; on a subscription, how strictly.
LABEL_ORDERING: Final = "fanlog-ordering"
#: How often a message is delivered: at least once unless it says `at-most-once`.
LABEL_DELIVERY: Final = "fanlog-delivery"
#: Gives each stream key slots of its own, with the value `sticky`; and how many there are.
LABEL_ASSIGNMENT: Final = "fanlog-assignment"
LABEL_KEY_SLOTS: Final = "fanlog-slots"
#: Has tenants served in turn, with the value `tenant`.
LABEL_FAIRNESS: Final = "fanlog-fairness"
LABEL_DEAD_LETTER: Final = "fanlog-dead-letter"
LABEL_DEDUP_WINDOW: Final = "fanlog-dedup-window"
#: How many seconds messages behind a gap in their publisher's numbers are held back at most; and
#: how long a publisher that is silent is remembered.
LABEL_GAP_TIMEOUT: Final = "fanlog-gap-timeout"
LABEL_PUBLISHER_LIFE: Final = "fanlog-publisher-life"
#: Asks for another schedule of retries on a subscription without a retry policy.
LABEL_RETRY: Final = "fanlog-retry"
#: The form of a push's body.
LABEL_PUSH_BODY: Final = "fanlog-push-body"
#: Says how many seconds an endpoint has to answer.
LABEL_PUSH_TIMEOUT: Final = "fanlog-push-timeout"
#: Messages a second that are sent to an endpoint at most.
LABEL_PUSH_RATE: Final = "fanlog-push-rate"
#: The circuit breaker: failures that open it; seconds that it is open at first, and at most.
LABEL_PUSH_BREAKER_FAILURES: Final = "fanlog-push-breaker-failures"
LABEL_PUSH_BREAKER_WAIT: Final = "fanlog-push-breaker-wait"
LABEL_PUSH_BREAKER_MAX_WAIT: Final = "fanlog-push-breaker-max-wait"
#: The time-to-live, in seconds, of messages that have none of their own.
LABEL_TTL: Final = "fanlog-ttl"
#: What becomes of messages whose time-to-live is over: `drop`, or `dead-letter`.
LABEL_EXPIRED: Final = "fanlog-expired"
#: How many seconds a message waits at most for those that it depends on; and what becomes of it
#: then: `deliver`, or `dead-letter`.
LABEL_DEPENDENCY_TIMEOUT: Final = "fanlog-dependency-timeout"
LABEL_DEPENDENCY_POLICY: Final = "fanlog-dependency-policy"
#: Messages, and bytes, that may be outstanding over all consumers; 0 for no limit.
LABEL_MAX_OUTSTANDING_MESSAGES: Final = "fanlog-max-outstanding-messages"
LABEL_MAX_OUTSTANDING_BYTES: Final = "fanlog-max-outstanding-bytes"
#: What happens when the backlog is full (`fanlog.model.backlog_policy`); its limits, in messages,
#: bytes and seconds; and the parts of them at which it is told to be high, and low again.
LABEL_BACKLOG_POLICY: Final = "fanlog-backlog-policy"
LABEL_BACKLOG_MESSAGES: Final = "fanlog-backlog-messages"
LABEL_BACKLOG_BYTES: Final = "fanlog-backlog-bytes"
LABEL_BACKLOG_AGE: Final = "fanlog-backlog-age"
LABEL_BACKLOG_HIGH: Final = "fanlog-backlog-high"
LABEL_BACKLOG_LOW: Final = "fanlog-backlog-low"
#: Whether it may push back; what it does if not; and for how many seconds a publish waits first.
LABEL_BACKLOG_CRITICAL: Final = "fanlog-backlog-critical"
LABEL_BACKLOG_FALLBACK: Final = "fanlog-backlog-fallback"
LABEL_BACKLOG_BLOCK: Final = "fanlog-backlog-block"
#: The subscriptions that it shares its limits with.
LABEL_BACKLOG_GROUP: Final = "fanlog-backlog-group"
#: How often, in seconds, a message says what was sampled out.
LABEL_BACKLOG_SUMMARIES: Final = "fanlog-backlog-summaries"
#: Asks for the messages in a revision of their topic's schema.
LABEL_SCHEMA_REVISION: Final = "fanlog-schema-revision"
#: Keeps a topic out of the lake, with the value `off`.
LABEL_ARCHIVE: Final = "fanlog-archive"
#: Messages a second, and bytes, that may be published to a topic; and how many at once.
LABEL_PUBLISH_RATE: Final = "fanlog-publish-rate"
LABEL_PUBLISH_BURST: Final = "fanlog-publish-burst"
LABEL_PUBLISH_BYTES_RATE: Final = "fanlog-publish-bytes-rate"
LABEL_PUBLISH_BYTES_BURST: Final = "fanlog-publish-bytes-burst"

# --- Attributes of push configs, metadata of calls, headers of answers --------------------------

WEBHOOK_SECRET: Final = "fanlog-webhook-secret"
#: An answer's remark on the request.
HINT: Final = "fanlog-hint"
#: How full the fullest backlog of a topic is, from 0 to 1.
PRESSURE: Final = "fanlog-pressure"
COMPATIBILITY: Final = "fanlog-compatibility"
#: The effect of a seek: messages reopened, the publish time of the first, messages acknowledged.
REOPENED: Final = "fanlog-reopened"
REOPENED_FROM: Final = "fanlog-reopened-from"
ACKNOWLEDGED: Final = "fanlog-acknowledged"
#: Metadata between nodes begins so; of callers it is refused. On behalf of which connection of
#: which caller a call is forwarded, where it comes from and the certificate that was shown; and, in
#: an answer, that a node did nothing with a call, since it owns nothing.
LINK_PREFIX: Final = "fanlog-link-"
LINK_CALLER: Final = "fanlog-link-caller"
LINK_ADDRESS: Final = "fanlog-link-address"
LINK_CERTIFICATE: Final = "fanlog-link-certificate-bin"
LINK_UNSERVED: Final = "fanlog-link-unserved"
#: Within the server: a call came in the short form, which has defaults of its own.
SHORT_FORM: Final = "fanlog-short-form"
#: How a nack is meant.
NACK_DELAY: Final = "fanlog-delay-seconds"
NACK_COUNTED: Final = "fanlog-counted"
NACK_REQUEUE: Final = "fanlog-requeue"
NACK_REASON: Final = "fanlog-reason"
#: The same in bytes of UTF-8: metadata of gRPC has other characters than ASCII in such names alone.
NACK_REASON_BYTES: Final = "fanlog-reason-bin"
#: A receiver's word that it wants nothing any more.
GONE: Final = "fanlog-gone"


def meant(name: str, known: frozenset[str]) -> str:
    """The known name that was probably meant by one that is not known; empty if none is near."""
    # All names begin with the same prefix: only the rest says how near one is.
    rests = {one.removeprefix(PREFIX): one for one in known}
    near = get_close_matches(name.lower().replace("_", "-").removeprefix(PREFIX), rests, 1)
    return rests[near[0]] if near else ""
