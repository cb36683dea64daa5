"""The checker of histories finds what is wrong, and nothing else."""

from __future__ import annotations

import pytest

from fanlog.testing.history import SENTENCES_MAX, History


@pytest.fixture
def history() -> History:
    return History()


def publish(history: History, *ids: int, key: str = "") -> None:
    history.published("t", [(str(n), b"data of %d" % n) for n in ids], key=key)


def deliver(history: History, *ids: int, key: str = "k") -> None:
    for n in ids:
        history.delivered("s", str(n), b"data of %d" % n, key=key)


def deliver_letter(history: History, message_id: int, source_id: int) -> None:
    data = b"data of %d" % source_id
    history.delivered("letters", str(message_id), data, source_id=str(source_id))


def test_a_published_message_that_never_came_is_lost(history):
    publish(history, 1, 2, 3)
    deliver(history, 1, 3, 3)
    [sentence] = history.lost("t", "s")
    assert "message 2" in sentence
    deliver(history, 2)
    assert history.lost("t", "s") == []
    assert history.published_count("t") == 3
    assert history.delivered_count("s") == 4


def test_data_that_came_under_two_ids_is_noticed(history):
    deliver(history, 1, 2, 1)
    assert history.came_as_two("s") == []
    history.delivered("s", "3", b"data of 1")
    [sentence] = history.came_as_two("s")
    assert "message 3" in sentence
    assert "message 1" in sentence


def test_what_a_filter_leaves_out_is_not_missed(history):
    publish(history, 1, 2, 3, key="k")
    history.left_out("s", ["1", "2"])
    deliver(history, 3)
    assert history.lost("t", "s") == []
    assert history.out_of_order("t", "s") == []
    assert history.dead_letters_lost("t", "s", "letters") != []
    history.ack_sent("s", ["3"])
    assert history.dead_letters_lost("t", "s", "letters") == []


def test_what_a_filter_leaves_out_must_not_come(history):
    publish(history, 1, 2, key="k")
    history.left_out("s", ["2"])
    deliver(history, 1)
    assert history.unwanted("s") == []
    deliver(history, 2)
    [sentence] = history.unwanted("s")
    assert "message 2" in sentence
    assert history.out_of_order("t", "s") == []


def test_an_id_that_was_given_twice_is_a_message_lost(history):
    publish(history, 1)
    history.delivered("s", "1", b"something else")
    assert len(history.lost("t", "s")) == 1


def test_a_message_nobody_knows_to_be_published_may_come(history):
    deliver(history, 7)
    assert history.lost("t", "s") == []


def test_only_a_confirmed_acknowledgement_is_final(history):
    deliver(history, 1, 2)
    history.ack_sent("s", ["1", "2"])
    history.acked("s", ["1"])
    deliver(history, 2)
    assert history.came_back("s") == []
    deliver(history, 1)
    [sentence] = history.came_back("s")
    assert "message 1" in sentence


def test_a_second_confirmation_does_not_excuse_a_delivery_between(history):
    deliver(history, 1)
    history.acked("s", ["1"])
    deliver(history, 1)
    history.acked("s", ["1"])
    assert len(history.came_back("s")) == 1


@pytest.mark.parametrize(
    "ids",
    [
        (1, 2, 3, 10),
        (1, 1, 2, 1, 2, 3, 10),
        (1, 2, 3, 2, 3, 10),
    ],
)
def test_order_with_redeliveries(history, ids):
    publish(history, 1, 2, 3, 10, key="k")
    deliver(history, *ids)
    assert history.out_of_order("t", "s") == []


@pytest.mark.parametrize(
    ("ids", "early"),
    [
        ((2, 1, 3, 10), "message 2"),
        ((1, 2, 10, 3), "message 10"),
        ((1, 2, 3, 1, 3, 10), "message 3"),
    ],
)
def test_disorder(history, ids, early):
    publish(history, 1, 2, 3, 10, key="k")
    deliver(history, *ids)
    sentences = history.out_of_order("t", "s")
    assert any(early in sentence for sentence in sentences)


def test_what_may_be_acknowledged_may_be_passed_over(history):
    publish(history, 1, 2, 3, key="k")
    deliver(history, 1, 2)
    history.ack_sent("s", ["2"])
    deliver(history, 1, 3)
    assert history.out_of_order("t", "s") == []


def test_keys_have_an_order_each(history):
    publish(history, 1, 3, key="a")
    publish(history, 2, key="b")
    deliver(history, 2, key="b")
    deliver(history, 1, 3, key="a")
    deliver(history, 9, 8, key="")
    assert history.out_of_order("t", "s") == []


def test_an_unanswered_publish_counts_when_it_came(history):
    publish(history, 1, key="k")
    deliver(history, 1, 3, 2)
    assert len(history.out_of_order("t", "s")) == 1


