"""Made by `scripts/stubs.py` from the descriptors of google-cloud-pubsub; do not edit.

A field that is a message, a list or a map is `Final`: protobuf lets its content change, and
refuses an assignment. A message that `types.py` does not name is a plain `Message`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from google.protobuf.descriptor import Descriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.internal.containers import (
    MessageMap,
    RepeatedCompositeFieldContainer as Messages,
    RepeatedScalarFieldContainer as Scalars,
    ScalarMap,
)
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


class PublishRequest(Message):
    DESCRIPTOR: Descriptor
    topic: str
    messages: Final[Messages[PubsubMessage]]
    def __init__(
        self, *, topic: str | None = ..., messages: Iterable[PubsubMessage] | None = ...
    ) -> None: ...

class PublishResponse(Message):
    DESCRIPTOR: Descriptor
    message_ids: Final[Scalars[str]]
    def __init__(self, *, message_ids: Iterable[str] | None = ...) -> None: ...

class PubsubMessage(Message):
    DESCRIPTOR: Descriptor
    data: bytes
    attributes: Final[ScalarMap[str, str]]
    message_id: str
    publish_time: Final[Timestamp]
    ordering_key: str
    def __init__(
        self,
        *,
        data: bytes | None = ...,
        attributes: Mapping[str, str] | None = ...,
        message_id: str | None = ...,
        publish_time: Timestamp | None = ...,
        ordering_key: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["publish_time"]) -> bool: ...

class Topic(Message):
    DESCRIPTOR: Descriptor
    class _State(EnumTypeWrapper):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        INGESTION_RESOURCE_ERROR: int
    State: _State
    name: str
    labels: Final[ScalarMap[str, str]]
    message_storage_policy: Final[MessageStoragePolicy]
    kms_key_name: str
    schema_settings: Final[SchemaSettings]
    satisfies_pzs: bool
    message_retention_duration: Final[Duration]
    state: int
    ingestion_data_source_settings: Final[Message]
    message_transforms: Final[Messages[Message]]
    tags: Final[ScalarMap[str, str]]
    def __init__(
        self,
        *,
        name: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        message_storage_policy: MessageStoragePolicy | None = ...,
        kms_key_name: str | None = ...,
        schema_settings: SchemaSettings | None = ...,
        satisfies_pzs: bool | None = ...,
        message_retention_duration: Duration | None = ...,
        state: int | str | None = ...,
        ingestion_data_source_settings: Message | None = ...,
        message_transforms: Iterable[Message] | None = ...,
        tags: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["message_storage_policy", "schema_settings", "message_retention_duration", "ingestion_data_source_settings"],
    ) -> bool: ...

class MessageStoragePolicy(Message):
    DESCRIPTOR: Descriptor
    allowed_persistence_regions: Final[Scalars[str]]
    enforce_in_transit: bool
    def __init__(
        self,
        *,
        allowed_persistence_regions: Iterable[str] | None = ...,
        enforce_in_transit: bool | None = ...,
    ) -> None: ...

class UpdateTopicRequest(Message):
    DESCRIPTOR: Descriptor
    topic: Final[Topic]
    update_mask: Final[FieldMask]
    def __init__(
        self, *, topic: Topic | None = ..., update_mask: FieldMask | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["topic", "update_mask"]) -> bool: ...

class GetTopicRequest(Message):
    DESCRIPTOR: Descriptor
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class ListTopicsRequest(Message):
    DESCRIPTOR: Descriptor
    project: str
    page_size: int
    page_token: str
    def __init__(
        self,
        *,
        project: str | None = ...,
        page_size: int | None = ...,
        page_token: str | None = ...,
    ) -> None: ...

class ListTopicsResponse(Message):
    DESCRIPTOR: Descriptor
    topics: Final[Messages[Topic]]
    next_page_token: str
    def __init__(
        self, *, topics: Iterable[Topic] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class ListTopicSubscriptionsRequest(Message):
    DESCRIPTOR: Descriptor
    topic: str
    page_size: int
    page_token: str
    def __init__(
        self, *, topic: str | None = ..., page_size: int | None = ..., page_token: str | None = ...
    ) -> None: ...

class ListTopicSubscriptionsResponse(Message):
    DESCRIPTOR: Descriptor
    subscriptions: Final[Scalars[str]]
    next_page_token: str
    def __init__(
        self, *, subscriptions: Iterable[str] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class ListTopicSnapshotsRequest(Message):
    DESCRIPTOR: Descriptor
    topic: str
    page_size: int
    page_token: str
    def __init__(
        self, *, topic: str | None = ..., page_size: int | None = ..., page_token: str | None = ...
    ) -> None: ...

class ListTopicSnapshotsResponse(Message):
    DESCRIPTOR: Descriptor
    snapshots: Final[Scalars[str]]
    next_page_token: str
    def __init__(
        self, *, snapshots: Iterable[str] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class DeleteTopicRequest(Message):
    DESCRIPTOR: Descriptor
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class DetachSubscriptionRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class DetachSubscriptionResponse(Message):
    DESCRIPTOR: Descriptor
    def __init__(self) -> None: ...

class Subscription(Message):
    DESCRIPTOR: Descriptor
    class _State(EnumTypeWrapper):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        RESOURCE_ERROR: int
    State: _State
    class AnalyticsHubSubscriptionInfo(Message):
        DESCRIPTOR: Descriptor
        listing: str
        subscription: str
        def __init__(
            self, *, listing: str | None = ..., subscription: str | None = ...
        ) -> None: ...
    name: str
    topic: str
    push_config: Final[PushConfig]
    bigquery_config: Final[BigQueryConfig]
    cloud_storage_config: Final[CloudStorageConfig]
    bigtable_config: Final[Message]
    ack_deadline_seconds: int
    retain_acked_messages: bool
    message_retention_duration: Final[Duration]
    labels: Final[ScalarMap[str, str]]
    enable_message_ordering: bool
    expiration_policy: Final[ExpirationPolicy]
    filter: str
    dead_letter_policy: Final[DeadLetterPolicy]
    retry_policy: Final[RetryPolicy]
    detached: bool
    enable_exactly_once_delivery: bool
    topic_message_retention_duration: Final[Duration]
    state: int
    analytics_hub_subscription_info: Final[Subscription.AnalyticsHubSubscriptionInfo]
    message_transforms: Final[Messages[Message]]
    tags: Final[ScalarMap[str, str]]
    def __init__(
        self,
        *,
        name: str | None = ...,
        topic: str | None = ...,
        push_config: PushConfig | None = ...,
        bigquery_config: BigQueryConfig | None = ...,
        cloud_storage_config: CloudStorageConfig | None = ...,
        bigtable_config: Message | None = ...,
        ack_deadline_seconds: int | None = ...,
        retain_acked_messages: bool | None = ...,
        message_retention_duration: Duration | None = ...,
        labels: Mapping[str, str] | None = ...,
        enable_message_ordering: bool | None = ...,
        expiration_policy: ExpirationPolicy | None = ...,
        filter: str | None = ...,
        dead_letter_policy: DeadLetterPolicy | None = ...,
        retry_policy: RetryPolicy | None = ...,
        detached: bool | None = ...,
        enable_exactly_once_delivery: bool | None = ...,
        topic_message_retention_duration: Duration | None = ...,
        state: int | str | None = ...,
        analytics_hub_subscription_info: Subscription.AnalyticsHubSubscriptionInfo | None = ...,
        message_transforms: Iterable[Message] | None = ...,
        tags: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["push_config", "bigquery_config", "cloud_storage_config", "bigtable_config", "message_retention_duration", "expiration_policy", "dead_letter_policy", "retry_policy", "topic_message_retention_duration", "analytics_hub_subscription_info"],
    ) -> bool: ...

class GetSubscriptionRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class UpdateSubscriptionRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: Final[Subscription]
    update_mask: Final[FieldMask]
    def __init__(
        self, *, subscription: Subscription | None = ..., update_mask: FieldMask | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["subscription", "update_mask"]) -> bool: ...

class ListSubscriptionsRequest(Message):
    DESCRIPTOR: Descriptor
    project: str
    page_size: int
    page_token: str
    def __init__(
        self,
        *,
        project: str | None = ...,
        page_size: int | None = ...,
        page_token: str | None = ...,
    ) -> None: ...

class ListSubscriptionsResponse(Message):
    DESCRIPTOR: Descriptor
    subscriptions: Final[Messages[Subscription]]
    next_page_token: str
    def __init__(
        self,
        *,
        subscriptions: Iterable[Subscription] | None = ...,
        next_page_token: str | None = ...,
    ) -> None: ...

class DeleteSubscriptionRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class ModifyPushConfigRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    push_config: Final[PushConfig]
    def __init__(
        self, *, subscription: str | None = ..., push_config: PushConfig | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["push_config"]) -> bool: ...

class PushConfig(Message):
    DESCRIPTOR: Descriptor
    class OidcToken(Message):
        DESCRIPTOR: Descriptor
        service_account_email: str
        audience: str
        def __init__(
            self, *, service_account_email: str | None = ..., audience: str | None = ...
        ) -> None: ...
    class PubsubWrapper(Message):
        DESCRIPTOR: Descriptor
        def __init__(self) -> None: ...
    class NoWrapper(Message):
        DESCRIPTOR: Descriptor
        write_metadata: bool
        def __init__(self, *, write_metadata: bool | None = ...) -> None: ...
    push_endpoint: str
    attributes: Final[ScalarMap[str, str]]
    oidc_token: Final[PushConfig.OidcToken]
    pubsub_wrapper: Final[PushConfig.PubsubWrapper]
    no_wrapper: Final[PushConfig.NoWrapper]
    def __init__(
        self,
        *,
        push_endpoint: str | None = ...,
        attributes: Mapping[str, str] | None = ...,
        oidc_token: PushConfig.OidcToken | None = ...,
        pubsub_wrapper: PushConfig.PubsubWrapper | None = ...,
        no_wrapper: PushConfig.NoWrapper | None = ...,
    ) -> None: ...
    def HasField(
        self, field_name: Literal["oidc_token", "pubsub_wrapper", "no_wrapper"]
    ) -> bool: ...
    def WhichOneof(
        self, oneof_group: Literal["wrapper"]
    ) -> Literal["pubsub_wrapper", "no_wrapper"] | None: ...

class BigQueryConfig(Message):
    DESCRIPTOR: Descriptor
    class _State(EnumTypeWrapper):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        PERMISSION_DENIED: int
        NOT_FOUND: int
        SCHEMA_MISMATCH: int
        IN_TRANSIT_LOCATION_RESTRICTION: int
        VERTEX_AI_LOCATION_RESTRICTION: int
    State: _State
    table: str
    use_topic_schema: bool
    write_metadata: bool
    drop_unknown_fields: bool
    state: int
    use_table_schema: bool
    service_account_email: str
    def __init__(
        self,
        *,
        table: str | None = ...,
        use_topic_schema: bool | None = ...,
        write_metadata: bool | None = ...,
        drop_unknown_fields: bool | None = ...,
        state: int | str | None = ...,
        use_table_schema: bool | None = ...,
        service_account_email: str | None = ...,
    ) -> None: ...

class CloudStorageConfig(Message):
    DESCRIPTOR: Descriptor
    class _State(EnumTypeWrapper):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        PERMISSION_DENIED: int
        NOT_FOUND: int
        IN_TRANSIT_LOCATION_RESTRICTION: int
        SCHEMA_MISMATCH: int
        VERTEX_AI_LOCATION_RESTRICTION: int
    State: _State
    class TextConfig(Message):
        DESCRIPTOR: Descriptor
        def __init__(self) -> None: ...
    class AvroConfig(Message):
        DESCRIPTOR: Descriptor
        write_metadata: bool
        use_topic_schema: bool
        def __init__(
            self, *, write_metadata: bool | None = ..., use_topic_schema: bool | None = ...
        ) -> None: ...
    bucket: str
    filename_prefix: str
    filename_suffix: str
    filename_datetime_format: str
    text_config: Final[CloudStorageConfig.TextConfig]
    avro_config: Final[CloudStorageConfig.AvroConfig]
    max_duration: Final[Duration]
    max_bytes: int
    max_messages: int
    state: int
    service_account_email: str
    def __init__(
        self,
        *,
        bucket: str | None = ...,
        filename_prefix: str | None = ...,
        filename_suffix: str | None = ...,
        filename_datetime_format: str | None = ...,
        text_config: CloudStorageConfig.TextConfig | None = ...,
        avro_config: CloudStorageConfig.AvroConfig | None = ...,
        max_duration: Duration | None = ...,
        max_bytes: int | None = ...,
        max_messages: int | None = ...,
        state: int | str | None = ...,
        service_account_email: str | None = ...,
    ) -> None: ...
    def HasField(
        self, field_name: Literal["text_config", "avro_config", "max_duration"]
    ) -> bool: ...
    def WhichOneof(
        self, oneof_group: Literal["output_format"]
    ) -> Literal["text_config", "avro_config"] | None: ...

class DeadLetterPolicy(Message):
    DESCRIPTOR: Descriptor
    dead_letter_topic: str
    max_delivery_attempts: int
    def __init__(
        self, *, dead_letter_topic: str | None = ..., max_delivery_attempts: int | None = ...
    ) -> None: ...

class ExpirationPolicy(Message):
    DESCRIPTOR: Descriptor
    ttl: Final[Duration]
    def __init__(self, *, ttl: Duration | None = ...) -> None: ...
    def HasField(self, field_name: Literal["ttl"]) -> bool: ...

class RetryPolicy(Message):
    DESCRIPTOR: Descriptor
    minimum_backoff: Final[Duration]
    maximum_backoff: Final[Duration]
    def __init__(
        self, *, minimum_backoff: Duration | None = ..., maximum_backoff: Duration | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["minimum_backoff", "maximum_backoff"]) -> bool: ...

class PullRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    return_immediately: bool
    max_messages: int
    def __init__(
        self,
        *,
        subscription: str | None = ...,
        return_immediately: bool | None = ...,
        max_messages: int | None = ...,
    ) -> None: ...

class PullResponse(Message):
    DESCRIPTOR: Descriptor
    received_messages: Final[Messages[ReceivedMessage]]
    def __init__(
        self, *, received_messages: Iterable[ReceivedMessage] | None = ...
    ) -> None: ...

class ReceivedMessage(Message):
    DESCRIPTOR: Descriptor
    ack_id: str
    message: Final[PubsubMessage]
    delivery_attempt: int
    def __init__(
        self,
        *,
        ack_id: str | None = ...,
        message: PubsubMessage | None = ...,
        delivery_attempt: int | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["message"]) -> bool: ...

class ModifyAckDeadlineRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    ack_ids: Final[Scalars[str]]
    ack_deadline_seconds: int
    def __init__(
        self,
        *,
        subscription: str | None = ...,
        ack_ids: Iterable[str] | None = ...,
        ack_deadline_seconds: int | None = ...,
    ) -> None: ...

class AcknowledgeRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    ack_ids: Final[Scalars[str]]
    def __init__(
        self, *, subscription: str | None = ..., ack_ids: Iterable[str] | None = ...
    ) -> None: ...

class StreamingPullRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    ack_ids: Final[Scalars[str]]
    modify_deadline_seconds: Final[Scalars[int]]
    modify_deadline_ack_ids: Final[Scalars[str]]
    stream_ack_deadline_seconds: int
    client_id: str
    max_outstanding_messages: int
    max_outstanding_bytes: int
    protocol_version: int
    def __init__(
        self,
        *,
        subscription: str | None = ...,
        ack_ids: Iterable[str] | None = ...,
        modify_deadline_seconds: Iterable[int] | None = ...,
        modify_deadline_ack_ids: Iterable[str] | None = ...,
        stream_ack_deadline_seconds: int | None = ...,
        client_id: str | None = ...,
        max_outstanding_messages: int | None = ...,
        max_outstanding_bytes: int | None = ...,
        protocol_version: int | None = ...,
    ) -> None: ...

class StreamingPullResponse(Message):
    DESCRIPTOR: Descriptor
    class AcknowledgeConfirmation(Message):
        DESCRIPTOR: Descriptor
        ack_ids: Final[Scalars[str]]
        invalid_ack_ids: Final[Scalars[str]]
        unordered_ack_ids: Final[Scalars[str]]
        temporary_failed_ack_ids: Final[Scalars[str]]
        def __init__(
            self,
            *,
            ack_ids: Iterable[str] | None = ...,
            invalid_ack_ids: Iterable[str] | None = ...,
            unordered_ack_ids: Iterable[str] | None = ...,
            temporary_failed_ack_ids: Iterable[str] | None = ...,
        ) -> None: ...
    class ModifyAckDeadlineConfirmation(Message):
        DESCRIPTOR: Descriptor
        ack_ids: Final[Scalars[str]]
        invalid_ack_ids: Final[Scalars[str]]
        temporary_failed_ack_ids: Final[Scalars[str]]
        def __init__(
            self,
            *,
            ack_ids: Iterable[str] | None = ...,
            invalid_ack_ids: Iterable[str] | None = ...,
            temporary_failed_ack_ids: Iterable[str] | None = ...,
        ) -> None: ...
    class SubscriptionProperties(Message):
        DESCRIPTOR: Descriptor
        exactly_once_delivery_enabled: bool
        message_ordering_enabled: bool
        def __init__(
            self,
            *,
            exactly_once_delivery_enabled: bool | None = ...,
            message_ordering_enabled: bool | None = ...,
        ) -> None: ...
    received_messages: Final[Messages[ReceivedMessage]]
    acknowledge_confirmation: Final[StreamingPullResponse.AcknowledgeConfirmation]
    modify_ack_deadline_confirmation: Final[StreamingPullResponse.ModifyAckDeadlineConfirmation]
    subscription_properties: Final[StreamingPullResponse.SubscriptionProperties]
    def __init__(
        self,
        *,
        received_messages: Iterable[ReceivedMessage] | None = ...,
        acknowledge_confirmation: StreamingPullResponse.AcknowledgeConfirmation | None = ...,
        modify_ack_deadline_confirmation: StreamingPullResponse.ModifyAckDeadlineConfirmation | None = ...,
        subscription_properties: StreamingPullResponse.SubscriptionProperties | None = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["acknowledge_confirmation", "modify_ack_deadline_confirmation", "subscription_properties"],
    ) -> bool: ...

class Snapshot(Message):
    DESCRIPTOR: Descriptor
    name: str
    topic: str
    expire_time: Final[Timestamp]
    labels: Final[ScalarMap[str, str]]
    def __init__(
        self,
        *,
        name: str | None = ...,
        topic: str | None = ...,
        expire_time: Timestamp | None = ...,
        labels: Mapping[str, str] | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["expire_time"]) -> bool: ...

class CreateSnapshotRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    subscription: str
    labels: Final[ScalarMap[str, str]]
    tags: Final[ScalarMap[str, str]]
    def __init__(
        self,
        *,
        name: str | None = ...,
        subscription: str | None = ...,
        labels: Mapping[str, str] | None = ...,
        tags: Mapping[str, str] | None = ...,
    ) -> None: ...

class GetSnapshotRequest(Message):
    DESCRIPTOR: Descriptor
    snapshot: str
    def __init__(self, *, snapshot: str | None = ...) -> None: ...

class UpdateSnapshotRequest(Message):
    DESCRIPTOR: Descriptor
    snapshot: Final[Snapshot]
    update_mask: Final[FieldMask]
    def __init__(
        self, *, snapshot: Snapshot | None = ..., update_mask: FieldMask | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["snapshot", "update_mask"]) -> bool: ...

class ListSnapshotsRequest(Message):
    DESCRIPTOR: Descriptor
    project: str
    page_size: int
    page_token: str
    def __init__(
        self,
        *,
        project: str | None = ...,
        page_size: int | None = ...,
        page_token: str | None = ...,
    ) -> None: ...

class ListSnapshotsResponse(Message):
    DESCRIPTOR: Descriptor
    snapshots: Final[Messages[Snapshot]]
    next_page_token: str
    def __init__(
        self, *, snapshots: Iterable[Snapshot] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class DeleteSnapshotRequest(Message):
    DESCRIPTOR: Descriptor
    snapshot: str
    def __init__(self, *, snapshot: str | None = ...) -> None: ...

class SeekRequest(Message):
    DESCRIPTOR: Descriptor
    subscription: str
    time: Final[Timestamp]
    snapshot: str
    def __init__(
        self,
        *,
        subscription: str | None = ...,
        time: Timestamp | None = ...,
        snapshot: str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["time", "snapshot"]) -> bool: ...
    def WhichOneof(
        self, oneof_group: Literal["target"]
    ) -> Literal["time", "snapshot"] | None: ...

class SeekResponse(Message):
    DESCRIPTOR: Descriptor
    def __init__(self) -> None: ...

class Schema(Message):
    DESCRIPTOR: Descriptor
    class _Type(EnumTypeWrapper):
        TYPE_UNSPECIFIED: int
        PROTOCOL_BUFFER: int
        AVRO: int
    Type: _Type
    name: str
    type_: int
    definition: str
    compiled_proto_schema: Final[Message]
    revision_id: str
    revision_create_time: Final[Timestamp]
    def __init__(
        self,
        *,
        name: str | None = ...,
        type_: int | str | None = ...,
        definition: str | None = ...,
        compiled_proto_schema: Message | None = ...,
        revision_id: str | None = ...,
        revision_create_time: Timestamp | None = ...,
    ) -> None: ...
    def HasField(
        self, field_name: Literal["compiled_proto_schema", "revision_create_time"]
    ) -> bool: ...

class SchemaSettings(Message):
    DESCRIPTOR: Descriptor
    schema: str
    encoding: int
    first_revision_id: str
    last_revision_id: str
    def __init__(
        self,
        *,
        schema: str | None = ...,
        encoding: int | str | None = ...,
        first_revision_id: str | None = ...,
        last_revision_id: str | None = ...,
    ) -> None: ...

class CreateSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    parent: str
    schema: Final[Schema]
    schema_id: str
    def __init__(
        self, *, parent: str | None = ..., schema: Schema | None = ..., schema_id: str | None = ...
    ) -> None: ...
    def HasField(self, field_name: Literal["schema"]) -> bool: ...

class GetSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    view: int
    def __init__(self, *, name: str | None = ..., view: int | str | None = ...) -> None: ...

class ListSchemasRequest(Message):
    DESCRIPTOR: Descriptor
    parent: str
    view: int
    page_size: int
    page_token: str
    def __init__(
        self,
        *,
        parent: str | None = ...,
        view: int | str | None = ...,
        page_size: int | None = ...,
        page_token: str | None = ...,
    ) -> None: ...

class ListSchemasResponse(Message):
    DESCRIPTOR: Descriptor
    schemas: Final[Messages[Schema]]
    next_page_token: str
    def __init__(
        self, *, schemas: Iterable[Schema] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class ListSchemaRevisionsRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    view: int
    page_size: int
    page_token: str
    def __init__(
        self,
        *,
        name: str | None = ...,
        view: int | str | None = ...,
        page_size: int | None = ...,
        page_token: str | None = ...,
    ) -> None: ...

class ListSchemaRevisionsResponse(Message):
    DESCRIPTOR: Descriptor
    schemas: Final[Messages[Schema]]
    next_page_token: str
    def __init__(
        self, *, schemas: Iterable[Schema] | None = ..., next_page_token: str | None = ...
    ) -> None: ...

class CommitSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    schema: Final[Schema]
    def __init__(self, *, name: str | None = ..., schema: Schema | None = ...) -> None: ...
    def HasField(self, field_name: Literal["schema"]) -> bool: ...

class RollbackSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    revision_id: str
    def __init__(self, *, name: str | None = ..., revision_id: str | None = ...) -> None: ...

class DeleteSchemaRevisionRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    revision_id: str
    def __init__(self, *, name: str | None = ..., revision_id: str | None = ...) -> None: ...

class DeleteSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    name: str
    def __init__(self, *, name: str | None = ...) -> None: ...

class ValidateSchemaRequest(Message):
    DESCRIPTOR: Descriptor
    parent: str
    schema: Final[Schema]
    def __init__(self, *, parent: str | None = ..., schema: Schema | None = ...) -> None: ...
    def HasField(self, field_name: Literal["schema"]) -> bool: ...

class ValidateSchemaResponse(Message):
    DESCRIPTOR: Descriptor
    def __init__(self) -> None: ...

class ValidateMessageRequest(Message):
    DESCRIPTOR: Descriptor
    parent: str
    name: str
    schema: Final[Schema]
    message: bytes
    encoding: int
    def __init__(
        self,
        *,
        parent: str | None = ...,
        name: str | None = ...,
        schema: Schema | None = ...,
        message: bytes | None = ...,
        encoding: int | str | None = ...,
    ) -> None: ...
    def HasField(self, field_name: Literal["name", "schema"]) -> bool: ...
    def WhichOneof(
        self, oneof_group: Literal["schema_spec"]
    ) -> Literal["name", "schema"] | None: ...

class ValidateMessageResponse(Message):
    DESCRIPTOR: Descriptor
    def __init__(self) -> None: ...
