"""The sink, its steps called as Spark calls them: what is staged, committed, refused."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from fanlog.client import CallFailed
from fanlog.errors import FailedPrecondition, InvalidArgument
from fanlog.spark import writer as writers
from spark.reading import kept_topic, payloads, source, table

ATTRIBUTES = pa.map_(pa.string(), pa.string())


def schema(*names):
    kinds = {
        "data": T.BinaryType(),
        "attributes": T.MapType(T.StringType(), T.StringType()),
        "ordering_key": T.StringType(),
        "topic": T.StringType(),
    }
    return T.StructType([T.StructField(name, kinds[name]) for name in names])


def writer(broker, *names, **options):
    made = source(broker, **options).writer(schema(*(names or ("data",))), overwrite=False)
    return pickle.loads(pickle.dumps(made))


def rows(*data, **others):
    given = {"data": pa.array(data, pa.binary())} | others
    return pa.RecordBatch.from_pydict(given)


def test_nothing_is_published_before_the_commit(broker):
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    staged = made.write(iter([rows(b"1", b"2"), rows(b"3")]))
    assert payloads(table(broker, topic=topic)) == []
    # The driver has a writer of its own.
    pickle.loads(pickle.dumps(made)).commit([staged])
    assert payloads(table(broker, topic=topic)) == [b"1", b"2", b"3"]
    made.commit([staged])
    assert payloads(table(broker, topic=topic)) == [b"1", b"2", b"3"]


def test_an_attempt_that_failed_after_staging_leaves_nothing(broker):
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    made.write(iter([rows(b"2", b"1")]))
    second = made.write(iter([rows(b"1", b"2")]))
    made.commit([second])
    assert payloads(table(broker, topic=topic)) == [b"1", b"2"]


def test_all_columns(broker):
    first, second = kept_topic(broker), kept_topic(broker)
    made = writer(broker, "data", "attributes", "ordering_key", "topic")
    batch = rows(
        b"1", b"2", None, b"4",
        attributes=pa.array([[("a", "1"), ("b", None)], None, [("c", "")], []], ATTRIBUTES),
        ordering_key=pa.array(["k", None, "", "k"]),
        topic=pa.array([first, second.rpartition("/")[2], first, first]),
    )  # fmt: skip
    made.commit([made.write(iter([batch.slice(0, 2), batch.slice(2)]))])
    found = table(broker, topic=first)
    assert payloads(found) == [b"1", b"", b"4"]
    assert found["attributes"].to_pylist() == [[("a", "1")], [("c", "")], []]
    assert found["ordering_key"].to_pylist() == ["k", "", "k"]
    assert payloads(table(broker, topic=second)) == [b"2"]


def test_the_option_comes_before_the_column(broker):
    topic = kept_topic(broker)
    made = writer(broker, "data", "topic", topic=topic)
    made.commit([made.write(iter([rows(b"1", topic=pa.array(["elsewhere"]))]))])
    assert payloads(table(broker, topic=topic)) == [b"1"]


def test_many_rows_in_order(broker):
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    data = [b"%d" % number + b"x" * 500 for number in range(5_000)]
    made.commit([made.write(iter([rows(*data[:2_500]), rows(*data[2_500:])]))])
    assert payloads(table(broker, topic=topic)) == data


def test_no_rows(broker):
    made = writer(broker, topic=kept_topic(broker))
    staged = made.write(iter([]))
    assert staged.partitions == ()
    made.commit([staged])


def test_refused_rows_fail_the_query_with_the_reason(broker):
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    with pytest.raises(InvalidArgument, match="row 1 of the task cannot be published: "):
        made.write(iter([rows(b"1", b"")]))
    made = writer(broker, topic="nowhere")
    with pytest.raises(InvalidArgument, match="nowhere"):
        made.write(iter([rows(b"1")]))


def test_refused_rows_go_to_the_dead_letter_topic_with_the_others(broker):
    topic, dead = kept_topic(broker), kept_topic(broker)
    made = writer(broker, "data", "attributes", "ordering_key", topic=topic, deadLetterTopic=dead)
    batch = rows(
        b"1", b"2", b"", b"4",
        attributes=pa.array([[], [("goog-x", "1")], [], [("a", "x" * 2_000)]], ATTRIBUTES),
        ordering_key=pa.array(["", "k", "", ""]),
    )  # fmt: skip
    staged = made.write(iter([batch.slice(0, 1), batch.slice(1)]))
    assert payloads(table(broker, topic=dead)) == []
    made.commit([staged])
    assert payloads(table(broker, topic=topic)) == [b"1"]
    found = table(broker, topic=dead)
    assert payloads(found) == [b"2", b"", b"4"]
    for attributes in found["attributes"].to_pylist():
        said = dict(attributes)
        assert said.keys() == {"dead_letter_reason", "dead_letter_topic"}
        assert said["dead_letter_topic"] == topic
    with pytest.raises(InvalidArgument, match="does not take dead letters"):
        writer(broker, topic=topic, deadLetterTopic="nowhere").write(iter([rows(b"")]))


def test_a_transaction_is_published_once(broker):
    topic = kept_topic(broker)
    for version, data in ((0, b"1"), (0, b"again"), (1, b"2")):
        made = writer(broker, topic=topic, txnAppId=f"app-{topic}", txnVersion=version)
        made.commit([made.write(iter([rows(data)]))])
    assert payloads(table(broker, topic=topic)) == [b"1", b"2"]


def test_an_abort_forgets_what_was_staged(broker, caplog):
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    staged = made.write(iter([rows(b"1")]))
    made.abort([staged, None])
    with pytest.raises(CallFailed, match="nothing is staged"):
        made.commit([staged])
    assert payloads(table(broker, topic=topic)) == []
    made._stager = writers.Stager(
        writers.WriteOptions(endpoint="127.0.0.1:1", project="test", topic=topic)
    )
    made.abort([None])
    assert "left to expire" in caplog.text


def test_a_commit_waits_for_a_broker_that_comes_back(start_broker, monkeypatch):
    broker = start_broker()
    topic = kept_topic(broker)
    made = writer(broker, topic=topic)
    staged = made.write(iter([rows(b"1")]))
    broker.restart()
    made.commit([staged])
    assert payloads(table(broker, topic=topic)) == [b"1"]
    broker.stop()
    monkeypatch.setattr(writers, "PATIENCE_S", 0.0)
    with pytest.raises(CallFailed, match="cannot be reached"):
        made.commit([staged])


def test_what_comes_from_above_is_what_is_told(broker):
    def broken():
        yield rows(b"1")
        raise ZeroDivisionError("of the program")

    with pytest.raises(ZeroDivisionError, match="of the program"):
        writer(broker, topic=kept_topic(broker)).write(broken())


def test_a_stream_writer_needs_to_know_its_batch(broker):
    made = source(broker, topic="orders").streamWriter(schema("data"), overwrite=True)
    with pytest.raises(FailedPrecondition, match=r"sql\.streaming\.queryId"):
        made.write(iter([rows(b"1")]))
    with pytest.raises(InvalidArgument, match="are for batches"):
        source(broker, topic="orders", txnAppId="a", txnVersion=1).streamWriter(
            schema("data"), overwrite=False
        )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([("data", T.LongType())], "column 'data' is bigint; it must be binary or string"),
        (
            [("data", T.BinaryType()), ("attributes", T.StringType())],
            "column 'attributes' is string; it must be map<string,string>",
        ),
        (
            [("data", T.BinaryType()), ("attributes", T.MapType(T.StringType(), T.LongType()))],
            "column 'attributes' is map<string,bigint>",
        ),
        ([("data", T.BinaryType()), ("ordering_key", T.LongType())], "it must be string"),
        ([("data", T.BinaryType()), ("offset", T.LongType())], "column 'offset' is no part"),
        ([("ordering_key", T.StringType())], "there is no column 'data'"),
    ],
    ids=str,
)
def test_columns_that_cannot_be_published(broker, fields, said):
    wrong = T.StructType([T.StructField(*field) for field in fields])
    with pytest.raises(InvalidArgument) as caught:
        source(broker, topic="orders").writer(wrong, overwrite=False)
    assert said in caught.value.message


def test_topics_are_named_and_only_added_to(broker):
    with pytest.raises(InvalidArgument, match="no option topic in its place"):
        source(broker).writer(schema("data"), overwrite=False)
    with pytest.raises(InvalidArgument, match=r'use mode\("append"\)'):
        source(broker, topic="orders").writer(schema("data"), overwrite=True)
