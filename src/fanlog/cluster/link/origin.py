"""The origin of a forwarded call: all that its owner has to know of the caller's connection.

It travels as metadata which only a link's server believes. The first call of a connection has its
address and its certificate beside its number; later ones have the number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from fanlog.cluster.bounds import LINK_CERTIFICATE_BYTES_MAX
from fanlog.errors import InvalidArgument
from fanlog.transport.calls import Certificate
from fanlog.transport.lifetime import Lifetime


class Origin(Protocol):
    """The part of `Evidence` that belongs to a connection."""

    @property
    def address(self) -> str: ...
    @property
    def certificate(self) -> Certificate | None: ...
    @property
    def connection(self) -> Lifetime | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class ForwardedOrigin:
    """An `Origin` as another node has told it."""

    address: str
    certificate: Certificate | None
    #: Ends when the caller's connection does, or the link.
    connection: Lifetime | None


def write_certificate(certificate: Certificate) -> bytes:
    """Raises InvalidArgument: It does not fit the headers of a link."""
    raw = orjson.dumps(certificate)
    if len(raw) > LINK_CERTIFICATE_BYTES_MAX:
        raise InvalidArgument(
            f"the certificate has {len(raw)} bytes, and nodes tell each other at most "
            f"{LINK_CERTIFICATE_BYTES_MAX}; call the owner itself"
        )
    return raw


def read_certificate(raw: bytes) -> Certificate:
    """A certificate as `ssl` gives it: what is a list in JSON was a tuple.

    Raises:
        ValueError: It is none.
    """
    found = orjson.loads(raw)
    if not isinstance(found, Mapping):
        raise ValueError("no certificate")
    return {str(name): _with_tuples(value) for name, value in found.items()}


def _with_tuples(value: object) -> object:
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value
