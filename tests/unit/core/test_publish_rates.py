"""The rates of topics: what is taken, what is refused, and when to come again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanlog.core.publish_rates import PublishRates
from fanlog.errors import InvalidArgument, RateExceeded
from fanlog.model.resources import PartitionId, Topic, TopicId

SOME = {"fanlog-publish-rate": "10", "fanlog-publish-burst": "20"}
BOTH = SOME | {"fanlog-publish-bytes-rate": "100"}


def topic(number=1, **labels):
    name = f"projects/p/topics/t{number}"
    one = PartitionId(number)
    return Topic(id=TopicId(number), name=name, partitions=(one,), labels=labels or SOME)


def test_the_delay_is_honest():
    rates, one = PublishRates(), topic()
    rates.take(one, 20, 1_000_000, 0.0)
    with pytest.raises(RateExceeded, match="10 messages a second") as refused:
        rates.take(one, 15, 1, 0.0)
    assert refused.value.retry_after_s == pytest.approx(1.5)
    with pytest.raises(RateExceeded):
        rates.take(one, 15, 1, 1.49)
    rates.take(one, 15, 1, 1.51)


def test_a_storm_of_refused_requests_takes_nothing_from_others():
    rates, one, taken = PublishRates(), topic(), 0
    for step in range(10_000):
        try:
            rates.take(one, 1, 1, step / 1_000)
            taken += 1
        except RateExceeded:
            continue
    # Ten seconds at 10 a second, and the burst.
    assert taken == 20 + 99
    assert rates.refusals[one.id] == 10_000 - taken


def test_of_two_rates_neither_is_taken_from_when_the_other_refuses():
    rates, one = PublishRates(), topic(**BOTH)
    rates.take(one, 1, 200, 0.0)
    for _ in range(50):
        with pytest.raises(RateExceeded, match="100 bytes a second"):
            rates.take(one, 10, 150, 0.0)
    # The messages are all there still but one.
    rates.take(one, 19, 0, 0.0)


def test_the_longer_of_two_waits_is_told():
    rates, one = PublishRates(), topic(**BOTH)
    rates.take(one, 20, 200, 0.0)
    with pytest.raises(RateExceeded) as refused:
        rates.check(one, 1, 150, 0.0)
    assert refused.value.retry_after_s == pytest.approx(1.5)
    rates.take(one, 1, 150, refused.value.retry_after_s)


@pytest.mark.parametrize(("messages", "size_bytes"), [(21, 1), (1, 201)])
def test_more_than_the_burst_is_refused_for_good(messages, size_bytes):
    with pytest.raises(InvalidArgument, match="publish it in parts"):
        PublishRates().check_size(topic(**BOTH), messages, size_bytes)


def test_the_burst_itself_is_taken():
    rates, one = PublishRates(), topic(**BOTH)
    rates.check_size(one, 20, 200)
    rates.take(one, 20, 200, 0.0)


def test_a_topic_that_is_updated_keeps_what_is_used_up():
    rates, one = PublishRates(), topic()
    rates.take(one, 20, 1, 0.0)
    with pytest.raises(RateExceeded):
        rates.take(replace(one, labels=SOME | {"team": "shop"}), 1, 1, 0.0)
    faster = replace(one, labels={"fanlog-publish-rate": "100"})
    with pytest.raises(RateExceeded) as refused:
        rates.take(faster, 1, 1, 0.0)
    assert refused.value.retry_after_s == pytest.approx(0.01)
    rates.take(replace(one, labels={"fanlog-publish-bytes-rate": "5"}), 1_000, 1, 0.0)


def test_topics_that_publish_nothing_are_forgotten():
    rates = PublishRates()
    for number in range(1, 1_001):
        rates.take(topic(number), 1, 1, 0.0)
    busy = topic(2_000)
    rates.take(busy, 20, 1, 1_000.0)
    assert len(rates) == 1
    with pytest.raises(RateExceeded):
        rates.take(busy, 1, 1, 1_000.0)
