"""Dead letters listed, redriven and discarded, by every surface."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fanlog import limits
from fanlog.broker.clock import ManualClock
from fanlog.errors import CommitFailed
from server.replaying import (
    FACES,
    Refused,
    data,
    face_of,
    numbered,
    subscription,
    taken,
    topic,
)

#: Topics that say nothing keep nothing here: what the default adds is in `test_default_retention`.
SETTINGS = {"topic_retention": 0.0}


class World:
    """A topic, a subscription whose messages fail, and a reader of the dead letters."""

    def __init__(self, server, *, retention=True, reader=None, **fields):
        self.server = server
        self.dead = topic(server)
        self.reader = subscription(server, self.dead, **(reader or {}))
        kept = {"message_retention_duration": timedelta(days=7)} if retention else {}
        self.topic = topic(server, **kept)
        self.subscription = self.failing(**fields)

    def failing(self, on=None, **fields):
        policy = {"dead_letter_topic": self.dead, "max_delivery_attempts": 1}
        return subscription(self.server, on or self.topic, dead_letter_policy=policy, **fields)

    def fail(self, *messages, name=None, **options):
        """Publish messages and let them become dead letters."""
        if messages:
            self.server.publish(self.topic, *messages, **options)
        name = name or self.subscription
        found = self.server.broker.hard.catalog.subscription(name)
        while self.server.run(self.server.broker.backlogs.measure(found)).messages:
            if received := self.server.pull(name):
                self.server.nack(name, received)
        # A letter is there once its commit is.
        self.server.run(self.server.broker.ledger.sync())

    def letter_ids(self, face, **selection):
        return [one["message"]["message_id"] for one in self.letters(face, **selection)]

    def letters(self, face, **selection):
        return face.letters(self.reader, **selection).get("letters", [])


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


@pytest.fixture
def world(server):
    return World(server)


class TestList:
    def test_what_they_say(self, world, face):
        [message_id] = world.server.publish(world.topic, b"x", colour="red")
        world.fail()
        [letter] = world.letters(face)
        assert letter["source_subscription"].endswith(world.subscription.rpartition("/")[2])
        assert letter["source_topic"].endswith(world.topic.rpartition("/")[2])
        assert letter["source_message_id"] == message_id
        assert letter["delivery_attempts"] == 1
        assert "1 of 1 delivery attempts" in letter["reason"]
        assert letter["message"]["attributes"]["colour"] == "red"
        assert not letter.get("leased", False)

    def test_nothing_is_leased_by_looking(self, world, face):
        world.fail(*numbered(3))
        assert len(world.letters(face)) == 3
        assert len(world.letters(face)) == 3
        held = world.server.pull(world.reader, 1)
        assert [one.get("leased", False) for one in world.letters(face)] == [True, False, False]
        world.server.ack(world.reader, held)
        assert len(world.letters(face)) == 2

    def test_in_pages(self, world, face):
        world.fail(*numbered(5))
        whole = world.letter_ids(face)
        found, token = [], None
        while token != "":
            more = {"page_token": token} if token else {}
            page = face.letters(world.reader, page_size=2, **more)
            found += [one["message"]["message_id"] for one in page.get("letters", [])]
            token = page.get("next_page_token", "")
        assert found == whole
        assert len(whole) == 5

    def test_by_source_and_reason(self, world, face):
        other = world.failing()
        world.fail(b"x")
        world.fail(name=other)
        assert len(world.letters(face)) == 2
        [one] = world.letters(face, source_subscription=other)
        assert one["source_subscription"].endswith(other.rpartition("/")[2])
        assert len(world.letters(face, reason="DELIVERY attempts")) == 2
        assert world.letters(face, reason="no such reason") == []

    def test_of_the_filter_only(self, server, grpc_face):
        world = World(server, reader={"filter": 'attributes.colour = "red"'})
        world.fail(b"red", colour="red")
        world.fail(b"blue", colour="blue")
        assert len(world.letters(grpc_face)) == 1


class TestRedrive:
    def test_by_id(self, world, face):
        ids = world.server.publish(world.topic, *numbered(3))
        world.fail()
        letters = world.letter_ids(face)
        answer = face.redrive(world.reader, message_ids=letters[1:])
        assert (answer["reopened"], answer.get("copied", 0), answer.get("skipped", 0)) == (2, 0, 0)
        received = world.server.pull(world.subscription)
        assert data(received) == [b"1", b"2"]
        # The originals, with their attempts counted anew.
        assert [one.message.message_id for one in received] == ids[1:]
        assert [one.delivery_attempt for one in received] == [1, 1]
        assert data(world.server.pull(world.reader)) == [b"0"]

    def test_all(self, world, face):
        world.fail(*numbered(5))
        answer = face.redrive(world.reader, all=True)
        assert answer["reopened"] == 5
        assert answer.get("next_page_token", "") == ""
        assert taken(world.server, world.subscription) == numbered(5)
        assert world.letters(face) == []

    def test_by_source_and_reason(self, world, face):
        other = world.failing()
        world.fail(b"x")
        world.fail(name=other)
        assert face.redrive(world.reader, source_subscription=other)["reopened"] == 1
        assert taken(world.server, other) == [b"x"]
        assert taken(world.server, world.subscription) == []
        answer = face.redrive(world.reader, reason="of 1 delivery")
        assert answer["reopened"] == 1
        assert taken(world.server, world.subscription) == [b"x"]

    def test_by_when_they_became_letters(self, world, grpc_face):
        world.fail(b"early")
        world.server.advance(60)
        now = datetime.fromtimestamp(world.server.clock.now(), UTC)
        world.fail(b"late")
        assert grpc_face.redrive(world.reader, start_time=now)["reopened"] == 1
        assert taken(world.server, world.subscription) == [b"late"]
        assert grpc_face.redrive(world.reader, end_time=now)["reopened"] == 1
        assert taken(world.server, world.subscription) == [b"early"]

    def test_in_portions_and_without_what_fails_meanwhile(self, world, face):
        world.fail(*numbered(5))
        answer = face.redrive(world.reader, all=True, max_messages=2)
        assert answer["reopened"] == 2
        # These fail again, as new letters behind the others.
        world.fail()
        found = []
        while token := answer.get("next_page_token"):
            answer = face.redrive(world.reader, all=True, max_messages=2, page_token=token)
            found.append(answer.get("reopened", 0))
        assert sum(found) == 3
        assert len(world.letters(face)) == 2

    def test_the_filter_of_now_is_not_asked(self, server, grpc_face):
        world = World(server, filter='attributes.colour = "red"')
        world.fail(b"x", colour="red")
        server.subscriber.update_subscription(
            subscription={"name": world.subscription, "filter": 'attributes.colour = "blue"'},
            update_mask={"paths": ["filter"]},
        )
        server.sweep()
        assert grpc_face.redrive(world.reader, all=True)["reopened"] == 1
        assert taken(server, world.subscription) == [b"x"]

    @pytest.mark.parametrize("is_exact", [False, True], ids=["at-least-once", "exactly-once"])
    def test_in_order(self, server, grpc_face, is_exact):
        world = World(server, enable_message_ordering=True, enable_exactly_once_delivery=is_exact)
        world.fail(*numbered(3), key="k")
        server.publish(world.topic, b"3", key="k")
        assert grpc_face.redrive(world.reader, all=True)["reopened"] == 3
        assert taken(server, world.subscription) == numbered(4)

    def test_of_a_pattern(self, server, grpc_face):
        world = World(server)
        prefix = topic(server)
        names = [
            server.topic(name=f"{prefix}.{word}", message_retention_duration=timedelta(days=7))
            for word in ("a", "b")
        ]
        name = world.failing(f"{prefix}.*")
        for one in names:
            server.publish(one, one[-1].encode())
        world.fail(name=name)
        assert grpc_face.redrive(world.reader, all=True)["reopened"] == 2
        assert sorted(taken(server, name)) == [b"a", b"b"]

    def test_one_that_is_open_again_by_itself(self, world, grpc_face):
        [message_id] = world.server.publish(world.topic, b"x")
        world.fail()
        grpc_face.reopen(world.subscription, message_ids=[message_id])
        assert grpc_face.redrive(world.reader, all=True)["reopened"] == 1
        assert taken(world.server, world.subscription) == [b"x"]


class TestSkipped:
    def test_what_somebody_has_leased(self, world, face):
        world.fail(*numbered(2))
        held = world.server.pull(world.reader, 1)
        answer = face.redrive(world.reader, all=True)
        assert (answer["reopened"], answer["skipped"]) == (1, 1)
        assert answer["skipped_letters"][0]["reason"] == "somebody has leased it"
        again = face.redrive(world.reader, message_ids=[held[0].message.message_id])
        assert again["skipped"] == 1
        # Whoever has it can still acknowledge it.
        world.server.ack(world.reader, held)
        assert world.letters(face) == []
        assert taken(world.server, world.subscription) == [b"1"]

    def test_what_is_acknowledged(self, world, face):
        world.fail(b"x")
        [letter] = world.letter_ids(face)
        taken(world.server, world.reader)
        answer = face.redrive(world.reader, message_ids=[letter])
        assert answer["skipped"] == 1
        assert taken(world.server, world.subscription) == []

    def test_what_is_no_dead_letter(self, world, face):
        [message_id] = world.server.publish(world.dead, b"just published")
        answer = face.redrive(world.reader, message_ids=[message_id])
        assert answer["skipped_letters"][0] == {
            "message_id": message_id,
            "reason": "it is not a dead letter",
        }
        assert data(world.server.pull(world.reader)) == [b"just published"]

    def test_what_only_looks_like_one(self, world, face):
        """Anybody may publish the attributes of a letter; the broker knows its own."""
        [original] = world.server.publish(world.topic, b"x")
        assert taken(world.server, world.subscription) == [b"x"]
        _, project, _, name = world.subscription.split("/")
        [message_id] = world.server.publish(
            world.dead,
            b"forged",
            **{
                "CloudPubSubDeadLetterSourceSubscription": name,
                "CloudPubSubDeadLetterSourceSubscriptionProject": project,
                "CloudPubSubDeadLetterSourceDeliveryCount": "5",
                "fanlog-dead-letter-reason": "because",
                "fanlog-source-topic": world.topic,
                "fanlog-source-message-id": original,
            },
        )
        [letter] = world.letters(face)
        assert not letter.get("source_subscription")
        assert not letter.get("source_message_id")
        assert not letter.get("reason")
        assert world.letters(face, reason="because") == []
        answer = face.redrive(world.reader, message_ids=[message_id], copies=True)
        assert answer["skipped_letters"][0]["reason"] == "it is not a dead letter"
        assert taken(world.server, world.subscription) == []
        [received] = world.server.pull(world.reader)
        assert received.message.attributes["fanlog-dead-letter-reason"] == "because"


class TestDiscard:
    def test_by_id_and_all(self, world, face):
        world.fail(*numbered(4))
        letters = world.letter_ids(face)
        assert face.discard(world.reader, message_ids=letters[:1])["discarded"] == 1
        assert world.letter_ids(face) == letters[1:]
        assert face.discard(world.reader, all=True, max_messages=2)["discarded"] == 2
        assert face.discard(world.reader, reason="delivery attempts")["discarded"] == 1
        assert world.letters(face) == []
        assert taken(world.server, world.subscription) == []
        assert world.server.pull(world.reader) == []

    def test_not_what_is_leased(self, world, face):
        world.fail(*numbered(2))
        held = world.server.pull(world.reader, 1)
        answer = face.discard(world.reader, all=True)
        assert (answer["discarded"], answer["skipped"]) == (1, 1)
        world.server.nack(world.reader, held)
        assert data(world.server.pull(world.reader)) == [b"0"]

    def test_in_any_order_of_a_key(self, server, grpc_face):
        world = World(server, reader={"enable_message_ordering": True})
        world.fail(*numbered(3), key="k")
        letters = world.letter_ids(grpc_face)
        assert grpc_face.discard(world.reader, message_ids=[letters[1]])["discarded"] == 1
        assert taken(server, world.reader) == [b"0", b"2"]


class TestRefused:
    @pytest.mark.parametrize(
        "what",
        [
            {},
            {"message_ids": ["2000000000001"], "all": True},
            {"message_ids": ["2000000000001"], "reason": "x"},
        ],
    )
    def test_which_letters_is_not_clear(self, world, face, what):
        world.fail(b"x")
        for verb in (face.redrive, face.discard):
            with pytest.raises(Refused, match="say which letters") as refused:
                verb(world.reader, **what)
            assert refused.value.status == "INVALID_ARGUMENT"
        assert len(world.letters(face)) == 1

    @pytest.mark.parametrize(
        ("what", "sentence"),
        [
            ({"message_ids": ["x"]}, "is not an id of this service"),
            ({"message_ids": ["2000000000001"], "max_messages": 3}, "go with a selection"),
            ({"all": True, "max_messages": limits.LETTERS_MAX + 1}, "out of range"),
            ({"all": True, "page_token": "x"}, "is not a token of this service"),
            ({"all": True, "source_subscription": "projects/x"}, "source_subscription"),
        ],
    )
    def test_nonsense(self, world, face, what, sentence):
        with pytest.raises(Refused, match=sentence) as refused:
            face.redrive(world.reader, **what)
        assert refused.value.status == "INVALID_ARGUMENT"

    def test_a_request_id_of_a_selection(self, world, face):
        with pytest.raises(Refused, match="goes with message_ids"):
            face.redrive(world.reader, all=True, request_id="a")

    def test_letters_of_others(self, world, grpc_face):
        [message_id] = world.server.publish(world.topic, b"x")
        with pytest.raises(Refused, match="of no topic that"):
            grpc_face.redrive(world.reader, message_ids=[message_id])

    def test_a_detached_subscription(self, world, face):
        world.server.publisher.detach_subscription(request={"subscription": world.reader})
        for call in (
            lambda: face.redrive(world.reader, all=True),
            lambda: face.discard(world.reader, all=True),
            lambda: face.letters(world.reader),
        ):
            with pytest.raises(Refused, match="is detached"):
                call()


def test_the_same_request_changes_nothing_once_it_was_done(world, face):
    world.fail(b"x")
    letters = world.letter_ids(face)
    first = face.redrive(world.reader, message_ids=letters, request_id="a")
    assert taken(world.server, world.subscription) == [b"x"]
    again = face.redrive(world.reader, message_ids=letters, request_id="a")
    assert again["reopened"] == first["reopened"] == 1
    assert taken(world.server, world.subscription) == []


class TestOneCommit:
    @pytest.fixture
    def own(self, start_server):
        return start_server("embedded", clock=ManualClock())

    @pytest.mark.parametrize("retention", [True, False], ids=["reopened", "copied"])
    def test_both_happen_or_neither(self, own, retention):
        world = World(own, retention=retention)
        world.fail(b"x")
        own.sweep()
        face = face_of(own, "grpc")
        own.store.failures.append(CommitFailed("the disk is on fire"))
        with pytest.raises(Refused) as refused:
            face.redrive(world.reader, all=True, copies=True)
        assert refused.value.status == "UNAVAILABLE"
        assert len(world.letters(face)) == 1
        assert own.pull(world.subscription) == []
        own.store.commits.clear()
        answer = face.redrive(world.reader, all=True, copies=True)
        assert answer["reopened"] + answer["copied"] == 1
        [commit] = [one for one in own.store.commits if one.state or one.appends]
        assert bool(commit.appends) == (not retention)
        own.restart()
        assert world.letters(face) == []
        assert taken(own, world.subscription) == [b"x"]
        face.close()

    def test_attempts_are_forgotten_for_good(self, own):
        world = World(own)
        world.fail(b"x")
        face = face_of(own, "grpc")
        face.redrive(world.reader, all=True)
        own.restart()
        [received] = own.pull(world.subscription)
        assert received.delivery_attempt == 1
        own.nack(world.subscription, [received])
        world.fail()
        assert len(world.letters(face)) == 1
        face.close()


def test_many_letters_in_steps_of_a_few(server, grpc_face, monkeypatch):
    monkeypatch.setattr(limits, "LETTERS_STEP_MAX", 10)
    world = World(server)
    world.fail(*numbered(95))
    answer = grpc_face.redrive(world.reader, all=True, max_messages=60)
    assert answer["reopened"] == 60
    answer = grpc_face.redrive(
        world.reader, all=True, max_messages=60, page_token=answer["next_page_token"]
    )
    assert (answer["reopened"], answer["next_page_token"]) == (35, "")
    assert taken(server, world.subscription) == numbered(95)


def test_a_request_looks_at_so_many_and_says_where_to_go_on(server, grpc_face, monkeypatch):
    monkeypatch.setattr(limits, "LETTERS_SEEN_MAX", 10)
    world = World(server)
    for _ in range(4):
        world.fail(*numbered(8))
    world.fail(b"last")
    found, token = [], ""
    while True:
        page = grpc_face.letters(world.reader, reason="no such reason", page_token=token)
        found += page["letters"]
        token = page["next_page_token"]
        if not token:
            break
    assert found == []
    assert len(grpc_face.letters(world.reader)["letters"]) >= 10
