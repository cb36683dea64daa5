"""A cluster as one of its nodes sees it: for `fanlog.v1.Cluster`, readiness and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from fanlog.cluster.bearings import read_card
from fanlog.cluster.gateway import Gateway
from fanlog.cluster.node import ClusterNode, Part
from fanlog.log.replicated.api import ReplicaClock
from fanlog.model.cluster import ClusterState, KafkaView, NodeRole, NodeView
from fanlog.server.metric_families import column, sample
from fanlog.server.metrics.family import Reading
from fanlog.server.shard_topic import ShardTopic

_ROLES: dict[Part, NodeRole] = {
    "starting": "starting",
    "standby": "standby",
    "taking over": "standby",
    "owner": "owner",
    "failed": "failed",
}


PARTS: tuple[Part, ...] = get_args(Part)


class ClusterView:
    """The `Cluster` of a node's broker, and of a node without one. Lives on the loop."""

    def __init__(
        self,
        name: str,
        servers: Sequence[str],
        topic: ShardTopic,
        node: ClusterNode[Any],
        clock: ReplicaClock,
    ) -> None:
        self._name = name
        self._servers = tuple(servers)
        self._topic = topic
        self._node = node
        self._clock = clock

    @property
    def name(self) -> str:
        return self._name

    async def describe(self) -> ClusterState:
        node, standing = self._node, self._node.standing
        owner = node.known_owner.card
        return ClusterState(
            cluster=self._name,
            topic=self._topic.name,
            told_by=node.card.name,
            term=standing.term,
            owner="" if owner is None else owner.name,
            end_offset=max(standing.end_offset, standing.applied_offset),
            sequence=standing.sequence,
            session_s=node.session.length_s,
            nodes=tuple(self._nodes()),
            kafka=self._kafka(),
        )

    def move(self, name: str) -> tuple[str, str]:
        node = self._node
        return node.card.name, node.move(name)

    def _nodes(self) -> Iterable[NodeView]:
        """The owner first."""
        node = self._node
        if node.part == "owner":
            yield self._own_state()
            yield from self._standbys()
            return
        standing, owner = node.standing, node.known_owner.card
        now = self._clock.boottime_s()
        if owner is not None and owner.name != node.card.name:
            yield NodeView(
                name=owner.name,
                role="owner",
                api_address=owner.api_address,
                link_address=owner.link_address,
                applied_offset=standing.applied_offset,
                silent_s=max(0.0, now - standing.heard_s),
                trouble=node.obstacle,
            )
        yield self._own_state()
        # As the owner left them in the log.
        for one in standing.members:
            card = read_card(one.card)
            if card is not None and card.name not in (node.card.name, owner and owner.name):
                yield NodeView(
                    name=card.name,
                    role="standby",
                    api_address=card.api_address,
                    link_address=card.link_address,
                    applied_offset=one.applied_offset,
                    lag_records=max(0, standing.applied_offset - one.applied_offset),
                    silent_s=max(0.0, now - standing.heard_s),
                )

    def _own_state(self) -> NodeView:
        node = self._node
        standing = node.standing
        return NodeView(
            name=node.card.name,
            role=_ROLES[node.part],
            api_address=node.card.api_address,
            link_address=node.card.link_address,
            applied_offset=standing.applied_offset,
            lag_records=self._lag_records,
            trouble=node.trouble or (node.obstacle if node.part == "owner" else ""),
        )

    def _standbys(self) -> Iterable[NodeView]:
        node, now = self._node, self._clock.boottime_s()
        present = {one.name for one in node.standbys.present(now)}
        for one in sorted(node.standbys.known, key=lambda one: (-one.applied_offset, one.name)):
            role: NodeRole = "standby" if one.is_whole else "starting"
            yield NodeView(
                name=one.name,
                role=role if one.name in present else "gone",
                api_address=one.card.api_address,
                link_address=one.card.link_address,
                applied_offset=one.applied_offset,
                lag_records=one.lag_records,
                lag_s=one.lag_s,
                silent_s=now - one.heard_s,
                trouble=one.obstacle,
            )

    def _kafka(self) -> KafkaView:
        node = self._node
        standing, now = node.standing, self._clock.boottime_s()
        heard_s = standing.renewed_s if standing.role == "owning" else standing.fetched_s
        silent_s = min(max(0.0, now - heard_s), 1e9)
        troubles = [self._topic.problem, self._stray_records]
        return KafkaView(
            servers=self._servers,
            is_reachable=silent_s < node.session.length_s,
            silent_s=silent_s,
            troubles=tuple(one for one in troubles if one),
        )

    @property
    def _stray_records(self) -> str:
        """That somebody else writes to the topic; empty as long as nobody did."""
        standing = self._node.standing
        if not standing.stray_records:
            return ""
        return (
            f"{standing.stray_records} records of the topic are no entries of the cluster and were "
            f"passed over, the last at {standing.stray_sentence}; let nobody but the nodes write"
        )

    @property
    def _lag_records(self) -> int:
        standing = self._node.standing
        if standing.role == "owning":
            return 0
        return max(0, standing.end_offset - standing.applied_offset)

    # Readiness and metrics.

    @property
    def remarks(self) -> list[str]:
        """Lines for whoever asks whether this node is ready."""
        node = self._node
        owner = node.known_owner
        told = [f"node {node.card.name}: {node.part} in cluster {self._name}, term {owner.term}"]
        if node.part != "owner":
            told.append(f"owner: {'none' if owner.card is None else owner.card.name}")
        if node.trouble:
            told.append(f"trouble: {node.trouble}")
        told += (f"topic: {one}" for one in (self._topic.problem, self._stray_records) if one)
        return told

    def numbers(self, gateway: Gateway) -> Iterator[Reading]:
        """The metrics of this node."""
        node = self._node
        standing = node.standing
        yield column("fanlog_cluster_role", {part: int(part == node.part) for part in PARTS})
        yield sample("fanlog_cluster_serving", int(not node.obstacle))
        yield sample("fanlog_cluster_sure", int(node.is_sure))
        yield sample("fanlog_cluster_term", standing.term)
        yield sample("fanlog_cluster_applied_offset", standing.applied_offset)
        yield sample("fanlog_cluster_lag_records", self._lag_records)
        yield sample("fanlog_cluster_kafka_silent_seconds", self._kafka().silent_s)
        yield sample("fanlog_cluster_take_overs", node.take_overs)
        yield sample("fanlog_cluster_renewals_late", node.late_renewals)
        yield sample("fanlog_cluster_caches_discarded", standing.started_over)
        yield sample("fanlog_cluster_stray_records", standing.stray_records)
        yield sample("fanlog_cluster_calls_held", gateway.counts.held + node.held)
        yield sample("fanlog_cluster_calls_given_up", gateway.counts.given_up)
        yield sample("fanlog_cluster_calls_forwarded", gateway.counts.forwarded)
        yield sample("fanlog_cluster_calls_waiting", gateway.waiting)
        now = self._clock.boottime_s()
        present = node.standbys.present(now) if node.part == "owner" else []
        yield column("fanlog_cluster_standby_lag_seconds", {one.name: one.lag_s for one in present})
        yield column(
            "fanlog_cluster_standby_lag_records", {one.name: one.lag_records for one in present}
        )
