"""Tables: topics and subscriptions with the numbers of a row, by a fragment of their names.

A page in the order of names measures the rows that it shows, and no others. One that is ordered by
a number needs that of every row: all are looked at, and again only after some seconds.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from fanlog import limits
from fanlog.broker.clock import Clock
from fanlog.broker.pacing import paced
from fanlog.broker.pressure.pressure import Pressure
from fanlog.broker.transaction import Ledger
from fanlog.broker.verbs.rates import RecentRates, SubscriptionRates
from fanlog.broker.verbs.survey import Reads, Survey, Surveyed
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import Subscription, Topic

TOPIC_ORDERS: Final = ("name", "messages", "total", "rate")
SUBSCRIPTION_ORDERS: Final = (
    *("name", "backlog", "age", "rate", "published", "delivered", "failed"),
    *("outstanding", "consumers", "pressure"),
)
#: Those that need a look at every subscription.
_LOOKED_AT: Final = ("backlog", "age", "outstanding")

Row = TypeVar("Row", covariant=True)
Resource = TypeVar("Resource", Topic, Subscription)


@dataclass(frozen=True, slots=True)
class TablePlace:
    """The last row of a page: the number that the table is ordered by, and its name."""

    value: float
    name: str

    def __str__(self) -> str:
        return f"{self.value!r} {self.name}"

    @classmethod
    def parse(cls, text: str) -> TablePlace:
        """Raises InvalidArgument."""
        value, _, name = text.partition(" ")
        try:
            return cls(float(value), name)
        except ValueError:
            raise InvalidArgument(f"page_token: {names.shown(text)} is not a place") from None

    @property
    def key(self) -> tuple[float, str]:
        """The largest first, then by name."""
        return -self.value, self.name


@dataclass(frozen=True, slots=True)
class TablePage(Generic[Row]):
    rows: Sequence[Row]
    #: Rows that fit, on all pages.
    total: int
    #: None on the last page.
    last: TablePlace | None


@dataclass(frozen=True, slots=True)
class TopicRow:
    topic: Topic
    subscriptions: int
    published_total: int
    messages: int
    rate: float | None


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    subscription: Subscription
    found: Surveyed
    consumers: int
    rates: SubscriptionRates | None
    #: Of its topic; None on a pattern, and when it is not known.
    published: float | None


@dataclass(eq=False)
class Tables:
    """The tables of one broker. Lives on the loop."""

    _ledger: Ledger
    _clock: Clock
    _survey: Survey
    _rates: RecentRates
    _pressure: Pressure

    async def topics(
        self, project: str, contains: str, order: str, after: TablePlace | None, size: int
    ) -> TablePage[TopicRow]:
        """A page of the topics of a project."""
        self._rates.look()
        catalog = self._ledger.hard.catalog
        prefix = names.topic_name(project, "")
        fitting = await _fitting(catalog.topic_names(prefix, ""), contains)
        values: dict[str, Callable[[Topic], float]] = {
            "messages": self._kept,
            "total": self._total,
            "rate": lambda topic: self._rates.of_topic(topic) or 0.0,
        }
        page, last = await _cut(fitting, catalog.find_topic, values.get(order), after, size)
        rows = [self._topic_row(topic) for topic in page]
        await self._ledger.sync()
        return TablePage(rows, len(fitting), last)

    async def subscriptions(
        self,
        project: str,
        contains: str,
        topic: str,
        order: str,
        after: TablePlace | None,
        size: int,
    ) -> TablePage[SubscriptionRow]:
        """A page of the subscriptions of a project, or of those of a topic in it."""
        self._rates.look()
        catalog = self._ledger.hard.catalog
        prefix = names.subscription_name(project, "")
        fitting = await _fitting(catalog.subscription_names(prefix, ""), contains)
        if topic:
            fitting = [one for one in fitting if self._reads(one, topic)]
        values: dict[str, Callable[[Subscription], float]] = {
            "backlog": lambda one: float(self._found(one).messages),
            "age": lambda one: self._found(one).age_s(self._clock.now()),
            "outstanding": lambda one: float(self._found(one).outstanding),
            "consumers": lambda one: float(self._survey.consumers_of(one)),
            "pressure": lambda one: self._pressure.of_subscription(one) or 0.0,
            "published": lambda one: self._published(one) or 0.0,
            "delivered": lambda one: self._rates_of(one).delivered,
            "rate": lambda one: self._rates_of(one).acknowledged,
            "failed": lambda one: self._rates_of(one).failed,
        }
        if order in _LOOKED_AT:
            await self._survey.whole(limits.ROWS_LOOKED_AT_S)
        page, last = await _cut(fitting, self._present, values.get(order), after, size)
        reads = Reads(size)
        rows = [
            SubscriptionRow(
                one,
                await self._survey.look(one, reads),
                self._survey.consumers_of(one),
                self._rates.of_subscription(one),
                self._published(one),
            )
            async for one in paced(page)
        ]
        await self._ledger.sync()
        return TablePage(rows, len(fitting), last)

    # Private.

    def _topic_row(self, topic: Topic) -> TopicRow:
        hard = self._ledger.hard
        readers = {
            share.settings.id
            for partition in topic.partitions
            for share in hard.shares_on(partition)
            if not share.settings.detached
        }
        rate = self._rates.of_topic(topic)
        return TopicRow(topic, len(readers), int(self._total(topic)), int(self._kept(topic)), rate)

    def _total(self, topic: Topic) -> float:
        return sum(self._ledger.end(one) for one in topic.partitions)

    def _kept(self, topic: Topic) -> float:
        ledger = self._ledger
        return sum(max(0, ledger.end(one) - ledger.start_of(one)) for one in topic.partitions)

    def _present(self, name: str) -> Subscription | None:
        catalog = self._ledger.hard.catalog
        return catalog.subscription(name) if catalog.has_subscription(name) else None

    def _reads(self, name: str, topic: str) -> bool:
        subscription = self._present(name)
        if subscription is None:
            return False
        if subscription.topic_shown == topic:
            return True
        found = self._ledger.hard.catalog.find_topic(topic)
        return found is not None and any(
            self._ledger.hard.share(subscription.id, one) is not None for one in found.partitions
        )

    def _rates_of(self, subscription: Subscription) -> SubscriptionRates:
        return self._rates.of_subscription(subscription) or _NO_RATES

    def _published(self, subscription: Subscription) -> float | None:
        if subscription.is_pattern:
            return None
        topic = self._ledger.hard.catalog.find_topic(subscription.topic_shown)
        return None if topic is None else self._rates.of_topic(topic)

    def _found(self, subscription: Subscription) -> Surveyed:
        return self._survey.found(subscription) or _NOTHING


_NO_RATES = SubscriptionRates(0.0, 0.0, 0.0)
_NOTHING = Surveyed(
    name="",
    at_s=0.0,
    messages=0,
    is_estimated=False,
    outstanding=0,
    delayed=0,
    oldest_s=None,
    problems=(),
)


async def _fitting(found: Iterator[str], contains: str) -> list[str]:
    """The names whose id has the fragment in it, in any case."""
    wanted = contains.lower()
    if not wanted:
        return list(found)
    return [name async for name in paced(found) if wanted in name.rpartition("/")[2].lower()]


async def _cut(
    fitting: Iterable[str],
    find: Callable[[str], Resource | None],
    value: Callable[[Resource], float] | None,
    after: TablePlace | None,
    size: int,
) -> tuple[list[Resource], TablePlace | None]:
    """The rows of a page, and its last place unless the table ends with it."""
    keys: Iterable[tuple[float, str]]
    if value is None:
        keys = ((0.0, name) for name in fitting)
    else:
        keys = [
            (-value(one), name) async for name in paced(fitting) if (one := find(name)) is not None
        ]
    if after is not None:
        keys = (key for key in keys if key > after.key)
    page = heapq.nsmallest(size + 1, keys)
    rows = [one for _, name in page[:size] if (one := find(name)) is not None]
    if len(page) <= size:
        return rows, None
    number, name = page[size - 1]
    return rows, TablePlace(-number, name)
