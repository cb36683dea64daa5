"""Summaries: messages that say what a sample left out, for its subscription alone.

A summary is published in a topic that the subscription reads, and addressed to it, as redriven
copies are: nobody else gets it, and it waits in its turn. Its data is JSON:

    {"subscription": ..., "since": ..., "until": ..., "left_out": 1204, "rate": "0.25"}
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import orjson

from fanlog import times
from fanlog.broker.clock import Clock
from fanlog.broker.delivery.sample_rates import rate_of
from fanlog.broker.ports import Contents
from fanlog.broker.pressure.bounds import Bound
from fanlog.broker.transaction import Ledger
from fanlog.log.seal import Seal
from fanlog.model.attributes import SAMPLE_SUMMARY


class Summaries:
    """Publishes summaries. Lives on the loop."""

    def __init__(self, ledger: Ledger, clock: Clock, contents: Contents | None) -> None:
        self._ledger = ledger
        self._clock = clock
        self._contents = contents

    def tell(self, bound: Bound) -> asyncio.Future[None] | None:
        """Publish the summary of a bound, where it is time and something was left out.

        Raises:
            ResourceExhausted: There is no room for it now.
        """
        now, every_s = self._clock.now(), bound.policy.summaries_s
        if not every_s or now - bound.summary_s < every_s or self._contents is None:
            return None
        shares = self._ledger.hard.shares_of(bound.subscription)
        topic = None
        if bound.left_out and shares:
            topic = self._ledger.hard.catalog.topic_of(shares[0].partition)
        if topic is None:
            bound.summary_s = now
            return None
        said = {
            "subscription": bound.name,
            "since": times.of_ns(round(bound.summary_s * 1e6) * 1_000),
            "until": times.of_ns(round(now * 1e6) * 1_000),
            "left_out": bound.left_out,
            "rate": rate_of(bound.level),
        }
        attributes = {SAMPLE_SUMMARY: str(bound.left_out)}
        body = self._contents.body(orjson.dumps(said), attributes, "")
        body = replace(body, seal=Seal(addressee=bound.id))
        self._ledger.check_room(len(body.content))
        transaction, partition = self._ledger.begin(), shares[0].partition
        first = transaction.append(topic.id, partition, body)
        addresses = self._ledger.hard.addresses
        transaction.apply([addresses.add(partition, bound.id, first, first + body.count)])
        bound.summary_s, bound.left_out = now, 0
        return transaction.commit()
