"""Taking over and appending, against a partition whose acknowledgements fail in every way."""

from __future__ import annotations

import pytest

from fanlog.log.encoded import EncodedCommit
from fanlog.log.replicated import steps
from fanlog.log.replicated.bodies import HandOver, Renewal
from fanlog.log.replicated.partition import RecordTooLarge
from fanlog.log.replicated.steps import AGAIN_MAX, AppendOutcome
from fanlog.testing.kafka_partition import KafkaTopic, ProduceFault
from partition_nodes import StepsNode, reader_of

FAULTS = [fault for fault in ProduceFault if fault is not ProduceFault.NONE]
#: The record is there when the producer has returned.
THERE = [fault for fault in FAULTS if fault not in (ProduceFault.LOST, ProduceFault.LATE)]


@pytest.fixture
def topic() -> KafkaTopic:
    return KafkaTopic()


@pytest.fixture
def owner(topic: KafkaTopic) -> StepsNode:
    node = StepsNode(topic, "owner")
    assert node.take_over()
    assert node.commit(b"1") is AppendOutcome.HAPPENED
    return node


@pytest.fixture
def rival(topic: KafkaTopic) -> StepsNode:
    return StepsNode(topic, "rival")


def sequences(topic: KafkaTopic) -> list[int]:
    """Sequences of the commits that count, as a reader from the start sees them."""
    bodies = [told.body for told in reader_of(topic).applied]
    return [body.sequence for body in bodies if isinstance(body, EncodedCommit)]


@pytest.mark.parametrize("fault", THERE)
def test_a_commit_that_is_there_happened(topic: KafkaTopic, owner: StepsNode, fault: ProduceFault):
    topic.script(fault)
    assert owner.commit(b"2") is AppendOutcome.HAPPENED
    assert owner.commit(b"3") is AppendOutcome.HAPPENED
    topic.arrive()
    assert owner.commit(b"4") is AppendOutcome.HAPPENED
    assert sequences(topic) == [1, 2, 3, 4]
    assert reader_of(topic).story.facts == owner.story.facts


@pytest.mark.parametrize("fault", THERE)
def test_an_acknowledgement_of_the_expected_place_alone_is_believed(
    topic: KafkaTopic, owner: StepsNode, fault: ProduceFault
):
    topic.script(fault)
    owner.commit(b"2")
    is_plain = fault is ProduceFault.DOUBLED
    assert owner.partition.reset_count == (0 if is_plain else 1)


def test_a_commit_that_is_not_there_is_unknown(topic: KafkaTopic, owner: StepsNode):
    for fault in (ProduceFault.LOST, ProduceFault.LATE):
        topic.script(fault)
        assert owner.commit(b"2") is AppendOutcome.UNKNOWN
    assert sequences(topic) == [1]


def test_a_commit_that_arrives_late_happens(topic: KafkaTopic, owner: StepsNode):
    topic.script(ProduceFault.LATE)
    assert owner.commit(b"2") is AppendOutcome.UNKNOWN
    topic.arrive()
    assert sequences(topic) == [1, 2]


def test_a_commit_that_arrives_late_is_void_in_a_new_term(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode
):
    topic.script(ProduceFault.LATE)
    assert owner.commit(b"2") is AppendOutcome.UNKNOWN
    assert rival.take_over()
    topic.arrive()
    # The rival's own commit now lies one behind where it expected to, and is produced again.
    assert rival.commit(b"2") is AppendOutcome.HAPPENED
    assert rival.partition.reset_count == 1
    assert sequences(topic) == [1, 2]


def test_an_owner_whose_term_is_over_is_fenced(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode
):
    assert rival.take_over()
    assert rival.commit(b"2") is AppendOutcome.HAPPENED
    assert owner.commit(b"x") is AppendOutcome.FENCED
    # Of the new term it has read nothing but the begin.
    assert owner.story.facts.next_offset == owner.story.facts.term + 1
    assert sequences(topic) == [1, 2]
    owner.follow()
    assert owner.story.facts == reader_of(topic).story.facts


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fenced_owner_learns_it_whatever_becomes_of_its_record(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode, fault: ProduceFault
):
    assert rival.take_over()
    topic.script(fault)
    assert owner.commit(b"x") is AppendOutcome.FENCED
    topic.arrive()
    assert rival.commit(b"2") is AppendOutcome.HAPPENED
    assert sequences(topic) == [1, 2]


