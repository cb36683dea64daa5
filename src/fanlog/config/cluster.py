"""The settings of a node of a cluster: their defaults, and which go together."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from fanlog import limits
from fanlog.errors import ConfigError
from fanlog.model import origins

LINK_PORT: Final = 8087
SESSION_S: Final = 3.0
#: Shorter ones would end with every pause of a machine, longer ones are no fail-over.
SESSION_S_MIN: Final = 0.5
SESSION_S_MAX: Final = 60.0


class ClusterSettings(Protocol):
    """The settings that are looked at here."""

    @property
    def kafka(self) -> tuple[str, ...]: ...
    @property
    def cluster(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def link_host(self) -> str: ...
    @property
    def link_port(self) -> int: ...
    @property
    def link_address(self) -> str: ...
    @property
    def kafka_config(self) -> Path | None: ...
    @property
    def kafka_replicas(self) -> int: ...
    @property
    def kafka_flush(self) -> bool: ...
    @property
    def session(self) -> float: ...
    @property
    def cluster_secret_file(self) -> Path | None: ...
    @property
    def node_tls_cert(self) -> Path | None: ...
    @property
    def node_tls_key(self) -> Path | None: ...
    @property
    def node_tls_ca(self) -> Path | None: ...
    @property
    def memory(self) -> bool: ...
    @property
    def insecure(self) -> bool: ...


def check_cluster(config: ClusterSettings) -> None:
    """Raises ConfigError: The settings of a cluster contradict each other."""
    if not config.kafka:
        _check_alone(config)
        return
    if not config.cluster:
        raise ConfigError("kafka is given and cluster is not; say which cluster this node is of")
    if config.memory:
        raise ConfigError(
            "kafka is given, and everything is to be in memory; a node of a cluster keeps a cache "
            "of the log in a folder (--data-dir)"
        )
    _check_credentials(config)
    if origins.is_loopback_listener(config.link_host):
        return
    if not (_has_credentials(config) or config.insecure):
        raise ConfigError(
            f"link_host {config.link_host!r} can be reached by others, who could call as if they "
            "were nodes of the cluster; give --cluster-secret-file, or --node-tls-cert, "
            "--node-tls-key and --node-tls-ca, or say --insecure"
        )
    if config.link_host in ("0.0.0.0", "::") and not config.link_address:
        raise ConfigError(
            f"link_host {config.link_host!r} is every address of this machine; say by which one "
            "other nodes reach it (--link-address HOST:PORT)"
        )


def _check_alone(config: ClusterSettings) -> None:
    """Refuse what only a node of a cluster reads."""
    given = {
        "cluster": config.cluster,
        "node": config.node,
        "link_host": config.link_host != "127.0.0.1",
        "link_port": config.link_port != LINK_PORT,
        "link_address": config.link_address,
        "kafka_config": config.kafka_config,
        "kafka_replicas": config.kafka_replicas != limits.KAFKA_REPLICAS,
        "kafka_flush": config.kafka_flush,
        "session": config.session != SESSION_S,
        "cluster_secret_file": config.cluster_secret_file,
        "node_tls_cert": config.node_tls_cert,
        "node_tls_key": config.node_tls_key,
        "node_tls_ca": config.node_tls_ca,
    }
    for name, value in given.items():
        if value:
            raise ConfigError(
                f"{name} is given and kafka is not; a cluster has its log in Kafka (--kafka)"
            )


def _check_credentials(config: ClusterSettings) -> None:
    tls = {
        "node_tls_cert": config.node_tls_cert,
        "node_tls_key": config.node_tls_key,
        "node_tls_ca": config.node_tls_ca,
    }
    missing = [name for name, value in tls.items() if value is None]
    if missing and len(missing) < len(tls):
        raise ConfigError(
            f"node_tls_cert, node_tls_key and node_tls_ca go together; {missing[0]} is not given"
        )


def _has_credentials(config: ClusterSettings) -> bool:
    return config.cluster_secret_file is not None or config.node_tls_cert is not None
