"""Google's message classes as plain protobuf, imported once.

`google.pubsub_v1` wraps each class for its own client; the server wants the class inside.
The fields are in `types.pyi`, which `scripts/stubs.py` makes for the type checker.
"""

from __future__ import annotations

from fanlog.wire.light_packages import enter_lightly

# Its `__init__` imports Google's clients, which cost more than all the rest of a server's start.
enter_lightly("google.pubsub_v1")

from google.pubsub_v1.types import pubsub, schema  # noqa: E402

PublishRequest = pubsub.PublishRequest.pb()
PublishResponse = pubsub.PublishResponse.pb()
PubsubMessage = pubsub.PubsubMessage.pb()
Topic = pubsub.Topic.pb()
MessageStoragePolicy = pubsub.MessageStoragePolicy.pb()
UpdateTopicRequest = pubsub.UpdateTopicRequest.pb()
GetTopicRequest = pubsub.GetTopicRequest.pb()
ListTopicsRequest = pubsub.ListTopicsRequest.pb()
ListTopicsResponse = pubsub.ListTopicsResponse.pb()
ListTopicSubscriptionsRequest = pubsub.ListTopicSubscriptionsRequest.pb()
ListTopicSubscriptionsResponse = pubsub.ListTopicSubscriptionsResponse.pb()
ListTopicSnapshotsRequest = pubsub.ListTopicSnapshotsRequest.pb()
ListTopicSnapshotsResponse = pubsub.ListTopicSnapshotsResponse.pb()
DeleteTopicRequest = pubsub.DeleteTopicRequest.pb()
DetachSubscriptionRequest = pubsub.DetachSubscriptionRequest.pb()
DetachSubscriptionResponse = pubsub.DetachSubscriptionResponse.pb()

Subscription = pubsub.Subscription.pb()
GetSubscriptionRequest = pubsub.GetSubscriptionRequest.pb()
UpdateSubscriptionRequest = pubsub.UpdateSubscriptionRequest.pb()
ListSubscriptionsRequest = pubsub.ListSubscriptionsRequest.pb()
ListSubscriptionsResponse = pubsub.ListSubscriptionsResponse.pb()
DeleteSubscriptionRequest = pubsub.DeleteSubscriptionRequest.pb()
ModifyPushConfigRequest = pubsub.ModifyPushConfigRequest.pb()
PushConfig = pubsub.PushConfig.pb()
BigQueryConfig = pubsub.BigQueryConfig.pb()
CloudStorageConfig = pubsub.CloudStorageConfig.pb()
DeadLetterPolicy = pubsub.DeadLetterPolicy.pb()
ExpirationPolicy = pubsub.ExpirationPolicy.pb()
RetryPolicy = pubsub.RetryPolicy.pb()

PullRequest = pubsub.PullRequest.pb()
PullResponse = pubsub.PullResponse.pb()
ReceivedMessage = pubsub.ReceivedMessage.pb()
ModifyAckDeadlineRequest = pubsub.ModifyAckDeadlineRequest.pb()
AcknowledgeRequest = pubsub.AcknowledgeRequest.pb()
StreamingPullRequest = pubsub.StreamingPullRequest.pb()
StreamingPullResponse = pubsub.StreamingPullResponse.pb()

Snapshot = pubsub.Snapshot.pb()
CreateSnapshotRequest = pubsub.CreateSnapshotRequest.pb()
GetSnapshotRequest = pubsub.GetSnapshotRequest.pb()
UpdateSnapshotRequest = pubsub.UpdateSnapshotRequest.pb()
ListSnapshotsRequest = pubsub.ListSnapshotsRequest.pb()
ListSnapshotsResponse = pubsub.ListSnapshotsResponse.pb()
DeleteSnapshotRequest = pubsub.DeleteSnapshotRequest.pb()
SeekRequest = pubsub.SeekRequest.pb()
SeekResponse = pubsub.SeekResponse.pb()

Schema = schema.Schema.pb()
SchemaSettings = pubsub.SchemaSettings.pb()
CreateSchemaRequest = schema.CreateSchemaRequest.pb()
GetSchemaRequest = schema.GetSchemaRequest.pb()
ListSchemasRequest = schema.ListSchemasRequest.pb()
ListSchemasResponse = schema.ListSchemasResponse.pb()
ListSchemaRevisionsRequest = schema.ListSchemaRevisionsRequest.pb()
ListSchemaRevisionsResponse = schema.ListSchemaRevisionsResponse.pb()
CommitSchemaRequest = schema.CommitSchemaRequest.pb()
RollbackSchemaRequest = schema.RollbackSchemaRequest.pb()
DeleteSchemaRevisionRequest = schema.DeleteSchemaRevisionRequest.pb()
DeleteSchemaRequest = schema.DeleteSchemaRequest.pb()
ValidateSchemaRequest = schema.ValidateSchemaRequest.pb()
ValidateSchemaResponse = schema.ValidateSchemaResponse.pb()
ValidateMessageRequest = schema.ValidateMessageRequest.pb()
ValidateMessageResponse = schema.ValidateMessageResponse.pb()
