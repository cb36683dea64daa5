"""Browsing the log, and trying filters on it: hot and cold, and nothing changes by it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from fanlog.client import CallFailed, Client
from fanlog.client.browse import BrowseClient
from fanlog.model.ids import parse_message_id
from server.conftest import PROJECT, RunningServer, unique
from server.registry import Registry
from server.tiered import DAY, keeping


@pytest.fixture
def server(still_server: RunningServer) -> RunningServer:
    return still_server


@pytest.fixture
def browsing(server: RunningServer) -> Iterator[BrowseClient]:
    yield from _client(server)


def _client(server: RunningServer) -> Iterator[BrowseClient]:
    client = Client(server.endpoint)
    yield BrowseClient(client)
    client.close()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def data(browsing: BrowseClient, **criteria: Any) -> list[bytes]:
    """The data of all messages, over as many pages as they come in."""
    pages = browsing.pages(**criteria)
    return [one.message.data for page in pages for one in page.messages]


def refused(call: Any, *args: Any, **fields: Any) -> tuple[str, str]:
    with pytest.raises(CallFailed) as caught:
        list(call(*args, **fields))
    return caught.value.status, caught.value.message


def stamp(seconds: float) -> Timestamp:
    found = Timestamp()
    found.FromMicroseconds(round(seconds * 1e6))
    return found


def test_what_is_acknowledged_is_there_all_the_same(server, browsing):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(3), colour="red")
    server.ack(subscription, server.pull(subscription))
    [page] = browsing.pages(topic=topic)
    assert [one.message.data for one in page.messages] == numbered(3)
    first = page.messages[0]
    assert (first.topic, first.offset, first.tier) == (topic, 0, "hot")
    assert dict(first.message.attributes) == {"colour": "red"}
    assert (first.data_bytes, first.data_cut) == (1, False)
    assert page.looked_at == 3
    assert page.looked_until == first.message.publish_time


def test_nothing_is_leased_or_moved(server, browsing):
    topic, subscription = server.topic_and_subscription()
    server.publish(topic, *numbered(3))
    assert data(browsing, topic=topic) == numbered(3)
    assert data(browsing, subscription=subscription) == numbered(3)
    assert [one.message.data for one in server.pull(subscription)] == numbered(3)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pages_go_on_where_the_last_ended(server, browsing, newest_first, size):
    topic = server.topic()
    for first in range(0, 20, 5):
        server.publish(topic, *numbered(5, first))
    expected = numbered(20)[::-1] if newest_first else numbered(20)
    criteria = {"topic": topic, "newest_first": newest_first, "max_messages": size}
    assert data(browsing, **criteria) == expected


def test_from_an_offset_a_message_and_a_time(server, browsing):
    topic = server.topic()
    server.publish(topic, *numbered(3))
    server.advance(10)
    middle = server.clock.now()
    ids = server.publish(topic, *numbered(3, 3))
    assert data(browsing, topic=topic, offset=4) == numbered(2, 4)
    assert data(browsing, topic=topic, offset=4, newest_first=True) == numbered(5)[::-1]
    assert data(browsing, topic=topic, message_id=ids[1]) == numbered(2, 4)
    assert data(browsing, topic=topic, message_id=ids[1], newest_first=True) == numbered(5)[::-1]
    assert data(browsing, topic=topic, time=stamp(middle)) == numbered(3, 3)
    assert data(browsing, topic=topic, time=stamp(middle), newest_first=True) == numbered(3)[::-1]


def test_only_messages_with_all_that_is_wanted(server, browsing):
    topic = server.topic()
    server.publish(topic, b'{"amount": 1}', b'{"amount": 5}', key="k", region="eu")
    server.publish(topic, b'{"amount": 5}', key="other", region="eu")
    server.publish(topic, b'{"amount": 5}', region="us")
    assert len(data(browsing, topic=topic, ordering_key="k")) == 2
    assert len(data(browsing, topic=topic, attributes={"region": "eu"})) == 3
    assert len(data(browsing, topic=topic, filter="payload.amount > 2")) == 3
    both = {"ordering_key": "k", "filter": "payload.amount > 2", "attributes": {"region": "eu"}}
    assert data(browsing, topic=topic, **both) == [b'{"amount": 5}']
    assert data(browsing, topic=topic, newest_first=True, **both) == [b'{"amount": 5}']
    assert data(browsing, topic=topic, ordering_key="missing") == []


def test_of_a_subscription_what_its_filter_wants(server, browsing):
    topic = server.topic()
    subscription = server.subscription(topic, filter='attributes.region = "eu"')
    server.publish(topic, b"0", region="eu")
    server.publish(topic, b"1", region="us")
    server.publish(topic, b"2", region="eu")
    assert data(browsing, subscription=subscription) == [b"0", b"2"]
    assert data(browsing, subscription=subscription, filter="message_id = nope") == []
    other = server.topic()
    status, message = refused(browsing.pages, topic=other, subscription=subscription)
    assert status == "INVALID_ARGUMENT"
    assert message == f"topic: {other!r} is none that {subscription!r} reads"


def test_of_a_pattern_topic_by_topic(server, browsing):
    prefix = unique("pattern")
    topics = [server.topic(name=f"projects/{PROJECT}/topics/{prefix}.{n}") for n in "ab"]
    subscription = server.subscription(f"projects/{PROJECT}/topics/{prefix}.*")
    server.publish(topics[0], b"0")
    server.publish(topics[1], b"1")
    server.publish(topics[0], b"2")
    assert data(browsing, subscription=subscription, max_messages=1) == [b"0", b"2", b"1"]
    assert data(browsing, subscription=subscription, newest_first=True) == [b"2", b"0", b"1"]
    assert data(browsing, subscription=subscription, topic=topics[1]) == [b"1"]


def test_long_data_is_cut(server, browsing):
    topic = server.topic()
    [message_id] = server.publish(topic, b"x" * 50_000)
    [page] = browsing.pages(topic=topic)
    [one] = page.messages
    assert (len(one.message.data), one.data_bytes, one.data_cut) == (16_384, 50_000, True)
    [page] = browsing.pages(topic=topic, message_id=message_id, max_data_bytes=10_000_000)
    assert page.messages[0].message.data == b"x" * 50_000


def test_a_page_fits_an_answer(server, browsing):
    topic = server.topic()
    for _ in range(6):
        server.publish(topic, b"x" * 1_000_000)
    pages = list(browsing.pages(topic=topic, max_data_bytes=1_000_000))
    assert [len(page.messages) for page in pages] == [3, 3]


def test_a_page_looks_at_so_much_and_says_how_far(server, browsing, monkeypatch):
    monkeypatch.setattr(limits, "BROWSE_LOOKED_MAX", 100)
    topic = server.topic()
    for first in range(0, 1_000, 50):
        server.publish(topic, *numbered(50, first))
    pages = list(browsing.pages(topic=topic, filter='attributes.no = "such"'))
    # Whole batches are looked at.
    assert [page.looked_at for page in pages] == [100] * 10
    assert all(page.HasField("looked_until") for page in pages)
    assert [len(page.messages) for page in pages] == [0] * 10
    newest = list(browsing.pages(topic=topic, ordering_key="none", newest_first=True))
    assert [page.looked_at for page in newest] == [100] * 10


def test_the_bound_on_bytes_holds_for_few_large_messages(server, browsing, monkeypatch):
    monkeypatch.setattr(limits, "BROWSE_LOOKED_BYTES_MAX", 1_000_000)
    topic = server.topic()
    for _ in range(4):
        server.publish(topic, b"x" * 600_000)
    pages = list(browsing.pages(topic=topic, filter='attributes.no = "such"'))
    assert [page.looked_at for page in pages] == [2, 2]


def test_a_topic_without_messages_and_one_that_is_not_there(server, browsing):
    topic = server.topic()
    assert [page.looked_at for page in browsing.pages(topic=topic)] == [0]
    assert refused(browsing.pages, topic=f"{topic}-gone")[0] == "NOT_FOUND"
    assert refused(browsing.pages)[1] == "topic, subscription: one of them is needed"


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ({"max_messages": 1_001}, "max_messages: 1001 is out of range"),
        ({"max_messages": -1}, "max_messages: -1 is out of range"),
        ({"max_data_bytes": 10_000_001}, "max_data_bytes: 10000001 is out of range"),
        ({"filter": "a ="}, "filter: expected a value"),
        ({"message_id": "x"}, "message id"),
        ({"offset": 10**12}, "offset: 1000000000000 is out of range"),
        ({"offset": 3}, "is not published yet"),
        ({"attributes": {f"k{n}": "" for n in range(101)}}, "attributes: 101"),
    ],
)
def test_what_makes_no_sense_is_refused(server, browsing, criteria, words):
    topic = server.topic()
    server.publish(topic, *numbered(2))
    status, message = refused(browsing.pages, topic=topic, **criteria)
    assert status == "INVALID_ARGUMENT"
    assert words in message


def test_a_token_of_another_list_is_refused(server, browsing):
    topic = server.topic()
    server.publish(topic, *numbered(2))
    first = next(browsing.pages(topic=topic, max_messages=1))
    token = first.next_page_token
    status, message = refused(browsing.pages, topic=topic, newest_first=True, page_token=token)
    assert status == "INVALID_ARGUMENT"
    assert "another list" in message


DEFINITION = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}'
PROTO = 'syntax = "proto3"; message R { int32 n = 1; }'


@pytest.mark.parametrize(
    ("kind", "definition", "encoded"),
    [("AVRO", DEFINITION, b"\x0e"), ("PROTOCOL_BUFFER", PROTO, b"\x08\x07")],
)
def test_data_is_decoded_by_the_schema(server, browsing, kind, definition, encoded):
    made = Registry(server).create(definition, kind=kind)
    topic = server.topic(schema_settings={"schema": made.name, "encoding": 2})
    server.publish(topic, encoded)
    [page] = browsing.pages(topic=topic, decode=True)
    [one] = page.messages
    assert one.decoded.replace(" ", "") == '{"n":7}'
    assert one.schema_revision_id == made.revision_id
    assert one.decoding_error == ""


def test_what_cannot_be_decoded_says_why(server, browsing):
    topic, plain = server.topic(), server.topic()
    server.publish(topic, b"\xff\xff")
    server.publish(plain, b"x")
    made = Registry(server).create(DEFINITION)
    settings = {"schema": made.name, "encoding": 2}
    server.publisher.update_topic(
        request={
            "topic": {"name": topic, "schema_settings": settings},
            "update_mask": {"paths": ["schema_settings"]},
        }
    )
    [page] = browsing.pages(topic=topic, decode=True)
    [one] = page.messages
    assert one.decoded == ""
    assert "the bytes end in the middle of the value" in one.decoding_error
    [page] = browsing.pages(topic=plain, decode=True)
    assert (page.messages[0].decoded, page.messages[0].decoding_error) == ("", "")


class TestFilters:
    def test_a_tree_in_words(self, browsing):
        found = browsing.parse_filter(
            'region = eu* AND (payload.amount > 5 OR NOT hasAttribute("x"))'
        )
        assert found.reads_data
        assert not found.HasField("problem")
        assert found.tree.kind == "AND"
        first, second = found.tree.parts
        assert first.words == 'attribute "region" begins with "eu"'
        assert [part.kind for part in second.parts] == ["TEST", "NOT"]
        assert [part.words for part in second.parts[1].parts] == ['there is attribute "x"']
        assert browsing.parse_filter(found.filter).tree == found.tree

    def test_nothing_is_a_filter_too(self, browsing):
        found = browsing.parse_filter("")
        assert not found.HasField("tree")
        assert not found.HasField("problem")

    @pytest.mark.parametrize(
        ("text", "column"),
        [("a = ", 5), ("a = b AND", 10), ('a = "é" OR OR', 12), ("(a = b", 7), ("a == b", 3)],
    )
    def test_the_problem_is_under_its_character(self, browsing, text, column):
        found = browsing.parse_filter(text)
        assert found.problem.column == column
        assert found.problem.message.startswith("filter: ")
        assert not found.HasField("tree")

    def test_a_problem_of_the_whole_has_no_character(self, browsing):
        assert browsing.parse_filter('{"a": {"b": {}}}').problem.column == 0
        assert browsing.parse_filter("a = b OR " * 1_000).problem.column == 0

    def test_on_the_latest_messages(self, server, browsing):
        topic = server.topic()
        for first in range(0, 100, 10):
            server.publish(topic, *[b'{"n": %d}' % n for n in range(first, first + 10)])
        found = browsing.try_filter("payload.n >= 90", topic, last=50, samples=3)
        assert (found.looked_at, found.matched, found.cut_short) == (50, 10, False)
        assert [one.message.data for one in found.matching] == [
            b'{"n": %d}' % n for n in (99, 98, 97)
        ]
        assert [one.message.data for one in found.others] == [
            b'{"n": %d}' % n for n in (89, 88, 87)
        ]
        assert browsing.try_filter("", topic, last=5).matched == 5

    def test_it_is_cut_short_at_its_bytes(self, server, browsing, monkeypatch):
        monkeypatch.setattr(limits, "TRY_BYTES_MAX", 1_000_000)
        topic = server.topic()
        for _ in range(4):
            server.publish(topic, b"x" * 600_000)
        found = browsing.try_filter("a:b", topic)
        assert (found.looked_at, found.cut_short) == (2, True)

    def test_what_cannot_be_read_is_refused(self, server, browsing):
        with pytest.raises(CallFailed) as caught:
            browsing.try_filter("a =", server.topic())
        assert caught.value.status == "INVALID_ARGUMENT"
        with pytest.raises(CallFailed, match="out of range"):
            browsing.try_filter("", server.topic(), last=100_001)


def test_what_is_in_the_lake_alone_is_shown_as_well(tiered):
    server = tiered.server
    topic = server.topic(**keeping())
    ids = server.publish(topic, *numbered(5))
    tiered.archive()
    server.advance(2 * DAY)
    server.sweep()
    server.publish(topic, *numbered(3, 5))
    partition, _ = parse_message_id(ids[0])
    assert server.broker.tiers.hot_start(partition) == 5
    for browsing in _client(server):
        pages = list(browsing.pages(topic=topic))
        found = [one for page in pages for one in page.messages]
        assert [one.message.data for one in found] == numbered(8)
        assert [one.tier for one in found] == ["lake"] * 5 + ["hot"] * 3
        assert data(browsing, topic=topic, newest_first=True, max_messages=2) == numbered(8)[::-1]
        assert browsing.try_filter("", topic).looked_at == 8
