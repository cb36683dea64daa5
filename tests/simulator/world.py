"""One world: its loop, clock, disk, odds and chronicle, and the broker's lives in it.

The disk survives; the broker does not. `crash` may come at any await: every task of the life is
cancelled, its timers and its committer are dead, and after a while another life begins on the same
disk. Whoever waited for an answer is told that the connection is lost.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from fanlog.broker.assembly import BrokerSettings, build_broker
from fanlog.broker.broker import Broker
from fanlog.core import records as codec
from fanlog.core.records import (
    CursorHead,
    FormerTopicRecord,
    NumbersRecord,
    SnapshotRecord,
    SubscriptionRecord,
    TopicRecord,
)
from fanlog.errors import FanlogError, ResourceExhausted, Unavailable
from fanlog.log.api import Commit, Log
from fanlog.model.attributes import LETTER_SUBSCRIPTION, REDRIVEN_FROM, SOURCE_ID, SOURCE_TOPIC
from fanlog.model.ids import parse_message_id
from fanlog.model.resources import Offset, PartitionId, Topic
from fanlog.push.senders.endpoint_check import EndpointCheck
from fanlog.push.service import PushService
from fanlog.wire import contents, types
from fanlog.wire.candidates import candidates
from fanlog.wire.forward import compose
from simulator import faults, temper
from simulator.alarms import Alarms
from simulator.asking import Asking
from simulator.chronicle import (
    CatalogChange,
    Chronicle,
    Committed,
    Message,
    Op,
    Outcome,
    Rotten,
    Turn,
    arrivals_of,
)
from simulator.dedups import Dedups
from simulator.disk import Disk, Policies
from simulator.faults import Odds
from simulator.keeping import Keeping
from simulator.life import Life, MortalClock, ObservedGenerations, task_factory
from simulator.limited import LimitedDisk
from simulator.loop import SimulatedClock, SimulatedLoop
from simulator.meanings import is_pattern
from simulator.pressed import PressedDisk
from simulator.receivers import Receiver
from simulator.schedules import Ticks
from simulator.sinks import Sinks
from simulator.store import SimulatedCommitter, SimulatedStore
from simulator.temper import Temper
from simulator.tiering import Tiering

T = TypeVar("T")


class Lost(Exception):
    """No answer came: the request may have been served, or not."""


class Broken(AssertionError):
    """A promise was broken, or the broker itself broke."""


class World:
    """A world of one seed. `loop` runs it; see `simulator.story` for its plot."""

    def __init__(
        self,
        seed: int,
        *,
        new_senders: Callable[[World, Life], PushService],
        steps: int | None = None,
    ) -> None:
        self.seed = seed
        self._make_senders = new_senders
        self.rng = random.Random(seed)
        self.odds, self.temper = self._drawn()
        #: What the broker did that nothing excuses: exceptions that are not errors of the API.
        self.mistakes: list[str] = []
        #: Sentences of promises found broken while the world ran.
        self.broken: list[str] = []
        self.steps_left = self.temper.steps if steps is None else steps
        self.loop: asyncio.BaseEventLoop = self._new_loop()
        self.loop.set_task_factory(cast(Any, task_factory))
        self.loop.set_exception_handler(self._on_exception)
        self.clock = SimulatedClock(self.loop)
        self.chronicle = Chronicle(topic_retention_s=self.temper.topic_retention_s)
        self.store = SimulatedStore(
            self.rng.randbytes(16), self.rng, lambda: self.odds, self._committed
        )
        self.disk = Disk()
        self.policies = Policies(self.disk)
        self.dedups = Dedups(self.rng)
        self.asking = Asking(random.Random(f"{seed}: asking"), self.temper.terms)
        self.sinks = Sinks()
        #: For nacks that say more, so that all others draw what they drew before.
        self.nack_rng = random.Random(f"{seed}: nacks")
        #: Those who want messages at most once.
        self.singles = 0
        self.sequencers = 0
        #: Those whose backlogs have limits.
        self.pressed = PressedDisk(seed)
        self.limited = LimitedDisk(seed)
        self.ticks = Ticks(seed)
        self.alarms = Alarms(seed)
        #: None without a lake.
        self.tiering = Tiering(self) if self.temper.lake else None
        #: None without a default retention.
        self.keeping = Keeping(self) if self.temper.topic_retention_s else None
        self._receivers: dict[str, Receiver] = {}
        #: When something last began or ended that moves messages about, by subscription.
        self._disturbed: dict[str, int] = {}
        self._failed_at = -1
        self._life: Life | None = None
        self.lives = 0
        self.faults: dict[str, int] = {}
        self.operations = 0
        #: Offsets that ever left the server, by subscription and partition.
        self.handed_out: dict[tuple[int, int], set[int]] = {}
        #: Messages that anybody tried to publish.
        self.published = 0
        self.is_draining = False
        self._consumers = 0
        self._restarting: asyncio.Task[None] | None = None

    # What worlds of another kind have otherwise.

    def _drawn(self) -> tuple[Odds, Temper]:
        return temper.drawn(self.seed, self.rng)

    def _new_loop(self) -> asyncio.BaseEventLoop:
        return SimulatedLoop()

    @property
    def life(self) -> Life | None:
        """The life that serves, or is about to; None while there is none."""
        return self._life

    @property
    def is_settled(self) -> bool:
        """Whether a broker serves and nothing is on its way to the disk."""
        life = self.life
        return life is not None and life.is_serving and life.broker.ledger._writer.is_idle

    def answering(self, life: Life) -> None:
        """Messages are about to leave the server on a stream of that life."""

    async def end_faults(self) -> None:
        """Nothing breaks any more."""
        self.odds = faults.KIND
        self.store.is_full = False
        if self.tiering is not None:
            self.tiering.lake.show("the lake")

    # Time and chance.

    @property
    def now(self) -> float:
        return self.clock.now()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def pause(self, factor: float = 1.0) -> bool:
        """Think for a while before the next step; False when the world is over."""
        await asyncio.sleep(self.rng.expovariate(1.0) * self.temper.pace_s * factor)
        self.steps_left -= 1
        return self.steps_left >= 0 and not self.mistakes

    def chance(self, odds: float, fault: str = "") -> bool:
        """Draw; a fault that happens is counted."""
        if odds <= 0.0 or self.rng.random() >= odds:
            return False
        if fault:
            self.faulted(fault)
        return True

    def faulted(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def freeze(self, seconds: float) -> None:
        """The process stands still, as under SIGSTOP; what was due meanwhile is late."""
        self.faulted("freeze")
        assert isinstance(self.loop, SimulatedLoop)
        self.loop.jump(seconds)
        self.chronicle.turn(Turn("frozen", self.lives), self.now)

    def new_consumer(self) -> int:
        self._consumers += 1
        return self._consumers

    def receiver(self, url: str) -> Receiver:
        """Who answers at an address."""
        found = self._receivers.get(url)
        if found is None:
            found = self._receivers[url] = Receiver(self.rng, self.temper.pace_s)
            if self.is_draining:
                found.settle_down()
        return found

    def receivers(self) -> dict[str, Receiver]:
        return self._receivers

    def log_start(self, partition: PartitionId) -> int:
        """First offset that can be read, hot or cold."""
        hot = self.store.bounds(partition).start
        return hot if self.tiering is None else min(hot, self.tiering.start(partition))

    def disturbed_at(self, name: str) -> int:
        """When the soft state of a subscription may last have changed by another's doing."""
        return max(self._failed_at, self._disturbed.get(name, -1))

    # Lives.

    async def start(self) -> None:
        """Begin a life; comes back when the broker serves, however often it takes.

        Raises:
            Broken: The broker raised what it should not, and will again.
        """
        while self.life is None:
            self.lives += 1
            self.clock.restart()
            clock = MortalClock(self.clock, self._late_s)
            assert isinstance(self.loop, SimulatedLoop)
            life = Life(self.lives, self.loop, clock, self.mistaken)
            life.committer = SimulatedCommitter(
                self.store,
                self.rng,
                lambda: self.odds,
                crash=lambda: self.crash("commit_crashes"),
                on_failure=self._commit_failed,
            )
            store = self.store if self.tiering is None else self.tiering.log()
            life.broker = self._new_broker(life, store)
            life.senders = self._make_senders(self, life)
            self._life = life
            self.chronicle.turn(Turn("starting", life.number), self.now)
            started = life.begin(life.start())
            await asyncio.wait([started])
            if started.cancelled():
                continue
            error = started.exception()
            if error is None and not life.is_dead:
                life.is_serving = True
                self.chronicle.turn(Turn("started", life.number), self.now)
            else:
                life.kill()
                self._life = None
                if error is not None and not isinstance(error, FanlogError):
                    # Another try would end the same way, for ever.
                    self.mistaken(error)
                    raise Broken("the broker does not start")
                await self.sleep(0.1)

    def _new_broker(self, life: Life, store: Log) -> Broker:
        return build_broker(
            store,
            life.committer,
            life.clock,
            compose=compose,
            candidates=candidates,
            contents=contents,
            jitter=self.rng.random,
            settings=BrokerSettings(
                topic_retention_s=self.temper.topic_retention_s,
                topic_retention_bytes=self.temper.topic_retention_bytes,
            ),
            check_endpoint=EndpointCheck(life.resolver),
            spool=self.sinks.spool,
            new_stage_id=self.sinks.new_id,
            # One seed, one world: ids made of a secret must be the same, too.
            new_secret=lambda: bytes(32),
            new_generations=lambda ledger: ObservedGenerations(ledger, life.clock, self.chronicle),
            new_tiers=None if self.tiering is None else self.tiering.new_tiers(life.clock, store),
        )

    def crash(self, fault: str = "crash", *, down_s: float | None = None) -> None:
        """Kill the process now, wherever it stands; it comes back by itself."""
        if self.life is None:
            return
        self.faulted(fault)
        self._end_life("crashed")
        self._restart_later(down_s)

    async def stop(self) -> None:
        """Stop the broker as SIGTERM does, and start it again."""
        life = self.life
        if life is None or not life.is_serving:
            return
        self.faulted("stop")
        life.is_serving = False
        stopped = life.begin(life.stop(patience_s=self.temper.pace_s))
        await asyncio.wait([stopped])
        if life.is_dead:
            return
        self._end_life("stopped")
        self._restart_later(None)

    async def up(self) -> Life:
        """The present life, once it serves."""
        while self.life is None or not self.life.is_serving:
            if self._restarting is not None:
                await asyncio.wait([self._restarting])
                if self._restarting is not None:
                    # It could not: the world is over.
                    await self._restarting
            else:
                await self.sleep(0.05)
        return self.life

    def mistaken(self, error: BaseException) -> None:
        """The broker raised what no caller should ever see."""
        trace, place = error.__traceback__, ""
        while trace is not None:
            code = trace.tb_frame.f_code
            place = f"{code.co_qualname} line {trace.tb_lineno}"
            trace = trace.tb_next
        self.mistakes.append(f"{type(error).__name__} in {place}: {error}")

    # Serving.

    def serve(
        self, op: Op, verb: Callable[[Broker], Awaitable[T]]
    ) -> tuple[asyncio.Task[Any], asyncio.Future[T]]:
        """Run a verb inside the process. The future has its answer, its error, or `Lost`."""
        life = self.life
        if life is None or not life.is_serving:
            raise Lost("nobody listens")
        reply: asyncio.Future[T] = self.loop.create_future()
        reply.add_done_callback(_seen)
        op.life = life.number
        task = life.begin(self._run(life, op, verb, reply))
        life.running[op] = reply
        return task, reply

    async def _run(
        self,
        life: Life,
        op: Op,
        verb: Callable[[Broker], Awaitable[T]],
        reply: asyncio.Future[T],
    ) -> None:
        self._note_disturbance(op)
        self.chronicle.begin(op, self.now)
        op.wall_ns = self.clock.wall_ns()
        try:
            answer = await verb(life.broker)
        except asyncio.CancelledError:
            self.end(life, op, "cut")
            raise
        except FanlogError as error:
            if self.end(life, op, outcome_of(error), error.code) and not reply.done():
                reply.set_exception(error)
        except Exception as error:
            if self.end(life, op, "cut"):
                self.mistaken(error)
        else:
            if self.end(life, op, "ok", _noted(answer)) and not reply.done():
                reply.set_result(answer)
        finally:
            if not reply.done():
                reply.set_exception(Lost("the connection is lost"))
        if self.odds.answer_crashes and self.rng.random() < self.odds.answer_crashes:
            self.crash("answer_crashes")

    def end(self, life: Life, op: Op, outcome: Outcome, answer: Any = None) -> bool:
        """Write down how a verb ended; False if its life had ended before."""
        if life.is_dead or op.outcome != "running":
            return False
        life.running.pop(op, None)
        self._note_disturbance(op)
        op.wall_ns = min(op.wall_ns, self.clock.wall_ns())
        if outcome == "cut":
            op.assigned = dict(life.broker.ledger._writer.assigned)
        self.chronicle.end(op, outcome, self.now, answer)
        return True

    # Private.

    def _note_disturbance(self, op: Op) -> None:
        if op.verb in _DISTURBING:
            self._disturbed[op.name] = self.chronicle.at
        if op.verb == "redrive":
            letters = [self.chronicle.message(*one) for one in op.detail.ids]
            for source in {letter.source for letter in letters if letter is not None}:
                name = f"{op.name.rpartition('/')[0]}/{source}"
                self._disturbed[name] = self.chronicle.at

    def _end_life(self, how: Any) -> None:
        life, self._life = self._life, None
        assert life is not None
        for op, reply in life.running.items():
            if op.begun_s:
                op.wall_ns = min(op.wall_ns, self.clock.wall_ns())
                self.chronicle.end(op, "cut", self.now)
            if reply is not None and not reply.done():
                reply.set_exception(Lost("the connection is lost"))
        life.kill()
        self.dedups.life_ended(self.now)
        self.chronicle.turn(Turn(how, life.number), self.now)

    def _restart_later(self, down_s: float | None) -> None:
        if down_s is None:
            down_s = self.rng.choice((0.0, 0.01, 1.0, 30.0)) * self.rng.random()
            if self.chance(self.temper.long_downs):
                down_s = self.rng.choice((3600.0, 86400.0)) * self.rng.random()

        async def restart() -> None:
            await asyncio.sleep(down_s)
            await self.start()
            self._restarting = None

        self._restarting = self.loop.create_task(restart())

    def _late_s(self) -> float:
        if not self.odds.timer_late or self.rng.random() >= self.odds.timer_late:
            return 0.0
        return self.rng.random() * faults.TIMER_LATE_S

    def _commit_failed(self) -> None:
        self.faulted("commit_fails")
        self._failed_at = self.chronicle.at
        assert self.life is not None
        self.chronicle.turn(Turn("commit failed", self.life.number), self.now)

    def _committed(self, commit: Commit) -> None:
        changes: list[CatalogChange] = []
        heads: list[CursorHead] = []
        arrivals: dict[tuple[PartitionId, Offset], float] = {}
        for key, value in commit.state.items():
            kind = key[:1]
            if kind in _CATALOG:
                changes.append(_decoded(key, value))
            elif kind == CursorHead.KIND:
                heads.append(_decoded_head(key, value))
            elif kind == FormerTopicRecord.KIND and value is not None:
                former = codec.decode(key, value)
                assert isinstance(former, FormerTopicRecord)
                self._name_topic(former.topic)
            elif kind == NumbersRecord.KIND and value is not None:
                run = codec.decode(key, value)
                assert isinstance(run, NumbersRecord)
                arrivals |= arrivals_of(run)
        for change in changes:
            if isinstance(change, TopicRecord):
                self._name_topic(change.topic)
            subscription = change.subscription if isinstance(change, SubscriptionRecord) else None
            if subscription is not None and is_pattern(subscription.topic):
                self.chronicle.patterns.add(subscription.id)
            if subscription is not None and subscription.key_slots:
                self.chronicle.key_slots[subscription.id] = subscription.key_slots
        messages = list(self._messages(commit))
        starts = {head.partition: self.log_start(head.partition) for head in heads}
        committed = Committed(commit.sequence, messages, changes, heads, starts, arrivals)
        self.chronicle.commit(committed, self.now)
        self.broken += self.disk.committed(changes, commit.state, messages)
        if self.tiering is not None:
            self.broken += self.tiering.committed(commit)
        if self.keeping is not None:
            self.broken += self.keeping.committed(commit)
        for message in messages if self.temper.sinks else ():
            self.broken += self.sinks.committed(message)
        if self.temper.pressers:
            self.broken += self.pressed.committed(self, commit, messages)
        if self.temper.limiters:
            self.broken += self.limited.committed(self, commit, messages)
        if self.temper.schedulers:
            self.broken += self.ticks.committed(commit.state, messages)
        if self.temper.alerters:
            self.broken += self.alarms.committed(commit.state, messages)
        for message in messages if self.temper.dedups else ():
            self.broken += self.dedups.committed(
                self.disk.on.get(message.partition), message, self.now
            )
        if messages and self.chance(self.odds.batch_damaged, "batch_damaged"):
            self.rot(*self.rng.choice(self.store.batches()))

    def _name_topic(self, topic: Topic | None) -> None:
        if topic is not None:
            self.chronicle.topics |= dict.fromkeys(topic.partitions, topic.name)

    def rot(self, partition: Any, base: int, end: int) -> None:
        """Damage a stored batch."""
        self.store.damaged.add((partition, base))
        self.chronicle.rot(Rotten(partition, base, end), self.now)

    def _messages(self, commit: Commit) -> Any:
        for append in commit.appends:
            offset = append.base_offset
            topic = self.chronicle.topic_id(append.partition)
            for body in append.bodies:
                content, starts = body.content, body.starts
                for i, message in enumerate(types.PublishRequest.FromString(content).messages):
                    attributes = {**message.attributes, **body.attributes}
                    yield Message(
                        at=self.chronicle.at,
                        sequence=commit.sequence,
                        partition=append.partition,
                        topic=topic,
                        offset=offset,
                        publish_ns=commit.publish_time_ns,
                        key=message.ordering_key,
                        data=message.data,
                        attributes=attributes,
                        field=content[starts[i] : starts[i + 1]],
                        base=append.base_offset,
                        source_id=self._source_id(attributes),
                        source=attributes.get(LETTER_SUBSCRIPTION, ""),
                        source_topic=attributes.get(SOURCE_TOPIC, ""),
                        addressee=body.seal.addressee,
                    )
                    offset += 1

    def _source_id(self, attributes: dict[str, str]) -> str:
        """Of a dead letter or a forward; a redriven copy is a message like any other."""
        source_id, letter_id = attributes.get(SOURCE_ID, ""), attributes.get(REDRIVEN_FROM)
        if letter_id is not None:
            partition, offset = parse_message_id(letter_id)
            letter = self.chronicle.message(PartitionId(partition), offset)
            if letter is not None and letter.source_id == source_id:
                return ""
        return source_id

    def _on_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, FanlogError | Lost | asyncio.CancelledError):
            return
        if error is None:
            self.mistakes.append(str(context.get("message")))
        else:
            self.mistaken(error)


