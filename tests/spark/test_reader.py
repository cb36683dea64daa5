"""Batch reads: every option, what is pushed down, and what is lost."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import datasource as ds

from fanlog.broker.clock import ManualClock
from fanlog.client import CallFailed
from fanlog.errors import DataLoss, InvalidArgument
from fanlog.model.ids import parse_message_id
from spark.reading import batch_reader, kept_topic, payloads, rows, table

HOUR_S = 3600


@pytest.fixture(scope="module")
def topic(broker):
    """Ten messages in five commits."""
    name = kept_topic(broker)
    for number in range(5):
        data = [b'{"n": %d}' % (2 * number), b'{"n": %d}' % (2 * number + 1)]
        broker.publish(name, *data, key=f"k{number}", colour="red" if number % 2 else "blue")
    return name


def numbers(found):
    return [json.loads(data)["n"] for data in payloads(found)]


def partition_of(broker, topic):
    return broker.broker.hard.catalog.topic(topic).partitions[0]


def test_all_columns(broker, topic):
    found = table(broker, topic=topic)
    assert numbers(found) == list(range(10))
    assert found["offset"].to_pylist() == list(range(10))
    assert set(found["topic"].to_pylist()) == {topic}
    partition = partition_of(broker, topic)
    assert set(found["partition"].to_pylist()) == {partition}
    assert parse_message_id(found["message_id"][3].as_py()) == (partition, 3)
    assert found["ordering_key"].to_pylist()[:3] == ["k0", "k0", "k1"]
    assert dict(found["attributes"][2].as_py()) == {"colour": "red"}
    age = datetime.now(UTC) - found["publish_time"][0].as_py()
    assert timedelta(0) < age < timedelta(minutes=10)


def test_sequences_on_request(broker, topic):
    found = table(broker, topic=topic, includeSequence="true")["sequence"].to_pylist()
    assert found == sorted(found)
    assert len(set(found)) == 5


def test_offsets(broker, topic):
    short = topic.rpartition("/")[2]
    partition = partition_of(broker, topic)
    for key in ("0", str(partition)):
        given = {"startingOffsets": json.dumps({short: {key: 3}})}
        given["endingOffsets"] = json.dumps({topic: 7})
        assert numbers(table(broker, topic=short, **given)) == [3, 4, 5, 6]
    assert numbers(table(broker, topic=topic, endingOffsets=json.dumps({topic: 0}))) == []
    with pytest.raises(InvalidArgument, match="not one of the topics"):
        table(broker, topic=topic, startingOffsets='{"another": 3}')


def test_many_topics_in_one_portion(broker):
    names = [kept_topic(broker, f"many.{number}.x") for number in range(30)]
    for name in names:
        broker.publish(name, b"1", b"2")
    reader = batch_reader(broker, topicPattern="many.*.x")
    portions = reader.partitions()
    assert len(portions) == 1
    found = rows(reader, portions)
    assert found.num_rows == 60
    assert set(found["topic"].to_pylist()) == set(names)
    assert table(broker, topics=",".join(names[:2])).num_rows == 4


def test_more_portions_on_request(broker, topic):
    reader = batch_reader(broker, topic=topic, minPartitions=4)
    portions = reader.partitions()
    assert len(portions) == 4
    assert numbers(rows(reader, portions)) == list(range(10))


def test_a_subscription_is_read_without_touching_it(broker, topic):
    name = broker.subscription(topic, filter='attributes.colour = "red"')
    broker.publish(topic, b'{"n": 10}', b'{"n": 11}', colour="red")
    for _ in range(2):
        found = numbers(table(broker, subscription=name))
        assert found == [2, 3, 6, 7, 10, 11]
    assert numbers(table(broker, subscription=name, filter="payload.n > 6")) == [7, 10, 11]
    assert len(broker.pull(name)) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('attributes.colour = "red"', [2, 3, 6, 7]),
        ("payload.n >= 5 AND colour = blue", [5, 8, 9]),
        ("ordering_key = k1", [2, 3]),
        ("NOT attributes:colour", []),
    ],
)
def test_filters(broker, topic, text, expected):
    ending = json.dumps({topic: 10})
    assert numbers(table(broker, topic=topic, filter=text, endingOffsets=ending)) == expected


def test_times(start_broker):
    broker = start_broker(ManualClock())
    topic = kept_topic(broker)
    for number in range(3):
        broker.publish(topic, b"%d" % number)
        broker.advance(60)
    times = [each.as_py() for each in table(broker, topic=topic)["publish_time"]]
    for name, expected in (("startingTimestamp", [b"1", b"2"]), ("endingTimestamp", [b"0"])):
        given = {name: times[1].isoformat()}
        assert payloads(table(broker, topic=topic, **given)) == expected
    far = {"startingTimestamp": (times[2] + timedelta(1)).isoformat()}
    assert payloads(table(broker, topic=topic, **far)) == []


def test_predicates_bound_what_is_read(broker, topic):
    partition = partition_of(broker, topic)
    other = kept_topic(broker)
    broker.publish(other, b'{"n": 99}')
    times = [each.as_py() for each in table(broker, topic=topic)["publish_time"]]
    left = ds.EqualTo(("ordering_key",), "k1")

    def pushed(*filters):
        reader = batch_reader(broker, topics=f"{topic},{other}")
        assert list(reader.pushFilters([*filters, left])) == [left]
        return numbers(rows(reader, reader.partitions()))

    assert pushed(ds.EqualTo(("topic",), other)) == [99]
    assert pushed(ds.EqualTo(("topic",), topic), ds.EqualTo(("topic",), other)) == []
    assert pushed(ds.In(("topic",), (other, "x"))) == [99]
    mine = ds.EqualTo(("partition",), partition)
    assert pushed(mine, ds.LessThan(("offset",), 2)) == [0, 1]
    assert pushed(mine, ds.GreaterThan(("offset",), 2), ds.LessThanOrEqual(("offset",), 4)) == [
        3,
        4,
    ]
    assert pushed(mine, ds.EqualTo(("offset",), 4), ds.IsNotNull(("offset",))) == [4]
    assert pushed(mine, ds.GreaterThanOrEqual(("publish_time",), times[8]))[:2] == [8, 9]
    assert pushed(mine, ds.LessThan(("publish_time",), times[2])) == [0, 1]
    assert pushed(mine, ds.EqualTo(("publish_time",), times[4])) == [4, 5]


def test_predicates_that_are_left_to_spark(broker, topic):
    filters = [
        ds.In(("offset",), (1, 5)),
        ds.EqualTo(("message_id",), "x"),
        ds.Not(ds.EqualTo(("offset",), 1)),
        ds.IsNull(("offset",)),
        ds.GreaterThan(("attributes", "x"), 1),
    ]
    assert list(batch_reader(broker, topic=topic).pushFilters(filters)) == filters


def test_what_is_lost_fails_the_query_or_is_left_out(start_broker, caplog):
    broker = start_broker(ManualClock())
    topic = kept_topic(broker, hours=1)
    broker.publish(topic, b"0", b"1")
    broker.advance(2 * HOUR_S)
    broker.publish(topic, b"2", b"3")
    broker.sweep()
    assert payloads(table(broker, topic=topic)) == [b"2", b"3"]
    wanted = {"startingOffsets": json.dumps({topic: 1})}
    with pytest.raises(DataLoss, match=r"offsets 1 to 1: .* failOnDataLoss to false"):
        table(broker, topic=topic, **wanted)
    found = table(broker, topic=topic, failOnDataLoss="false", **wanted)
    assert payloads(found) == [b"2", b"3"]
    assert "offsets 1 to 1" in caplog.text
    with pytest.raises(DataLoss, match="offsets 4 to 8"):
        table(broker, topic=topic, endingOffsets=json.dumps({topic: 9}))


def test_what_is_lost_between_plan_and_read(start_broker, caplog):
    broker = start_broker(ManualClock())
    topic, other = kept_topic(broker, hours=1), kept_topic(broker)
    broker.publish(topic, b"0", b"1")
    broker.publish(other, b"x")
    broker.advance(0.75 * HOUR_S)
    broker.publish(topic, b"2")
    options = {"topics": f"{topic},{other}"}
    strict = batch_reader(broker, **options)
    lenient = batch_reader(broker, failOnDataLoss="false", **options)
    strict_portions, lenient_portions = strict.partitions(), lenient.partitions()
    broker.advance(0.5 * HOUR_S)
    broker.sweep()
    with pytest.raises(DataLoss, match=f"{topic} partition .* offsets 0 to 1"):
        rows(strict, strict_portions)
    assert payloads(rows(lenient, lenient_portions)) == [b"2", b"x"]
    broker.publisher.delete_topic(request={"topic": other})
    assert payloads(rows(lenient, lenient_portions)) == [b"2"]
    assert f"{other} partition" in caplog.text


def test_a_topic_that_is_not_there(broker):
    with pytest.raises(CallFailed, match="does not exist"):
        table(broker, topic="nowhere")


def test_no_broker():
    class Nowhere:
        endpoint = "127.0.0.1:1"

    with pytest.raises(CallFailed, match="start one with `fanlog serve`"):
        table(Nowhere(), topic="orders")  # type: ignore[arg-type]


def test_a_broker_that_comes_back_is_read_on(start_broker):
    broker = start_broker()
    topic = kept_topic(broker)
    for number in range(20):
        broker.publish(topic, *[b"%02d" % number + b"x" * 1_000] * 1_000)
    reader = batch_reader(broker, topic=topic)
    [portion] = reader.partitions()
    found = reader.read(portion)
    offsets = next(found).column("offset").to_pylist()
    assert len(offsets) < 20_000
    broker.restart()
    for batch in found:
        offsets += batch.column("offset").to_pylist()
    assert offsets == list(range(20_000))
