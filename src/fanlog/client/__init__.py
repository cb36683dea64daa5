"""Fanlog's own client, and the API's message classes it speaks in.

`Connection` makes every call; `Client` has the methods of Google's services on it, and each service
of ours has a class over a connection, in a module of its own. The names here are imported when they
are used: a Spark task that reads the log need not wait for Google's message classes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanlog.client.client import Client
    from fanlog.client.failures import CallFailed
    from fanlog.wire import types

__all__ = ["CallFailed", "Client", "types"]


def __getattr__(name: str) -> object:
    match name:
        case "CallFailed":
            return import_module("fanlog.client.failures").CallFailed
        case "Client":
            return import_module("fanlog.client.client").Client
        case "types":
            return import_module("fanlog.wire.types")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
