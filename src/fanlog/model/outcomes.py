"""Outcomes: the counts of one minute's deliveries, which the broker publishes on a topic.

One message a minute and not one for each delivery: counts of each topic's publishes, and of each
subscription's deliveries. Its data is JSON:

    {"version": 1, "minute": "2026-11-16T09:30:00Z",
     "topics": [{"topic": ..., "messages": 3, "bytes": 120}],
     "subscriptions": [{"subscription": ..., "delivered": 3, ..., "backlog": 0,
                        "ack_latency_p50_ms": 12.3, "ack_latency_p99_ms": 40.1,
                        "ack_latencies": [[55, 2], [69, 1]]}],
     "crossings": [{"subscription": ..., "mark": "high", "fill": 0.812,
                    "time": "2026-11-16T09:30:12.5Z"}]}

Crossings are the marks that backlogs with limits went over, or came down to; without any, they are
left out. Where there were more than are told, `crossings_left_out` says how many. A broker that
tells of crossings alone has no rows of topics and subscriptions.

A large one is split in several messages, each of them whole: no topic and no subscription is in two
of them. A minute in which the broker started has the messages of both lives; counts add up, and so
do latencies, which is why their buckets are told.

Pure: times are arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

import orjson

from fanlog import limits, times
from fanlog.model import names
from fanlog.model.json_value import JsonObject

#: Where they are told: a topic like any other.
TOPIC = names.topic_name(names.SYSTEM_PROJECT, "outcomes")
#: Of the message's form.
VERSION = 1

MINUTE_S = 60

#: Latencies up to this are in the first bucket, in milliseconds.
_FIRST_MS = 0.1
#: Buckets for each doubling: the middle of one is within 4.5 % of all that is in it.
_PER_DOUBLING = 8
#: More than a day is in the last bucket.
_LAST = 240


class Latencies:
    """How long acknowledgements took: counts in buckets that grow by a constant factor."""

    __slots__ = ("buckets",)

    def __init__(self, buckets: Iterable[tuple[int, int]] = ()) -> None:
        #: Counts by bucket; most buckets have none.
        self.buckets: dict[int, int] = dict(buckets)

    def observe(self, seconds: float, count: int = 1) -> None:
        """Count acknowledgements that took so long; NaN, an unknown time, is not counted."""
        if math.isnan(seconds):
            return
        bucket = 0
        if seconds * 1_000 > _FIRST_MS:
            bucket = math.ceil(math.log2(seconds * 1_000 / _FIRST_MS) * _PER_DOUBLING)
            bucket = min(bucket, _LAST)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def add(self, other: Latencies) -> None:
        for bucket, count in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def percentile_ms(self, share: float) -> float | None:
        """How long that share of them took at most, in milliseconds; None when there are none."""
        rank = math.ceil(share * sum(self.buckets.values()))
        for bucket, count in sorted(self.buckets.items()):
            rank -= count
            if rank <= 0:
                middle = _FIRST_MS * 2 ** ((bucket - 0.5) / _PER_DOUBLING)
                return float(f"{middle:.3g}")
        return None


@dataclass(slots=True, kw_only=True)
class TopicOutcome:
    """The counts of publishes to one topic."""

    topic: str
    messages: int = 0
    bytes: int = 0

    def add(self, later: TopicOutcome) -> None:
        self.messages += later.messages
        self.bytes += later.bytes


@dataclass(slots=True, kw_only=True)
class SubscriptionOutcome:
    """The counts of one subscription's deliveries."""

    subscription: str
    #: Redeliveries included.
    delivered: int = 0
    acknowledged: int = 0
    redelivered: int = 0
    nacked: int = 0
    expired: int = 0
    dead_lettered: int = 0
    #: At the end of the minute.
    backlog: int = 0
    #: From the lease to its acknowledgement.
    latencies: Latencies = field(default_factory=Latencies)

    def add(self, later: SubscriptionOutcome) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.backlog = later.backlog
        self.latencies.add(later.latencies)

    def to_json(self) -> JsonObject:
        return {
            "subscription": self.subscription,
            **{name: getattr(self, name) for name in COUNTS},
            "backlog": self.backlog,
            "ack_latency_p50_ms": self.latencies.percentile_ms(0.5),
            "ack_latency_p99_ms": self.latencies.percentile_ms(0.99),
            "ack_latencies": [[*one] for one in sorted(self.latencies.buckets.items())],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingOutcome:
    """A backlog with limits went above its high mark, or came down to its low one."""

    subscription: str
    #: `high` or `low`.
    mark: str
    #: How full it was then.
    fill: float
    time_s: float

    def to_json(self) -> JsonObject:
        return {
            "subscription": self.subscription,
            "mark": self.mark,
            "fill": round(self.fill, 3),
            "time": times.of_ns(round(self.time_s * 1e6) * 1_000),
        }


#: The counts of a subscription: they add up.
COUNTS = tuple(
    one.name
    for one in fields(SubscriptionOutcome)
    if one.name not in ("subscription", "backlog", "latencies")
)


@dataclass(slots=True, kw_only=True)
class Outcomes:
    """All of a minute, or a part of it."""

    #: When the minute began.
    minute: datetime
    topics: list[TopicOutcome] = field(default_factory=list)
    subscriptions: list[SubscriptionOutcome] = field(default_factory=list)
    crossings: list[CrossingOutcome] = field(default_factory=list)
    #: Crossings of this minute that are not in the list.
    crossings_left_out: int = 0

    def to_messages(self, size_bytes: int = limits.OUTCOME_BYTES) -> list[bytes]:
        """The data of the messages that tell it; none when there is nothing to tell."""
        topics: list[JsonObject] = [
            {"topic": one.topic, "messages": one.messages, "bytes": one.bytes}
            for one in self.topics
        ]
        rows = [("topics", row) for row in topics]
        rows += [("subscriptions", one.to_json()) for one in self.subscriptions]
        rows += [("crossings", one.to_json()) for one in self.crossings]
        parts: list[bytes] = []
        waiting: dict[str, list[JsonObject]] = {"topics": [], "subscriptions": []}
        waiting_bytes = 0
        for kind, row in rows:
            row_bytes = len(orjson.dumps(row))
            if waiting_bytes and waiting_bytes + row_bytes > size_bytes:
                parts.append(self._part(waiting))
                waiting, waiting_bytes = {"topics": [], "subscriptions": []}, 0
            waiting.setdefault(kind, []).append(row)
            waiting_bytes += row_bytes + 1
        return [*parts, self._part(waiting, self.crossings_left_out)] if waiting_bytes else []

    def _part(self, rows: Mapping[str, Sequence[JsonObject]], left_out: int = 0) -> bytes:
        minute = times.of_datetime(self.minute, timespec="seconds")
        more = {"crossings_left_out": left_out} if left_out else {}
        return orjson.dumps({"version": VERSION, "minute": minute, **rows, **more})

    @classmethod
    def from_message(cls, data: bytes) -> Outcomes:
        """Read a message of outcomes.

        Raises:
            UnknownVersion: It is of a newer version of Fanlog.
            ValueError: It is no message of outcomes.
        """
        try:
            said = orjson.loads(data)
            version = said["version"]
            if version != VERSION:
                raise UnknownVersion(f"outcomes of version {version!r}; {VERSION} is known here")
            return cls(
                minute=times.parse(said["minute"]).astimezone(UTC),
                topics=[
                    TopicOutcome(
                        topic=row["topic"], messages=int(row["messages"]), bytes=int(row["bytes"])
                    )
                    for row in said["topics"]
                ],
                subscriptions=[
                    SubscriptionOutcome(
                        subscription=row["subscription"],
                        **{name: int(row[name]) for name in COUNTS},
                        backlog=int(row["backlog"]),
                        latencies=Latencies((int(b), int(n)) for b, n in row["ack_latencies"]),
                    )
                    for row in said["subscriptions"]
                ],
                crossings=[
                    CrossingOutcome(
                        subscription=row["subscription"],
                        mark=row["mark"],
                        fill=float(row["fill"]),
                        time_s=times.parse(row["time"]).timestamp(),
                    )
                    for row in said.get("crossings", ())
                ],
                crossings_left_out=int(said.get("crossings_left_out", 0)),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"not outcomes: {error!r}") from error


class UnknownVersion(Exception):
    """Outcomes of a newer version of Fanlog."""
