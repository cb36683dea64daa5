"""The first headers of forwarded calls, as blocks: most calls of a caller have the same ones.

So time-outs are cut to three digits, downwards: an owner then gives a call up a moment before its
caller does, and knows the block by its bytes. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fanlog.http2.header_blocks import encode
from fanlog.http2.header_rules import Header
from fanlog.model.attributes import LINK_ADDRESS, LINK_CALLER, LINK_CERTIFICATE
from fanlog.transport.calls import Entry
from fanlog.transport.statuses import metadata_field

_COMMON: Final[tuple[Header, ...]] = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":authority", b"node"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
)
#: Metadata that is between a caller and the node it talks to: messages are unfolded there.
_NOT_FORWARDED: Final = frozenset(("grpc-accept-encoding", "content-length", "expect"))
#: Of blocks that are remembered.
KNOWN_BYTES_MAX: Final = 4 * 1024 * 1024
_DIGITS: Final = 3


class HeadBlocks:
    """Of one link. Soft state."""

    def __init__(self) -> None:
        #: By the metadata object, which is the same for the same headers of a caller. It is kept,
        #: so that no other object gets its id.
        self._known: dict[tuple[int, str, str, bytes, int], tuple[object, bytes]] = {}
        self._known_bytes = 0

    def block(
        self,
        path: str,
        metadata: Iterable[Entry],
        authorization: str,
        timeout: bytes,
        caller: int,
    ) -> bytes:
        """The block of a call of a caller that the other side knows."""
        key = (id(metadata), path, authorization, timeout, caller)
        known = self._known.get(key)
        if known is not None:
            return known[1]
        more = [(LINK_CALLER.encode(), b"%d" % caller)]
        made = write_head(path, metadata, authorization, timeout, more)
        self._known_bytes += len(made)
        if self._known_bytes > KNOWN_BYTES_MAX:
            self._known.clear()
            self._known_bytes = len(made)
        self._known[key] = metadata, made
        return made


def write_head(
    path: str,
    metadata: Iterable[Entry] = (),
    authorization: str = "",
    timeout: bytes = b"",
    more: Iterable[Header] = (),
) -> bytes:
    fields = [*_COMMON, (b":path", path.encode())]
    # Pseudo-headers come first.
    fields.sort(key=lambda field: field[0][:1] != b":")
    if timeout:
        fields.append((b"grpc-timeout", timeout))
    if authorization:
        fields.append((b"authorization", authorization.encode()))
    fields += (_field(pair) for pair in metadata if pair[0] not in _NOT_FORWARDED)
    return encode([*fields, *more])


def introduce(caller: int | None, address: str, certificate: bytes | None) -> list[Header]:
    """The headers that tell the other side of a caller, and the number that it has from now on."""
    fields = [metadata_field((LINK_ADDRESS, address))]
    if caller is not None:
        fields.append((LINK_CALLER.encode(), b"%d" % caller))
    if certificate is not None:
        fields.append(metadata_field((LINK_CERTIFICATE, certificate)))
    return fields


def write_timeout(seconds: float | None) -> bytes:
    """A `grpc-timeout` of at most so long; empty for none."""
    if seconds is None:
        return b""
    rest = max(1, int(seconds * 1e6))
    unit = 10 ** max(0, len(str(rest)) - _DIGITS)
    rest -= rest % unit
    for scale, sign in ((1_000_000, b"S"), (1_000, b"m"), (1, b"u")):
        if rest % scale == 0:
            return b"%d%s" % (min(rest // scale, 99_999_999), sign)
    raise AssertionError("every number is a multiple of one")


def _field(pair: Entry) -> Header:
    name, value = pair
    if isinstance(value, str):
        # Where there was no ASCII, it was replaced when it came; so it is again.
        return name.encode(), value.replace("\ufffd", "\xff").encode("latin-1", "replace")
    return metadata_field(pair)
