"""Fanlog's own client, and the API's message classes it speaks in."""

from fanlog.client.client import CallFailed, Client
from fanlog.wire import types

__all__ = ["CallFailed", "Client", "types"]
