"""A topic into which others write, and which they delete, under a `fanlog serve` process."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
from bench.kafka import Kafka
from google.api_core.exceptions import GoogleAPICallError

from acceptance.served import PATIENCE_S
from crash.world import topic_name
from fanlog.log.kafka.client import KafkaOptions
from fanlog.log.replicated import entries
from fanlog.log.replicated.bodies import Renewal
from fanlog.log.replicated.entries import NO_CHAIN, Head
from fanlog.testing.history import History
from kafka.changes import admin, delete_topic, put_record
from kafka.serving import LONG_S, NodeProcesses
from kafka.tally import check_partition
from kafka.troubled import FLOW, publisher_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_a_topic_with_strange_records_that_is_deleted(
    kafka: Kafka, cluster: str, options: KafkaOptions, tmp_path: Path
):
    """Those of another cluster are passed over; without the topic nothing is answered."""
    history = History()
    with ExitStack() as closing:
        nodes = NodeProcesses(kafka, cluster, tmp_path, closing)
        node = nodes.start("a")
        nodes.owner()
        with publisher_of(node.endpoint) as client:

            def publish(data: bytes, timeout_s: float = PATIENCE_S) -> None:
                answer = client.publish(
                    topic=topic_name(FLOW),
                    messages=[{"data": data}],
                    retry=None,
                    timeout=timeout_s,
                )
                history.published(FLOW, [(answer.message_ids[0], data)])

            client.create_topic(name=topic_name(FLOW))
            publish(b"before")
            foreign, _ = entries.encode(
                entries.cluster_tag("another"), Head(0, 2, 0, NO_CHAIN), Renewal(members=())
            )
            put_record(kafka, options, foreign)
            publish(b"after")
            tally = check_partition(options, history, [FLOW], nodes.told_owners)
            assert tally.void >= 1

            delete_topic(kafka, options)
            with pytest.raises(GoogleAPICallError):
                publish(b"without a topic", timeout_s=5)
        node.end(signal.SIGKILL)
        # The node that saw the topic makes no other one: its cache may be all that is left.
        node.launch()
        node.process.communicate(timeout=LONG_S)
        assert node.process.returncode == 1
        assert f"Kafka has no topic {options.topic}" in node.log_tail()
        assert options.topic not in admin(kafka).list_topics(timeout=PATIENCE_S).topics
