"""What a program may ask for, and what it is told when it asks for something else."""

from __future__ import annotations

import pytest

from fanlog.errors import InvalidArgument
from fanlog.spark.options import read_options, write_options

T = "projects/fanlog/topics/"


def read(is_streaming=False, **given):
    return read_options(given, is_streaming=is_streaming, environ={})


def test_defaults_of_a_batch():
    options = read(topic="orders")
    assert options.endpoint == "127.0.0.1:8085"
    assert options.topics == (T + "orders",)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.fail_on_data_loss
    assert read(is_streaming=True, topic="orders").starting == "latest"


def test_the_environment_names_endpoint_and_project():
    environ = {"PUBSUB_EMULATOR_HOST": "there:1", "FANLOG_PROJECT": "p"}
    options = read_options({"topic": "orders"}, is_streaming=False, environ=environ)
    assert (options.endpoint, options.topics) == ("there:1", ("projects/p/topics/orders",))


def test_topics_by_any_name():
    assert read(topics="orders, projects/q/topics/billing,orders").topics == (
        T + "orders",
        "projects/q/topics/billing",
    )
    assert read(subscribe="orders,billing").topics == (T + "orders", T + "billing")
    assert read(topicPattern="orders.*").pattern == T + "orders.*"
    assert read(subscription="mine").subscription == "projects/fanlog/subscriptions/mine"
    assert read(topic="orders", project="q").topics == ("projects/q/topics/orders",)


def test_kafkas_names_are_taken_where_they_mean_the_same():
    assert read(is_streaming=True, topic="orders", maxOffsetsPerTrigger="5").max_messages == 5


def test_offsets():
    named = '{"orders": {"0": 23, "7": -2}, "projects/q/topics/billing": 5}'
    assert read(topic="orders", startingOffsets=named).starting == {
        T + "orders": {0: 23, 7: -2},
        "projects/q/topics/billing": {None: 5},
    }
    assert read(topic="orders", endingOffsets="LATEST").ending == "latest"


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1700000000123", 1_700_000_000_123_000),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000_000),
        ("2023-11-15T00:13:20.000001+02:00", 1_700_000_000_000_001),
    ],
)
def test_times(text, micros):
    assert read(topic="orders", startingTimestamp=text).starting_us == micros


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "one of the options topic, topics"),
        ({"topic": "orders", "subscription": "s-1"}, "given: topic and subscription"),
        ({"topic": "orders", "topik": "x"}, "did you mean topic?"),
        ({"topic": "orders", "zzz": "x"}, "known are"),
        ({"subscribepattern": "o.*"}, "here it is topicPattern"),
        ({"topic": "orders", "path": "/x"}, "messages have no path"),
        ({"topic": "orders", "deadlettertopic": "x"}, "deadLetterTopic is for writing"),
        ({"topic": "orders", "kafka.bootstrap.servers": "x"}, "named by endpoint"),
        ({"topics": "orders", "subscribe": "orders"}, "topics is given twice"),
        ({"topic": "o"}, "option topic"),
        ({"topic": "orders", "project": "a/b"}, "option project"),
        ({"topic": "orders", "startingOffsets": "first"}, "takes earliest, latest or JSON"),
        ({"topic": "orders", "startingOffsets": "[1]"}, "takes earliest, latest or JSON"),
        ({"topic": "orders", "startingOffsets": '{"orders": {"x": 1}}'}, "partitions as numbers"),
        ({"topic": "orders", "startingOffsets": '{"orders": -3}'}, "offsets as whole numbers"),
        ({"topic": "orders", "startingOffsets": '{"orders": true}'}, "offsets as whole numbers"),
        ({"topic": "orders", "startingOffsets": "latest"}, "would leave nothing to read"),
        ({"topic": "orders", "startingOffsets": '{"orders": -1}'}, "would leave nothing to read"),
        ({"topic": "orders", "endingOffsets": "earliest"}, "would leave nothing to read"),
        (
            {"topic": "orders", "startingOffsets": "earliest", "startingTimestamp": "1"},
            "exclude each other",
        ),
        ({"topic": "orders", "startingTimestamp": "today"}, "milliseconds since 1970"),
        ({"topic": "orders", "startingTimestamp": "2026-01-01T00:00:00"}, "a time with its zone"),
        ({"topic": "orders", "minPartitions": "0"}, "a whole number, 1 or more"),
        ({"topic": "orders", "failOnDataLoss": "maybe"}, "true or false"),
        ({"topic": "orders", "maxMessagesPerTrigger": "5"}, "is for streaming queries"),
        ({"topic": "orders", "filter": "attributes.k ="}, "option filter: "),
    ],
    ids=str,
)
def test_what_is_refused(given, said):
    with pytest.raises(InvalidArgument) as caught:
        read(**given)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(name):
    with pytest.raises(InvalidArgument, match="does not end"):
        read(is_streaming=True, topic="orders", **{name: "latest"})


def test_what_spark_adds_is_passed_over():
    assert write_options({"topic": "orders", "checkpointLocation": "/x", "queryName": "q"}, {})


def test_writing():
    options = write_options(
        {"topic": "orders", "deadlettertopic": "bad", "txnappid": "a", "txnversion": "3"}, {}
    )
    assert (options.topic, options.dead_letter_topic) == (T + "orders", T + "bad")
    assert options.transaction == ("a", 3)
    for given, said in (
        ({"startingOffsets": "earliest"}, "startingOffsets is for reading"),
        ({"txnAppId": "a"}, "together or not at all"),
        ({"txnAppId": "a", "txnVersion": "x"}, "a whole number"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            write_options(given, {})


def test_credentials_travel_as_the_names_of_files():
    environ = {"FANLOG_TOKEN": "flt_secret"}
    for given, address in (
        ({"token_file": "/t"}, "127.0.0.1:8085?token_file=/t"),
        ({"credentials": "/k"}, "127.0.0.1:8085?credentials=/k"),
        ({}, "127.0.0.1:8085"),
    ):
        options = read_options({"topic": "orders"} | given, is_streaming=False, environ=environ)
        assert options.endpoint == address
        assert "flt_secret" not in repr(options)
