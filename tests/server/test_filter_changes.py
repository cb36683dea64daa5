"""A filter is changed, or its subscription moved: nothing is lost and nothing doubled."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from google.api_core.exceptions import FailedPrecondition
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog import limits
from server.colours import BACKLOG, BLUE, NOTHING, RED, data, publish_colours, refilter, shown, take
from server.conftest import PATIENCE_S, PROJECT, RunningServer
from server.unique import unique


def seek(server: RunningServer, subscription: str, **target: Any) -> None:
    server.subscriber.seek(request={"subscription": subscription} | target, retry=None)


def snapshot(server: RunningServer, subscription: str) -> str:
    name = f"projects/{PROJECT}/snapshots/{unique('snapshot')}"
    server.subscriber.create_snapshot(request={"name": name, "subscription": subscription})
    return name


def test_a_change_takes_effect_at_one_point(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red", "blue")
    assert refilter(still_server, subscription, BLUE).filter == BLUE
    publish_colours(still_server, topic, "red", "blue")
    # What came before is judged by the filter that was there when it came.
    assert take(still_server, subscription) == [b"red-0", b"blue-1"]
    still_server.sweep()
    assert still_server.pull(subscription) == []
    still_server.await_metric(BACKLOG, subscription, 0)


def test_a_change_leaves_what_is_held_alone(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red", "red", "blue")
    [held] = still_server.pull(subscription, max_messages=1)
    refilter(still_server, subscription, BLUE)
    still_server.nack(subscription, [held])
    assert take(still_server, subscription) == [b"red-0", b"red-1"]


def test_adding_and_removing_a_filter(still_server):
    topic, subscription = still_server.topic_and_subscription()
    publish_colours(still_server, topic, "red", "blue")
    refilter(still_server, subscription, RED)
    publish_colours(still_server, topic, "red", "blue")
    assert refilter(still_server, subscription, "").filter == ""
    publish_colours(still_server, topic, "red", "blue")
    expected = [b"red-0", b"blue-1", b"red-0", b"red-0", b"blue-1"]
    assert take(still_server, subscription) == expected
    still_server.sweep()
    publish_colours(still_server, topic, "blue")
    assert take(still_server, subscription) == [b"blue-0"]
    # Nothing is remembered of filters that nobody can be judged by.
    found = still_server.broker.hard.catalog.subscription(subscription)
    assert (found.filter, found.filter_changes) == ("", ())


def test_removing_a_filter_that_has_passed_over_some(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "blue", "red", "blue")
    [held] = still_server.pull(subscription)
    refilter(still_server, subscription, "")
    publish_colours(still_server, topic, "blue")
    still_server.sweep()
    still_server.sweep()
    assert data(still_server.pull(subscription)) == [b"blue-0"]
    still_server.nack(subscription, [held])
    assert take(still_server, subscription) == [b"red-1"]


def test_a_change_on_an_open_stream(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    stream = still_server.open_stream(subscription)
    still_server.await_waiters(subscription, 1)
    publish_colours(still_server, topic, "blue", "red")
    assert data(stream.messages(1)) == [b"red-1"]
    refilter(still_server, subscription, BLUE)
    publish_colours(still_server, topic, "red", "blue")
    assert data(stream.messages(1)) == [b"blue-1"]
    refilter(still_server, subscription, "")
    publish_colours(still_server, topic, "red", "blue")
    assert data(stream.messages(2)) == [b"red-0", b"blue-1"]
    refilter(still_server, subscription, NOTHING)
    publish_colours(still_server, topic, "red")
    refilter(still_server, subscription, RED)
    publish_colours(still_server, topic, "blue", "red")
    assert data(stream.messages(1)) == [b"red-1"]
    assert stream.pending() == []


def test_a_change_survives_a_restart(start_server):
    server = start_server()
    topic, subscription = server.topic_and_subscription(filter=RED)
    publish_colours(server, topic, "red", "blue")
    refilter(server, subscription, BLUE)
    publish_colours(server, topic, "red", "blue")
    server.restart()
    publish_colours(server, topic, "red", "blue")
    assert take(server, subscription) == [b"red-0", b"blue-1", b"blue-1"]


def test_a_change_with_ordering_keys(still_server):
    topic, subscription = still_server.topic_and_subscription(
        filter=RED, enable_message_ordering=True
    )
    publish_colours(still_server, topic, "red", "blue", key="k")
    held = still_server.pull(subscription)
    refilter(still_server, subscription, BLUE)
    publish_colours(still_server, topic, "red", "blue", key="k")
    still_server.ack(subscription, held)
    assert take(still_server, subscription) == [b"blue-1"]


def test_the_same_filter_again_is_no_change(still_server):
    _, subscription = still_server.topic_and_subscription(filter=RED)
    for _ in range(5):
        refilter(still_server, subscription, RED)
    found = still_server.broker.hard.catalog.subscription(subscription)
    assert found.filter_changes == ()


def test_too_many_changes_over_a_stuck_backlog_are_refused(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red")
    texts = itertools.cycle([BLUE, RED])
    for text in itertools.islice(texts, limits.FILTER_CHANGES_MAX):
        publish_colours(still_server, topic, "blue")
        refilter(still_server, subscription, text)
    still_server.sweep()
    before = shown(still_server, subscription)
    with pytest.raises(FailedPrecondition, match="earlier filters"):
        refilter(still_server, subscription, "attributes:x")
    assert shown(still_server, subscription) == before
    # Everything else about it can be changed, and the filter again once the backlog is gone.
    expected = [b"red-0", *[b"blue-0"] * (limits.FILTER_CHANGES_MAX // 2)]
    assert take(still_server, subscription) == expected
    still_server.sweep()
    refilter(still_server, subscription, "attributes:x")
    assert shown(still_server, subscription) == "attributes:x"


def test_any_number_of_changes_without_a_backlog(still_server):
    """Also between two sweeps: nobody is refused for messages that are not there."""
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    texts = itertools.cycle([BLUE, RED])
    for text in itertools.islice(texts, 2 * limits.FILTER_CHANGES_MAX + 1):
        refilter(still_server, subscription, text)
    publish_colours(still_server, topic, "red", "blue")
    assert take(still_server, subscription) == [b"blue-1"]


class Numbers:
    """Publishes numbered messages, odd and even, until told; notes when each was sent and safe."""

    def __init__(self, server: RunningServer, topic: str) -> None:
        self._server = server
        self._topic = topic
        self.sent = self.answered = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._is_over.is_set():
            number = self.sent
            self.sent = number + 1
            parity = "odd" if number % 2 else "even"
            self._server.publish(self._topic, b"%d" % number, parity=parity)
            self.answered = number + 1

    def __enter__(self) -> Numbers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    def await_some(self, count: int) -> None:
        wanted = self.answered + count
        while self.answered < wanted and self._thread.is_alive():
            self._is_over.wait(0.001)


@pytest.mark.parametrize("exactly_once", [False, True], ids=["least", "once"])
def test_a_change_under_load_loses_and_doubles_nothing(server, exactly_once):
    topic, subscription = server.topic_and_subscription(
        filter="parity = odd", enable_exactly_once_delivery=exactly_once
    )
    stream = server.open_stream(subscription, stream_ack_deadline_seconds=60)
    texts = itertools.cycle(["parity = even", "", "parity = odd", NOTHING, "parity = odd"])
    judges = {"parity = odd": (1,), "parity = even": (0,), "": (0, 1), NOTHING: ()}
    certain: set[int] = set()
    possible: set[int] = set()
    text, since = "parity = odd", 0
    with Numbers(server, topic) as numbers:
        for changed in itertools.islice(texts, 25):
            numbers.await_some(6)
            before = numbers.answered
            refilter(server, subscription, changed)
            after = numbers.sent
            certain |= {n for n in range(since, before) if n % 2 in judges[text]}
            possible |= {n for n in range(before, after) if n % 2 in judges[text] + judges[changed]}
            text, since = changed, after
        numbers.await_some(6)
    last = numbers.sent
    certain |= {n for n in range(since, last) if n % 2 in judges[text]}
    # A last message that surely matches says when everything before it has come.
    refilter(server, subscription, "")
    server.publish(topic, b"%d" % last)

    found: list[int] = []
    while last not in found:
        received = list(stream.answer().received_messages)
        found += [int(one.message.data) for one in received]
        if received:
            stream.send(ack_ids=[one.ack_id for one in received])
    assert len(found) == len(set(found))
    assert certain | {last} <= set(found)
    assert set(found) <= certain | possible | {last}
    assert len(certain) > 50
    server.await_drained(subscription)


# Seek and snapshots.


def test_seek_to_a_time_brings_back_what_the_present_filter_wants(still_server):
    topic, subscription = still_server.topic_and_subscription(
        filter=RED, retain_acked_messages=True
    )
    publish_colours(still_server, topic, "red", "blue", "red", "blue")
    assert take(still_server, subscription) == [b"red-0", b"red-2"]
    refilter(still_server, subscription, BLUE)
    seek(still_server, subscription, time=Timestamp(seconds=0))
    assert take(still_server, subscription) == [b"blue-1", b"blue-3"]
    refilter(still_server, subscription, "")
    seek(still_server, subscription, time=Timestamp(seconds=0))
    assert take(still_server, subscription) == [b"red-0", b"blue-1", b"red-2", b"blue-3"]


def test_seek_to_a_time_does_not_bring_back_what_is_not_retained(lean_server):
    topic, subscription = lean_server.topic_and_subscription(filter=RED)
    publish_colours(lean_server, topic, "red", "blue", "red")
    lean_server.ack(subscription, lean_server.pull(subscription, max_messages=1))
    refilter(lean_server, subscription, "")
    seek(lean_server, subscription, time=Timestamp(seconds=0))
    # What was left out was acknowledged, and acknowledged messages are not retained.
    assert take(lean_server, subscription) == [b"red-2"]


def test_seek_to_the_future_acknowledges_all_whatever_the_filter(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red", "blue")
    seek(still_server, subscription, time=Timestamp(seconds=int(still_server.clock.now()) + 100))
    assert still_server.pull(subscription) == []
    publish_colours(still_server, topic, "blue", "red")
    assert take(still_server, subscription) == [b"red-1"]


def test_a_snapshot_remembers_what_the_filter_left(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red", "blue", "red", "blue")
    still_server.ack(subscription, still_server.pull(subscription, max_messages=1))
    name = snapshot(still_server, subscription)
    still_server.advance(10.1)
    assert take(still_server, subscription) == [b"red-2"]
    publish_colours(still_server, topic, "blue", "red")
    assert take(still_server, subscription) == [b"red-1"]
    still_server.sweep()

    seek(still_server, subscription, snapshot=name)

    assert take(still_server, subscription) == [b"red-2", b"red-1"]


def test_a_snapshot_is_judged_by_the_present_filter(still_server):
    topic, subscription = still_server.topic_and_subscription(filter=RED)
    publish_colours(still_server, topic, "red", "blue")
    name = snapshot(still_server, subscription)
    publish_colours(still_server, topic, "red", "blue")
    refilter(still_server, subscription, BLUE)
    seek(still_server, subscription, snapshot=name)
    # The first blue one was acknowledged when the snapshot was made.
    assert take(still_server, subscription) == [b"blue-1"]
    still_server.await_metric(BACKLOG, subscription, 0)


def test_a_snapshot_of_all_goes_to_a_subscription_with_a_filter(still_server):
    topic, whole = still_server.topic_and_subscription()
    publish_colours(still_server, topic, "red", "blue", "red")
    name = snapshot(still_server, whole)
    filtered = still_server.subscription(topic, filter=RED)
    seek(still_server, filtered, snapshot=name)
    assert take(still_server, filtered) == [b"red-0", b"red-2"]
