"""Fanlog: a durable publish/subscribe service that speaks the Google Cloud Pub/Sub API.

A Python program may use the names below, `fanlog.errors` for the tree of errors, `fanlog.v1` for
the messages of our own services, `fanlog.consumers` and `fanlog.outbox` beside a database of its
own, `fanlog.spark` in a program on Spark, and `fanlog.testing` to test an engine. Other modules are
internal, and change without notice, unless a guide names them.

Each name is imported when it is first used, so that `import fanlog` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fanlog.client.catalog import CatalogClient
    from fanlog.client.client import Client
    from fanlog.client.failures import CallFailed
    from fanlog.client.inspection import InspectionClient
    from fanlog.client.jobs import JobClient
    from fanlog.client.reopening import ReopenClient
    from fanlog.errors import FanlogError, JobFailed
    from fanlog.in_process.broker import Broker
    from fanlog.in_process.message import Message
    from fanlog.in_process.new_message import NewMessage
    from fanlog.wire import types

    __version__: str

__all__ = [
    "Broker",
    "CallFailed",
    "CatalogClient",
    "Client",
    "FanlogError",
    "InspectionClient",
    "JobClient",
    "JobFailed",
    "Message",
    "NewMessage",
    "ReopenClient",
    "__version__",
    "types",
]

#: The module that each name but the last two is of.
_MODULES = {
    "Broker": "fanlog.in_process.broker",
    "CallFailed": "fanlog.client.failures",
    "CatalogClient": "fanlog.client.catalog",
    "Client": "fanlog.client.client",
    "FanlogError": "fanlog.errors",
    "InspectionClient": "fanlog.client.inspection",
    "JobClient": "fanlog.client.jobs",
    "JobFailed": "fanlog.errors",
    "Message": "fanlog.in_process.message",
    "NewMessage": "fanlog.in_process.new_message",
    "ReopenClient": "fanlog.client.reopening",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name == "types":
        return import_module("fanlog.wire.types")
    if name == "__version__":
        return import_module("importlib.metadata").version("fanlog")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """The names of `__all__`: those are not attributes before they are used."""
    return __all__
