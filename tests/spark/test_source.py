"""The format `fanlog` as a Spark program uses it."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from spark.reading import kept_topic, payloads, table
from spark.streams import finished

pytestmark = [
    # One worker has them all: a second session would cost as much as the tests.
    pytest.mark.xdist_group("spark"),
    # A minute where nothing else runs, and several where much does.
    pytest.mark.timeout(400),
]

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def topic(broker):
    name = kept_topic(broker)
    for number in range(10):
        broker.publish(name, *[b"%d" % number] * 10, key="k", n=str(number))
    return name


def read(spark, broker, **options):
    reader = spark.read.format("fanlog").option("endpoint", broker.endpoint)
    return reader.options(project="test", **options).load()


def stream(spark, broker, **options):
    reader = spark.readStream.format("fanlog").option("endpoint", broker.endpoint)
    return reader.options(project="test", **options).load()


def test_a_table(spark, broker, topic):
    found = read(spark, broker, topic=topic.rpartition("/")[2])
    assert found.columns == [
        "topic", "partition", "offset", "message_id",
        "publish_time", "ordering_key", "attributes", "data",
    ]  # fmt: skip
    counted = found.groupBy(F.col("attributes")["n"].alias("n")).count().collect()
    assert {row["n"]: row["count"] for row in counted} == {str(n): 10 for n in range(10)}
    first = found.orderBy("offset").first()
    assert (first["topic"], first["ordering_key"], first["data"]) == (topic, "k", b"0")


def test_what_was_published_before_anybody_subscribed(spark, broker):
    """A topic that says nothing keeps its messages, too: the server does."""
    name = broker.topic()
    broker.publish(name, *[b"%d" % number for number in range(10)])
    broker.sweep()
    found = read(spark, broker, topic=name).orderBy("offset").select("data").collect()
    assert [row["data"] for row in found] == [b"%d" % number for number in range(10)]


def test_predicates_reach_the_source(spark, broker, topic):
    found = read(spark, broker, topic=topic)
    middle = found.where("offset = 50").first()["publish_time"]
    wanted = (
        found.where((F.col("offset") >= 30) & (F.col("offset") < 60))
        .where(F.col("topic") == topic)
        .where(F.col("publish_time") >= F.lit(middle))
    )
    assert wanted.count() == 10
    spark.conf.set(PUSH_DOWN, "true")
    try:
        wanted = wanted.select("*")
        assert "Filter (" not in wanted._jdf.queryExecution().executedPlan().toString()
        assert wanted.count() == 10
        assert found.where("offset in (1, 2, 99, 100)").count() == 3
        assert found.where("ordering_key = 'k' and offset < 5").count() == 5
    finally:
        spark.conf.unset(PUSH_DOWN)


def test_mistakes_are_told_before_anything_runs(spark, broker):
    with pytest.raises(AnalysisException, match=r"did you mean topic\?"):
        read(spark, broker, topik="orders")
    with pytest.raises(AnalysisException, match="topic 'projects/test/topics/nowhere' does not"):
        read(spark, broker, topic="nowhere").collect()
    other = spark.read.format("fanlog").option("topic", "orders").schema("offset long").load()
    with pytest.raises(AnalysisException, match=r"leave out schema\("):
        other.collect()


def test_a_stream_goes_on_where_its_checkpoint_is(spark, broker, tmp_path):
    topic = kept_topic(broker)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def available_now(**options):
        found = stream(spark, broker, topic=topic, startingOffsets="earliest", **options)
        writer = found.select("offset", F.col("data").cast("string")).writeStream
        query = writer.format("json").option("checkpointLocation", checkpoint)
        query = finished(query.trigger(availableNow=True).option("path", out).start)
        return [progress["numInputRows"] for progress in query.recentProgress]

    for number in range(6):
        broker.publish(topic, b"%d" % number, b"x")
    counts = available_now(maxMessagesPerTrigger=4)
    assert [count for count in counts if count] == [4, 4, 4]
    broker.publish(topic, b"more")
    assert [count for count in available_now() if count] == [1]
    found = spark.read.json(out).select("offset").orderBy("offset").collect()
    assert [row["offset"] for row in found] == list(range(13))
    last = max((tmp_path / "checkpoint/offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    written = json.loads(last.read_text().splitlines()[-1])
    assert written.keys() == {"sequence", "log", "offsets"}


def test_rows_of_a_stream_are_published_once(spark, broker, tmp_path):
    """Also when the driver dies between the broker's commit and its own."""
    target = kept_topic(broker)
    given, checkpoint = tmp_path / "given", tmp_path / "checkpoint"
    given.mkdir()

    def published(name, *lines):
        (given / name).write_text("".join(json.dumps({"data": line}) + "\n" for line in lines))
        rows = spark.readStream.schema("data string").json(str(given)).repartition(2)
        writer = rows.writeStream.format("fanlog").queryName("copy")
        writer = writer.options(endpoint=broker.endpoint, topic=target)
        writer = writer.option("checkpointLocation", str(checkpoint))
        finished(writer.trigger(availableNow=True).start)
        return sorted(int(data) for data in payloads(table(broker, topic=target)))

    assert published("1.json", *range(20)) == list(range(20))
    [committed] = (checkpoint / "commits").glob("[0-9]*")
    committed.unlink()
    for checksum in (checkpoint / "commits").glob(".*.crc"):
        checksum.unlink()
    assert published("2.json", 20) == list(range(21))


def test_rows_of_a_batch_are_published(spark, broker):
    first, second = kept_topic(broker), kept_topic(broker)
    rows = [("a", first), ("b", second.rpartition("/")[2]), ("c", first)]
    frame = spark.createDataFrame(rows, "data string, topic string").repartition(2)
    frame = frame.withColumn("attributes", F.create_map(F.lit("from"), F.lit("spark")))
    writer = frame.write.format("fanlog").options(endpoint=broker.endpoint, project="test")
    writer.mode("append").save()
    found = read(spark, broker, topics=f"{first},{second}").collect()
    assert sorted((row["data"], row["topic"]) for row in found) == [
        (b"a", first), (b"b", second), (b"c", first)
    ]  # fmt: skip
    assert found[0]["attributes"] == {"from": "spark"}
    bad = spark.createDataFrame([("a", 1)], "data string, number int")
    with pytest.raises(AnalysisException, match="column 'number' is no part"):
        bad.write.format("fanlog").option("topic", first).mode("append").save()
