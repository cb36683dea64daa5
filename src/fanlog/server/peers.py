"""What nodes of a cluster tell each other over their links, beside the calls that they forward."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import orjson

from fanlog.cluster.announcements import Announcement, KnownOwner
from fanlog.cluster.cards import NodeCard
from fanlog.cluster.link.call import NeverLeft
from fanlog.cluster.link.internal import ANNOUNCE, NodeVerb, internal_path
from fanlog.cluster.link.links import Links
from fanlog.cluster.link.origin import read_certificate, write_certificate
from fanlog.errors import (
    FailedPrecondition,
    FanlogError,
    InvalidArgument,
    PermissionDenied,
    Unavailable,
)
from fanlog.server.calls import EVERYBODY, Caller, Certificate, Evidence
from fanlog.transport.lifetime import Lifetime
from fanlog.transport.statuses import FAILED_PRECONDITION, CallRefused

OWNER = internal_path("Owner")
CHECK_METRICS = internal_path("CheckMetrics")


class LinkPeers:
    """The `Peers` of a node, by its links."""

    def __init__(self, links: Links) -> None:
        self._links = links

    async def announce(self, to: NodeCard, said: Announcement) -> KnownOwner:
        return KnownOwner.from_bytes(await self._ask(to, ANNOUNCE, said.to_bytes()))

    async def ask_owner(self, of: NodeCard) -> KnownOwner:
        return KnownOwner.from_bytes(await self._ask(of, OWNER, b""))

    async def check_metrics(self, owner: NodeCard, request: Evidence) -> None:
        """Ask the owner whether a caller may have metrics; raises FanlogError if not."""
        certificate = request.certificate
        shown = {
            "authorization": request.authorization,
            "address": request.address,
            "certificate": None if certificate is None else write_certificate(certificate).decode(),
        }
        refusal = await self._ask(owner, CHECK_METRICS, orjson.dumps(shown))
        if refusal:
            raise PermissionDenied(refusal.decode())

    async def _ask(self, card: NodeCard, path: str, raw: bytes) -> bytes:
        try:
            return await self._links.to(card).ask(path, raw)
        except NeverLeft as error:
            raise Unavailable(str(error)) from error
        except TimeoutError:
            raise Unavailable(f"node {card.name!r} did not answer in time") from None
        except CallRefused as refused:
            told = f"node {card.name!r}: {refused.status.message}"
            if refused.status.code == FAILED_PRECONDITION:
                raise FailedPrecondition(told) from refused
            raise Unavailable(told) from refused


class _PageCaller:
    """A request for metrics at another node; see `calls.Evidence`."""

    def __init__(self, authorization: str, address: str, certificate: Certificate | None) -> None:
        self.caller: Caller = EVERYBODY
        self.authorization = authorization
        self.address = address
        self.certificate = certificate
        self.connection: Lifetime | None = None


def node_verbs(
    *,
    announce: Callable[[Announcement], KnownOwner],
    known_owner: Callable[[], KnownOwner],
    check_metrics: Callable[[Evidence], Awaitable[None]],
) -> Mapping[str, NodeVerb]:
    """The other side of the same."""

    async def take_announcement(raw: bytes) -> bytes:
        return announce(Announcement.from_bytes(raw)).to_bytes()

    async def tell_owner(_: bytes) -> bytes:
        return known_owner().to_bytes()

    async def check(raw: bytes) -> bytes:
        try:
            match orjson.loads(raw):
                case {"authorization": str(shown), "address": str(address), "certificate": told}:
                    certificate = None if told is None else read_certificate(told.encode())
                    caller = _PageCaller(shown, address, certificate)
                case _:
                    raise InvalidArgument("no question of a node")
        except (ValueError, AttributeError) as error:
            raise InvalidArgument(f"no question of a node: {error}") from error
        try:
            await check_metrics(caller)
        except Unavailable:
            raise
        except FanlogError as error:
            return error.message.encode()
        return b""

    return {ANNOUNCE: take_announcement, OWNER: tell_owner, CHECK_METRICS: check}
