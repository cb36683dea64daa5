"""Jobs on a real Spark, against a real broker."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from fanlog.errors import FailedPrecondition, InvalidArgument, PermissionDenied
from fanlog.lake.location import Location
from fanlog.lake.pipeline_access import PipelineAccess
from fanlog.model.jobs import check_arguments
from fanlog.pipeline.context import Context
from fanlog.pipeline.jobs import kinds
from fanlog.pipeline.jobs.work import Work
from spark.reading import kept_topic


@pytest.fixture(scope="module")
def context(spark, broker, tmp_path_factory):
    location = Location.parse(str(tmp_path_factory.mktemp("lake")))
    reach = PipelineAccess(import_roots=(str(tmp_path_factory.getbasetemp()),))
    return Context(spark=spark, endpoint=broker.endpoint, location=location, reach=reach)


def do(context, kind, job="projects/test/jobs/job1", **arguments):
    """As a worker does, in a thread that Spark has not seen before."""
    work = Work(job, kind, check_arguments("test", kind, arguments))
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(kinds.runners(context)[kind], work).result()


@pytest.fixture(scope="module")
def topic(broker):
    topic = kept_topic(broker)
    messages = [
        {
            "data": json.dumps({"amount": number}).encode(),
            "attributes": {"region": "eu" if number % 4 else "us"},
        }
        for number in range(20)
    ]
    broker.publisher.publish(topic=topic, messages=messages)
    return topic


class TestBacktest:
    def test_a_filter(self, context, topic):
        found = do(
            context,
            "backtest",
            topics=[topic],
            filter='attributes.region = "us" AND payload.amount >= 8',
            samples=2,
        )
        assert (found["messages"], found["matched"], found["share"]) == (20, 3, 0.15)
        [counted] = found["by_topic_and_day"]
        assert (counted["topic"], counted["messages"], counted["hits"]) == (topic, 20, 3)
        assert len(found["samples"]) == 2
        assert found["samples"][0]["attributes"] == {"region": "us"}
        assert json.loads(found["samples"][0]["data"])["amount"] >= 8

    def test_a_schema(self, context, broker, topic):
        from google.pubsub_v1 import SchemaServiceClient
        from google.pubsub_v1.services.schema_service.transports import SchemaServiceGrpcTransport

        schemas = SchemaServiceClient(
            transport=SchemaServiceGrpcTransport(channel=broker.channel())
        )
        definition = {"type": "object", "properties": {"amount": {"maximum": 16}}}
        made = schemas.create_schema(
            parent="projects/test",
            schema_id="backtested",
            schema={"type_": 100, "definition": json.dumps(definition)},
        )
        found = do(context, "backtest", topics=[topic], schema="backtested", encoding="JSON")
        assert (found["messages"], found["rejected"]) == (20, 3)
        assert found["revision"] == made.revision_id
        assert sum(found["reasons"].values()) == 3
        assert "amount" in found["samples"][0]["reason"]
        with pytest.raises(FailedPrecondition, match=r"arguments\.encoding"):
            do(context, "backtest", topics=[topic], schema="backtested")


class TestImport:
    def test_rows_as_objects(self, context, broker, tmp_path):
        topic = broker.topic()
        reader = broker.subscription(topic)
        path = tmp_path / "rows.csv"
        path.write_text("name,price\nchair,20\ntable,90\n")
        found = do(context, "import", topic=topic, path=str(path), format="csv")
        assert found["published"] == 2
        came = [json.loads(one.message.data) for one in broker.drain(reader, 2)]
        assert came == [{"name": "chair", "price": "20"}, {"name": "table", "price": "90"}]

    def test_columns_and_only_once(self, context, broker, tmp_path):
        topic = broker.topic()
        reader = broker.subscription(topic)
        path = tmp_path / "rows.json"
        rows = [{"body": f"m{n}", "of": {"n": str(n)}, "who": "anna"} for n in range(3)]
        path.write_text("\n".join(map(json.dumps, rows)))
        arguments = {
            "topic": topic,
            "path": str(path),
            "format": "json",
            "data": "body",
            "ordering_key": "who",
        }
        # The worker died before it could say that it was done.
        for _ in range(2):
            do(context, "import", job="projects/test/jobs/twice", **arguments)
        came = broker.drain(reader, 3)
        assert [one.message.data for one in came] == [b"m0", b"m1", b"m2"]
        assert {one.message.ordering_key for one in came} == {"anna"}
        assert broker.pull(reader) == []

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"data": "colour"}, "there is no column 'colour'; there are"),
            ({"path": "rows.json"}, "not an absolute path"),
            ({"attributes": "n"}, "a map, or a JSON object"),
        ],
    )
    def test_what_is_wrong_is_named(self, context, broker, tmp_path, wrong, says):
        path = tmp_path / "rows.json"
        path.write_text('{"body": "x", "n": 1}')
        arguments = {"topic": broker.topic(), "path": str(path), "format": "json"} | wrong
        with pytest.raises(InvalidArgument, match=says):
            do(context, "import", **arguments)

    def test_a_folder_keeps_its_partition_columns(self, context, broker, tmp_path):
        topic = broker.topic()
        reader = broker.subscription(topic)
        for day in ("2026-11-15", "2026-11-16"):
            folder = tmp_path / "rows" / f"day={day}"
            folder.mkdir(parents=True)
            (folder / "part.json").write_text('{"n": 1}')
        job = "projects/test/jobs/by-day"
        do(context, "import", job=job, topic=topic, path=str(tmp_path / "rows"), format="json")
        came = {json.loads(one.message.data)["day"] for one in broker.drain(reader, 2)}
        assert came == {"2026-11-15", "2026-11-16"}

    def test_files_outside_the_roots_are_not_read(self, context, broker, tmp_path):
        (tmp_path / "link").symlink_to("/etc/passwd")
        for path in ("/etc/passwd", "file:///etc/passwd", str(tmp_path / "link")):
            with pytest.raises(PermissionDenied, match="not below an import root"):
                do(context, "import", topic=broker.topic(), path=path, format="csv")


class TestReplay:
    @pytest.fixture
    def acknowledged(self, broker):
        """A topic whose ten messages a subscription has acknowledged."""
        topic = kept_topic(broker)
        subscription = broker.subscription(topic)
        messages = [
            {"data": b"%d" % number, "attributes": {"even": str(number % 2 == 0)}}
            for number in range(10)
        ]
        # One of the odd ones asked for all that there is.
        messages[9]["attributes"] |= {
            "fanlog-delay": "0.1",
            "fanlog-ttl": "600",
            "fanlog-priority": "7",
            "fanlog-dedup-id": "nine",
        }
        broker.publisher.publish(topic=topic, messages=messages)
        before = broker.drain(subscription, 10)
        return topic, subscription, {one.message.data: one.message.message_id for one in before}

    def test_a_filtered_window_is_delivered_again(self, context, broker, acknowledged):
        _, subscription, before = acknowledged
        found = do(
            context,
            "replay",
            job="projects/test/jobs/evens",
            subscription=subscription,
            filter='attributes.even = "True"',
        )
        assert found == {"matched": 5, "reopened": 5, "skipped": 0}
        came = broker.drain(subscription, 5)
        assert [one.message.data for one in came] == [b"0", b"2", b"4", b"6", b"8"]
        assert [one.message.message_id for one in came] == [
            before[one.message.data] for one in came
        ]
        assert broker.pull(subscription) == []

    def test_a_plain_window_needs_no_spark(self, context, broker, acknowledged):
        _, subscription, _ = acknowledged
        found = do(context, "replay", job="projects/test/jobs/all", subscription=subscription)
        assert found["reopened"] == 10
        assert len(broker.drain(subscription, 10)) == 10

    def test_done_again_changes_nothing(self, context, broker, acknowledged):
        _, subscription, _ = acknowledged
        do(context, "replay", job="projects/test/jobs/again", subscription=subscription)
        broker.drain(subscription, 10)
        do(context, "replay", job="projects/test/jobs/again", subscription=subscription)
        assert broker.pull(subscription) == []

    def test_copies_say_where_they_come_from(self, context, broker, acknowledged):
        topic, subscription, before = acknowledged
        copies = broker.topic()
        reader = broker.subscription(copies)
        found = do(
            context,
            "replay",
            job="projects/test/jobs/copies",
            subscription=subscription,
            filter='attributes.even = "False"',
            to_topic=copies,
        )
        assert found["published"] == 5
        came = broker.drain(reader, 5)
        assert sorted(one.message.data for one in came) == [b"1", b"3", b"5", b"7", b"9"]
        first = came[0].message
        assert first.attributes["fanlog-origin-topic"] == topic
        assert first.attributes["fanlog-origin-message-id"] == before[first.data]
        assert broker.pull(subscription) == []
        # What it asked for is over, but for its priority.
        [nine] = [one.message for one in came if one.message.data == b"9"]
        assert nine.attributes["fanlog-priority"] == "7"
        assert not {"fanlog-delay", "fanlog-ttl", "fanlog-dedup-id"} & set(nine.attributes)
        assert came[0].message.data == b"9", "urgent in its new topic, too"


def numbered(broker, topic, *numbers, publisher="p", epoch=0, data=None):
    attributes = {"fanlog-publisher": publisher, "fanlog-publisher-epoch": str(epoch)}
    messages = [
        {
            "data": data or b"%s%d" % (publisher.encode(), number),
            "attributes": attributes | {"fanlog-sequence": str(number)},
        }
        for number in numbers
    ]
    broker.publisher.publish(request={"topic": topic, "messages": messages}, retry=None)


def copied(context, broker, topic, **arguments):
    """The data of the copies that a job makes of a topic, in their order."""
    source = broker.subscription(topic)
    copies = broker.topic(labels={"fanlog-ordering": "total"})
    reader = broker.subscription(copies, enable_message_ordering=True)
    job = f"projects/test/jobs/{copies.rpartition('/')[2]}"
    found = do(context, "replay", job=job, subscription=source, to_topic=copies, **arguments)
    came = broker.drain(reader, found["published"]) if found["published"] else []
    return [one.message.data for one in came]


class TestCopiesOfNumberedMessages:
    def test_in_the_order_of_those_who_subscribe(self, context, broker):
        topic = kept_topic(broker)
        numbered(broker, topic, 1)
        numbered(broker, topic, 3, 4)
        broker.publish(topic, b"plain")
        numbered(broker, topic, 1, publisher="q")
        numbered(broker, topic, 6)
        numbered(broker, topic, 2)
        broker.publish(topic, b"later")
        numbered(broker, topic, 5)
        reader = broker.subscription(topic, labels={"fanlog-start": "earliest"})
        expected = [one.message.data for one in broker.drain(reader, 9)]
        assert expected == [b"p1", b"plain", b"q1", b"p2", b"p3", b"p4", b"later", b"p5", b"p6"]
        assert copied(context, broker, topic) == expected

    def test_a_filter_leaves_out_the_one_that_filled_the_gap(self, context, broker):
        topic = kept_topic(broker)
        numbered(broker, topic, 1)
        numbered(broker, topic, 3, 4)
        broker.publish(topic, b"plain")
        numbered(broker, topic, 2)
        found = copied(context, broker, topic, filter='NOT attributes.fanlog-sequence = "2"')
        assert found == [b"p1", b"plain", b"p3", b"p4"]

    def test_held_messages_come_last(self, context, broker):
        topic = broker.topic(
            message_retention_duration={"seconds": 600}, labels={"fanlog-gap-timeout": "3600"}
        )
        numbered(broker, topic, 1)
        numbered(broker, topic, 7)
        numbered(broker, topic, 5)
        broker.publish(topic, b"plain")
        assert copied(context, broker, topic) == [b"p1", b"plain", b"p5", b"p7"]

    def test_a_gap_that_was_given_up(self, context, broker):
        topic = broker.topic(
            message_retention_duration={"seconds": 600}, labels={"fanlog-gap-timeout": "0"}
        )
        reader = broker.subscription(topic)
        numbered(broker, topic, 1)
        numbered(broker, topic, 4, 3)
        broker.drain(reader, 3)
        numbered(broker, topic, 5)
        assert copied(context, broker, topic) == [b"p1", b"p3", b"p4", b"p5"]

    def test_epochs(self, context, broker):
        topic = broker.topic(
            message_retention_duration={"seconds": 600}, labels={"fanlog-gap-timeout": "3600"}
        )
        numbered(broker, topic, 1)
        numbered(broker, topic, 4)
        numbered(broker, topic, 3)
        numbered(broker, topic, 1, epoch=1, data=b"anew1")
        numbered(broker, topic, 3, epoch=1, data=b"anew3")
        numbered(broker, topic, 2, epoch=1, data=b"anew2")
        assert copied(context, broker, topic) == [
            *(b"p1", b"p3", b"p4"),
            *(b"anew1", b"anew2", b"anew3"),
        ]


class TestFanOut:
    @pytest.fixture
    def subscribed(self, broker):
        """A topic with ten messages, and all, evens, none and a pattern that reads it."""
        topic = kept_topic(broker)
        readers = {
            "all": broker.subscription(topic),
            "evens": broker.subscription(topic, filter='attributes.even = "True"'),
            "none": broker.subscription(topic, filter='attributes.even = "perhaps"'),
            "pattern": broker.subscription(f"{topic[:-1]}*", filter='attributes.even = "False"'),
        }
        detached = broker.subscription(topic)
        broker.publisher.detach_subscription(request={"subscription": detached})
        messages = [
            {"data": b"%d" % number, "attributes": {"even": str(number % 2 == 0)}}
            for number in range(10)
        ]
        ids = broker.publisher.publish(topic=topic, messages=messages).message_ids
        return topic, readers, ids

    def test_every_subscription_that_is_attached(self, context, subscribed):
        topic, readers, _ = subscribed
        found = do(context, "fan-out", topic=topic)
        assert found == {
            "subscriptions": 4,
            "matching": 3,
            "deliveries": 20,
            "by_subscription": {readers["all"]: 10, readers["evens"]: 5, readers["pattern"]: 5},
        }

    def test_one_message_is_delivered_again_to_those_it_matches(self, context, broker, subscribed):
        topic, readers, ids = subscribed
        for name, count in (("all", 10), ("evens", 5), ("pattern", 5)):
            broker.drain(readers[name], count)
        job = "projects/test/jobs/one-message"
        found = do(context, "fan-out", job=job, topic=topic, message_id=ids[4], reopen=True)
        assert found["by_subscription"] == {readers["all"]: 1, readers["evens"]: 1}
        assert found["reopened"] == 2
        for name, again in (("all", [b"4"]), ("evens", [b"4"]), ("pattern", []), ("none", [])):
            assert [one.message.data for one in broker.pull(readers[name])] == again


def test_redrive(context, broker):
    topic, letters = kept_topic(broker), broker.topic()
    subscription = broker.subscription(
        topic, dead_letter_policy={"dead_letter_topic": letters, "max_delivery_attempts": 1}
    )
    graveyard = broker.subscription(letters)
    broker.publish(topic, b'{"n": 1}', b'{"n": 2}', b'{"n": 3}')
    broker.nack(subscription, broker.pull(subscription))
    broker.await_submitted(letters, 3)
    job = "projects/test/jobs/redriven"
    about = {"subscription": graveyard, "source": subscription}
    found = do(context, "redrive", job=f"{job}-2", **about, filter="payload.n = 2")
    assert (found["letters"], found["reopened"]) == (1, 1)
    assert [one.message.data for one in broker.drain(subscription, 1)] == [b'{"n": 2}']
    found = do(context, "redrive", job=job, **about)
    # The letter that was redriven is acknowledged.
    assert (found["letters"], found["reopened"], found["skipped"]) == (3, 2, 1)
    came = broker.drain(subscription, 2)
    assert [one.message.data for one in came] == [b'{"n": 1}', b'{"n": 3}']
    assert broker.pull(graveyard) == []
