"""Epochs of the sink in a cluster whose owner is killed while it publishes one."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass

import grpc

from crash.world import Clients, subscription_name, topic_name
from kafka.serving import NodeProcess, until
from kafka.troubled import Troubled
from server.v1 import LogClient, SinkClient

ROWS = topic_name("rows")
#: More than one commit takes.
LARGE = [b"%08d" % number + bytes(50_000) for number in range(400)]
_PART_ROWS = 40


@dataclass(frozen=True)
class Door:
    """A node, as the clients of its services come to it."""

    node: NodeProcess

    def channel(self) -> grpc.Channel:
        options = [("grpc.max_receive_message_length", -1)]
        return grpc.insecure_channel(self.node.endpoint, options=options)

    def end(self) -> int:
        """How many rows there are."""
        with closing(LogClient(self)) as log, suppress(grpc.RpcError):
            return int(log.offsets(ROWS).partitions[0].end)
        return 0


def make_rows(running: Troubled) -> None:
    nodes = running.nodes
    clients = Clients(nodes[nodes.owner()].endpoint)
    clients.publisher.create_topic(name=ROWS)
    # Without one, the next sweep would take away what is published.
    clients.subscriber.create_subscription(name=subscription_name("rows"), topic=ROWS)
    clients.channel.close()


def kill_in_epoch(running: Troubled, epoch: int) -> bool:
    """Publish an epoch, kill the owner meanwhile, publish it again and count the rows.

    False: it was whole before the kill.
    """
    nodes = running.nodes
    owner = nodes.owner()
    door = Door(running.spare(owner))
    with closing(SinkClient(door, "q")) as sink, ThreadPoolExecutor(1) as pool:
        parts = [(ROWS, LARGE[at : at + _PART_ROWS]) for at in range(0, len(LARGE), _PART_ROWS)]
        sink.stage(sink.key(epoch), *parts)
        before = door.end()
        committing = pool.submit(sink.commit, epoch, sink.key(epoch))
        until(lambda: door.end() > before or committing.done(), "nothing is published")
        is_in_the_middle = not committing.done()
        nodes[owner].end(signal.SIGKILL)
        with suppress(grpc.RpcError):
            committing.result()
    nodes.owner(but=owner)
    nodes[owner].start()
    with closing(SinkClient(door, "q")) as sink, closing(LogClient(door)) as log:
        answer = sink.commit(epoch, sink.key(epoch))
        assert answer.repeated_epoch or answer.messages == len(LARGE)
        found = [one[:8] for one in log.data(log.range_of(ROWS))]
        assert found == [one[:8] for one in LARGE] * (epoch + 1)
    return is_in_the_middle
