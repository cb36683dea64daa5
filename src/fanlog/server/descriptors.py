"""What reflection tells of the services: their methods, beside Google's messages.

The Python package of Google's API describes its messages only, so the services are described here.
They stand in a pool of their own: a program that has Google's real descriptors loaded as well would
find each service twice in the common one.
"""

from __future__ import annotations

from typing import Any

from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.empty_pb2 import Empty
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from fanlog.v1 import catalog_pb2, export_pb2, jobs_pb2, lake_pb2, log_pb2, replay_pb2, sink_pb2
from fanlog.wire import types

_PUBLISHER: dict[str, tuple[Any, Any]] = {
    "CreateTopic": (types.Topic, types.Topic),
    "UpdateTopic": (types.UpdateTopicRequest, types.Topic),
    "Publish": (types.PublishRequest, types.PublishResponse),
    "GetTopic": (types.GetTopicRequest, types.Topic),
    "ListTopics": (types.ListTopicsRequest, types.ListTopicsResponse),
    "ListTopicSubscriptions": (
        types.ListTopicSubscriptionsRequest,
        types.ListTopicSubscriptionsResponse,
    ),
    "ListTopicSnapshots": (types.ListTopicSnapshotsRequest, types.ListTopicSnapshotsResponse),
    "DeleteTopic": (types.DeleteTopicRequest, Empty),
    "DetachSubscription": (types.DetachSubscriptionRequest, types.DetachSubscriptionResponse),
}
_SUBSCRIBER: dict[str, tuple[Any, Any]] = {
    "CreateSubscription": (types.Subscription, types.Subscription),
    "GetSubscription": (types.GetSubscriptionRequest, types.Subscription),
    "UpdateSubscription": (types.UpdateSubscriptionRequest, types.Subscription),
    "ListSubscriptions": (types.ListSubscriptionsRequest, types.ListSubscriptionsResponse),
    "DeleteSubscription": (types.DeleteSubscriptionRequest, Empty),
    "ModifyAckDeadline": (types.ModifyAckDeadlineRequest, Empty),
    "Acknowledge": (types.AcknowledgeRequest, Empty),
    "Pull": (types.PullRequest, types.PullResponse),
    "StreamingPull": (types.StreamingPullRequest, types.StreamingPullResponse),
    "ModifyPushConfig": (types.ModifyPushConfigRequest, Empty),
    "GetSnapshot": (types.GetSnapshotRequest, types.Snapshot),
    "ListSnapshots": (types.ListSnapshotsRequest, types.ListSnapshotsResponse),
    "CreateSnapshot": (types.CreateSnapshotRequest, types.Snapshot),
    "UpdateSnapshot": (types.UpdateSnapshotRequest, types.Snapshot),
    "DeleteSnapshot": (types.DeleteSnapshotRequest, Empty),
    "Seek": (types.SeekRequest, types.SeekResponse),
}
_SCHEMA_SERVICE: dict[str, tuple[Any, Any]] = {
    "CreateSchema": (types.CreateSchemaRequest, types.Schema),
    "GetSchema": (types.GetSchemaRequest, types.Schema),
    "ListSchemas": (types.ListSchemasRequest, types.ListSchemasResponse),
    "ListSchemaRevisions": (types.ListSchemaRevisionsRequest, types.ListSchemaRevisionsResponse),
    "CommitSchema": (types.CommitSchemaRequest, types.Schema),
    "RollbackSchema": (types.RollbackSchemaRequest, types.Schema),
    "DeleteSchemaRevision": (types.DeleteSchemaRevisionRequest, types.Schema),
    "DeleteSchema": (types.DeleteSchemaRequest, Empty),
    "ValidateSchema": (types.ValidateSchemaRequest, types.ValidateSchemaResponse),
    "ValidateMessage": (types.ValidateMessageRequest, types.ValidateMessageResponse),
}
_IAM_POLICY: dict[str, tuple[Any, Any]] = {
    "GetIamPolicy": (iam_policy_pb2.GetIamPolicyRequest, policy_pb2.Policy),
    "SetIamPolicy": (iam_policy_pb2.SetIamPolicyRequest, policy_pb2.Policy),
    "TestIamPermissions": (
        iam_policy_pb2.TestIamPermissionsRequest,
        iam_policy_pb2.TestIamPermissionsResponse,
    ),
}
_JOBS: dict[str, tuple[Any, Any]] = {
    "CreateJob": (jobs_pb2.CreateJobRequest, jobs_pb2.Job),
    "GetJob": (jobs_pb2.GetJobRequest, jobs_pb2.Job),
    "ListJobs": (jobs_pb2.ListJobsRequest, jobs_pb2.ListJobsResponse),
    "CancelJob": (jobs_pb2.CancelJobRequest, jobs_pb2.Job),
    "DeleteJob": (jobs_pb2.DeleteJobRequest, jobs_pb2.DeleteJobResponse),
    "ReportJob": (jobs_pb2.ReportJobRequest, jobs_pb2.Job),
}
_CATALOG: dict[str, tuple[Any, Any]] = {
    "DescribeTopics": (catalog_pb2.DescribeTopicsRequest, catalog_pb2.DescribeTopicsResponse),
    "DescribeSubscriptions": (
        catalog_pb2.DescribeSubscriptionsRequest,
        catalog_pb2.DescribeSubscriptionsResponse,
    ),
    "DescribeSchema": (catalog_pb2.DescribeSchemaRequest, catalog_pb2.SchemaDescription),
}
_LAKE: dict[str, tuple[Any, Any]] = {
    "GetLake": (lake_pb2.GetLakeRequest, lake_pb2.LakeStatus),
    "AcceptLoss": (lake_pb2.AcceptLossRequest, lake_pb2.AcceptLossResponse),
}
_REPLAY: dict[str, tuple[Any, Any]] = {
    "Reopen": (replay_pb2.ReopenRequest, replay_pb2.ReopenResponse),
    "Seek": (replay_pb2.SeekSubscriptionRequest, replay_pb2.SeekSubscriptionResponse),
    "ListDeadLetters": (replay_pb2.ListDeadLettersRequest, replay_pb2.ListDeadLettersResponse),
    "Redrive": (replay_pb2.RedriveRequest, replay_pb2.RedriveResponse),
    "Discard": (replay_pb2.DiscardRequest, replay_pb2.DiscardResponse),
}
#: Services whose descriptors are not in any package.
_UNDESCRIBED = {
    "Publisher": _PUBLISHER,
    "Subscriber": _SUBSCRIBER,
    "SchemaService": _SCHEMA_SERVICE,
}
#: Request and answer of each method, by service.
METHODS = {
    **_UNDESCRIBED,
    "IAMPolicy": _IAM_POLICY,
    "Catalog": _CATALOG,
    "Jobs": _JOBS,
    "Lake": _LAKE,
    "Replay": _REPLAY,
}
_STREAMING = frozenset({"StreamingPull"})


