"""The user's file of Kafka settings: read, and checked against what the log promises.

The file has the format of Java's properties, which Kafka's own tools read; the names are those of
librdkafka, the library that connects. Settings of the connection pass through. Any other setting is
refused by name: the log's promises stand on them, and none is accepted and ignored.
"""

from __future__ import annotations

import logging
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from fanlog.errors import ConfigError

log = logging.getLogger("fanlog.log")

#: Others may do nothing with a file that may hold a password.
_OTHERS = 0o077

#: What a connection is made of; how these are set changes no promise.
PASSED = (
    "broker.address.",
    "client.",
    "compression.",
    "connections.max.idle.ms",
    "enable.ssl.certificate.verification",
    "https.",
    "reconnect.backoff.",
    "resolve.canonical.bootstrap.servers.lookup",
    "retry.backoff.",
    "sasl.",
    "security.protocol",
    "socket.",
    "ssl.",
)

_IS_THE_LOGS = "the log sets it, and its promises stand on it"
_FROM_START = "the log says itself from where it reads, and a gap must be an error"
_NO_GROUP = "nodes agree by the log alone; no consumer group is used"
_ONE_ORDER = "a record must lie where it is expected: one at a time, in order"
#: Settings that are met in files of other programs, and why they may not stand in this one.
REFUSED: Mapping[str, str] = {
    "bootstrap.servers": "the servers are given with --kafka",
    "metadata.broker.list": "the servers are given with --kafka",
    "acks": "an acknowledgement must come from all replicas in sync",
    "request.required.acks": "an acknowledgement must come from all replicas in sync",
    "enable.idempotence": "a record that is sent again must not be there twice",
    "transactional.id": "a commit is one record, and no transaction is used",
    "isolation.level": "the log reads each record that all replicas in sync have",
    "max.in.flight": _ONE_ORDER,
    "max.in.flight.requests.per.connection": _ONE_ORDER,
    "linger.ms": _ONE_ORDER,
    "queue.buffering.max.ms": _ONE_ORDER,
    "retries": "the time-out of a delivery bounds them",
    "message.send.max.retries": "the time-out of a delivery bounds them",
    "delivery.timeout.ms": "it must be longer than Kafka's own fail-over",
    "message.timeout.ms": "it must be longer than Kafka's own fail-over",
    "request.timeout.ms": "it must be longer than Kafka's own fail-over",
    "message.max.bytes": "a commit must fit into one record",
    "allow.auto.create.topics": "a topic that Kafka makes by itself would lose records",
    "auto.offset.reset": _FROM_START,
    "enable.auto.commit": _NO_GROUP,
    "group.id": _NO_GROUP,
    "group.instance.id": _NO_GROUP,
    "group.protocol": _NO_GROUP,
    "session.timeout.ms": _NO_GROUP,
    "plugin.library.paths": "no other code is loaded into a node",
    "sasl.jaas.config": "it is Java's; say sasl.username and sasl.password",
    "ssl.truststore.location": "it is Java's; say ssl.ca.location, a file in PEM form",
    "ssl.truststore.password": "it is Java's; say ssl.ca.location, a file in PEM form",
    "sasl.login.callback.handler.class": "it is Java's; say sasl.oauthbearer.method=oidc",
}


def read_settings(path: Path) -> dict[str, str]:
    """The settings in a file. One that others on this machine can read is warned of.

    Raises:
        ConfigError: It cannot be read, or has a setting that is refused.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the Kafka settings in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the Kafka settings in {path} are not UTF-8") from error
    settings = parse_settings(text, str(path))
    if mode & _OTHERS and any("password" in name or "secret" in name for name in settings):
        log.warning(
            "action=kafka_settings_shared path=%s mode=%o; others on this machine may read it: "
            "chmod 600 %s",
            *(path, mode, path),
        )
    return settings


def parse_settings(text: str, where: str) -> dict[str, str]:
    """The settings in the text of a file that is called `where`.

    Raises:
        ConfigError: A line is no setting, a setting stands twice, or one is refused.
    """
    settings: dict[str, str] = {}
    for name, value in _entries(text, where):
        if name in settings:
            raise ConfigError(f"{where}: {name} stands there twice")
        if name in REFUSED:
            raise ConfigError(f"{where}: {name} cannot be set: {REFUSED[name]}")
        if not name.startswith(PASSED) or name.endswith("_cb"):
            raise ConfigError(
                f"{where}: {name} cannot be set: only settings of the connection can"
                f" ({', '.join(each.rstrip('.') for each in PASSED)})"
            )
        settings[name] = value
    _check_tokens(settings, where)
    return settings


def _check_tokens(settings: Mapping[str, str], where: str) -> None:
    """OAUTHBEARER without a way to get a token would wait for one for ever."""
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", ""))
    if mechanism == "OAUTHBEARER" and settings.get("sasl.oauthbearer.method") != "oidc":
        raise ConfigError(
            f"{where}: sasl.mechanism is OAUTHBEARER, and nothing says where tokens come from:"
            " say sasl.oauthbearer.method=oidc, and its client and token endpoint"
        )


def _entries(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Names and values, by the rules of Java's properties."""
    lines = iter(re.split(r"\r\n|\n|\r", text))
    for line in lines:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while _goes_on(line):
            line = line[:-1] + next(lines, "").lstrip(" \t\f")
        # A name ends at the first `=`, `:` or blank that has no backslash before it.
        name, value = re.fullmatch(  # type: ignore[union-attr]
            r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line
        ).groups()
        if not name:
            raise ConfigError(f"{where}: {line!r} names no setting")
        yield _unescaped(name, where), _unescaped(value, where).rstrip()


def _goes_on(line: str) -> bool:
    """An odd number of backslashes at the end: the next line belongs to this one."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str, where: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        found = match[1]
        if not found.startswith("u"):
            return _ESCAPES.get(found, found)
        if len(found) < 5:
            raise ConfigError(f"{where}: \\u is not followed by four hexadecimal digits")
        return chr(int(found[1:], 16))

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meaning, text)
