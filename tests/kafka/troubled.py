"""A cluster of `fanlog serve` processes with official clients on it, for tests that hurt it.

Clients come through one door, which leads to a node that the test does not hurt. What they are
answered is written down, and held against the partition and the promises after each fault.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import google.pubsub_v1 as gapic
import grpc
from bench.kafka import Kafka
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport

from chaos.official import OPTIONS, Load
from chaos.proxy import Proxy
from crash.world import Clients, subscription_name, topic_name
from fanlog.log.kafka.client import KafkaOptions
from kafka.networks import Network
from kafka.serving import NodeProcess, NodeProcesses, until
from kafka.tally import Tally, check_partition

FLOW = "flow"
#: Each with the fields that make it.
SUBSCRIPTIONS: dict[str, dict[str, bool]] = {
    "plain": {"enable_message_ordering": True},
    "once": {"enable_message_ordering": True, "enable_exactly_once_delivery": True},
}
KEYS = [f"key-{number}" for number in range(6)]
#: So few that a client with little time has dealt with them before their leases end.
AT_ONCE = 25
#: A cut connection loses messages on their way, and they come again when their leases end.
LEASE_S = 20
#: Between two requests of one publisher.
PAUSE_S = 0.1
#: Messages of some requests more than publishers have under way: some of them began just now.
MORE = 40


class Troubled:
    """The nodes, the load on them, and the check of all that must hold."""

    def __init__(self, nodes: NodeProcesses, *, seed: int = 7) -> None:
        self.nodes = nodes
        self.options = KafkaOptions(
            servers=nodes.kafka.servers, cluster=nodes.cluster, replicas=len(nodes.kafka.nodes)
        )
        first = next(iter(nodes.by_name.values()))
        self._door = Proxy(first.endpoint)
        self._make_resources(first)
        self.load = Load(self._door.endpoint, seed)
        self.load.subscribe("plain", lease_s=LEASE_S, messages_max=AT_ONCE)
        # These leases outlive their owner: what one that is killed had leased comes after that.
        self.load.subscribe("once", exactly_once=True, lease_s=LEASE_S, messages_max=AT_ONCE)
        self._publish()

    def lead_to(self, name: str) -> NodeProcess:
        """Have all clients come to this node from now on."""
        self._door.target = self.nodes[name].endpoint
        self._door.cut(reset=False)
        return self.nodes[name]

    def spare(self, hurt: str) -> NodeProcess:
        """Have all clients come to another node than the one that is about to be hurt."""
        return self.lead_to(next(name for name in self.nodes.by_name if name != hurt))

    def goes_on(self) -> None:
        """Return when publishes that began after this call were answered."""
        wanted = self.load.history.published_count(FLOW) + MORE

        def are_answered() -> bool:
            self.load.check_alive()
            return self.load.history.published_count(FLOW) >= wanted

        until(are_answered, "publishes are not answered", self.nodes.log_tails)

    def check(self) -> Tally:
        """All promises, with no publish under way; the load goes on when this returns."""
        self.load.stop_publishing()
        try:
            self._await_delivery("plain")
            return self._check_now()
        finally:
            # The next test is not to fail with this one.
            self._publish()

    def end(self) -> Tally:
        """All promises, with everything delivered to everyone."""
        self.load.stop_publishing()
        for name in SUBSCRIPTIONS:
            self._await_delivery(name)
        # Confirmations that are under way would find their client closed. One that was cut off is
        # refused when it is asked for again, and nothing comes back.
        until(
            lambda: not self.load.acks_under_way,
            "acknowledgements are neither confirmed nor refused",
            self.nodes.log_tails,
        )
        return self._check_now()

    def close(self) -> None:
        try:
            self.load.close()
        finally:
            self._door.close()

    def _check_now(self) -> Tally:
        history = self.load.history
        tally = check_partition(self.options, history, [FLOW], self.nodes.told_owners)
        wrong = history.unordered_ids(FLOW) + history.came_back("once")
        for name in SUBSCRIPTIONS:
            wrong += history.altered(FLOW, name) + history.sent_out_of_order(FLOW, name)
        # Where a lease under exactly-once is lost, Google's client calls back in any order.
        wrong += history.out_of_order(FLOW, "plain") + history.acked_out_of_order(FLOW, "once")
        assert not wrong, "\n".join(wrong)
        return tally

    def _await_delivery(self, name: str) -> None:
        history = self.load.history

        def is_delivered() -> bool:
            self.load.check_alive()
            return not history.lost(FLOW, name)

        until(
            is_delivered,
            f"what was answered is not delivered to {name}",
            lambda: f"{history.lost(FLOW, name)}\n{self.nodes.log_tails()}",
        )

    def _publish(self) -> None:
        self.load.publish(FLOW, KEYS[:3], pause_s=PAUSE_S)
        self.load.publish(FLOW, KEYS[3:], pause_s=PAUSE_S)

    def _make_resources(self, node: NodeProcess) -> None:
        clients = Clients(node.endpoint)
        clients.publisher.create_topic(name=topic_name(FLOW))
        for name, fields in SUBSCRIPTIONS.items():
            request = {"name": subscription_name(name), "topic": topic_name(FLOW)} | fields
            clients.subscriber.create_subscription(request=request)
        clients.channel.close()


@contextmanager
def troubled(
    kafka: Kafka, cluster: str, folder: Path, network: Network | None = None
) -> Iterator[Troubled]:
    """A cluster with a load; its processes are gone in the end."""
    # The clients tell of every cut, at length.
    told = logging.getLogger("google.cloud.pubsub_v1")
    before = told.level
    told.setLevel(logging.CRITICAL)
    try:
        with ExitStack() as closing:
            nodes = NodeProcesses(kafka, cluster, folder, closing)
            nodes.start_all(("a", "b", "c"), network)
            found = Troubled(nodes)
            closing.callback(found.close)
            yield found
    finally:
        told.setLevel(before)


@contextmanager
def publisher_of(endpoint: str) -> Iterator[gapic.PublisherClient]:
    """A client of one node, by no door."""
    with grpc.insecure_channel(endpoint, options=OPTIONS) as channel:
        yield gapic.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
