"""Cron expressions: read, and the ticks that they mean in a time zone.

    ┌ second 0-59, only where there are six fields
    │ ┌ minute 0-59
    │ │ ┌ hour 0-23
    │ │ │ ┌ day of the month 1-31
    │ │ │ │ ┌ month 1-12, JAN-DEC
    │ │ │ │ │ ┌ day of the week 0-7, SUN-SAT; 0 and 7 are Sunday
    0 * * * * *

A field is a list, with commas, of `*`, a value, a range `a-b`, or a step `*/n` or `a-b/n`. As with
cron, a day has to match the day of the month *or* that of the week if both are restricted; a field
that begins with `*` restricts nothing. `@hourly` and its kin stand for whole expressions.

When the clocks of a time zone change:

- An hour field that begins with `*` follows real time: every instant whose local time matches is a
  tick, so that `*/15 * * * *` ticks each quarter of an hour, through both of two equal hours.
- Any other hour field means times of the day, each once a day: a time that does not exist is moved
  by the length of the gap (02:30 becomes 03:30), and of one that exists twice the first counts.

A tick is a whole number of seconds since the epoch. Pure: time and time zone are arguments.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model.names import shown


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    #: Words for values, the first for `low`.
    words: tuple[str, ...] = ()


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("second", 0, 59),
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 7, _WEEKDAYS),
)
_WEEKDAY: Final = _FIELDS[5]
_SUNDAY: Final = 7

#: Names of whole expressions.
ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LONGEST_MONTHS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_DAY_S: Final = 86_400
#: The clocks of all zones change at full quarters of an hour.
_QUARTER_S: Final = 900
_ONE_DAY: Final = timedelta(days=1)
#: A 29th of February on one day of the week may be forty years from the next.
_DAYS_AHEAD: Final = 41 * 366
_LAST_YEAR: Final = 9_990
_LAST_S: Final = int(datetime(_LAST_YEAR, 1, 1, tzinfo=UTC).timestamp())

#: A run of seconds of a day: the first as a tick, the same as a time of the day, and how many.
_Stretch = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Cron:
    """A valid expression: the values of each field, in order."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    #: From 0 for Sunday to 6.
    weekdays: tuple[int, ...]
    #: Whether every hour is meant, and so real time.
    follows_time: bool
    #: Whether a day matches by its day of the month or of the week; otherwise it must by both.
    is_either: bool

    def next_after(self, after_s: float, zone: tzinfo) -> int | None:
        """The first tick after a time; None where calendars end."""
        after = int(after_s // 1)
        if not 0 <= after < _LAST_S:
            return None
        # Where a zone skips a whole day, its ticks are a day later.
        for day in self._days_from(_day_of(after, zone) - _ONE_DAY):
            found = [self._first(one, after) for one in self._stretches(day, zone)]
            ticks = [tick for tick in found if tick is not None]
            if ticks:
                return min(ticks)
        return None

    def last_until(self, until_s: float, after_s: float, zone: tzinfo) -> int | None:
        """The last tick at or before a time and after another; None if there is none."""
        until = min(int(until_s // 1), _LAST_S)
        if until <= after_s or until < 0:
            return None
        earliest = _day_of(max(0, int(after_s // 1)), zone) - _ONE_DAY
        day = _day_of(until, zone) + _ONE_DAY
        while day >= earliest:
            if day.month not in self.months:
                day = day.replace(day=1) - _ONE_DAY
                continue
            if self._matches(day):
                found = [self._last(one, until) for one in self._stretches(day, zone)]
                ticks = [tick for tick in found if tick is not None]
                if ticks:
                    return max(ticks) if max(ticks) > after_s else None
            day -= _ONE_DAY
        return None

    def ticks_until(self, until_s: float, after_s: float, zone: tzinfo, most: int) -> list[int]:
        """The ticks after a time and not after another, in order; only the last `most` of them."""
        found: list[int] = []
        tick = self.last_until(until_s, after_s, zone)
        while tick is not None and len(found) < most:
            found.append(tick)
            tick = self.last_until(tick - 1, after_s, zone)
        found.reverse()
        return found

    def _days_from(self, first: date) -> Iterator[date]:
        """The days that match, from one on."""
        day = first
        for _ in range(_DAYS_AHEAD):
            if day.year > _LAST_YEAR:
                return
            if day.month not in self.months:
                day = (day.replace(day=28) + timedelta(days=4)).replace(day=1)
                continue
            if self._matches(day):
                yield day
            day += _ONE_DAY

    def _matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if self.is_either else in_month and in_week

    def _stretches(self, day: date, zone: tzinfo) -> Sequence[_Stretch]:
        """The seconds of a day, in runs in which tick and time of the day go together."""
        start, end = _midnight(day, zone), _midnight(day + _ONE_DAY, zone)
        if end - start == _DAY_S:
            return [(start, 0, _DAY_S)]
        if not self.follows_time:
            quarters = range(0, _DAY_S, _QUARTER_S)
            return [(_tick_of(day, second, zone), second, _QUARTER_S) for second in quarters]
        found: list[_Stretch] = []
        for tick in range(start, end, _QUARTER_S):
            local = datetime.fromtimestamp(tick, zone)
            if local.date() == day:
                found.append((tick, _second_of(local), _QUARTER_S))
        return found

    def _first(self, stretch: _Stretch, after: int) -> int | None:
        """The first tick of a stretch after a time."""
        tick, second, count = stretch
        found = self._second_from(second + max(0, after + 1 - tick))
        return None if found is None or found >= second + count else tick + found - second

    def _last(self, stretch: _Stretch, until: int) -> int | None:
        """The last tick of a stretch not after a time."""
        tick, second, count = stretch
        if until < tick:
            return None
        found = self._second_to(second + min(count - 1, until - tick))
        return None if found is None or found < second else tick + found - second

    def _second_from(self, least: int) -> int | None:
        """The first second of the day that matches and is not below one."""
        hour, minute, second = least // 3600, least // 60 % 60, least % 60
        for one in self.hours[bisect_left(self.hours, hour) :]:
            if one > hour:
                return one * 3600 + self.minutes[0] * 60 + self.seconds[0]
            for other in self.minutes[bisect_left(self.minutes, minute) :]:
                if other > minute:
                    return one * 3600 + other * 60 + self.seconds[0]
                index = bisect_left(self.seconds, second)
                if index < len(self.seconds):
                    return one * 3600 + other * 60 + self.seconds[index]
        return None

    def _second_to(self, most: int) -> int | None:
        """The last second of the day that matches and is not above one."""
        hour, minute, second = most // 3600, most // 60 % 60, most % 60
        for one in reversed(self.hours[: bisect_right(self.hours, hour)]):
            if one < hour:
                return one * 3600 + self.minutes[-1] * 60 + self.seconds[-1]
            for other in reversed(self.minutes[: bisect_right(self.minutes, minute)]):
                if other < minute:
                    return one * 3600 + other * 60 + self.seconds[-1]
                index = bisect_right(self.seconds, second)
                if index:
                    return one * 3600 + other * 60 + self.seconds[index - 1]
        return None


@lru_cache(maxsize=1024)
def parse_cron(text: str, field: str = "cron") -> Cron:
    """Read an expression.

    Raises:
        InvalidArgument: Names the field of the expression, the character where it is wrong, and
            why; or says that no day ever matches.
    """
    if len(text) > limits.CRON_LENGTH_MAX:
        raise InvalidArgument(
            f"{field}: {len(text)} characters; at most {limits.CRON_LENGTH_MAX} are allowed"
        )
    written = text
    if text.strip().startswith("@"):
        written = ALIASES.get(text.strip().lower(), "")
        if not written:
            raise InvalidArgument(f"{field}: {shown(text)}; there are {', '.join(ALIASES)}")
    parts = [(found.start(), found[0]) for found in re.finditer(r"[^ \t]+", written)]
    if len(parts) not in (5, 6):
        raise InvalidArgument(
            f"{field}: {shown(text)} has {len(parts)} fields; there are five (minute, hour, day of "
            "the month, month, day of the week), or six with the second before them"
        )
    if len(parts) == 5:
        parts.insert(0, (0, "0"))
    values = [
        _Reader(field, kind, start, part).values()
        for kind, (start, part) in zip(_FIELDS, parts, strict=True)
    ]
    seconds, minutes, hours, days, months, weekdays = values
    is_any = [part.startswith("*") for _, part in parts]
    is_either = not is_any[3] and not is_any[5]
    if not is_either and not any(days[0] <= _LONGEST_MONTHS[month - 1] for month in months):
        raise InvalidArgument(
            f"{field}: {shown(text)} never ticks: none of its months has {days[0]} days"
        )
    return Cron(
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=tuple(sorted({day % 7 for day in weekdays})),
        follows_time=is_any[2],
        is_either=is_either,
    )


_ITEM: Final = re.compile(r"(\*|[0-9A-Za-z]+)(?:-([0-9A-Za-z]+))?(?:/([0-9A-Za-z]+))?")


class _Reader:
    """Reads one field of an expression."""

    def __init__(self, field: str, kind: _Field, start: int, text: str) -> None:
        self._field = field
        self._kind = kind
        self._start = start
        self._text = text

    def values(self) -> tuple[int, ...]:
        found: set[int] = set()
        place = 0
        for item in self._text.split(","):
            found |= set(self._item(place, item))
            place += len(item) + 1
        return tuple(sorted(found))

    def _item(self, place: int, item: str) -> range:
        if not item:
            self._refuse(place, "a value is missing")
        match = _ITEM.fullmatch(item)
        if match is None:
            self._refuse(place, f"{shown(item)} is not *, a value, a range a-b, or a step */n")
        first, last, step = match.groups()
        if first == "*":
            if last is not None:
                self._refuse(place, f"{shown(item)}: a range has no *")
            low, high = self._kind.low, _high_of(self._kind)
        else:
            low = high = self._value(place, first)
            if last is not None:
                at = place + match.start(2)
                high = self._value(at, last)
                if self._kind is _WEEKDAY and high == 0 < low:
                    high = _SUNDAY
                if high < low:
                    self._refuse(at, f"{shown(item)}: the range ends before it begins")
        if step is None:
            return range(low, high + 1)
        at = place + match.start(3)
        if first != "*" and last is None:
            whole = f"{low}-{_high_of(self._kind)}/{step}"
            self._refuse(at, f"{shown(item)}: a step needs a range, such as {whole}")
        size = self._number(at, step)
        if not 1 <= size <= self._kind.high:
            self._refuse(at, f"a step of {size}; it is 1 to {self._kind.high}")
        return range(low, high + 1, size)

    def _value(self, place: int, text: str) -> int:
        word = text.lower()
        if word in self._kind.words:
            return self._kind.low + self._kind.words.index(word)
        value = self._number(place, text)
        if not self._kind.low <= value <= self._kind.high:
            self._refuse(place, f"{shown(text)} is not {self._kind.low} to {self._kind.high}")
        return value

    def _number(self, place: int, text: str) -> int:
        if not text.isdigit() or len(text) > 4:
            named = ", ".join(self._kind.words).upper()
            numbers = f"a number from {self._kind.low} to {self._kind.high}"
            self._refuse(
                place,
                f"{shown(text)} is not {numbers}" + (f", nor one of {named}" if named else ""),
            )
        return int(text)

    def _refuse(self, place: int, why: str) -> NoReturn:
        at = self._start + place + 1
        raise InvalidArgument(f"{self._field}: {self._kind.name}, at character {at}: {why}")


def _high_of(kind: _Field) -> int:
    """The highest value that `*` has: Sunday counts once."""
    return kind.high - 1 if kind is _WEEKDAY else kind.high


def _day_of(tick: int, zone: tzinfo) -> date:
    return datetime.fromtimestamp(tick, zone).date()


#: Kept: those who count the ticks of a day ask for each of them.
@lru_cache(maxsize=4096)
def _midnight(day: date, zone: tzinfo) -> int:
    return int(datetime.combine(day, time(), zone).timestamp())


def _tick_of(day: date, second: int, zone: tzinfo) -> int:
    """The tick of a time of the day: of two the first, and of none that after the gap."""
    at = time(second // 3600, second // 60 % 60, second % 60)
    return int(datetime.combine(day, at, zone).timestamp())


def _second_of(local: datetime) -> int:
    return local.hour * 3600 + local.minute * 60 + local.second
