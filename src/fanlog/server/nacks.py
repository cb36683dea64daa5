"""The nacks of requests: their words ride in the metadata of a call (`fanlog.core.nack_words`).

A ModifyAckDeadline request has them for its messages, a StreamingPull for all that are nacked on
it. Other calls that settle messages must not have them: they would say something that is not done.
"""

from __future__ import annotations

from collections.abc import Iterable

from fanlog.core import nack_words
from fanlog.core.redelivery import Nack
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.attributes import PREFIX, meant

Metadata = Iterable[tuple[str, str | bytes]]


def nack_of(metadata: Metadata | None, seconds: int) -> Nack:
    """The nack that a request's metadata describes.

    Raises:
        InvalidArgument: A word that makes no sense, or an ack deadline that is no nack.
    """
    own = _own(metadata)
    if own and seconds != 0:
        raise InvalidArgument(
            f"{', '.join(sorted(name for name, _ in own))}: speaks of a nack, but "
            f"ack_deadline_seconds is {seconds}"
        )
    return nack_words.nack_of(own)


def check_no_nack(metadata: Metadata | None) -> None:
    """Raises InvalidArgument: The metadata of an acknowledgement speaks of a nack."""
    for name, _ in _own(metadata):
        raise InvalidArgument(f"{name}: speaks of a nack, and this is an acknowledgement")


def _own(metadata: Metadata | None) -> list[tuple[str, str | bytes]]:
    """The entries with names of this service; it must know all of them."""
    own = [(name, value) for name, value in metadata or () if name.startswith(PREFIX)]
    for name, _ in own:
        if name not in nack_words.WORDS:
            near = meant(name, nack_words.WORDS)
            did_you = f"; did you mean {near!r}?" if near else ""
            raise InvalidArgument(
                f"{names.shown(name)}: is not metadata this service knows on a nack{did_you}; it "
                f"knows {', '.join(sorted(nack_words.WORDS))}"
            )
    return own