_DISTURBING = ("seek", "detach", "update subscription", "delete subscription", "reopen")
_CATALOG = (TopicRecord.KIND, SubscriptionRecord.KIND, SnapshotRecord.KIND)


def outcome_of(error: FanlogError) -> Outcome:
    return "failed" if isinstance(error, Unavailable | ResourceExhausted) else "refused"


def _decoded(key: bytes, value: bytes | None) -> CatalogChange:
    if value is not None:
        record = codec.decode(key, value)
        assert isinstance(record, TopicRecord | SubscriptionRecord | SnapshotRecord)
        return record
    number: Any = int.from_bytes(key[1:], "big")
    match key[:1]:
        case TopicRecord.KIND:
            return TopicRecord(number, None)
        case SubscriptionRecord.KIND:
            return SubscriptionRecord(number, None)
        case _:
            return SnapshotRecord(number, None)


def _decoded_head(key: bytes, value: bytes | None) -> CursorHead:
    if value is not None:
        head = codec.decode(key, value)
        assert isinstance(head, CursorHead)
        return head
    owner, partition = int.from_bytes(key[1:9], "big"), int.from_bytes(key[9:], "big")
    head = CursorHead(owner, PartitionId(partition), None)
    assert head.key() == key
    return head


def _noted(answer: Any) -> Any:
    """What of an answer is worth writing down."""
    return answer if isinstance(answer, tuple | int | str) else None


def _seen(reply: asyncio.Future[Any]) -> None:
    if not reply.cancelled():
        reply.exception()
