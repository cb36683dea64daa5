"""The rates of topics: how much may still be published to each now. Soft state; pure.

A publish takes from all buckets of its topic, or from none: one that is refused costs nothing, so
that publishers who try again and again take nothing from each other. One that is larger than a
bucket holds is refused for good: waiting would not help it.

Not safe to share between threads.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from fanlog.errors import InvalidArgument, RateExceeded
from fanlog.model.publish_rates import PublishRate, publish_rates
from fanlog.model.resources import Topic, TopicId
from fanlog.model.token_bucket import TokenBucket

#: Buckets are looked through for full ones when there are twice as many as after the last time,
#: and at least so many.
_LOOK_MIN: Final = 1_000


class _Rated:
    """The buckets of one topic, with its rates of now."""

    __slots__ = ("buckets", "rates", "topic")

    def __init__(self, topic: Topic, now_s: float) -> None:
        self.topic = topic
        self.rates = publish_rates(topic.labels)
        self.buckets = {rate.unit: _bucket(rate, now_s) for rate in self.rates}

    def change(self, topic: Topic, now_s: float) -> None:
        """The topic was updated, perhaps its rates."""
        self.topic = topic
        self.rates = publish_rates(topic.labels)
        before, self.buckets = self.buckets, {}
        for rate in self.rates:
            bucket = before.get(rate.unit)
            if bucket is None:
                bucket = _bucket(rate, now_s)
            else:
                bucket.change(now_s, rate.rate, rate.burst)
            self.buckets[rate.unit] = bucket

    def is_full(self, now_s: float) -> bool:
        return all(bucket.left(now_s) >= bucket.holds for bucket in self.buckets.values())


class PublishRates:
    """The buckets of all topics that have a rate."""

    def __init__(self) -> None:
        self._by_topic: dict[TopicId, _Rated] = {}
        self._look_at = _LOOK_MIN
        #: Publishes that were refused because a rate was used up, by topic.
        self.refusals: Counter[TopicId] = Counter()

    def __len__(self) -> int:
        return len(self._by_topic)

    def check_size(self, topic: Topic, messages: int, size_bytes: int) -> None:
        """Check that a publish of this size can ever be done.

        Raises:
            InvalidArgument: It is larger than the burst of the topic.
        """
        for rate in publish_rates(topic.labels):
            amount = messages if rate.unit == "messages" else size_bytes
            if amount > rate.burst:
                raise InvalidArgument(
                    f"the request has {amount} {rate.unit}, and {topic.name} takes at most "
                    f"{rate.burst} at once (label {rate.burst_label}, or "
                    f"{rate.rate_label} without it); publish it in parts"
                )

    def check(self, topic: Topic, messages: int, size_bytes: int, now_s: float) -> None:
        """Check that a publish may be done now.

        Raises:
            RateExceeded: Not now; says when it could, if nothing else is published until then.
        """
        rated = self._rated(topic, now_s)
        waits = [
            (rated.buckets[rate.unit].wait_s(now_s, amount), rate)
            for rate in rated.rates
            if (amount := messages if rate.unit == "messages" else size_bytes)
        ]
        wait_s, rate = max(waits, default=(0.0, None))
        if rate is not None and wait_s > 0.0:
            self.refusals[topic.id] += 1
            raise RateExceeded(
                f"{topic.name} takes {rate.rate} {rate.unit} a second (label {rate.rate_label}), "
                "and they are used up",
                wait_s,
            )

    def take(self, topic: Topic, messages: int, size_bytes: int, now_s: float) -> None:
        """As `check`, and take what the publish needs: it is done now."""
        self.check(topic, messages, size_bytes, now_s)
        rated = self._by_topic[topic.id]
        for unit, bucket in rated.buckets.items():
            bucket.take(now_s, messages if unit == "messages" else size_bytes)

    def _rated(self, topic: Topic, now_s: float) -> _Rated:
        rated = self._by_topic.get(topic.id)
        if rated is None:
            if len(self._by_topic) >= self._look_at:
                self._forget_full(now_s)
            rated = self._by_topic[topic.id] = _Rated(topic, now_s)
        elif rated.topic is not topic:
            rated.change(topic, now_s)
        return rated

    def _forget_full(self, now_s: float) -> None:
        """Forget topics whose buckets are full: a new bucket is full, too."""
        for topic_id, rated in list(self._by_topic.items()):
            if rated.is_full(now_s):
                del self._by_topic[topic_id]
                self.refusals.pop(topic_id, None)
        self._look_at = max(_LOOK_MIN, 2 * len(self._by_topic))


def _bucket(rate: PublishRate, now_s: float) -> TokenBucket:
    return TokenBucket(rate.rate, rate.burst, now_s)