def test_bytes_that_changed_on_the_way(history):
    publish(history, 1, 2)
    deliver(history, 1, 2)
    assert history.altered("t", "s") == []
    # A message whose publish was not answered is nobody's business.
    history.delivered("s", "3", b"unknown")
    assert history.altered("t", "s") == []
    history.delivered("s", "2", b"not what it was")
    [sentence] = history.altered("t", "s")
    assert "message 2" in sentence


def test_confirmed_acks_are_counted_once(history):
    history.acked("s", ["1", "2"])
    history.acked("s", ["2"])
    assert history.acked_count("s") == 2


def test_ids_of_a_key_grow(history):
    publish(history, 9, 10, key="k")
    publish(history, 2, 1)
    assert history.unordered_ids("t") == []
    publish(history, 3, key="k")
    assert len(history.unordered_ids("t")) == 1


def test_dead_letters(history):
    publish(history, 1, 2, 3)
    deliver(history, 1, 2, 3)
    history.ack_sent("s", ["1"])
    deliver_letter(history, 70, 2)
    [sentence] = history.dead_letters_lost("t", "s", "letters")
    assert "message 3" in sentence
    deliver_letter(history, 71, 3)
    deliver_letter(history, 71, 3)
    assert history.dead_letters_lost("t", "s", "letters") == []
    assert history.dead_letters_doubled("s", "letters") == []
    deliver_letter(history, 72, 3)
    deliver(history, 2)
    twice, again = history.dead_letters_doubled("s", "letters")
    assert "71 and 72" in twice
    assert "message 2" in again


def test_the_first_few_sentences_are_enough(history):
    publish(history, *range(100))
    assert len(history.lost("t", "s")) == SENTENCES_MAX


def test_at_most_once_nothing_comes_twice(history):
    deliver(history, 1, 3, 2)
    assert history.came_twice("s") == []
    deliver(history, 3)
    [sentence] = history.came_twice("s")
    assert "message 3 came to s" in sentence


def test_at_most_once_messages_may_be_missing_and_never_go_back(history):
    deliver(history, 1, 4, key="a")
    deliver(history, 2, 3, key="b")
    deliver(history, 9, 8, key="")
    assert history.went_back("s") == []
    deliver(history, 3, key="a")
    [sentence] = history.went_back("s")
    assert "message 3 of key 'a' came to s after 4" in sentence


def test_answered_publishes(history):
    publish(history, 1, 2)
    assert history.answered("t") == [(str(n), hash(b"data of %d" % n)) for n in (1, 2)]


def arrive(history: History, *ids: int, key: str = "k") -> None:
    for n in ids:
        history.arrived("s", str(n), b"data of %d" % n, key=key)


def acknowledge(history: History, *ids: int) -> None:
    for n in ids:
        history.ack_sent("s", [str(n)])
        history.acked("s", [str(n)])


def test_what_was_sent_is_judged_by_what_came_off_the_wire(history):
    publish(history, 1, 2, 3, key="k")
    arrive(history, 1, 2, 1, 2, 3)
    deliver(history, 2, 1, 3)
    assert history.out_of_order("t", "s") != []
    assert history.sent_out_of_order("t", "s") == []


@pytest.mark.parametrize("ids", [(2, 1, 3), (1, 3, 2), (1, 2, 1, 3)])
def test_what_was_sent_out_of_order_is_found(history, ids):
    publish(history, 1, 2, 3, key="k")
    arrive(history, *ids)
    assert history.sent_out_of_order("t", "s") != []
    assert history.out_of_order("t", "s") == []


def test_what_was_acknowledged_may_be_passed_over_on_the_wire(history):
    publish(history, 1, 2, 3, key="k")
    arrive(history, 1, 2)
    deliver(history, 1, 2)
    acknowledge(history, 1, 2)
    arrive(history, 3)
    assert history.sent_out_of_order("t", "s") == []


def test_acknowledgements_of_a_key_are_confirmed_in_order(history):
    publish(history, 1, 2, 3, key="k")
    deliver(history, 2, 1, 3)
    acknowledge(history, 1, 2)
    assert history.acked_out_of_order("t", "s") == []
    history.left_out("s", ["3"])
    publish(history, 4, key="k")
    acknowledge(history, 4)
    assert history.acked_out_of_order("t", "s") == []


def test_an_acknowledgement_ahead_of_an_earlier_one_is_found(history):
    publish(history, 1, 2, 3, key="k")
    publish(history, 4, key="other")
    deliver(history, 1, 2, 3)
    deliver(history, 4, key="other")
    acknowledge(history, 4, 2, 1)
    [sentence] = history.acked_out_of_order("t", "s")
    assert "message 2 of key 'k'" in sentence
    assert "before 1" in sentence
    assert history.acked_out_of_order("t", "else") == []
