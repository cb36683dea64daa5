"""A cluster as one of its nodes describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NodeRole = Literal["owner", "standby", "starting", "gone", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node."""

    name: str
    role: NodeRole
    api_address: str
    link_address: str
    #: First offset that it has not applied.
    applied_offset: int
    #: How far it was behind when it was heard of last.
    lag_records: int = 0
    lag_s: float = 0.0
    #: Since it was heard of.
    silent_s: float = 0.0
    #: Why it does not do what it should; empty when it does.
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaView:
    """Kafka as the node sees it that describes the cluster."""

    servers: tuple[str, ...]
    is_reachable: bool
    #: Since the last record was acknowledged, or since it last answered.
    silent_s: float
    #: What is wrong with the topic or its replicas, a sentence each.
    troubles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """All nodes and the owner among them."""

    cluster: str
    topic: str
    #: The node that describes.
    told_by: str
    #: Negative before the first term.
    term: int
    #: Name of the owner; empty for none.
    owner: str
    end_offset: int
    sequence: int
    session_s: float
    nodes: tuple[NodeView, ...]
    kafka: KafkaView
