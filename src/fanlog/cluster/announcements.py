"""What nodes tell each other about the shard, beside what stands in the log."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from fanlog.cluster.cards import NodeCard
from fanlog.errors import InvalidArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """A standby tells the owner of itself, and how far it is."""

    card: NodeCard
    applied_offset: int
    #: Whether it has all of the log.
    is_whole: bool
    #: Why it cannot own, in a sentence; empty when it can.
    obstacle: str = ""
    #: It ends now, and cannot own.
    is_leaving: bool = False

    def to_bytes(self) -> bytes:
        card = self.card
        return orjson.dumps(
            {
                "name": card.name,
                "link": card.link_address,
                "api": card.api_address,
                "applied": self.applied_offset,
                "whole": self.is_whole,
                "obstacle": self.obstacle,
                "leaving": self.is_leaving,
            }
        )

    @classmethod
    def from_bytes(cls, raw: bytes) -> Announcement:
        """Raises InvalidArgument: It is none."""
        try:
            match orjson.loads(raw):
                case {
                    "applied": int(applied),
                    "whole": bool(whole),
                    "obstacle": str(obstacle),
                    "leaving": bool(leaving),
                }:
                    card = NodeCard.from_bytes(raw)
                    return cls(
                        card=card,
                        applied_offset=applied,
                        is_whole=whole,
                        obstacle=obstacle,
                        is_leaving=leaving,
                    )
        except ValueError as error:
            raise InvalidArgument(f"no announcement of a node: {error}") from error
        raise InvalidArgument("no announcement of a node")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownOwner:
    """The owner of the shard as a node knows it; an answer to other nodes."""

    term: int
    #: None before the first term, and after one whose owner has left.
    card: NodeCard | None
    #: Of the owner's own answer: whether it may answer calls just now.
    is_sure: bool = True

    def to_bytes(self) -> bytes:
        card = None if self.card is None else self.card.to_bytes().decode()
        return orjson.dumps({"term": self.term, "card": card, "sure": self.is_sure})

    @classmethod
    def from_bytes(cls, raw: bytes) -> KnownOwner:
        """Raises InvalidArgument: It is none."""
        try:
            match orjson.loads(raw):
                case {"term": int(term), "card": None}:
                    return cls(term=term, card=None)
                case {"term": int(term), "card": str(card), "sure": bool(sure)}:
                    found = NodeCard.from_bytes(card.encode())
                    return cls(term=term, card=found, is_sure=sure)
        except ValueError as error:
            raise InvalidArgument(f"no answer of a node: {error}") from error
        raise InvalidArgument("no answer of a node")
