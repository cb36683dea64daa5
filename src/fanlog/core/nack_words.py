"""The words of a nack: the same on every surface, read by one function.

The API's own words end at a deadline of zero. More about it rides in the metadata of a call, the
headers of a request, or those of an endpoint's answer, where every program can put it:

    fanlog-delay-seconds: 30      deliver it again in half a minute
    fanlog-counted: false         deliver it again, and count no failure
    fanlog-requeue: false         never again: it is a dead letter
    fanlog-reason: no such order  kept, and told by the dead letter
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog import limits
from fanlog.core.redelivery import NACKED, Nack
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import (
    NACK_COUNTED,
    NACK_DELAY,
    NACK_REASON,
    NACK_REASON_BYTES,
    NACK_REQUEUE,
)

WORDS = frozenset({NACK_DELAY, NACK_COUNTED, NACK_REQUEUE, NACK_REASON, NACK_REASON_BYTES})


def nack_of(words: Iterable[tuple[str, str | bytes]]) -> Nack:
    """The nack that these words describe; of other names, none is looked at.

    Raises:
        InvalidArgument: A word that is there twice or out of range, or words that contradict.
    """
    said: dict[str, str] = {}
    for name, value in words:
        if name in WORDS:
            if name == NACK_REASON_BYTES:
                if isinstance(value, str):
                    raise InvalidArgument(f"{name}: is metadata of gRPC; here it is {NACK_REASON}")
                name = NACK_REASON
            if name in said:
                raise InvalidArgument(f"{name}: is there twice; say it once")
            said[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    if not said:
        return NACKED
    is_terminal = not _flag(said, NACK_REQUEUE)
    is_counted = _flag(said, NACK_COUNTED)
    if is_terminal and NACK_DELAY in said:
        raise InvalidArgument(f"{NACK_DELAY}: a message that is not requeued has no next delivery")
    if is_terminal and not is_counted:
        raise InvalidArgument(
            f"{NACK_COUNTED}: a message that is not requeued is a dead letter, and those tell how "
            "often they failed; leave it out"
        )
    return Nack(
        delay_s=_delay_s(said.get(NACK_DELAY)),
        is_terminal=is_terminal,
        reason=_reason(said.get(NACK_REASON, "")),
        is_counted=is_counted,
    )


def _flag(said: dict[str, str], name: str) -> bool:
    value = said.get(name, "true")
    if value not in ("true", "false"):
        raise InvalidArgument(f"{name}: {names.shown(value)} is not 'true' or 'false'")
    return value == "true"


def _delay_s(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        # Python's numbers may have underscores in them, and digits of all scripts.
        seconds = float(value) if value.isascii() and "_" not in value else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= limits.NACK_DELAY_S_MAX:
        raise InvalidArgument(
            f"{NACK_DELAY}: {names.shown(value)} is out of range; "
            f"0 to {limits.NACK_DELAY_S_MAX} seconds are allowed"
        )
    return seconds


def _reason(text: str) -> str:
    size_bytes = len(text.encode())
    if size_bytes > limits.NACK_REASON_BYTES_MAX:
        raise InvalidArgument(
            f"{NACK_REASON}: {size_bytes} bytes; at most {limits.NACK_REASON_BYTES_MAX} are allowed"
        )
    return text
