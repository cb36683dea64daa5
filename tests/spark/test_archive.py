"""The archive: planned, written and committed as Spark does it, without Spark; and once with it."""

from __future__ import annotations

import json
import pickle

import pytest
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

from fanlog.broker.clock import ManualClock
from fanlog.errors import FailedPrecondition
from fanlog.lake import archive as lake_archive
from fanlog.lake.commit_order import CommitLost
from fanlog.lake.files import DataFile
from fanlog.lake.location import Location
from fanlog.lake.tables import MESSAGES, open_table
from fanlog.pipeline.flows.archive import ArchiveFlow
from fanlog.pipeline.flows.archive_source import ArchiveSource
from spark.reading import kept_topic
from spark.streams import finished

ALL = ReadAllAvailable()


@pytest.fixture
def location(tmp_path):
    return Location.parse(str(tmp_path / "lake"))


def reader_of(server, location, **options):
    given = {"endpoint": server.endpoint, "lake": location.uri} | options
    return ArchiveSource(
        CaseInsensitiveDict({name: str(value) for name, value in given.items()})
    ).streamReader(None)


def written(reader, start, end):
    """The rows of a batch, as tasks make them."""
    reader, portions = pickle.loads(pickle.dumps((reader, reader.partitions(start, end))))
    return [
        row for portion in portions for batch in reader.read(portion) for row in batch.to_pylist()
    ]


def commit(location, start, rows):
    if not rows:
        return
    [(after, to)] = {(row["after"], row["sequence"]) for row in rows}
    files = [DataFile.from_json(row["file"]) for row in rows if row["file"] is not None]
    lake_archive.commit_archive(location, start["log"], files, after_sequence=after, to_sequence=to)


def archive_all(server, location, start=None, **options):
    """Archive until there is nothing more; where that is."""
    reader = reader_of(server, location, **options)
    start = start or reader.initialOffset()
    while (end := json.loads(json.dumps(reader.latestOffset(start, ALL)))) != start:
        commit(location, start, written(reader, start, end))
        start = end
    return start


def messages(location):
    table = open_table(location, MESSAGES).to_pyarrow_table()
    return table.sort_by([("topic", "ascending"), ("offset", "ascending")])


def data(location):
    return messages(location)["data"].to_pylist()


