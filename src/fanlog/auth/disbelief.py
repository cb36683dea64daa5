"""Why a credential is not believed. For the server's log alone: callers are told one sentence."""

from __future__ import annotations


class NotBelieved(Exception):
    """A credential is not believed."""

    def __init__(self, reason: str) -> None:
        """`reason` is a few words without any part of the credential."""
        super().__init__(reason)
        self.reason = reason
