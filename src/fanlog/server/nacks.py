"""Nacks that say more than "again": later, never, and why.

The API's own words end at a deadline of zero. More about it rides in the request's metadata, where
every client can put it:

    fanlog-delay-seconds: 30      deliver it again in half a minute
    fanlog-requeue: false         never again: it is a dead letter
    fanlog-reason: no such order  kept, and told by the dead letter
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog import limits
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import NACK_DELAY as DELAY
from fanlog.model.attributes import NACK_REASON as REASON
from fanlog.model.attributes import NACK_REQUEUE as REQUEUE


def nack_of(metadata: Iterable[tuple[str, str | bytes]], seconds: int) -> Nack:
    """Read the nack that a request's metadata describes.

    Raises:
        InvalidArgument: A value that is out of range, or an ack deadline that is no nack.
    """
    said = {key: value for key, value in metadata if key in (DELAY, REQUEUE, REASON)}
    if not said:
        return NACKED
    if seconds != 0:
        raise InvalidArgument(
            f"{', '.join(sorted(said))}: speaks of a nack, but ack_deadline_seconds is {seconds}"
        )
    is_terminal = _is_terminal(said.get(REQUEUE))
    if is_terminal and DELAY in said:
        raise InvalidArgument(f"{DELAY}: a message that is not requeued has no next delivery")
    return Nack(delay_s=_delay_s(said.get(DELAY)), is_terminal=is_terminal, reason=_reason(said))


def _is_terminal(value: str | bytes | None) -> bool:
    match value:
        case None | "true":
            return False
        case "false":
            return True
    raise InvalidArgument(f"{REQUEUE}: {names.shown(str(value))} is not 'true' or 'false'")


def _delay_s(value: str | bytes | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= limits.NACK_DELAY_S_MAX:
        raise InvalidArgument(
            f"{DELAY}: {names.shown(str(value))} is out of range; "
            f"0 to {limits.NACK_DELAY_S_MAX} seconds are allowed"
        )
    return seconds


def _reason(said: dict[str, str | bytes]) -> str:
    reason = said.get(REASON, "")
    text = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
    if len(text.encode()) > limits.NACK_REASON_BYTES_MAX:
        raise InvalidArgument(
            f"{REASON}: {len(text.encode())} bytes; "
            f"at most {limits.NACK_REASON_BYTES_MAX} are allowed"
        )
    return text
