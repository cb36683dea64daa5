"""Fanlog's own client."""

from fanlog.client.client import CallFailed, Client

__all__ = ["CallFailed", "Client"]
