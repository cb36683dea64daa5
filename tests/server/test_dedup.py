"""Dedup ids: publishing twice publishes once; through the official client."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from google.api_core.exceptions import InvalidArgument


def publish(server, topic, *pairs):
    """Publish (data, dedup id) each in one request; the message ids."""
    messages = [
        {"data": data, "attributes": {"fanlog-dedup-id": dedup_id} if dedup_id else {}}
        for data, dedup_id in pairs
    ]
    request = {"topic": topic, "messages": messages}
    return list(server.publisher.publish(request=request).message_ids)


def data(received):
    return [one.message.data for one in received]


def test_a_second_publish_returns_the_first_id_and_adds_nothing(server):
    topic = server.topic()
    subscription = server.subscription(topic)
    [first] = publish(server, topic, (b"1", "a"))
    assert publish(server, topic, (b"1 again", "a")) == [first]
    [received] = server.pull(subscription)
    assert (received.message.data, received.message.message_id) == (b"1", first)
    assert received.message.attributes["fanlog-dedup-id"] == "a"


def test_inside_one_request(server):
    topic = server.topic()
    subscription = server.subscription(topic)
    ids = publish(server, topic, (b"1", "a"), (b"2", ""), (b"3", "a"), (b"4", "b"), (b"5", "b"))
    assert ids[2] == ids[0]
    assert ids[4] == ids[3]
    assert len(set(ids)) == 3
    assert data(server.pull(subscription)) == [b"1", b"2", b"4"]


def test_across_requests_in_flight(server):
    topic = server.topic()
    subscription = server.subscription(topic)
    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(
                lambda _: publish(server, topic, *[(b"x", str(n)) for n in range(20)]), range(24)
            )
        )
    assert all(ids == answers[0] for ids in answers)
    assert len(server.pull(subscription)) == 20


def test_topics_do_not_share_ids(server):
    one, other = server.topic(), server.topic()
    assert publish(server, one, (b"1", "a")) != publish(server, other, (b"1", "a"))


def test_keys_stay_in_order_around_what_repeats(server):
    topic = server.topic()
    subscription = server.subscription(topic, enable_message_ordering=True)
    publish(server, topic, (b"0", "a"))
    messages = [
        {"data": b"%d" % n, "ordering_key": "k", "attributes": {"fanlog-dedup-id": dedup_id}}
        for n, dedup_id in enumerate(("b", "a", "c", "b", "d"), 1)
    ]
    server.publisher.publish(request={"topic": topic, "messages": messages})
    assert data(server.pull(subscription)) == [b"0", b"1", b"3", b"5"]


def test_the_window_is_ten_minutes(still_server):
    topic = still_server.topic()
    [first] = publish(still_server, topic, (b"1", "a"))
    still_server.advance(599)
    assert publish(still_server, topic, (b"1", "a")) == [first]
    still_server.advance(2)
    assert publish(still_server, topic, (b"1", "a")) != [first]


def test_a_topic_may_have_another(still_server):
    topic = still_server.topic(labels={"fanlog-dedup-window": "30"})
    [first] = publish(still_server, topic, (b"1", "a"))
    still_server.advance(29)
    assert publish(still_server, topic, (b"1", "a")) == [first]
    still_server.advance(2)
    assert publish(still_server, topic, (b"1", "a")) != [first]


@pytest.mark.parametrize("window", ["", "ten", "-1", "86401", "1.5"])
def test_a_window_that_is_none_is_refused(server, window):
    with pytest.raises(InvalidArgument, match="fanlog-dedup-window"):
        server.topic(labels={"fanlog-dedup-window": window})


def test_it_survives_a_restart(start_server):
    server = start_server()
    topic = server.topic()
    subscription = server.subscription(topic)
    [first] = publish(server, topic, (b"1", "a"))
    server.restart()
    assert publish(server, topic, (b"1", "a")) == [first]
    assert data(server.pull(subscription)) == [b"1"]
