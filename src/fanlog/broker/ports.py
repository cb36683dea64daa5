"""Ports of the broker: functions that the layers around it provide, given to `build_broker`.

The wire layer knows how messages are written, the push layer which endpoints may be reached; the
broker knows neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fanlog.core.hard_state import HardState
from fanlog.errors import FailedPrecondition, Unimplemented
from fanlog.log.batch import Batch, Body
from fanlog.model import endpoints
from fanlog.model.cluster import ClusterState
from fanlog.model.resources import PushConfig, TopicOrdering
from fanlog.routing.candidate import Candidate, FilterNeeds


class Compose(Protocol):
    """Builds the body of forwarded messages."""

    def __call__(
        self,
        messages: Sequence[tuple[Batch, int, Mapping[str, str]]],
        without: Collection[str] = (),
    ) -> Body:
        """Copies of the messages at (batch, index), each with attributes added and left out."""


class Candidates(Protocol):
    """Shows the messages of a batch as filters see them."""

    def __call__(
        self, batch: Batch, first: int, end: int, topic: str, needs: FilterNeeds
    ) -> Iterable[Candidate]:
        """The messages from index `first` to before `end`, parsed as far as `needs` says."""


class Contents(Protocol):
    """Reads and writes the messages of a body."""

    def payloads(self, body: Body, first: int, end: int) -> Sequence[bytes]:
        """The data of the messages from index `first` to before `end`."""

    def stored(
        self, batch: Batch, first: int, end: int
    ) -> Sequence[tuple[bytes, Mapping[str, str], str]]:
        """Data, own attributes and ordering key of the messages at some indexes of a batch."""

    def written(self, data: bytes, attributes: Mapping[str, str], ordering_key: str) -> bytes:
        """Such a message as it stands in the content of a batch."""

    def body(self, data: bytes, attributes: Mapping[str, str], ordering_key: str) -> Body:
        """A body of such a message, checked as a caller's is.

        Raises:
            InvalidArgument: No message can be so.
        """

    def dedup_ids(self, body: Body) -> Sequence[str] | None:
        """The dedup id of each message, empty for none; None when no message has one."""

    def keyed(self, body: Body, ordering: TopicOrdering) -> Body:
        """Messages of a publish to a topic with this order, with the keys that it gives them.

        Raises:
            InvalidArgument: A message has another key, or no publisher where it needs one.
        """

    def attributed(self, body: Body, added: Sequence[Mapping[str, str]]) -> Body:
        """A body of the same messages, each with attributes added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """The process around a broker, now. Counts are since its start."""

    cpu_s: float = 0.0
    memory_bytes: int = 0
    grpc_connections: int = 0
    http_connections: int = 0
    #: gRPC calls that came.
    calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """The facts of a process that stay the same while it runs."""

    version: str = ""
    #: The project of names that are given without one.
    project: str = ""
    #: none or required.
    auth: str = "none"
    in_memory: bool = False


class Node(Protocol):
    """The process around a broker."""

    @property
    def facts(self) -> NodeFacts: ...

    def state(self) -> NodeState: ...


class NoNode:
    """The `Node` of a broker without a server."""

    facts = NodeFacts()

    def state(self) -> NodeState:
        return NodeState()


class ForwardDenial(Protocol):
    """Says whether the server may move messages on to a topic, as forwards or dead letters."""

    def __call__(self, hard: HardState, topic: str, /) -> str:
        """Why it may not just now, in a sentence; empty when it may."""


def deny_no_forward(_hard: HardState, _topic: str) -> str:
    """The `ForwardDenial` of a broker whose callers may do everything."""
    return ""


class Cluster(Protocol):
    """The cluster that this broker's process is a node of."""

    @property
    def name(self) -> str:
        """Of the cluster; empty for a server that is alone."""

    async def describe(self) -> ClusterState:
        """Raises FailedPrecondition: This server is alone."""

    def move(self, name: str) -> tuple[str, str]:
        """Begin to have another node own; empty for the one that is furthest on.

        Returns:
            The node that owned, and the one that is to.

        Raises:
            FailedPrecondition: This server is alone, or there is no such node that is caught up.
        """


class NoCluster:
    """The `Cluster` of a broker that is alone."""

    name = ""

    async def describe(self) -> ClusterState:
        raise FailedPrecondition(_ALONE)

    def move(self, name: str) -> tuple[str, str]:
        raise FailedPrecondition(_ALONE)


_ALONE = "this server is no node of a cluster; it has a log of its own"


class CheckEndpoint(Protocol):
    """Looks at a push config before a subscription gets it."""

    async def __call__(self, push: PushConfig) -> str:
        """A hint if the host of the endpoint does not resolve yet; empty if all is well.

        Raises:
            InvalidArgument: The endpoint may not be reached.
            Unimplemented: This broker does not push.
        """


async def refuse_push(push: PushConfig) -> str:
    """The `CheckEndpoint` of a broker without senders."""
    raise Unimplemented(f"{endpoints.FIELD}: this broker does not push; leave it unset")
