"""Hot and cold are one table: no gap, no overlap, wherever the seam is and whenever it moves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import datasource as ds
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from fanlog.broker.clock import ManualClock
from fanlog.errors import DataLoss, FailedPrecondition
from fanlog.lake import inspection
from fanlog.spark.cold import ColdFile, divide_files
from spark.reading import batch_reader, kept_topic, payloads, rows, stream_reader, table
from spark.test_stream import follow, joined
from spark.tiers import Archive

HOUR_S = 3600


@pytest.fixture
def broker(start_broker, tmp_path):
    """A broker that lets go of what is archived after an hour."""
    return start_broker(ManualClock(), lake=str(tmp_path / "lake"), hot_retention_s=HOUR_S)


@pytest.fixture
def archive(broker):
    return Archive(broker)


def trim(broker, topic):
    """Let the hot log go of what is archived and older than an hour; where it begins now."""
    broker.advance(0.5 * HOUR_S)
    broker.sweep()
    partition = broker.broker.hard.catalog.topic(topic).partitions[0]
    return broker.broker.tiers.hot_start(partition)


def publish(broker, topic, start, end, **attributes):
    for number in range(start, end, 2):
        broker.publish(topic, b"%d" % number, b"%d" % (number + 1), n=str(number), **attributes)


def numbers(data):
    return [int(each) for each in data]


@pytest.fixture
def topics(broker, archive):
    """Two topics: 0 to 9 in the lake alone, 10 to 13 in both, 14 to 19 in the log alone."""
    # Created in this order, their partitions are not in the order of their names.
    second = kept_topic(broker, "cold.b")
    first = kept_topic(broker, "cold.a")
    for topic in (first, second):
        publish(broker, topic, 0, 10, tier="cold", key="k")
    broker.advance(0.75 * HOUR_S)
    for topic in (first, second):
        publish(broker, topic, 10, 14, tier="both")
    archive.run(files_max=2)
    for topic in (first, second):
        publish(broker, topic, 14, 20, tier="hot")
    assert trim(broker, first) == 10
    return first, second


def test_one_table(broker, topics):
    found = table(broker, topicPattern="cold.*", includeSequence="true")
    for topic in topics:
        mine = found.filter(pc.equal(found["topic"], topic)).sort_by("offset")
        assert numbers(payloads(mine)) == list(range(20))
        assert mine["offset"].to_pylist() == list(range(20))
        sequences = mine["sequence"].to_pylist()
        assert sequences == sorted(sequences)
        assert [dict(each)["tier"] for each in mine["attributes"].to_pylist()] == (
            ["cold"] * 10 + ["both"] * 4 + ["hot"] * 6
        )
        assert mine["ordering_key"].to_pylist() == ["k"] * 10 + [""] * 10
    assert table(broker, topic=topics[0]).schema == table(broker, topic="cold.b").schema


def test_parts_of_it(broker, topics):
    topic = topics[0]
    for start, end in ((0, 3), (3, 10), (8, 12), (10, 12), (0, 20)):
        given = {
            "startingOffsets": json.dumps({topic: start}),
            "endingOffsets": json.dumps({topic: end}),
        }
        assert numbers(payloads(table(broker, topic=topic, **given))) == list(range(start, end))
    reader = batch_reader(broker, topic=topic, minPartitions=3)
    list(reader.pushFilters([ds.GreaterThan(("offset",), 4), ds.LessThan(("offset",), 16)]))
    assert sorted(numbers(payloads(rows(reader, reader.partitions())))) == list(range(5, 16))


def test_times_in_the_lake(broker, topics):
    times = table(broker, topic=topics[0])["publish_time"].to_pylist()
    first = {"startingTimestamp": times[0].isoformat(), "endingTimestamp": times[10].isoformat()}
    assert numbers(payloads(table(broker, topic=topics[0], **first))) == list(range(10))
    later = {"startingTimestamp": times[10].isoformat()}
    assert numbers(payloads(table(broker, topic=topics[0], **later))) == list(range(10, 20))
    reader = stream_reader(broker, topic=topics[0], startingTimestamp=times[0].isoformat())
    [found], _ = follow(reader, reader.initialOffset())
    assert sorted(numbers(found)) == list(range(20))


def test_filters_hold_in_both(broker, topics):
    given = 'attributes.n IN ("8", "16") AND ordering_key = k'
    assert numbers(payloads(table(broker, topic=topics[0], filter=given))) == [8, 9]
    given = 'attributes.n IN ("8", "16")'
    assert numbers(payloads(table(broker, topic=topics[0], filter=given))) == [8, 9, 16, 17]


def test_the_seam_moves_between_plan_and_read(broker, archive):
    topic = kept_topic(broker)
    publish(broker, topic, 0, 6)
    broker.advance(0.75 * HOUR_S)
    publish(broker, topic, 6, 10)
    reader = batch_reader(broker, topic=topic)
    streaming = stream_reader(broker, topic=topic, startingOffsets="earliest")
    start = streaming.initialOffset()
    end = streaming.latestOffset(start, ReadAllAvailable())
    portions, planned = reader.partitions(), streaming.partitions(start, end)
    archive.run()
    assert trim(broker, topic) == 6
    assert numbers(payloads(rows(reader, portions))) == list(range(10))
    assert numbers(payloads(rows(streaming, planned))) == list(range(10))


def test_what_was_trimmed_and_not_archived_is_lost(broker, archive):
    topic = kept_topic(broker)
    publish(broker, topic, 0, 4)
    broker.advance(0.75 * HOUR_S)
    publish(broker, topic, 4, 6)
    archive.run()
    reader = batch_reader(broker, topic=topic)
    portions = reader.partitions()
    trim(broker, topic)
    for path in Path(archive.location.uri).rglob("*.parquet"):
        path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(DataLoss, match=r"\.parquet cannot be read"):
        rows(reader, portions)
    lenient = batch_reader(broker, topic=topic, failOnDataLoss="false")
    assert numbers(payloads(rows(lenient, lenient.partitions()))) == [4, 5]
    assert numbers(payloads(rows(lenient, portions))) == [4, 5]


def test_a_stream_over_both(broker, topics, archive):
    options = {"topicPattern": "cold.*", "startingOffsets": "earliest"}
    reader = stream_reader(broker, **options)
    start = reader.initialOffset()
    [found], end = follow(reader, start)
    assert sorted(numbers(found)) == sorted([*range(20)] * 2)
    # The same again when more is archived and trimmed.
    archive.run()
    broker.advance(HOUR_S)
    publish(broker, topics[0], 20, 22)
    broker.sweep()
    again = stream_reader(broker, **options)
    assert sorted(numbers(payloads(rows(again, again.partitions(start, end))))) == sorted(
        [*range(20)] * 2
    )


def test_a_limited_stream_over_both(broker, topics):
    reader = stream_reader(broker, topicPattern="cold.*", startingOffsets="earliest")
    found, _ = follow(reader, reader.initialOffset(), ReadMaxRows(6))
    assert sorted(numbers(joined(found))) == sorted([*range(20)] * 2)
    assert all(0 < len(each) <= 8 for each in found)
    assert len(found) >= 5


def test_a_stream_from_offsets_in_the_lake(broker, topics):
    given = json.dumps({topics[0]: 7, topics[1]: 15})
    reader = stream_reader(broker, topicPattern="cold.*", startingOffsets=given)
    found, _ = follow(reader, reader.initialOffset(), ReadMaxRows(4))
    assert sorted(numbers(joined(found))) == sorted([*range(7, 20), *range(15, 20)])


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"lake_id": "another"}, "is another; the broker archives to"),
        ({"sequence": 1}, r"is an older copy: it has commits up to 1, and \d+ were archived"),
    ],
)
def test_another_lake_or_an_older_copy(broker, topics, monkeypatch, changed, says):
    """Rows would be missing, and nobody would notice."""
    standing = inspection.standing
    monkeypatch.setattr(inspection, "standing", lambda *place: replace(standing(*place), **changed))
    with pytest.raises(FailedPrecondition, match=says):
        table(broker, topic=topics[0])
    stream = stream_reader(broker, topic=topics[0], startingOffsets="earliest")
    with pytest.raises(FailedPrecondition, match=says):
        follow(stream, stream.initialOffset())


def test_a_stream_names_a_damaged_file_and_skips_it_by_choice(broker, topics, archive, caplog):
    options = {"topicPattern": "cold.*", "startingOffsets": "earliest"}
    path = min((Path(archive.location.uri) / "messages").rglob("*.parquet"))
    right = path.read_bytes()
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    reader = stream_reader(broker, **options)
    start = reader.initialOffset()
    with pytest.raises(DataLoss, match=f"{path.name} cannot be read"):
        follow(reader, start)
    lenient = stream_reader(broker, failOnDataLoss="false", **options)
    [found], end = follow(lenient, start)
    assert 0 < len(found) < 40
    assert str(path) in caplog.text
    # Restored, the same batch has all of it again.
    path.write_bytes(right)
    assert len(payloads(rows(lenient, lenient.partitions(start, end)))) == 40


def test_a_file_that_is_gone_is_no_loss_but_an_old_plan(broker, topics, archive):
    reader = batch_reader(broker, topic=topics[0], failOnDataLoss="false")
    portions = reader.partitions()
    for path in Path(archive.location.uri).rglob("*.parquet"):
        path.unlink()
    with pytest.raises(DataLoss, match="run it again"):
        rows(reader, portions)


def test_files_are_shared_out():
    files = [ColdFile(str(number), 10, 100, 0, 9, 0, 9) for number in range(4)]
    assert [len(each) for each in divide_files(files, task_bytes=200)] == [2, 2]
    [one] = divide_files(files, task_bytes=10_000)
    assert len(one) == 4
    portions = divide_files(files[:1], tasks_min=3, task_bytes=10_000)
    assert [(each[0].slice, each[0].slices) for each in portions] == [(0, 3), (1, 3), (2, 3)]
    assert divide_files([]) == []


def test_files_a_little_smaller_than_a_task_are_not_put_together():
    files = [ColdFile(f"{n}.parquet", 1, 99 + n % 2, 1, 1, 1, 1) for n in range(4)]
    assert [len(each) for each in divide_files(files, task_bytes=100)] == [1, 1, 1, 1]
