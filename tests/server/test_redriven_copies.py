"""Redriven copies: made when asked for, and for the subscription that failed alone."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from fanlog.broker.clock import ManualClock
from server.conftest import PATIENCE_S
from server.receiver import receiving
from server.replaying import FACES, data, face_of, numbered, subscription, taken, topic
from server.test_redrive import World

RED = {"colour": "red"}
ORIGINAL = "fanlog-original-message-id"


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture(params=FACES)
def face(server, request):
    found = face_of(server, request.param)
    yield found
    found.close()


@pytest.fixture
def grpc_face(server):
    found = face_of(server, "grpc")
    yield found
    found.close()


def forget(world: World) -> None:
    """Let the topic let go of all that is acknowledged."""
    world.server.publisher.update_topic(
        topic={"name": world.topic, "message_retention_duration": timedelta(minutes=10)},
        update_mask={"paths": ["message_retention_duration"]},
    )
    world.server.advance(660)
    world.server.sweep()


def world_of(server, *messages: bytes, **options) -> World:
    """A world with letters whose originals are gone."""
    world = World(server, **options.pop("fields", {}))
    world.fail(*(messages or [b"x"]), **options)
    forget(world)
    return world


def copied(face, world: World) -> int:
    answer = face.redrive(world.reader, all=True, copies=True)
    assert (answer["reopened"], answer["skipped"]) == (0, 0)
    return answer["copied"]


class TestAsked:
    def test_nothing_is_copied_unless_asked_for(self, server, face):
        world = world_of(server)
        answer = face.redrive(world.reader, all=True)
        assert (answer["reopened"], answer["copied"], answer["skipped"]) == (0, 0, 1)
        [skipped] = answer["skipped_letters"]
        assert re.search(r"is gone \(nothing before \d+000000000001 is kept\)", skipped["reason"])
        assert (
            f"ask for copies to have it published again for {world.subscription} alone"
            in (skipped["reason"])
        )
        # Nothing happened, and it can be asked for differently.
        [letter] = world.letter_ids(face)
        assert face.redrive(world.reader, message_ids=[letter], copies=True)["copied"] == 1
        assert taken(server, world.subscription) == [b"x"]

    def test_what_a_copy_says(self, server, face):
        world = World(server)
        [original] = server.publish(world.topic, b"x", key="k", **RED)
        world.fail()
        forget(world)
        [letter] = world.letter_ids(face)
        assert copied(face, world) == 1
        [received] = server.pull(world.subscription)
        assert received.message.data == b"x"
        assert received.message.ordering_key == "k"
        assert received.message.message_id != original
        assert dict(received.message.attributes) == {
            "fanlog-source-topic": world.topic,
            "fanlog-source-message-id": original,
            "fanlog-redriven-from": letter,
            ORIGINAL: original,
            **RED,
        }
        assert world.letters(face) == []

    def test_a_copy_of_a_copy_names_the_first_of_all(self, server, grpc_face):
        world = World(server)
        [original] = server.publish(world.topic, b"x", **{ORIGINAL: "4000000000004"})
        for _ in range(3):
            world.fail()
            forget(world)
            assert copied(grpc_face, world) == 1
        [received] = server.pull(world.subscription)
        assert received.message.attributes[ORIGINAL] == original
        assert received.message.attributes["fanlog-source-message-id"] != original

    def test_an_original_that_is_there_is_reopened_all_the_same(self, server, grpc_face):
        world = World(server)
        [original] = server.publish(world.topic, b"x")
        world.fail()
        answer = grpc_face.redrive(world.reader, all=True, copies=True)
        assert (answer["reopened"], answer["copied"]) == (1, 0)
        [received] = server.pull(world.subscription)
        assert received.message.message_id == original

    @pytest.mark.parametrize("copies", [False, True])
    def test_not_when_the_subscription_is_gone(self, server, face, copies):
        world = world_of(server)
        other = subscription(server, world.topic)
        server.subscriber.delete_subscription(subscription=world.subscription)
        answer = face.redrive(world.reader, all=True, copies=copies)
        [skipped] = answer["skipped_letters"]
        assert skipped["reason"] == (
            f"the subscription it failed on, {world.subscription}, is gone"
        )
        assert server.pull(other) == []
        assert len(world.letters(face)) == 1

    def test_not_when_the_subscription_is_detached(self, server, grpc_face):
        world = world_of(server)
        server.publisher.detach_subscription(request={"subscription": world.subscription})
        answer = grpc_face.redrive(world.reader, all=True, copies=True)
        assert answer["skipped_letters"][0]["reason"].endswith("is detached")

    def test_not_when_the_topic_is_gone_too(self, server, face):
        world = world_of(server)
        server.publisher.delete_topic(topic=world.topic)
        answer = face.redrive(world.reader, all=True, copies=True)
        assert "so is its topic" in answer["skipped_letters"][0]["reason"]
        assert len(world.letters(face)) == 1

    def test_not_when_the_subscription_reads_another_topic_now(self, server, grpc_face):
        world = world_of(server)
        server.subscriber.delete_subscription(subscription=world.subscription)
        server.subscriber.create_subscription(name=world.subscription, topic=topic(server))
        answer = grpc_face.redrive(world.reader, all=True, copies=True)
        assert "does not read its topic any more" in answer["skipped_letters"][0]["reason"]

    def test_when_only_the_topic_is_gone_the_original_is_there(self, server, grpc_face):
        world = World(server)
        world.fail(b"x")
        server.publisher.delete_topic(topic=world.topic)
        # The subscription lives on, and so does what it may still get.
        answer = grpc_face.redrive(world.reader, all=True)
        assert answer["reopened"] + answer["skipped"] == 1


class TestAddressed:
    """Every other subscription on the topic passes copies over."""

    KINDS = (
        {},
        {"filter": 'attributes.colour = "red"'},
        {"enable_message_ordering": True},
        {"enable_message_ordering": True, "labels": {"fanlog-ordering": "strict"}},
        {"enable_exactly_once_delivery": True},
        {"enable_message_ordering": True, "enable_exactly_once_delivery": True},
    )

    def others(self, world: World) -> list[str]:
        return [
            *(subscription(world.server, world.topic, **fields) for fields in self.KINDS),
            # Neither the dead letters' topic nor another.
            subscription(world.server, f"{world.topic}*"),
        ]

    def test_nobody_else_gets_them(self, server, grpc_face):
        world = World(server)
        others = self.others(world)
        world.fail(*numbered(3), key="k", **RED)
        for name in others:
            assert taken(server, name) == numbered(3)
        forget(world)
        assert copied(grpc_face, world) == 3
        server.publish(world.topic, b"3", key="k", **RED)
        for name in others:
            assert taken(server, name) == [b"3"], name
        assert taken(server, world.subscription) == numbered(4)

    def test_nobody_is_held_back(self, server, grpc_face):
        """Not even where nobody reads: the floor, and so the log, moves on."""
        world = World(server)
        others = self.others(world)
        world.fail(*numbered(3), key="k", **RED)
        for name in others:
            taken(server, name)
        forget(world)
        assert copied(grpc_face, world) == 3
        assert taken(server, world.subscription) == numbered(3)
        catalog = server.broker.hard.catalog
        for name in others:
            backlog = server.run(server.broker.backlogs.measure(catalog.subscription(name)))
            assert backlog.messages == 0, name
        server.sweep()
        [partition] = catalog.topic(world.topic).partitions
        for share in server.broker.hard.shares_on(partition):
            assert share.cursor.floor == 6, share.settings.name
        server.advance(660)
        server.sweep()
        assert server.broker.ledger.start_of(partition) == 6
        server.publish(world.topic, b"3", key="k", **RED)
        for name in [*others, world.subscription]:
            assert taken(server, name) == [b"3"], name

    @pytest.mark.parametrize("settled", [False, True], ids=["at-once", "swept"])
    def test_after_a_restart(self, start_server, settled):
        server = start_server("embedded", clock=ManualClock())
        face = face_of(server, "grpc")
        world = World(server)
        others = self.others(world)
        world.fail(*numbered(3), key="k", **RED)
        for name in others:
            taken(server, name)
        forget(world)
        assert copied(face, world) == 3
        if settled:
            server.sweep()
        server.restart()
        server.publish(world.topic, b"3", key="k", **RED)
        for name in others:
            assert taken(server, name) == [b"3"], name
        assert taken(server, world.subscription) == numbered(4)
        face.close()

    def test_after_a_seek(self, server, grpc_face):
        world = World(server)
        others = self.others(world)
        world.fail(*numbered(3), key="k", **RED)
        for name in others:
            taken(server, name)
        forget(world)
        assert copied(grpc_face, world) == 3
        server.publish(world.topic, b"3", key="k", **RED)
        for name in others:
            taken(server, name)
            server.subscriber.seek(request={"subscription": name, "time": Timestamp(seconds=1)})
            grpc_face.reopen(name, start_time=Timestamp(seconds=1))
            assert taken(server, name) == [b"3"], name

    def test_whoever_comes_later(self, server, grpc_face):
        world = world_of(server)
        assert copied(grpc_face, world) == 1
        late = subscription(server, world.topic, labels={"fanlog-start": "earliest"})
        assert taken(server, late) == []
        server.publish(world.topic, b"y")
        assert taken(server, late) == [b"y"]

    def test_when_the_addressee_goes_nobody_gets_them(self, server, grpc_face):
        world = world_of(server)
        other = subscription(server, world.topic)
        assert copied(grpc_face, world) == 1
        server.subscriber.delete_subscription(subscription=world.subscription)
        again = server.subscriber.create_subscription(
            request={
                "name": world.subscription,
                "topic": world.topic,
                "labels": {"fanlog-start": "earliest"},
            }
        )
        assert taken(server, other) == taken(server, again.name) == []

    @pytest.mark.parametrize("fields", KINDS, ids=str)
    def test_the_one_that_failed_gets_them(self, server, grpc_face, fields):
        world = world_of(server, *numbered(3), key="k", **RED, fields=fields)
        assert copied(grpc_face, world) == 3
        server.publish(world.topic, b"3", key="k", **RED)
        assert taken(server, world.subscription) == numbered(4)

    def test_whatever_its_filter_says(self, server, grpc_face):
        """Also a consumer that waits is woken: its filter would leave them out."""
        world = world_of(server, **RED, fields={"filter": 'attributes.colour = "red"'})
        server.subscriber.update_subscription(
            subscription={"name": world.subscription, "filter": 'attributes.colour = "blue"'},
            update_mask={"paths": ["filter"]},
        )
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(server.await_pull, world.subscription)
            server.await_waiters(world.subscription, 1)
            server.publish(world.topic, b"not wanted", **RED)
            assert copied(grpc_face, world) == 1
            assert data(waiting.result(PATIENCE_S)) == [b"x"]

    def test_of_a_pattern(self, server, grpc_face):
        world = World(server)
        prefix = topic(server)
        world.topic = server.topic(name=f"{prefix}.a")
        name = world.failing(f"{prefix}.*")
        other = subscription(server, f"{prefix}.#")
        server.publish(world.topic, b"x")
        world.fail(name=name)
        assert taken(server, other) == [b"x"]
        forget(world)
        assert copied(grpc_face, world) == 1
        assert taken(server, other) == []
        [received] = server.pull(name)
        assert received.message.attributes["fanlog-topic"] == world.topic

    def test_forwards_pass_them_over(self, server, grpc_face):
        world = World(server)
        there = topic(server)
        reader = subscription(server, there)
        forward = {"push_endpoint": f"topic:{there}"}
        forwarding = subscription(server, world.topic, push_config=forward)
        world.fail(b"x")
        server.await_drained(forwarding)
        forget(world)
        assert copied(grpc_face, world) == 1
        server.publish(world.topic, b"y")
        server.await_drained(forwarding)
        assert taken(server, reader) == [b"x", b"y"]

    def test_exports_pass_them_over(self, server, grpc_face):
        world = World(server)
        table = {"table": "p.d.orders", "write_metadata": True}
        name = subscription(server, world.topic, bigquery_config=table)
        exports = server.broker.exports
        world.fail(b"x")
        _, first = server.run(exports.batch(name))
        assert [list(bits) for bits in first.offsets.values()] == [[0]]
        server.run(exports.advance(name, first.number))
        forget(world)
        assert copied(grpc_face, world) == 1
        server.publish(world.topic, b"y")
        _, second = server.run(exports.batch(name))
        assert [list(bits) for bits in second.offsets.values()] == [[2]]

    def test_batches_say_it_too(self, server, grpc_face):
        """Hard state that lost the addresses, as salvage may, costs nobody a foreign copy."""
        world = World(server)
        others = self.others(world)
        world.fail(b"x", key="k", **RED)
        for name in others:
            taken(server, name)
        forget(world)
        assert copied(grpc_face, world) == 1
        [partition] = server.broker.hard.catalog.topic(world.topic).partitions

        async def lose() -> None:
            records = server.broker.hard.addresses.remove(partition)
            server.broker.hard.apply_all(records)
            for share in server.broker.hard.shares_on(partition):
                share.start()

        server.run(lose())
        server.publish(world.topic, b"y", key="k", **RED)
        for name in others:
            assert taken(server, name) == [b"y"], name
        assert taken(server, world.subscription) == [b"x", b"y"]


class TestPush:
    @pytest.mark.parametrize("body", ["wrapped", "cloudevents"])
    def test_the_event_is_the_same(self, server, grpc_face, body):
        world = World(server)
        [original] = server.publish(world.topic, b"x", **{ORIGINAL: "forged"})
        world.fail()
        forget(world)
        with receiving() as receiver:
            server.subscriber.update_subscription(
                subscription={
                    "name": world.subscription,
                    "push_config": {"push_endpoint": receiver.url()},
                    "labels": {"fanlog-push-body": body},
                },
                update_mask={"paths": ["push_config", "labels"]},
            )
            server.publish(world.topic, b"other", **{ORIGINAL: "forged"})
            with receiving() as elsewhere:
                foreign = subscription(
                    server, world.topic, push_config={"push_endpoint": elsewhere.url()}
                )
                assert copied(grpc_face, world) == 1
                requests = receiver.wait(2)
                server.await_drained(foreign)
                assert elsewhere.received == []
        # In any order: requests overtake each other.
        events = {one.headers["X-Event-Id"] for one in requests}
        assert original in events
        assert "forged" not in events
        assert len(events) == 2
        if body == "cloudevents":
            assert {one.headers["ce-id"] for one in requests} == events
