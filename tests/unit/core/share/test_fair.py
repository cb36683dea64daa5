"""Turns of tenants: nobody's message waits for more than a turn of each other tenant."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass

import pytest
from pyroaring import BitMap64

from fanlog import limits
from fanlog.core.agenda import Agenda
from fanlog.core.cursor import Cursor
from fanlog.core.flow import Credit, LeaseBudget
from fanlog.core.share.aversion import Aversions
from fanlog.core.share.fair import FairBacklog
from fanlog.core.share.packer import Packer
from fanlog.model.resources import PartitionId
from fanlog.model.terms import TermKind, Terms

TURN = limits.TENANT_TURN_MESSAGES
A, B, C = 1 << 20, 1 << 21, 1 << 22


@dataclass
class View:
    base_offset: int
    end_offset: int
    key_hashes = None

    @property
    def starts(self):
        return array("I", range(0, 10 * (self.end_offset - self.base_offset) + 1, 10))


class Nothing:
    """Neither exhausted nor depending messages, or so many."""

    causes = None

    def __init__(self, *offsets):
        self.offsets = offsets

    @property
    def may_exist(self):
        return bool(self.offsets)

    def __contains__(self, offset):
        return offset in self.offsets


class World:
    def __init__(self):
        self.agenda = Agenda(PartitionId(1))
        self.end = 0
        self.exhausted = Nothing()
        self.backlog = FairBacklog(0, BitMap64(), Aversions(), self.exhausted, Nothing())
        self.cursor = Cursor()
        self.tenant_of = {}
        self.me = Credit()

    def publish(self, *tenants, priority=0):
        found = []
        for index, tenant in enumerate(tenants):
            self.tenant_of[self.end + index] = tenant
            if tenant:
                found.append((index, TermKind.TENANT, tenant))
            if priority:
                found.append((index, TermKind.PRIORITY, priority))
        terms = Terms.of(found)
        if terms is not None:
            for record in self.agenda.add(self.end, terms):
                self.agenda.apply(record)
            self.backlog.agenda = self.agenda
        self.end += len(tenants)

    def take(self, limit=1):
        """Take messages as a share does: the plan's are read, and no others."""
        ranges = self.backlog.plan(self.cursor, self.end, limit, self.me)
        views = [View(start, stop) for start, stop in ranges]
        packer = Packer(LeaseBudget(limit, 10**9), self.me)
        self.backlog.take(self.cursor, self.end, views, packer)
        return [offset for run in packer.runs for offset in range(run.start, run.end)]

    def tenants(self, offsets):
        return [self.tenant_of[offset] for offset in offsets]


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_a_single_message_waits_for_one_turn_of_each(world, limit):
    world.publish(*[A] * 500)
    world.take(limit)
    world.publish(*[0] * 300, *[C] * 300, B)
    before = 0
    while B not in (found := world.tenants(world.take(limit))):
        before += len(found)
    assert before + found.index(B) <= 3 * TURN


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_dead_letters_do_not_use_up_the_turns_of_their_tenant(world, limit):
    world.publish(*[A] * 100, *[0] * 300, *[B] * 300, *[C] * 300)
    world.exhausted.offsets = range(99)
    before = 0
    for _ in range(200):
        found = world.tenants(world.take(limit))
        if A in found:
            break
        before += len(found)
    assert before + found.index(A) <= 3 * TURN
    assert world.backlog.to_forward == list(range(99))


class Waiting:
    """Messages that wait for others, and room to put so many of them aside."""

    causes = True

    def __init__(self, *offsets, room):
        self.offsets = offsets
        self.room = room

    def __contains__(self, offset):
        return offset in self.offsets

    def hold(self, offset):
        self.room -= 1
        return self.room >= 0


def test_messages_that_wait_for_others_do_not_use_up_the_turns_of_their_tenant(world):
    world.publish(*[A] * 100, *[0] * 300, *[B] * 300)
    world.backlog._depending = Waiting(*range(99), room=1_000)
    found = []
    while 99 not in found:
        found += world.take(5)
    assert len(found) <= 3 * TURN
    assert min(found) == 99