class TestOnce:
    def test_all_topics_in_order(self, start_broker, location):
        server = start_broker()
        first, second = kept_topic(server, "orders-a"), kept_topic(server, "orders-b")
        for number in range(5):
            server.publish(first, b"a%d" % number)
            server.publish(second, b"b%d" % number)
        archive_all(server, location)
        table = messages(location)
        assert table["data"].to_pylist() == [b"a%d" % n for n in range(5)] + [
            b"b%d" % n for n in range(5)
        ]
        assert table["offset"].to_pylist() == [*range(5), *range(5)]

    def test_the_same_batch_again_adds_nothing(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1", b"2")
        reader = reader_of(server, location)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        rows = written(reader, start, end)
        commit(location, start, rows)
        # The process died before the checkpoint was written.
        again = reader_of(server, location)
        assert again.partitions(start, end) == []
        commit(location, start, rows)
        assert data(location) == [b"1", b"2"]

    def test_a_lost_checkpoint_doubles_nothing(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1")
        archive_all(server, location)
        server.publish(topic, b"2")
        # Begins anew: from where the table ends.
        archive_all(server, location)
        assert data(location) == [b"1", b"2"]

    def test_an_old_checkpoint_goes_on_where_the_table_ends(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1")
        reader = reader_of(server, location)
        old = reader.initialOffset()
        archive_all(server, location)
        server.publish(topic, b"2")
        archive_all(server, location, start=old)
        assert data(location) == [b"1", b"2"]

    def test_of_two_archives_one_wins(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1")
        mine, theirs = reader_of(server, location), reader_of(server, location)
        start = mine.initialOffset()
        end = mine.latestOffset(start, ALL)
        rows = written(mine, start, end)
        server.publish(topic, b"2")
        further = theirs.latestOffset(start, ALL)
        commit(location, start, written(theirs, start, further))
        with pytest.raises(CommitLost):
            commit(location, start, rows)
        assert data(location) == [b"1", b"2"]

    def test_what_a_failed_attempt_wrote_is_in_no_table(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1")
        reader = reader_of(server, location)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        written(reader, start, end)
        commit(location, start, written(reader, start, end))
        assert data(location) == [b"1"]


class TestWhatIsArchived:
    def test_topics_that_are_switched_off_are_not(self, start_broker, location):
        server = start_broker()
        on = kept_topic(server)
        off = server.topic(labels={"fanlog-archive": "off"})
        server.publish(on, b"on")
        server.publish(off, b"off")
        archive_all(server, location)
        assert data(location) == [b"on"]

    def test_commits_without_messages_are_no_batch(self, start_broker, location):
        """A report is a commit itself: archived, it would be followed by another for ever."""
        server = start_broker()
        topic = kept_topic(server)
        start = archive_all(server, location)
        server.subscription(topic)
        assert archive_all(server, location, start=start) == start
        server.publish(topic, b"x")
        end = archive_all(server, location, start=start)
        assert end["sequence"] > start["sequence"] + 1
        assert lake_archive.archived_sequence(location, start["log"]) == end["sequence"]

    def test_batches_are_bounded(self, start_broker, location):
        server = start_broker()
        topic = kept_topic(server)
        for number in range(6):
            server.publish(topic, b"%d" % number * 1_000)
        reader = reader_of(server, location, batchBytes=2_500)
        start = reader.initialOffset()
        first = reader.latestOffset(start, ALL)
        assert first["sequence"] < reader.reportLatestOffset()["sequence"]
        archive_all(server, location, batchBytes=2_500)
        assert len(data(location)) == 6
        assert open_table(location, MESSAGES).version() == 2

    def test_a_batch_over_midnight_is_two_files(self, start_broker, location):
        server = start_broker(clock=ManualClock())
        topic = kept_topic(server, hours=24 * 7)
        server.publish(topic, b"1", b"2")
        server.advance(24 * 3600)
        server.publish(topic, b"3")
        archive_all(server, location)
        table = messages(location)
        assert table["data"].to_pylist() == [b"1", b"2", b"3"]
        first, second = sorted(set(table["date"].to_pylist()))
        assert table["date"].to_pylist() == [first, first, second]

    def test_a_topic_that_is_deleted_meanwhile_is_left_out(self, start_broker, location):
        server = start_broker()
        stays, goes = kept_topic(server), kept_topic(server)
        server.publish(stays, b"stays")
        server.publish(goes, b"goes")
        reader = reader_of(server, location)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        reader, portions = pickle.loads(pickle.dumps((reader, reader.partitions(start, end))))
        server.publisher.delete_topic(topic=goes)
        rows = [
            row for portion in portions for one in reader.read(portion) for row in one.to_pylist()
        ]
        commit(location, start, rows)
        assert data(location) == [b"stays"]


class TestAlarms:
    def test_another_log(self, start_broker, location):
        first, second = start_broker(), start_broker()
        start = archive_all(first, location)
        with pytest.raises(FailedPrecondition, match="another data folder needs another lake"):
            reader_of(second, location).latestOffset(start, ALL)

    def test_an_empty_lake_in_place_of_the_old_one(self, start_broker, location, tmp_path):
        server = start_broker()
        topic = kept_topic(server)
        server.publish(topic, b"1")
        start = archive_all(server, location)
        other = Location.parse(str(tmp_path / "empty"))
        reader_of(server, other).initialOffset()
        # This broker relies on neither (test_faults.py has one that does): all of it is archived
        # again, also when Spark has seen as many commits before.
        archive_all(server, other, start)
        assert data(other) == [b"1"]
        server.publish(topic, b"2")
        archive_all(server, other, start)
        assert data(other) == [b"1", b"2"]


def test_with_spark(spark, start_broker, location, tmp_path):
    server = start_broker()
    topic = kept_topic(server)
    server.publish(topic, *(b"%d" % number for number in range(100)))
    for _ in range(2):
        archive = ArchiveFlow(spark, server.endpoint, location, tmp_path / "checkpoints")
        finished(lambda archive=archive: archive.start(only_now=True))
        server.publish(topic, b"more")
    archive = ArchiveFlow(spark, server.endpoint, location, tmp_path / "lost")
    finished(lambda: archive.start(only_now=True))
    assert data(location) == [b"%d" % number for number in range(100)] + [b"more"] * 2
