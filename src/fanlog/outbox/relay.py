"""A relay: publishes what is committed in an outbox, each message once, those of a key in order.

Rows of a lane are published as epochs of a query. An epoch is *staged* at the broker, then *opened*
in the database (a commit that writes down which rows it is), then *committed* at the broker, then
*closed* (a commit that removes the rows). A relay that stops anywhere on that way leaves rows that
are not open, which are published as if nothing had happened, or an open epoch. Whoever takes the
lane next first *aborts* that epoch, so that no attempt of it can be published any more, and then
asks the broker for the last epoch of the query: it is this one, and the rows are removed; or it is
an earlier one, and they are ready again.

So nothing depends on clocks, on how long a relay was away, nor on a window of dedup ids. A relay
that was merely slow finds that its lane is lost before it opens an epoch, and that nothing is
staged any more when it commits one. Two cases are left, in which a lane stands still and says so:

- The database was set back, say from a backup: the broker knows of a later epoch.
- An epoch was left open for longer than a broker remembers a query that is not used.

`Outbox.renew` ends both. What is then published again is dropped by the topic if it still knows the
dedup id.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from fanlog import limits
from fanlog.databases.tables import TableName
from fanlog.errors import FailedPrecondition, FanlogError, InvalidArgument
from fanlog.outbox.lanes import Lane, LaneLost, Lanes
from fanlog.outbox.publisher import OutboxRow, publisher_of, status_of
from fanlog.outbox.tables import OutboxTables

log = logging.getLogger("fanlog.outbox")

ROWS_MAX: Final = 500
BYTES_MAX: Final = 4 * 1024 * 1024
HOLD_S: Final = 60.0
POLL_S: Final = 0.5
#: Pauses after failures: from, doubled each time, to; a random part of it.
PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 30.0
#: An epoch that was open for longer is in doubt, if the broker knows nothing of its query.
DOUBT_S: Final = limits.QUERY_LIFE_S - limits.DAY_S
#: Of a request with a message that cannot be published, which others in it can.
_REFUSALS: Final = frozenset({"INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND"})


@dataclass(slots=True)
class RelayCounts:
    """What a relay has done since it was made."""

    #: Messages that it published, or found published by a relay that did not live to write it down.
    published: int = 0
    epochs: int = 0
    #: Times that a row was refused by the broker.
    refused: int = 0
    #: Epochs that another relay had left open.
    recovered: int = 0
    #: Lanes that another relay took over.
    lost: int = 0
    #: Failures of the database or of the broker, after each of which it paused.
    failures: int = 0


class Relay:
    """A relay of one outbox. One thread runs it; `stop` may be called by any. Many may run at once.

    Args:
        connect: Gives a new DB-API connection, which the relay closes.
        publisher: A `fanlog.Client`, or anything with the methods of `EpochPublisher`.
        table: That of the `Outbox`.
        rows_max, bytes_max: How much is one epoch.
        hold_s: How long a lane stays with a relay that says nothing; longer than two calls take.
        poll_s: How long to wait when there is nothing to do.
        clock: Seconds since 1970, about the same for all relays.
        chance: A random number from 0 to 1.
        paramstyle: For a wrapper whose style is not that of the module of the connection.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        publisher: Any,
        *,
        table: str = "fanlog_outbox",
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        hold_s: float = HOLD_S,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        paramstyle: str | None = None,
    ) -> None:
        if not 1 <= rows_max <= limits.PUBLISH_MESSAGES_MAX:
            raise InvalidArgument(
                f"rows_max: {rows_max} is not from 1 to {limits.PUBLISH_MESSAGES_MAX}"
            )
        if not 1 <= bytes_max <= limits.PUBLISH_BYTES_MAX:
            raise InvalidArgument(
                f"bytes_max: {bytes_max} is not from 1 to {limits.PUBLISH_BYTES_MAX}"
            )
        if hold_s <= 0 or poll_s <= 0:
            raise InvalidArgument("hold_s, poll_s: seconds above 0 are wanted")
        self._connect = connect
        self._publisher = publisher_of(publisher)
        self._table = str(TableName.parse(table))
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._hold_s = hold_s
        self._poll_s = poll_s
        self._clock = clock
        self._chance = chance
        self._paramstyle = paramstyle
        self._stopping = threading.Event()
        self._connection: Any = None
        self._lanes: Lanes | None = None
        #: The epoch in which this relay left a lane: then nobody has set it back since.
        self._known: dict[int, tuple[str, int]] = {}
        #: Why lanes stand still.
        self._stuck: dict[int, str] = {}
        self.counts = RelayCounts()

    def run(self) -> RelayCounts:
        """Publish what comes, until `stop`. Failures are logged and tried again after a pause.

        Raises:
            FailedPrecondition, InvalidArgument: At the start: the tables are missing or others.
        """
        failures = 0
        try:
            self._check()
            while not self._stopping.is_set():
                try:
                    progress = self._pass()
                except Exception as error:
                    # The world's: the database or the broker is away, or refuses.
                    self._disconnect()
                    self.counts.failures += 1
                    pause_s = self._chance() * min(PAUSE_S_MAX, PAUSE_S * 2 ** min(failures, 20))
                    failures += 1
                    log.warning(
                        "action=relay_failed table=%s error=%s; trying again in %.1f s",
                        *(self._table, error, pause_s),
                    )
                    self._stopping.wait(pause_s)
                else:
                    failures = 0
                    if not progress:
                        self._stopping.wait(self._poll_s)
        finally:
            self._disconnect()
        return self.counts

    def drain(self) -> RelayCounts:
        """Publish what can be published now, and return. Failures are raised.

        Raises:
            FailedPrecondition: As of `run`; or a lane stands still.
        """
        try:
            self._check()
            while not self._stopping.is_set() and self._pass():
                pass
        finally:
            self._disconnect()
        if self._stuck:
            raise FailedPrecondition("; ".join(self._stuck.values()))
        return self.counts

    def stop(self) -> None:
        """Have `run` or `drain` return when the epoch at hand is closed."""
        self._stopping.set()

    # Private.

    def _check(self) -> None:
        connection = self._connected()[0]
        OutboxTables.of(connection, self._table, self._paramstyle).check(connection)
        connection.rollback()

    def _connected(self) -> tuple[Any, Lanes]:
        if self._lanes is None:
            self._connection = self._connect()
            tables = OutboxTables.of(self._connection, self._table, self._paramstyle)
            if tables.dialect.kind != "sqlite":
                # SQLite's transactions are begun by hand.
                tables.dialect.check_transaction(self._connection)
            self._lanes = Lanes(self._connection, tables, self._clock, self._hold_s)
        return self._connection, self._lanes

    def _disconnect(self) -> None:
        connection, self._connection, self._lanes = self._connection, None, None
        # The next connection may be to a database that was set back.
        self._known.clear()
        if connection is not None:
            # It may be broken, which is why it is closed.
            with suppress(Exception):
                connection.close()

    def _pass(self) -> bool:
        """Serve each lane that has something to do once; whether anything was done."""
        _, lanes = self._connected()
        seen: set[int] = set()
        has_progress = False
        while not self._stopping.is_set():
            lane = lanes.take(seen)
            if lane is None:
                break
            seen.add(lane.number)
            try:
                has_progress |= self._served(lanes, lane)
            except LaneLost:
                self.counts.lost += 1
                log.info("action=lane_lost table=%s lane=%d", self._table, lane.number)
            except BaseException:
                # For others to go on at once; it may be the database that failed.
                with suppress(Exception):
                    lanes.release(lane)
                raise
            else:
                lanes.release(lane)
        return has_progress

    def _served(self, lanes: Lanes, lane: Lane) -> bool:
        try:
            return self._serve(lanes, lane)
        except FanlogError as error:
            # Of a lane that another relay has taken over, the broker refuses what is late.
            if lanes.holds(lane):
                raise
            raise LaneLost from error

    def _serve(self, lanes: Lanes, lane: Lane) -> bool:
        recovered = self._recovered(lanes, lane)
        if recovered is None:
            return False
        lane, has_progress = recovered
        rows = lanes.ready(lane, most=self._rows_max, bytes_max=self._bytes_max)
        if rows:
            lane, has_progress = self._publish(lanes, lane, rows), True
        self._known[lane.number] = (lane.query, lane.epoch)
        return has_progress

    def _recovered(self, lanes: Lanes, lane: Lane) -> tuple[Lane, bool] | None:
        """The lane without an open epoch, and whether it had one; None when it stands still."""
        if lane.opened_at is None and self._known.get(lane.number) == (lane.query, lane.epoch):
            return lane, False
        if lane.opened_at is not None:
            # First, so that the answer to the next question stays true.
            self._publisher.abort(lane.query, lane.epoch)
        last = self._publisher.last_epoch(lane.query)
        reason = ""
        if last > lane.epoch:
            reason = (
                f"lane {lane.number} of {self._table} is at epoch {lane.epoch}, and the broker has "
                f"published {last}: the database was set back"
            )
        elif lane.opened_at is not None and last < 0:
            age_s = self._clock() - lane.opened_at
            if age_s > DOUBT_S:
                reason = (
                    f"lane {lane.number} of {self._table} was left {age_s / limits.DAY_S:.0f} days "
                    f"ago, and the broker no longer knows whether epoch {lane.epoch} was published"
                )
        if reason:
            if self._stuck.get(lane.number) != reason:
                log.error(
                    "action=lane_stuck %s; `fanlog outbox renew` has its rows published, "
                    "perhaps again",
                    reason,
                )
            self._stuck[lane.number] = reason
            return None
        self._stuck.pop(lane.number, None)
        if lane.opened_at is None:
            return lane, False
        is_published = last == lane.epoch
        lane, count = lanes.close(lane, is_published=is_published)
        self.counts.recovered += 1
        if is_published:
            self.counts.published += count
            self.counts.epochs += 1
        log.info(
            "action=epoch_recovered table=%s lane=%d epoch=%d published=%s rows=%d",
            *(self._table, lane.number, lane.epoch, is_published, count),
        )
        return lane, True

    def _publish(self, lanes: Lanes, lane: Lane, rows: list[OutboxRow]) -> Lane:
        """Publish rows as the next epoch of a lane, those without that the broker refuses."""
        attempt, rows = self._stage(lanes, lane, rows)
        if not rows:
            return lane
        # After they are staged: who aborts an open epoch has seen to all that is staged for it.
        lane = lanes.open(lane, rows)
        self._publisher.commit(lane.query, lane.epoch, attempt)
        lane, count = lanes.close(lane, is_published=True)
        self.counts.published += count
        self.counts.epochs += 1
        return lane

    def _stage(
        self, lanes: Lanes, lane: Lane, rows: list[OutboxRow]
    ) -> tuple[str, list[OutboxRow]]:
        """Stage rows; give the attempt, and those of the rows that it has."""
        while rows:
            attempt = str(uuid4())
            try:
                refused = self._publisher.stage(lane.query, lane.epoch + 1, attempt, rows)
            except FanlogError as error:
                if status_of(error) not in _REFUSALS:
                    raise
                if len(rows) > 1:
                    # One of them, or more: looked for in halves.
                    rows = rows[: len(rows) // 2]
                    continue
                refused = {0: error.message}
            if not refused:
                return attempt, rows
            refused = _first_of_keys(rows, refused)
            self.counts.refused += len(refused)
            for index, reason in refused.items():
                log.warning(
                    "action=row_refused table=%s id=%d topic=%s reason=%s",
                    *(self._table, rows[index].id, rows[index].topic, reason),
                )
            lanes.refuse(lane, [(rows[index], reason) for index, reason in refused.items()])
            rows = _without(rows, refused)
        return "", []


def _first_of_keys(rows: list[OutboxRow], refused: dict[int, str]) -> dict[int, str]:
    """The refused rows that no other of their key comes before: the others wait for these."""
    keys: set[tuple[str, str]] = set()
    found: dict[int, str] = {}
    for index in sorted(refused):
        key = (rows[index].topic, rows[index].ordering_key)
        if key not in keys:
            found[index] = refused[index]
        if rows[index].ordering_key:
            keys.add(key)
    return found


def _without(rows: list[OutboxRow], refused: dict[int, str]) -> list[OutboxRow]:
    """Rows that neither were refused nor come after one of their key that was."""
    stopped: set[tuple[str, str]] = set()
    found: list[OutboxRow] = []
    for index, row in enumerate(rows):
        key = (row.topic, row.ordering_key)
        if index in refused:
            stopped.add(key)
        elif not row.ordering_key or key not in stopped:
            found.append(row)
    return found
