"""The table of `story.py`, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest
from crc32c import crc32c

from entry_samples import CARD, IDENTITY, NONCE, make_commit
from fanlog.log.replicated import entries, story
from fanlog.log.replicated.api import NO_TERM, Member
from fanlog.log.replicated.bodies import Body, Checkpoint, HandOver, Renewal, TakeOver
from fanlog.log.replicated.entries import Head
from fanlog.log.replicated.facts import StoryFacts, parse_facts
from fanlog.log.replicated.partition import Fetched
from fanlog.log.replicated.story import Story, StoryBroken, ToldEntry, new_facts

TAG = entries.cluster_tag("here")
RENEWAL = Renewal(members=())


def take_over(nonce: bytes = NONCE, card: bytes = CARD) -> TakeOver:
    return TakeOver(identity=IDENTITY, nonce=nonce, card=card)


def say(told: Story, body: Body, **other: object) -> ToldEntry:
    """The next record: as the owner of the story would write it, but for `other` in its head."""
    value, entry = told.encode(body)
    if other:
        value, _ = entries.encode(TAG, entry.head._replace(**other), body)  # type: ignore[arg-type]
    return told.read(Fetched(told.facts.next_offset, 5_000, value))


@pytest.fixture
def owned() -> Story:
    """A story with an owner: term 0, and a commit."""
    told = Story("here", new_facts(0))
    assert not say(told, take_over()).void
    assert not say(told, make_commit(1, b"a")).void
    return told


def test_a_story_begins_with_a_take_over_of_no_term():
    told = Story("here", new_facts(0))
    assert not told.has_begun
    # Whatever comes before it is void.
    late = entries.encode(TAG, Head(4, 5, 1, bytes(16)), RENEWAL)[0]
    assert told.read(Fetched(0, 5_000, late)).void
    assert not say(told, take_over()).void
    facts = told.facts
    assert (facts.identity, facts.term, facts.card, facts.nonce) == (IDENTITY, 1, CARD, NONCE)
    assert (facts.next_offset, facts.sequence, facts.last_offset) == (2, 0, 1)
    assert facts.append_time_ms == 5_000


def test_a_take_over_counts_if_it_names_the_present_term(owned: Story):
    before = owned.facts.chain
    other = TakeOver(identity=bytes(16), nonce=bytes(16), card=b"other")
    assert not say(owned, other).void
    facts = owned.facts
    assert (facts.term, facts.card, facts.nonce) == (2, b"other", bytes(16))
    # The identity is that of the first one, for ever; and the chain goes on.
    assert facts.identity == IDENTITY
    assert facts.chain_before == before != facts.chain


def test_a_take_over_of_an_earlier_term_is_void(owned: Story):
    before = owned.facts
    assert "takes over from term" in say(owned, take_over(), term=NO_TERM).void
    assert owned.facts == replace(before, next_offset=3)


def test_a_take_over_of_a_term_to_come_breaks_the_story(owned: Story):
    with pytest.raises(StoryBroken, match="lost records"):
        say(owned, take_over(), term=1)


@pytest.mark.parametrize("term", [0, 2])
def test_an_entry_of_another_term_that_lies_where_it_expects_breaks_the_story(
    owned: Story, term: int
):
    say(owned, RENEWAL)
    say(owned, take_over(bytes(16)))
    assert owned.facts.term == 3
    for body in (make_commit(2), RENEWAL):
        with pytest.raises(StoryBroken, match="lost records"):
            say(owned, body, term=term)


def test_a_take_over_that_comes_twice_counts_once(owned: Story):
    value, _ = owned.encode(take_over(bytes(16)))
    assert not owned.read(Fetched(2, 5_000, value)).void
    assert owned.read(Fetched(3, 5_000, value)).void
    assert owned.facts.term == 2
    # The owner goes on behind the copy.
    assert not say(owned, make_commit(2)).void


def test_entries_of_another_term_are_void(owned: Story):
    late, _ = owned.encode(make_commit(2))
    say(owned, take_over(bytes(16)))
    # It had expected to lie where the take-over does.
    assert "of term 0" in owned.read(Fetched(3, 5_000, late)).void
    assert owned.facts.sequence == 1


@pytest.mark.parametrize("body", [make_commit(2), RENEWAL, HandOver(successor="")])
def test_entries_that_lie_elsewhere_are_void(owned: Story, body: Body):
    before = owned.facts
    for expected in (1, 4):
        assert "expects to lie" in say(owned, body, expected=expected).void
    assert owned.facts == replace(before, next_offset=4)
    assert owned.void_count == 2


def test_a_term_that_was_handed_over_is_closed(owned: Story):
    assert not say(owned, HandOver(successor="south")).void
    assert (owned.facts.successor, owned.facts.term) == ("south", 0)
    assert "handed over" in say(owned, make_commit(2)).void
    assert not say(owned, take_over()).void
    assert (owned.facts.successor, owned.facts.term) == (None, 4)
    assert not say(owned, make_commit(2)).void


def test_entries_of_another_cluster_are_void(owned: Story):
    before = owned.facts
    foreign, _ = Story("there", before).encode(make_commit(2))
    told = owned.read(Fetched(2, 5_000, foreign))
    assert "another cluster" in told.void
    assert (told.entry, told.body) == (None, None)
    assert owned.facts == replace(before, next_offset=3)
    assert (owned.void_count, owned.stray_count) == (1, 1)


@pytest.mark.parametrize(
    ("body", "other", "problem"),
    [
        (make_commit(2), {"chain": bytes(16)}, "chain"),
        (RENEWAL, {"chain": bytes(16)}, "chain"),
        (make_commit(1), {}, "should have 2"),
        (make_commit(3), {}, "should have 2"),
        (RENEWAL, {"sequence": 2}, "should have 1"),
        (make_commit(2, publish_time_ns=1), {}, "publish time"),
    ],
)
def test_an_entry_that_counts_and_does_not_fit_breaks_the_story(
    owned: Story, body: Body, other: dict[str, object], problem: str
):
    before = owned.facts
    with pytest.raises(StoryBroken, match=problem):
        say(owned, body, **other)
    assert owned.facts == before
    # It is not skipped: the next record cannot be read in its place.
    with pytest.raises(StoryBroken, match="missing"):
        owned.read(Fetched(3, 5_000, owned.encode(RENEWAL)[0]))


@pytest.mark.parametrize("value", [b"", b"junk", b'{"order": 17}' * 9, bytes(64)])
def test_bytes_that_are_no_entry_are_void(owned: Story, value: bytes):
    before = owned.facts
    told = owned.read(Fetched(2, 5_000, value))
    assert "no entry of Fanlog" in told.void
    assert (told.entry, told.body) == (None, None)
    assert owned.facts == replace(before, next_offset=3)
    assert (owned.void_count, owned.stray_count) == (1, 1)
    # The owner goes on behind them.
    assert not say(owned, make_commit(2)).void


def test_a_story_may_begin_behind_a_stray_record():
    told = Story("here", new_facts(0))
    assert told.read(Fetched(0, 5_000, b"junk")).void
    assert not say(told, take_over()).void
    assert told.facts.term == 1


@pytest.mark.parametrize("value", [b"\xfa", b"\xfaFL", b"\xfaFLE", b"\xfaFLE" + bytes(60)])
def test_bytes_that_may_have_been_an_entry_break_the_story(owned: Story, value: bytes):
    with pytest.raises(StoryBroken, match="the record at offset 2"):
        owned.read(Fetched(2, 5_000, value))


@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("at", range(64))
def test_an_entry_that_is_damaged_in_one_place_is_never_passed_over(
    owned: Story, at: int, length: int
):
    value, _ = owned.encode(make_commit(2))
    damaged = value[:at] + bytes(byte ^ 0xFF for byte in value[at : at + length])
    damaged += value[len(damaged) :]
    with pytest.raises(StoryBroken, match="the record at offset 2"):
        owned.read(Fetched(2, 5_000, damaged))


def test_an_entry_of_a_newer_version_breaks_the_story(owned: Story):
    value, _ = owned.encode(make_commit(2))
    fields = value[:4] + bytes([entries.FORMAT_VERSION + 1]) + value[5:60]
    newer = fields + crc32c(fields).to_bytes(4, "little") + value[64:]
    with pytest.raises(StoryBroken, match="a newer one wrote it, update this node"):
        owned.read(Fetched(2, 5_000, newer))


@pytest.mark.parametrize("offset", [1, 3])
def test_offsets_follow_one_another(owned: Story, offset: int):
    for cluster in ("here", "there"):
        value, _ = Story(cluster, owned.facts).encode(RENEWAL)
        with pytest.raises(StoryBroken, match="missing"):
            owned.read(Fetched(offset, 5_000, value))


# Checkpoints.


def checkpoint_of(facts: StoryFacts) -> Checkpoint:
    assert facts.card is not None
    return Checkpoint(
        identity=facts.identity,
        publish_time_ns=facts.publish_time_ns,
        total_bytes=facts.total_bytes,
        nonce=facts.nonce,
        card=facts.card,
    )


def test_a_story_begins_at_a_checkpoint_and_goes_on_as_the_owners(owned: Story):
    told = Story("here", new_facts(2))
    value, _ = owned.encode(checkpoint_of(owned.facts))
    record = Fetched(2, 5_000, value)
    assert not owned.read(record).void
    assert not told.read(record).void
    assert told.facts == replace(owned.facts, start_offset=2, chain_before=told.facts.chain_before)
    value, _ = owned.encode(make_commit(2))
    assert not told.read(Fetched(3, 5_000, value)).void
    with pytest.raises(StoryBroken, match="chain"):
        say(told, make_commit(3), chain=bytes(16))


@pytest.mark.parametrize(
    "change",
    [
        {"identity": bytes(16)},
        {"publish_time_ns": 7},
        {"total_bytes": 7},
        {"nonce": bytes(16)},
        {"card": b""},
    ],
)
def test_a_checkpoint_of_another_story_breaks_it(owned: Story, change: dict[str, bytes]):
    with pytest.raises(StoryBroken, match="another story"):
        say(owned, replace(checkpoint_of(owned.facts), **change))


def test_a_trimmed_partition_begins_with_a_checkpoint(owned: Story):
    body = checkpoint_of(owned.facts)
    moved, _ = entries.encode(TAG, Head(0, 9, 1, bytes(16)), body)
    for value in (owned.encode(RENEWAL)[0], owned.encode(take_over())[0], moved):
        with pytest.raises(StoryBroken, match="no checkpoint lies there"):
            Story("here", new_facts(2)).read(Fetched(2, 5_000, value))
    # Nor does it begin behind a foreign entry.
    told = Story("here", new_facts(2))
    told.read(Fetched(2, 5_000, Story("there", owned.facts).encode(RENEWAL)[0]))
    with pytest.raises(StoryBroken, match="no checkpoint lies there"):
        say(told, take_over())


# Facts, members.


def test_facts_are_read_back(owned: Story):
    closed = replace(owned.facts, successor="söuth")
    for facts in (new_facts(0), new_facts(9), owned.facts, closed, replace(closed, successor="")):
        content = facts.to_bytes()
        assert parse_facts(content) == facts
        for end in range(len(content)):
            with pytest.raises(ValueError):
                parse_facts(content[:end])
        with pytest.raises(ValueError, match="version"):
            parse_facts(b"\x02" + content[1:])


def test_members_are_those_of_the_last_renewal_that_named_some(owned: Story):
    members = (Member(b"south", 1),)
    say(owned, Renewal(members=members))
    say(owned, RENEWAL)
    assert owned.members == members
    say(owned, take_over(bytes(16)))
    assert owned.members == ()


def test_the_last_entry_that_counted_is_known_again(owned: Story):
    value, entry = owned.encode(make_commit(2))
    owned.read(Fetched(2, 5_000, value))
    assert story.is_same(owned.facts, entry)
    assert not story.is_same(owned.facts, owned.encode(RENEWAL)[1])