def test_without_room_to_put_them_aside_the_other_tenants_go_on(world):
    world.publish(*[A] * 100, *[0] * 300, *[B] * 300)
    world.backlog._depending = waiting = Waiting(*range(100), room=10)
    found = [offset for _ in range(200) for offset in world.take(20)]
    assert sorted(found) == list(range(100, 700))
    waiting.offsets = ()
    assert world.take(200) == list(range(10, 100))


def test_all_come_once_and_in_order_of_their_tenant(world):
    rng = random.Random(3)
    world.publish(*rng.choices([0, A, B, C], weights=(5, 50, 1, 3), k=900))
    found = []
    while some := world.take(rng.randrange(1, 60)):
        found += some
    assert sorted(found) == list(range(900))
    for tenant in (0, A, B, C):
        own = [offset for offset in found if world.tenant_of[offset] == tenant]
        assert own == sorted(own)


def test_what_comes_back_has_its_turn_too(world):
    """A tenant whose messages all fail does not hold up others with them."""
    world.publish(*[A] * 200, B)
    taken = world.take(100)
    assert B in world.tenants(taken)
    back = BitMap64(o for o in taken if world.tenant_of[o] == A)
    world.backlog.release(back)
    world.publish(C)
    found = world.take(2 * TURN + 1)
    assert C in world.tenants(found)
    while some := world.take(50):
        found += some
    assert len(found) == len(set(found))
    assert back.issubset(BitMap64(found))


def test_a_message_that_is_nacked_is_found_again_wherever_it_is(world):
    world.publish(*[A] * 50, *[B] * 50)
    first = world.take(4 * TURN)
    world.backlog.release(BitMap64(first))
    found = set()
    while some := world.take(7):
        found.update(some)
    assert found == set(range(100))


def test_priorities_are_within_a_tenant(world):
    world.publish(*[A] * 30)
    world.publish(*[A] * 300, priority=9)
    world.publish(*[B] * 30)
    found = world.take(limits.TENANT_ANSWER_MESSAGES_MAX)
    assert set(world.tenants(found)[: 2 * TURN]) == {A, B}
    own = [offset for offset in found if world.tenant_of[offset] == A]
    assert own[0] >= 30, "urgent ones first"
    low = [place for place, offset in enumerate(own) if offset < 30]
    assert low[0] < limits.PRIORITY_FLOOR_PART, "and the oldest now and then"


def test_low_priorities_of_a_tenant_do_not_starve_one_by_one(world):
    world.publish(*[A] * 5, *[B] * 300)
    world.publish(*[A] * 300, priority=9)
    found = [offset for _ in range(200) for offset in world.take(1)]
    assert any(offset < 5 for offset in found)


def test_without_tenants_it_is_as_ever(world):
    world.publish(*[0] * 20)
    assert world.take(20) == list(range(20))


def test_acknowledged_ones_are_passed(world):
    world.publish(*[A] * 5_000, B)
    world.cursor = Cursor(0, {0: BitMap64(range(1, 4_990))})
    found = []
    while some := world.take(100):
        found += some
    assert sorted(found) == [0, *range(4_990, 5_001)]


def test_more_tenants_than_have_turns_of_their_own_share_some(monkeypatch):
    monkeypatch.setattr("fanlog.core.agenda.TENANTS_MAX", 3)
    world = World()
    world.publish(*[(1 << 20) + number for number in range(50)])
    assert len(world.agenda.tenants) <= 3 + limits.TENANTS_SHARED
    found = []
    while some := world.take(7):
        found += some
    assert sorted(found) == list(range(50))


def test_the_agenda_forgets_what_the_log_has_not():
    world = World()
    world.publish(A, B, A, 0, B)
    for record in world.agenda.trim(2):
        world.agenda.apply(record)
    assert {tenant: list(bits) for tenant, bits in world.agenda.tenants.items()} == {A: [2], B: [4]}
    assert list(world.agenda.tenanted) == [2, 4]
    for record in world.agenda.remove():
        world.agenda.apply(record)
    assert world.agenda.is_empty
    assert not world.agenda.tenants
