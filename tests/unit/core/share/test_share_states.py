"""The table of states: every row is taken, and nothing else passes the checker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from pyroaring import BitMap64

from fanlog.core.addressing import Addressed
from fanlog.core.agenda import Agenda
from fanlog.core.flow import Credit
from fanlog.core.share import Decision, Share, State
from fanlog.core.share.states import TRANSITIONS, StateEvent
from fanlog.model.dependencies import Cause
from fanlog.model.resources import Subscription
from fanlog.model.terms import TermKind, Terms
from unit.core.transitions import EVENTS, ROWS, Row, path
from unit.core.world import PARTITION, RETRY, Id, World, subscription

PLAIN, ORDERED = subscription(), subscription("key")
RETRIED, LETTERED = subscription(retry=RETRY), subscription(attempts=1)
FILTERED = replace(subscription(), filter="none")


@dataclass
class Scene:
    """A message in some state, with another one before it."""

    settings: Subscription
    offset: int = 1
    consumer: Credit = field(default_factory=Credit)
    ids: list[Id] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(self.settings)
        self.agenda = Agenda(PARTITION)
        self.world.publish(5, 5)

    @property
    def it(self) -> BitMap64:
        return BitMap64([self.offset])

    def lease(self) -> None:
        self.ids = self.world.lease(self.consumer)

    def decided(self, decision: Decision | None = None) -> None:
        self.world.decided(decision or Decision())

    def fail(self) -> None:
        self.lease()
        self.world.nack(1.0, self.ids)

    def pass_over(self) -> None:
        self.world.share.route(2, BitMap64())
        self.decided()

    def move(self, target: int, retained_from: int) -> None:
        generation = self.world.next_generation()
        self.decided(self.world.share.seek(target, retained_from, generation=generation))

    def address(self) -> None:
        self.world.share.address(Addressed(own=self.it))
        self.decided()

    def lapse(self) -> None:
        self.world.lapsed = self.it
        self.lease()

    def deliver_before_reopening(self) -> None:
        self.world.ack(1.0, self.ids)
        before = [(0, 0), *self.world.lease(self.consumer)]
        self.world.nack(1.0, before[1:])
        self.decided(self.world.share.reopen(1.0, BitMap64([0]), generation=99))
        self.lease()
        self.ids = before

    def depend(self) -> None:
        self.world.causes = {self.offset: [Cause(PARTITION, 0)]}
        self.lease()

    def make_pending(self) -> None:
        [record] = self.agenda.add(0, Terms.of([(self.offset, TermKind.DELAY, 1_000)]))
        self.agenda.apply(record)
        self.agenda.schedule(0, [(self.offset, 1_000)], None)
        self.world.share.attend(self.agenda)
        self.decided()

    def restart(self) -> None:
        self.world.restart()
        self.world.share.attend(self.agenda)

    def come_due(self) -> None:
        self.world.share.come_due(*self.agenda.take_due(1_000, 10))
        self.decided()

    def end_gap(self) -> None:
        for record in self.agenda.hold(BitMap64(), BitMap64([self.offset])):
            self.agenda.apply(record)
        record = self.agenda.places.place(PARTITION, self.offset, [self.offset])
        self.world.share.take_places(record.anchor, self.agenda.places.apply(record))
        self.decided()

    def hold_back(self) -> None:
        """It is not late, but behind a gap."""
        self.agenda = Agenda(PARTITION)
        for record in self.agenda.hold(BitMap64([self.offset]), BitMap64()):
            self.agenda.apply(record)
        self.world.share.attend(self.agenda)
        self.end_gap()

    def skip(self) -> None:
        self.world.share.skip(0, 2)
        self.decided()


#: How a message gets into each state, and the settings that it takes.
ARRANGED: dict[State, tuple[Subscription, Callable[[Scene], object]]] = {
    State.PENDING: (PLAIN, lambda scene: None),
    State.BACKLOG: (PLAIN, lambda scene: None),
    State.OUTSTANDING: (PLAIN, Scene.lease),
    State.EARLY: (ORDERED, lambda scene: (scene.lease(), scene.world.ack(1.0, scene.ids[1:]))),
    State.DELAYED: (RETRIED, Scene.fail),
    State.DEPENDING: (PLAIN, Scene.depend),
    State.FORWARDING: (LETTERED, Scene.fail),
    State.PASSED_OVER: (FILTERED, Scene.pass_over),
    State.ACKED: (PLAIN, lambda scene: (scene.lease(), scene.world.ack(1.0, scene.ids))),
}

#: Rows that take other settings, by source, event and target.
SETTINGS: dict[Row, Subscription] = {
    (State.OUTSTANDING, StateEvent.ACKNOWLEDGED, State.EARLY): ORDERED,
    (State.OUTSTANDING, StateEvent.NACKED, State.DELAYED): RETRIED,
    (State.OUTSTANDING, StateEvent.EXPIRED, State.DELAYED): RETRIED,
    (State.OUTSTANDING, StateEvent.NACKED, State.FORWARDING): LETTERED,
    (State.OUTSTANDING, StateEvent.EXPIRED, State.FORWARDING): LETTERED,
    (State.OUTSTANDING, StateEvent.RECALLED, State.BACKLOG): ORDERED,
    (State.BACKLOG, StateEvent.EXHAUSTED, State.FORWARDING): LETTERED,
    (State.BACKLOG, StateEvent.LAPSED, State.FORWARDING): subscription(
        attempts=5, labels={"fanlog-expired": "dead-letter"}
    ),
    (State.BACKLOG, StateEvent.LEFT_OUT, State.PASSED_OVER): FILTERED,
    (State.PENDING, StateEvent.LEFT_OUT, State.PASSED_OVER): FILTERED,
}

#: How each event happens to the message.
HAPPENS: dict[StateEvent, Callable[[Scene], object]] = {
    StateEvent.DUE: Scene.come_due,
    StateEvent.GAP_ENDED: Scene.hold_back,
    StateEvent.LEASED: Scene.lease,
    StateEvent.ACKNOWLEDGED: lambda s: s.world.ack(1.0, s.ids[1:]),
    StateEvent.CLAIMED: lambda s: s.world.claim(1.0, s.ids[1:]),
    StateEvent.ACKNOWLEDGED_LATE: lambda s: s.world.ack(1.0, s.ids[1:]),
    StateEvent.EARLIER_SETTLED: lambda s: s.world.ack(1.0, s.ids[:1]),
    StateEvent.NACKED: lambda s: s.world.nack(1.0, s.ids[1:]),
    StateEvent.EXPIRED: lambda s: s.world.expire(100.0),
    StateEvent.RECALLED: lambda s: s.world.nack(1.0, s.ids[:1]),
    StateEvent.GIVEN_BACK: lambda s: s.decided(s.world.share.give_back(1.0, s.consumer, 0)),
    StateEvent.BACKOFF_OVER: lambda s: s.world.expire(100.0),
    StateEvent.EXHAUSTED: Scene.lease,
    StateEvent.CAUSE_OPEN: Scene.depend,
    StateEvent.CAUSE_CLOSED: lambda s: s.world.ack(1.0, s.ids[:1]),
    StateEvent.OVERDUE: lambda s: s.world.expire(1_000.0),
    StateEvent.LAPSED: Scene.lapse,
    StateEvent.FORWARDED: lambda s: s.decided(s.world.share.acknowledge_forwarded(s.it)),
    StateEvent.NOT_FORWARDED: lambda s: s.decided(s.world.share.return_unforwarded(1.0, s.it)),
    StateEvent.LEFT_OUT: Scene.pass_over,
    StateEvent.ADDRESSED: Scene.address,
    StateEvent.SETTLED: lambda s: s.decided(s.world.share.settle_passed()),
    StateEvent.EXPORTED: lambda s: s.decided(s.world.share.acknowledge_exported(s.it)),
    StateEvent.DISCARDED: lambda s: s.decided(s.world.share.discard(s.it)),
    StateEvent.DROPPED: lambda s: s.decided(
        s.world.share.relieve(s.world.share.free_offsets(2) & s.it)
    ),
    StateEvent.RETENTION_ENDED: lambda s: s.decided(s.world.share.advance(2)),
    StateEvent.PURGED: lambda s: s.decided(s.world.share.purge(2)),
    StateEvent.SOUGHT_PAST: lambda s: s.move(2, 2),
    StateEvent.SOUGHT_BEFORE: lambda s: s.move(0, 0),
    StateEvent.REOPENED: lambda s: s.decided(s.world.share.reopen(1.0, s.it, generation=99)),
    StateEvent.UNREADABLE: Scene.skip,
    StateEvent.RESTARTED: Scene.restart,
}


def arranged(row: Row) -> Scene:
    source, event, target = row
    settings, arrange = ARRANGED[source]
    scene = Scene(SETTINGS.get(row, settings))
    if State.PENDING in (source, target):
        scene.make_pending()
        if source is State.ACKED:
            # It was not delivered to anyone.
            scene.move(2, 2)
            return scene
    arrange(scene)
    if source is State.BACKLOG and event is StateEvent.ACKNOWLEDGED_LATE:
        scene.fail()
    if source is State.DEPENDING and event is StateEvent.ACKNOWLEDGED_LATE:
        # It was delivered once, when its cause was acknowledged; that was reopened since.
        scene.deliver_before_reopening()
    if event is StateEvent.EXHAUSTED:
        # A restart forgets that dead letters are under way, and not the attempts.
        scene.fail()
        scene.world.restart()
    return scene


@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(part.name for part in row))
def test_every_row_is_taken(row):
    source, event, target = row
    scene = arranged(row)
    assert scene.world.state_of(scene.offset) is source
    HAPPENS[event](scene)
    assert scene.world.state_of(scene.offset) is target


def test_a_row_has_one_target_or_says_when():
    rows = [(source, row) for row in TRANSITIONS for source in row.sources]
    assert len({(source, row.event, row.target) for source, row in rows}) == len(rows)
    for source, row in rows:
        targets = [r.target for s, r in rows if (s, r.event) == (source, row.event)]
        assert row.target is not source
        assert len(targets) == 1 or row.condition


def test_every_state_can_be_entered_and_left():
    assert {source for source, _, _ in ROWS} == {target for _, _, target in ROWS} == set(State)


def test_every_event_is_caused_by_a_verb_and_moves_something():
    assert {event for _, event, _ in ROWS} == set(StateEvent) == set().union(*EVENTS.values())


def test_the_checker_names_a_move_that_no_verb_explains():
    world = World(subscription())
    world.publish(0, 0, 0)
    ids = world.lease(max_messages=2)
    # As if giving back acknowledged.
    world.share.ran.append("give_back")
    with pytest.raises(
        AssertionError, match=r"\[0\] went from OUTSTANDING to ACKED in \['give_back'\]"
    ):
        world.decided(Share.acknowledge(world.share, 1.0, {ids[0][0]: [0]}))


def test_the_checker_finds_the_fewest_rows():
    steps = path(State.DELAYED, State.FORWARDING, {StateEvent.BACKOFF_OVER, StateEvent.EXHAUSTED})
    assert steps == [
        (State.DELAYED, StateEvent.BACKOFF_OVER, State.BACKLOG),
        (State.BACKLOG, StateEvent.EXHAUSTED, State.FORWARDING),
    ]
    assert path(State.ACKED, State.OUTSTANDING, {StateEvent.LEASED}) is None


def test_a_smaller_policy_forwards_when_the_back_off_is_over():
    """Two rows in one verb: in order, the key's next message is looked at when it is released."""
    world = World(subscription("key", retry=RETRY, attempts=5))
    world.publish(5)
    world.nack(1.0, world.lease())
    assert world.state_of(0) is State.DELAYED
    world.configure(subscription("key", retry=RETRY, attempts=1))
    assert world.state_of(0) is State.DELAYED
    world.expire(100.0)
    assert world.state_of(0) is State.FORWARDING


def test_states_are_shown_for_every_message():
    world = World(subscription(retry=RETRY))
    world.publish(0, 0, 0, 0)
    ids = world.lease(max_messages=3)
    world.nack(1.0, ids[:1])
    world.ack(1.0, ids[1:2])
    states = [world.state_of(offset) for offset in range(4)]
    assert states == [State.DELAYED, State.ACKED, State.OUTSTANDING, State.BACKLOG]
