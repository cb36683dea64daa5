"""Jobs read the lake without the format, and get the rows that it gives."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fanlog.broker.clock import ManualClock
from fanlog.lake.location import Location
from fanlog.model import names
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import table
from fanlog.pipeline.jobs.replay import replay
from fanlog.pipeline.jobs.work import Work
from fanlog.pipeline.spark_errors import cause_of
from server.conftest import PROJECT, RunningServer
from spark.conftest import config_in
from spark.reading import kept_topic
from spark.test_cold import HOUR_S, publish, trim
from spark.tiers import Archive

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def seam(loop_thread, tmp_path_factory):
    """A broker and two topics: 0 to 9 in the lake alone, 10 to 13 in both, 14 to 19 in the log."""
    folder = tmp_path_factory.mktemp("native")
    # A folder whose name is a pattern to whoever takes it for one.
    lake = folder / "l[a]ke {1,2} *"
    config = config_in(folder / "data", lake=str(lake), hot_retention_s=HOUR_S)
    broker = RunningServer(loop_thread, config, ManualClock())
    try:
        archive = Archive(broker)
        topics = [kept_topic(broker, name) for name in ("native.a", "native.b")]
        name = names.subscription_name(PROJECT, "native.even")
        broker.subscription(
            topics[0], name=name, filter='attributes.n = "4" OR attributes.n = "16"'
        )
        for topic in topics:
            publish(broker, topic, 0, 10, tier="cold", key="k")
        broker.advance(0.75 * HOUR_S)
        for topic in topics:
            publish(broker, topic, 10, 14, tier="both")
        archive.run(files_max=2)
        for topic in topics:
            publish(broker, topic, 14, 20, tier="hot")
        assert trim(broker, topics[0]) == 10
        yield broker, lake
    finally:
        broker.stop()


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        ({"topicPattern": "native.*"}, 40),
        ({"topic": "native.b"}, 20),
        ({"topic": "native.a", "startingOffsets": {"native.a": 3}}, 17),
        ({"topic": "native.a", "endingOffsets": {"native.a": 7}}, 7),
        ({"topic": "native.a", "startingOffsets": {"native.a": 12}}, 8),
        ({"topics": "native.a,native.b", "endingOffsets": {"native.a": 9, "native.b": 0}}, 9),
        ({"subscription": "native.even"}, 4),
        ({"topicPattern": "native.*", "filter": 'attributes.tier = "cold"'}, 20),
    ],
)
def test_the_rows_of_the_format(spark, seam, chosen, count):
    broker, _ = seam
    options = {
        name: text if isinstance(text, str) else json.dumps(text) for name, text in chosen.items()
    }
    options |= {"endpoint": broker.endpoint, "project": PROJECT}
    found = table.messages(spark, options)
    expected = spark.read.format("fanlog").options(**options).load()
    assert found.columns == expected.columns
    assert [one.dataType for one in found.schema] == [one.dataType for one in expected.schema]
    rows = [row.asDict() for row in found.orderBy("partition", "offset").collect()]
    assert rows == [row.asDict() for row in expected.orderBy("partition", "offset").collect()]
    assert len(rows) == count


def test_more_partitions_than_fit_a_condition(spark, seam, monkeypatch):
    broker, _ = seam
    monkeypatch.setattr(table, "CONDITION_SPANS_MAX", 1)
    options = {"endpoint": broker.endpoint, "project": PROJECT, "topicPattern": "native.*"}
    options["startingOffsets"] = json.dumps({"native.a": 4, "native.b": 6})
    found = table.messages(spark, options).where("offset < 10").select("topic", "offset")
    rows = sorted((row.topic[-1], row.offset) for row in found.collect())
    assert rows == [("a", n) for n in range(4, 10)] + [("b", n) for n in range(6, 10)]


def test_only_the_columns_of_the_query_are_read(spark, seam):
    broker, _ = seam
    options = {
        "endpoint": broker.endpoint,
        "project": PROJECT,
        "topic": "native.a",
        "endingOffsets": "latest",
    }
    found = table.messages(spark, options).groupBy("topic").count()
    plan = found._jdf.queryExecution().executedPlan().toString()
    scan = next(line for line in plan.splitlines() if "FileScan parquet" in line)
    assert "data" not in scan.partition("Batched")[0]
    assert "attributes" not in scan.partition("Batched")[0]


def test_a_flipped_bit_is_found_and_its_file_named(spark, seam):
    broker, lake = seam
    options = {
        "endpoint": broker.endpoint,
        "project": PROJECT,
        "topic": "native.b",
        "endingOffsets": json.dumps({"native.b": 5}),
    }
    whole = {path: path.read_bytes() for path in (lake / "messages").rglob("*.parquet")}
    for path, content in whole.items():
        spoiled = bytearray(content)
        spoiled[_in_a_page(path)] ^= 1
        path.write_bytes(bytes(spoiled))
    try:
        with pytest.raises(Exception) as failed:
            table.messages(spark, options).collect()
        assert any(f"{path.parent.name}/{path.name}" in cause_of(failed.value) for path in whole)
    finally:
        for path, content in whole.items():
            path.write_bytes(content)


def _in_a_page(path: Path) -> int:
    """Where the data of some page is."""
    column = pq.ParquetFile(path).metadata.row_group(0).column(7)
    return column.data_page_offset + column.total_compressed_size - 2


@pytest.fixture
def tiers(start_broker, tmp_path):
    """A broker with a lake, and its archive."""
    broker = start_broker(clock=ManualClock(), lake=str(tmp_path / "lake"), hot_retention_s=HOUR_S)
    return broker, Archive(broker)


def _copies(spark, broker, subscription):
    """The data of the copies that a replay makes, in their order."""
    copies = broker.topic(labels={"fanlog-ordering": "total"})
    reader = broker.subscription(copies, enable_message_ordering=True)
    location = Location.parse(broker.broker.tiers.lake_uri)
    context = Context(spark=spark, endpoint=broker.endpoint, location=location)
    arguments = {"subscription": subscription, "to_topic": copies}
    job = f"projects/test/jobs/{copies.rpartition('/')[2]}"
    found = replay(context, Work(job, "replay", arguments))
    return [one.message.data for one in broker.drain(reader, found["published"])]


def test_copies_of_several_files_come_in_order(spark, tiers):
    broker, archive = tiers
    topic = kept_topic(broker, "native.files")
    subscription = broker.subscription(topic)
    # Spark reads the largest file first.
    for file, count in enumerate((1, 4, 30)):
        broker.publish(topic, *(b"%d.%d" % (file, n) for n in range(count)))
        archive.run()
    broker.advance(1.5 * HOUR_S)
    assert trim(broker, topic) == 35
    broker.publish(topic, b"hot")
    assert _copies(spark, broker, subscription) == [
        *(b"%d.%d" % (file, n) for file, count in enumerate((1, 4, 30)) for n in range(count)),
        b"hot",
    ]


def test_copies_of_numbered_messages_in_both_tiers(spark, tiers):
    broker, archive = tiers
    topic = broker.topic(
        message_retention_duration={"seconds": 24 * HOUR_S}, labels={"fanlog-gap-timeout": "3600"}
    )
    subscription = broker.subscription(topic)
    said = {"fanlog-publisher": "p"}
    for number in (1, 3, 4, 2, 5, 7, 8):
        broker.publish(topic, b"%d" % number, **said, **{"fanlog-sequence": str(number)})
        if number in (4, 5):
            archive.run()
    broker.advance(0.9 * HOUR_S)
    broker.publish(topic, b"6", **said, **{"fanlog-sequence": "6"})
    broker.publish(topic, b"10", **said, **{"fanlog-sequence": "10"})
    assert trim(broker, topic) == 5
    found = _copies(spark, broker, subscription)
    assert found == [b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"10"]
