"""How two nodes show each other that they are of one cluster, before anything else is said.

The caller greets with a nonce, its version and its cluster, and is given a nonce; it then proves
that it has the secret, and the other side does the same in its answer. The secret itself never
travels, and a proof is good for one connection. Nodes without a secret, which know each other by
their certificates, prove with an empty one: the certificates were looked at before. No I/O.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import orjson

#: Of what is said on links. Nodes of another version are refused.
VERSION: Final = 1
NONCE_BYTES: Final = 32
_PROOF_BYTES: Final = 32

Side = Literal["caller", "owner"]


class HandshakeRefused(Exception):
    """The other side is no node of this cluster; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """The first words of a node."""

    cluster: str
    node: str
    nonce: bytes
    version: int = VERSION

    def write(self) -> bytes:
        return orjson.dumps(
            {
                "version": self.version,
                "cluster": self.cluster,
                "node": self.node,
                "nonce": self.nonce.hex(),
            }
        )

    @classmethod
    def read(cls, raw: bytes) -> Greeting:
        """Raises HandshakeRefused: It is none."""
        try:
            found = orjson.loads(raw)
            return cls(
                version=int(found["version"]),
                cluster=str(found["cluster"]),
                node=str(found["node"]),
                nonce=bytes.fromhex(found["nonce"]),
            )
        except (ValueError, TypeError, KeyError):
            raise HandshakeRefused("the greeting is none") from None

    def check(self, cluster: str) -> None:
        """Raises HandshakeRefused: It comes from another cluster or another version."""
        if self.version != VERSION:
            raise HandshakeRefused(
                f"node {self.node!r} speaks version {self.version} of links, this one {VERSION}"
            )
        if self.cluster != cluster:
            raise HandshakeRefused(
                f"node {self.node!r} is of the cluster {self.cluster!r}, this one of {cluster!r}"
            )
        if len(self.nonce) != NONCE_BYTES:
            raise HandshakeRefused("the greeting has no nonce")


def prove(secret: bytes, side: Side, caller: Greeting, owner: Greeting) -> bytes:
    """The proof of one side that it has a secret, for this connection alone."""
    said = b"\0".join(
        (b"fanlog link", side.encode(), caller.cluster.encode(), caller.nonce + owner.nonce)
    )
    return hmac.digest(secret, said, "sha256")


def find_secret(
    secrets: Sequence[bytes], proof: bytes, side: Side, caller: Greeting, owner: Greeting
) -> bytes:
    """The secret that the other side has proven to have.

    Raises:
        HandshakeRefused: It has none of them.
    """
    for secret in secrets:
        if len(proof) == _PROOF_BYTES and hmac.compare_digest(
            proof, prove(secret, side, caller, owner)
        ):
            return secret
    raise HandshakeRefused("the other side does not have the secret of this cluster's nodes")
