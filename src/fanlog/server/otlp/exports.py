"""The exports by OTLP that a configuration asks for."""

from __future__ import annotations

from importlib.metadata import version

from fanlog.config import Config
from fanlog.errors import ConfigError
from fanlog.server.otlp.collector import Collector, poster
from fanlog.wire import otlp


def new_collector(config: Config, signal: str, url: str) -> Collector | None:
    """The collector that a signal goes to; None when no address is given.

    Raises:
        ConfigError: The certificates of collectors cannot be read.
    """
    if not url:
        return None
    try:
        return Collector(signal, poster(url, dict(config.otlp_headers), config.otlp_ca))
    except OSError as error:
        raise ConfigError(f"otlp_ca: cannot read {config.otlp_ca}: {error}") from error


def head(config: Config, server_id: str) -> tuple[bytes, bytes]:
    """This server as a resource, and the library that tells of it."""
    own = {
        "service.name": "fanlog",
        "service.instance.id": server_id,
        "service.version": version("fanlog"),
    }
    pairs = own | dict(config.otlp_attributes)
    return otlp.resource(pairs.items()), otlp.scope("fanlog", version("fanlog"))
