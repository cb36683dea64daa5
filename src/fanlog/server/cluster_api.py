"""fanlog.v1.Cluster, for any surface."""

from __future__ import annotations

from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from fanlog.broker.broker import Broker
from fanlog.model.cluster import ClusterState, NodeRole, NodeView
from fanlog.server.methods import method
from fanlog.v1 import cluster_pb2 as pb

_ROLES: dict[NodeRole, pb.ClusterNode.Role] = {
    "owner": pb.ClusterNode.OWNER,
    "standby": pb.ClusterNode.STANDBY,
    "starting": pb.ClusterNode.STARTING,
    "gone": pb.ClusterNode.GONE,
    "failed": pb.ClusterNode.FAILED,
}


async def describe_cluster(broker: Broker, _: pb.DescribeClusterRequest) -> pb.ClusterState:
    return cluster_pb(await broker.cluster.describe())


async def move_cluster(broker: Broker, request: pb.MoveClusterRequest) -> pb.MoveClusterResponse:
    before, after = broker.cluster.move(request.node)
    return pb.MoveClusterResponse(to=after, **{"from": before})


def cluster_pb(state: ClusterState) -> pb.ClusterState:
    return pb.ClusterState(
        cluster=state.cluster,
        topic=state.topic,
        told_by=state.told_by,
        term=state.term,
        owner=state.owner,
        end_offset=state.end_offset,
        sequence=state.sequence,
        session=_duration(state.session_s),
        nodes=map(_node_pb, state.nodes),
        kafka=pb.KafkaState(
            servers=state.kafka.servers,
            reachable=state.kafka.is_reachable,
            silent=_duration(state.kafka.silent_s),
            troubles=state.kafka.troubles,
        ),
    )


def _node_pb(node: NodeView) -> pb.ClusterNode:
    return pb.ClusterNode(
        name=node.name,
        role=_ROLES[node.role],
        api_address=node.api_address,
        link_address=node.link_address,
        applied_offset=node.applied_offset,
        lag_records=node.lag_records,
        lag=_duration(node.lag_s),
        silent=_duration(node.silent_s),
        trouble=node.trouble,
    )


def _duration(seconds: float) -> Duration:
    found = Duration()
    found.FromTimedelta(timedelta(milliseconds=round(seconds * 1e3)))
    return found


METHODS = (
    method("DescribeCluster", pb.DescribeClusterRequest, pb.ClusterState, describe_cluster),
    method("MoveCluster", pb.MoveClusterRequest, pb.MoveClusterResponse, move_cluster),
)
