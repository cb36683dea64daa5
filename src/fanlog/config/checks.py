"""The checks of single settings: a value from a flag, a variable or the file, as its type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from fanlog import limits
from fanlog.address_settings import read_hosts, read_issuer, read_networks, read_origins
from fanlog.auth import certificates
from fanlog.auth.issuers import Issuer, parse_issuers
from fanlog.config.cluster import SESSION_S_MAX, SESSION_S_MIN
from fanlog.config.settings import (
    AUTHS,
    DEAD_LETTER_DEFAULTS,
    EVENT_TOPICS,
    GRPC_COMPRESSIONS,
    LOG_LEVELS,
    OUTCOMES,
    Config,
)
from fanlog.core.seal_keys import parse_keys
from fanlog.errors import InvalidArgument
from fanlog.model import names, origins
from fanlog.model.pressure import read_pressure
from fanlog.model.quotas import Quotas, parse_quotas
from fanlog.model.rates import Rates, parse_rates
from fanlog.number_settings import (
    read_body_bytes,
    read_count,
    read_message_bytes,
    read_optional_port,
    read_port,
    read_sample,
    read_seconds,
    read_size_bytes,
    read_topic_retention,
)
from fanlog.telemetry_settings import read_pairs, read_ratio, read_url

#: A part of the name of a topic, which Kafka has its own rules for.
_CLUSTER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def one_of(choices: Sequence[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def project(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a project id")
    try:
        return names.parse_project(names.project_name(str(value)))
    except InvalidArgument as error:
        raise ValueError(
            "must be a project id: printable characters without slashes, "
            f"at most {limits.PROJECT_LENGTH_MAX}"
        ) from error


def path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    return Path(value)


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def issuers(value: object) -> tuple[Issuer, ...]:
    return parse_issuers(value)


def seal_key(value: object) -> str:
    try:
        parse_keys(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"must be a seal key: {error}") from error
    return str(value)


def rates(value: object) -> Rates:
    if not isinstance(value, str):
        raise ValueError("must be rates, such as 'project.messages=10000 principal.requests=500'")
    return parse_rates(value)


def quotas(value: object) -> Quotas:
    if isinstance(value, dict):
        value = " ".join(f"{name}={number}" for name, number in value.items())
    if not isinstance(value, str):
        raise ValueError("must be quotas, such as 'topics=50000 all-topics=200000'")
    return parse_quotas(value)


def region(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be the name of a region, such as europe-west1")
    try:
        names.check_region(value, field="region")
    except InvalidArgument as error:
        raise ValueError("must be the name of a region, such as europe-west1") from error
    return value


def projects(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        raise ValueError("must be project ids")
    return tuple(map(project, texts))


def endpoint(value: object) -> str:
    """HOST:PORT, as others write it."""
    if isinstance(value, str):
        try:
            host, found = origins.parse_host(value.strip())
        except ValueError:
            host, found = "", None
        if host and found:
            return value.strip()
    raise ValueError("must be HOST:PORT")


def endpoints(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not texts:
        raise ValueError("must be servers of Kafka, HOST:PORT each, with commas between them")
    try:
        return tuple(map(endpoint, texts))
    except ValueError as error:
        raise ValueError(
            "must be servers of Kafka, HOST:PORT each, with commas between them"
        ) from error


def cluster_name(value: object) -> str:
    if not isinstance(value, str) or not _CLUSTER_NAME.fullmatch(value):
        raise ValueError("must be a name of letters, digits, dots, dashes and underscores")
    return value


def node_name(value: object) -> str:
    if not isinstance(value, str) or not _NODE_NAME.fullmatch(value):
        raise ValueError("must be a name of letters, digits, dots, dashes and underscores")
    return value


def replicas(value: object) -> int:
    wanted = f"must be a whole number from 1 to {limits.KAFKA_REPLICAS_MAX}"
    try:
        found = read_count(value)
    except ValueError as error:
        raise ValueError(wanted) from error
    if not 1 <= found <= limits.KAFKA_REPLICAS_MAX:
        raise ValueError(wanted)
    return found


def session(value: object) -> float:
    found = read_seconds(value)
    if not SESSION_S_MIN <= found <= SESSION_S_MAX:
        raise ValueError(f"must be from {SESSION_S_MIN:g} to {SESSION_S_MAX:g} seconds")
    return found


CHECKS: dict[str, Callable[[object], object]] = {
    "host": text,
    "port": read_port,
    "http_port": read_optional_port,
    "http_max_bytes": read_body_bytes,
    "http_hosts": read_hosts,
    "cors_origins": read_origins,
    "data_dir": path,
    "memory": flag,
    "insecure": flag,
    "auth": one_of(AUTHS),
    "auth_dir": path,
    "issuers": issuers,
    "mtls_name": one_of(certificates.NAMES),
    "mtls_domain": text,
    "rates": rates,
    "audit_log": path,
    "audit_data_access": flag,
    "seal_key_file": path,
    "seal_key": seal_key,
    "tls_cert": path,
    "tls_key": path,
    "tls_client_ca": path,
    "project": project,
    "resources": path,
    "disk_reserve_bytes": read_size_bytes,
    "message_bytes_max": read_message_bytes,
    "topic_retention": read_topic_retention,
    "topic_retention_bytes": read_size_bytes,
    "push_allow": read_networks,
    "push_issuer": read_issuer,
    "event_topics": one_of(EVENT_TOPICS),
    "event_projects": projects,
    "lake": text,
    "hot_retention_s": read_seconds,
    "hot_size_bytes": read_size_bytes,
    "outcomes": one_of(OUTCOMES),
    "grpc_compression": one_of(GRPC_COMPRESSIONS),
    "quotas": quotas,
    "region": region,
    "dead_letter_default": one_of(DEAD_LETTER_DEFAULTS),
    "trace_sample": read_sample,
    "shed_at": read_pressure,
    "metrics_resources_max": read_count,
    "otlp_endpoint": read_url,
    "otlp_metrics_url": read_url,
    "otlp_traces_url": read_url,
    "otlp_headers": read_pairs,
    "otlp_ca": path,
    "otlp_attributes": read_pairs,
    "otlp_interval_s": read_seconds,
    "span_ratio": read_ratio,
    "drain_s": read_seconds,
    "log_level": one_of(LOG_LEVELS),
    "kafka": endpoints,
    "cluster": cluster_name,
    "node": node_name,
    "link_host": text,
    "link_port": read_port,
    "link_address": endpoint,
    "kafka_config": path,
    "kafka_replicas": replicas,
    "kafka_flush": flag,
    "session": session,
    "cluster_secret_file": path,
    "node_tls_cert": path,
    "node_tls_key": path,
    "node_tls_ca": path,
}
FLAG_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)
NUMBERS = (
    *(read_port, read_size_bytes, read_body_bytes, read_message_bytes, read_sample, read_count),
    *(read_pressure, read_ratio, read_seconds, replicas, session),
)
CHOICES = (frozenset({"memory", "data_dir"}), frozenset({"seal_key", "seal_key_file"}))

assert CHECKS.keys() == {field.name for field in fields(Config)}
