"""Dead letters selected by a filter: listed, counted, redriven, discarded."""

from __future__ import annotations

import json

import pytest

from fanlog.client import Client
from fanlog.client.reopening import ReopenClient
from server.replaying import FACES, Refused, data, face_of, taken
from server.test_redrive import World

EU = 'attributes.region = "eu"'
LARGE = "payload.amount > 100"


@pytest.fixture
def server(still_server):
    return still_server


@pytest.fixture(params=FACES)
def face(server, request):
    found = face_of(server, request.param)
    yield found
    found.close()


@pytest.fixture
def world(server):
    """Letters with amounts 0, 50, 100 ... 350, of which every second is of the EU."""
    found = World(server)
    for number in range(8):
        region = "eu" if number % 2 else "us"
        body = json.dumps({"amount": number * 50}).encode()
        server.publish(found.topic, body, region=region)
    found.fail()
    return found


def amounts(bodies):
    return [json.loads(body)["amount"] for body in bodies]


class TestSelected:
    def test_listed(self, world, face):
        found = world.letters(face, filter=EU)
        assert [one["message"]["attributes"]["region"] for one in found] == ["eu"] * 4
        assert len(world.letters(face, filter=f"{EU} AND {LARGE}")) == 3
        assert len(world.letters(face)) == 8

    def test_listed_in_pages(self, world, face):
        token, found = "", []
        while True:
            page = face.letters(world.reader, filter=EU, page_size=1, page_token=token)
            found += page.get("letters", [])
            token = page.get("next_page_token", "")
            if not token:
                break
        assert [one["message"]["attributes"]["region"] for one in found] == ["eu"] * 4

    def test_by_what_letters_say_themselves(self, world, face):
        short = world.subscription.rpartition("/")[2]
        said = f'attributes.CloudPubSubDeadLetterSourceSubscription = "{short}"'
        assert len(world.letters(face, filter=said)) == 8
        assert world.letters(face, filter=f"NOT {said}") == []
        topic = world.dead.rpartition("/")[2]
        assert len(world.letters(face, filter=f'topic = "{topic}"')) == 8

    def test_redriven(self, world, face):
        answer = face.redrive(world.reader, filter=LARGE)
        assert (answer["reopened"], answer.get("skipped", 0)) == (5, 0)
        assert amounts(taken(world.server, world.subscription)) == [150, 200, 250, 300, 350]
        assert amounts(data(world.server.pull(world.reader))) == [0, 50, 100]

    def test_redriven_with_other_criteria(self, world, face):
        assert face.redrive(world.reader, filter=LARGE, reason="no such reason")["reopened"] == 0
        answer = face.redrive(
            world.reader, filter=LARGE, source_subscription=world.subscription, max_messages=2
        )
        assert answer["reopened"] == 2
        assert amounts(taken(world.server, world.subscription)) == [150, 200]
        # Goes on where it ended, with the same words.
        answer = face.redrive(world.reader, filter=LARGE, page_token=answer["next_page_token"])
        assert answer["reopened"] == 3
        assert answer.get("next_page_token", "") == ""

    def test_discarded(self, world, face):
        assert face.discard(world.reader, filter=EU)["discarded"] == 4
        left = [one["message"]["attributes"]["region"] for one in world.letters(face)]
        assert left == ["us"] * 4
        assert taken(world.server, world.subscription) == []

    def test_what_is_leased_stays(self, world, face):
        held = world.server.pull(world.reader, 2)
        answer = face.redrive(world.reader, filter=EU)
        assert (answer["reopened"], answer["skipped"]) == (3, 1)
        assert "leased" in answer["skipped_letters"][0]["reason"]
        world.server.ack(world.reader, held)

    def test_counted(self, world):
        with Client(world.server.endpoint) as client:
            counting = ReopenClient(client)
            [group] = counting.count_letters(world.reader, filter=LARGE)
            assert group.letters == 5
            assert counting.count_letters(world.reader, filter="payload.amount > 1000") == []
            [group] = counting.count_letters(world.reader, source_subscription=world.subscription)
            assert group.letters == 8
            assert counting.count_letters(world.reader, reason="no such reason") == []


class TestRefused:
    def test_a_filter_that_cannot_be_read(self, world, face):
        for verb in (face.redrive, face.discard):
            with pytest.raises(Refused, match=r"filter: .*column") as refused:
                verb(world.reader, filter="attributes.region = ")
            assert refused.value.status == "INVALID_ARGUMENT"
        with pytest.raises(Refused, match="filter: "):
            world.letters(face, filter="attributes.region = ")
        assert len(world.letters(face)) == 8

    def test_a_filter_and_ids(self, world, face):
        ids = world.letter_ids(face)
        for verb in (face.redrive, face.discard):
            with pytest.raises(Refused, match="say which letters") as refused:
                verb(world.reader, filter=EU, message_ids=ids[:1])
            assert refused.value.status == "INVALID_ARGUMENT"
        assert len(world.letters(face)) == 8

    def test_no_word_in_the_filter_is_no_selection(self, world, face):
        with pytest.raises(Refused, match="say which letters"):
            face.discard(world.reader, filter="  ")
