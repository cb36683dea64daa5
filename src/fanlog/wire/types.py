"""Google's message classes as plain protobuf, imported once.

`google.pubsub_v1` wraps each class for its own client; the server wants what is inside.
"""

from __future__ import annotations

from typing import Any

from google.pubsub_v1.types import pubsub, schema

PublishRequest: Any = pubsub.PublishRequest.pb()
PublishResponse: Any = pubsub.PublishResponse.pb()
PubsubMessage: Any = pubsub.PubsubMessage.pb()
Topic: Any = pubsub.Topic.pb()
UpdateTopicRequest: Any = pubsub.UpdateTopicRequest.pb()
GetTopicRequest: Any = pubsub.GetTopicRequest.pb()
ListTopicsRequest: Any = pubsub.ListTopicsRequest.pb()
ListTopicsResponse: Any = pubsub.ListTopicsResponse.pb()
ListTopicSubscriptionsRequest: Any = pubsub.ListTopicSubscriptionsRequest.pb()
ListTopicSubscriptionsResponse: Any = pubsub.ListTopicSubscriptionsResponse.pb()
ListTopicSnapshotsRequest: Any = pubsub.ListTopicSnapshotsRequest.pb()
ListTopicSnapshotsResponse: Any = pubsub.ListTopicSnapshotsResponse.pb()
DeleteTopicRequest: Any = pubsub.DeleteTopicRequest.pb()
DetachSubscriptionRequest: Any = pubsub.DetachSubscriptionRequest.pb()
DetachSubscriptionResponse: Any = pubsub.DetachSubscriptionResponse.pb()

Subscription: Any = pubsub.Subscription.pb()
GetSubscriptionRequest: Any = pubsub.GetSubscriptionRequest.pb()
UpdateSubscriptionRequest: Any = pubsub.UpdateSubscriptionRequest.pb()
ListSubscriptionsRequest: Any = pubsub.ListSubscriptionsRequest.pb()
ListSubscriptionsResponse: Any = pubsub.ListSubscriptionsResponse.pb()
DeleteSubscriptionRequest: Any = pubsub.DeleteSubscriptionRequest.pb()
ModifyPushConfigRequest: Any = pubsub.ModifyPushConfigRequest.pb()
PushConfig: Any = pubsub.PushConfig.pb()
DeadLetterPolicy: Any = pubsub.DeadLetterPolicy.pb()
ExpirationPolicy: Any = pubsub.ExpirationPolicy.pb()
RetryPolicy: Any = pubsub.RetryPolicy.pb()

PullRequest: Any = pubsub.PullRequest.pb()
PullResponse: Any = pubsub.PullResponse.pb()
ReceivedMessage: Any = pubsub.ReceivedMessage.pb()
ModifyAckDeadlineRequest: Any = pubsub.ModifyAckDeadlineRequest.pb()
AcknowledgeRequest: Any = pubsub.AcknowledgeRequest.pb()
StreamingPullRequest: Any = pubsub.StreamingPullRequest.pb()
StreamingPullResponse: Any = pubsub.StreamingPullResponse.pb()

Snapshot: Any = pubsub.Snapshot.pb()
CreateSnapshotRequest: Any = pubsub.CreateSnapshotRequest.pb()
GetSnapshotRequest: Any = pubsub.GetSnapshotRequest.pb()
UpdateSnapshotRequest: Any = pubsub.UpdateSnapshotRequest.pb()
ListSnapshotsRequest: Any = pubsub.ListSnapshotsRequest.pb()
ListSnapshotsResponse: Any = pubsub.ListSnapshotsResponse.pb()
DeleteSnapshotRequest: Any = pubsub.DeleteSnapshotRequest.pb()
SeekRequest: Any = pubsub.SeekRequest.pb()
SeekResponse: Any = pubsub.SeekResponse.pb()

Schema: Any = schema.Schema.pb()
SchemaSettings: Any = pubsub.SchemaSettings.pb()
CreateSchemaRequest: Any = schema.CreateSchemaRequest.pb()
GetSchemaRequest: Any = schema.GetSchemaRequest.pb()
ListSchemasRequest: Any = schema.ListSchemasRequest.pb()
ListSchemasResponse: Any = schema.ListSchemasResponse.pb()
ListSchemaRevisionsRequest: Any = schema.ListSchemaRevisionsRequest.pb()
ListSchemaRevisionsResponse: Any = schema.ListSchemaRevisionsResponse.pb()
CommitSchemaRequest: Any = schema.CommitSchemaRequest.pb()
RollbackSchemaRequest: Any = schema.RollbackSchemaRequest.pb()
DeleteSchemaRevisionRequest: Any = schema.DeleteSchemaRevisionRequest.pb()
DeleteSchemaRequest: Any = schema.DeleteSchemaRequest.pb()
ValidateSchemaRequest: Any = schema.ValidateSchemaRequest.pb()
ValidateSchemaResponse: Any = schema.ValidateSchemaResponse.pb()
ValidateMessageRequest: Any = schema.ValidateMessageRequest.pb()
ValidateMessageResponse: Any = schema.ValidateMessageResponse.pb()
