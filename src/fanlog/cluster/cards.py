"""The card of a node: its name, and how it is reached. It stands in the log as bytes."""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCard:
    """A node as others know it."""

    #: No two nodes of a cluster have the same.
    name: str
    #: HOST:PORT for other nodes.
    link_address: str
    #: HOST:PORT for clients.
    api_address: str

    def to_bytes(self) -> bytes:
        return orjson.dumps({"name": self.name, "link": self.link_address, "api": self.api_address})

    @classmethod
    def from_bytes(cls, raw: bytes) -> NodeCard:
        """Raises ValueError: It is no card; later versions may say more on one."""
        found = orjson.loads(raw)
        match found:
            case {"name": str(name), "link": str(link), "api": str(api)} if name and link:
                return cls(name=name, link_address=link, api_address=api)
        raise ValueError("a card of a node lacks its name or an address")