def service_descriptors() -> DescriptorPool:
    """A pool that knows every service on the gRPC port, and all their messages."""
    pool = DescriptorPool()
    messages = types.Topic.DESCRIPTOR.file
    schemas = types.Schema.DESCRIPTOR.file
    added: set[str] = set()
    for file in (
        messages,
        schemas,
        Empty.DESCRIPTOR.file,
        iam_policy_pb2.DESCRIPTOR,
        catalog_pb2.DESCRIPTOR,
        jobs_pb2.DESCRIPTOR,
        lake_pb2.DESCRIPTOR,
        replay_pb2.DESCRIPTOR,
        health_pb2.DESCRIPTOR,
        reflection_pb2.DESCRIPTOR,
        log_pb2.DESCRIPTOR,
        sink_pb2.DESCRIPTOR,
        export_pb2.DESCRIPTOR,
    ):
        _add(pool, file, added)
    services = FileDescriptorProto(
        name="google/pubsub/v1/services.proto",
        package=messages.package,
        syntax="proto3",
        dependency=[messages.name, schemas.name, Empty.DESCRIPTOR.file.name],
    )
    for name, methods in _UNDESCRIBED.items():
        service = services.service.add(name=name)
        for method, (request, answer) in methods.items():
            service.method.add(
                name=method,
                input_type=f".{request.DESCRIPTOR.full_name}",
                output_type=f".{answer.DESCRIPTOR.full_name}",
                client_streaming=method in _STREAMING,
                server_streaming=method in _STREAMING,
            )
    pool.AddSerializedFile(services.SerializeToString())
    return pool


def _add(pool: DescriptorPool, file: Any, added: set[str]) -> None:
    if file.name in added:
        return
    added.add(file.name)
    for dependency in file.dependencies:
        _add(pool, dependency, added)
    pool.AddSerializedFile(file.serialized_pb)