def test_a_commit_below_the_take_over_of_a_rival_happened(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode
):
    topic.script(ProduceFault.ACK_LOST)
    owner.start(owner.commit_steps(b"2"))
    assert owner.step() is None
    assert rival.take_over()
    while (result := owner.step()) is None:
        pass
    assert result == (AppendOutcome.HAPPENED,)
    assert owner.story.facts.term != owner.story.facts.start_offset
    assert sequences(topic) == [1, 2]


def test_a_commit_that_is_void_time_and_again_is_given_up(topic: KafkaTopic, owner: StepsNode):
    stale = owner.story.encode(Renewal(members=()))[0]
    owner.commit(b"2")
    outcome = None
    owner.start(owner.commit_steps(b"3"))
    produced = 0
    while outcome is None:
        if isinstance(owner._pending, steps.Produce):
            produced += 1
            topic.put(stale)
        outcome = owner.step()
    assert outcome == (AppendOutcome.UNKNOWN,)
    assert produced == AGAIN_MAX


def test_without_a_leader_the_outcome_is_unknown(topic: KafkaTopic, owner: StepsNode):
    topic.set_down(True)
    assert owner.commit(b"2") is AppendOutcome.UNKNOWN
    topic.set_down(False)
    assert sequences(topic) == [1]


def test_a_record_that_is_too_large_is_refused_for_good(topic: KafkaTopic, owner: StepsNode):
    with pytest.raises(RecordTooLarge):
        owner.commit(bytes(33 * 1024 * 1024))
    assert owner.commit(b"2") is AppendOutcome.HAPPENED
    assert owner.partition.reset_count == 0


# Taking over.


@pytest.mark.parametrize("fault", THERE)
def test_a_take_over_that_is_there_counts(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode, fault: ProduceFault
):
    topic.script(fault)
    assert rival.take_over()
    topic.arrive()
    assert rival.commit(b"2") is AppendOutcome.HAPPENED
    assert owner.commit(b"x") is AppendOutcome.FENCED
    assert sequences(topic) == [1, 2]


def test_a_take_over_that_arrives_late_begins_a_term_without_an_owner(
    topic: KafkaTopic, owner: StepsNode, rival: StepsNode
):
    topic.script(ProduceFault.LATE)
    assert not rival.take_over()
    assert owner.commit(b"2") is AppendOutcome.HAPPENED
    topic.arrive()
    assert owner.commit(b"x") is AppendOutcome.FENCED
    rival.follow()
    assert rival.take_over()
    assert rival.commit(b"3") is AppendOutcome.HAPPENED
    assert sequences(topic) == [1, 2, 3]


def test_of_two_rivals_one_takes_over(topic: KafkaTopic, owner: StepsNode, rival: StepsNode):
    other = StepsNode(topic, "other")
    rival.start(rival.take_over_steps())
    # It has read to the end and is about to produce.
    while not isinstance(rival._pending, steps.Produce):
        rival.step()
    assert other.take_over()
    while (result := rival.step()) is None:
        pass
    assert result == (None,)
    assert other.commit(b"2") is AppendOutcome.HAPPENED


def test_the_append_time_of_a_take_over_is_told(topic: KafkaTopic):
    node = StepsNode(topic, "n")
    told = node.run(node.take_over_steps())
    assert told == topic.records()[0].append_time_ms


def test_a_hand_over_closes_the_term(topic: KafkaTopic, owner: StepsNode, rival: StepsNode):
    assert (
        owner.run(steps.append(owner.story, HandOver(successor="rival"))) is AppendOutcome.HAPPENED
    )
    rival.follow()
    assert rival.story.facts.successor == "rival"
    assert rival.take_over()
    assert rival.commit(b"2") is AppendOutcome.HAPPENED


def test_nothing_is_appended_to_a_term_that_was_handed_over(topic: KafkaTopic, owner: StepsNode):
    assert (
        owner.run(steps.append(owner.story, HandOver(successor="rival"))) is AppendOutcome.HAPPENED
    )
    with pytest.raises(StopIteration) as end:
        next(owner.commit_steps(b"2"))
    assert end.value.value is AppendOutcome.FENCED


def test_an_owner_whose_term_is_closed_meanwhile_is_fenced(topic: KafkaTopic, owner: StepsNode):
    """Its record lies behind the hand-over, and is void: that it is again says nothing."""
    value, _ = owner.story.encode(HandOver(successor="rival"))
    owner.start(owner.commit_steps(b"2"))
    topic.put(value)
    while (result := owner.step()) is None:
        pass
    assert result == (AppendOutcome.FENCED,)
    assert sequences(topic) == [1]
