"""The attributes by which a message asks for something, read and made `Terms`.

Read once, when a message is published, and again when rows of the lake become batches: with the
same answer. What depends on the time or the topic is checked behind that (`fanlog.core.asking`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from fanlog import limits, times
from fanlog.errors import InvalidArgument
from fanlog.model import dependencies, names
from fanlog.model.attributes import DELAY, DELIVER_AT, DEPENDS_ON, PRIORITY, TENANT, TERMS, TTL
from fanlog.model.terms import PRIORITY_MAX, TermKind, Terms, tenant_number

#: A number of seconds, to the millisecond.
_SECONDS = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: A fraction with digits beyond the microsecond, which are not read.
_FINER = re.compile(r"\.[0-9]{6}0*[1-9]", re.ASCII)

_IN_BYTES = tuple(name.encode() for name in TERMS)


def names_in(content: bytes) -> bool:
    """Whether the name of some term is in the bytes of messages: hardly any has one."""
    return any(name in content for name in _IN_BYTES)


def terms_of(messages: Iterable[tuple[Mapping[str, str], str]]) -> Terms | None:
    """The terms of messages given as (attributes, ordering key); None when none asks for any.

    Raises:
        InvalidArgument: Names the message by its index, the value, and what is allowed.
    """
    return Terms.of(
        (index, kind, value)
        for index, (attributes, ordering_key) in enumerate(messages)
        for kind, value in _entries(index, attributes, ordering_key)
    )


def stored_terms_of(messages: Sequence[tuple[Mapping[str, str], str]]) -> Terms | None:
    """As `terms_of`, of messages that were accepted once: those with a mistake ask for nothing."""
    found: list[tuple[int, TermKind, int]] = []
    for index, (attributes, ordering_key) in enumerate(messages):
        try:
            found += (
                (index, kind, value) for kind, value in _entries(index, attributes, ordering_key)
            )
        except InvalidArgument:
            continue
    return Terms.of(found)


def expires_ns(
    attributes: Mapping[str, str],
    ordering_key: str,
    publish_time_ns: int,
    default_s: float | None = None,
) -> int | None:
    """When a message with these attributes expires; None for one without a time-to-live.

    Args:
        default_s: The time-to-live of messages that have none of their own.
    """
    if TTL not in attributes and default_s is None:
        return None
    terms = stored_terms_of([(attributes, ordering_key)])
    due_ns = publish_time_ns
    if terms is not None:
        for _, due_ms in terms.dues_ms(publish_time_ns):
            due_ns = due_ms * 1_000_000
        if TermKind.TTL in terms.columns:
            return due_ns + terms.column(TermKind.TTL).values[0] * 1_000_000
    return None if default_s is None else due_ns + int(default_s * 1e9)


def attributes_for(
    *,
    delay_s: float | None = None,
    deliver_at: datetime | None = None,
    ttl_s: float | None = None,
    priority: int | None = None,
    depends_on: Sequence[str] = (),
    tenant: str | None = None,
) -> dict[str, str]:
    """The attributes by which a message asks for these; the server checks what they say."""
    found: dict[str, str] = {}
    if delay_s is not None:
        found[DELAY] = seconds_text(delay_s)
    if deliver_at is not None:
        found[DELIVER_AT] = times.of_datetime(deliver_at)
    if ttl_s is not None:
        found[TTL] = seconds_text(ttl_s)
    if priority is not None:
        found[PRIORITY] = str(priority)
    if depends_on:
        found[DEPENDS_ON] = ",".join(depends_on)
    if tenant is not None:
        found[TENANT] = tenant
    return found


def seconds_text(seconds: float) -> str:
    """As attributes have it: to the millisecond."""
    return str(seconds) if isinstance(seconds, int) else f"{seconds:.3f}".rstrip("0").rstrip(".")


def _entries(
    index: int, attributes: Mapping[str, str], ordering_key: str
) -> Iterator[tuple[TermKind, int]]:
    if DELAY in attributes:
        if DELIVER_AT in attributes:
            raise InvalidArgument(
                f"messages[{index}].attributes: {DELAY} and {DELIVER_AT} both say when to deliver; "
                "leave one of them out"
            )
        delay_ms = _milliseconds(index, DELAY, attributes[DELAY], limits.DELAY_S_MAX)
        if delay_ms:
            yield TermKind.DELAY, delay_ms
    elif DELIVER_AT in attributes:
        yield TermKind.DELIVER_AT, _time_ms(index, attributes[DELIVER_AT])
    if TTL in attributes:
        ttl_ms = _milliseconds(index, TTL, attributes[TTL], limits.MESSAGE_TTL_S_MAX)
        if not ttl_ms:
            raise _refused(index, TTL, attributes[TTL], "0.001 s is the least")
        yield TermKind.TTL, ttl_ms
    if PRIORITY in attributes:
        priority = _priority(index, attributes[PRIORITY], ordering_key)
        if priority:
            yield TermKind.PRIORITY, priority
    if DEPENDS_ON in attributes:
        for number in dependencies.parse(index, attributes[DEPENDS_ON]):
            yield TermKind.DEPENDS_ON, number
    if TENANT in attributes:
        yield TermKind.TENANT, _tenant(index, attributes[TENANT])


def _milliseconds(index: int, name: str, text: str, most_s: float) -> int:
    if not _SECONDS.fullmatch(text):
        raise _refused(index, name, text, "a number of seconds such as '90' or '0.5' is allowed")
    milliseconds = int(Decimal(text) * 1_000)
    if milliseconds > most_s * 1_000:
        raise _refused(index, name, text, f"at most {most_s:.0f} s are allowed")
    return milliseconds


def _time_ms(index: int, text: str) -> int:
    try:
        time = times.parse_strict(text)
        microseconds = (time - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError) as error:
        raise _refused(
            index, DELIVER_AT, text, "an RFC 3339 time such as '2026-01-31T12:00:00Z' is allowed"
        ) from error
    # Rounded up: never early. Whether it is past is for the broker to say.
    microseconds += bool(_FINER.search(text))
    return max(0, -(-microseconds // 1_000))


def _priority(index: int, text: str, ordering_key: str) -> int:
    if not (len(text) == 1 and text.isascii() and text.isdigit()):
        raise _refused(index, PRIORITY, text, f"0 to {PRIORITY_MAX} are allowed")
    if ordering_key:
        raise InvalidArgument(
            f"messages[{index}].attributes: {PRIORITY} is {names.shown(text)}, and the message has "
            "the ordering key "
            f"{names.shown(ordering_key)}: messages of a key are delivered in their order, so none "
            "of them can go first; leave one of them out"
        )
    return int(text)


def _tenant(index: int, text: str) -> int:
    if not 1 <= len(text.encode()) <= limits.TENANT_BYTES_MAX:
        rule = f"a name of 1 to {limits.TENANT_BYTES_MAX} bytes of UTF-8 is allowed"
        raise _refused(index, TENANT, text, rule)
    return tenant_number(text)


def _refused(index: int, name: str, text: str, rule: str) -> InvalidArgument:
    return InvalidArgument(f"messages[{index}].attributes: {name} is {names.shown(text)}; {rule}")
