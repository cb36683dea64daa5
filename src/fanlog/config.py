"""The settings of one server, resolved once, before anything starts.

Each setting comes from the first of these that names it: a flag, a `FANLOG_*` variable, the TOML
file, its default. Nothing is accepted and ignored: an unknown key or variable, a value of the wrong
type or out of range, and settings that contradict each other are refused with a sentence that names
the setting and where it stood.

`memory` and `data_dir` are one choice between two engines, `seal_key` and `seal_key_file` one
between two places of a key. The first source that names either decides; one source that names both
is refused.
"""

from __future__ import annotations

import difflib
import ipaddress
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeGuard, get_args

from fanlog import limits
from fanlog.auth import certificates
from fanlog.auth.issuers import Issuer, parse_issuers
from fanlog.core.seal_keys import parse_keys
from fanlog.errors import ConfigError, InvalidArgument
from fanlog.model import durations, names, origins, quotas, rates
from fanlog.model.pressure import read_pressure
from fanlog.model.quotas import Quotas, parse_quotas
from fanlog.model.rates import Rates, parse_rates
from fanlog.model.resources import DeadLetterDefault

ENV_PREFIX = "FANLOG_"
#: Names the TOML file; a flag `config` does the same and comes first.
ENV_FILE = "FANLOG_CONFIG"
#: Variables of other commands, and of clients, which may stand in the same environment.
OTHER_VARIABLES = frozenset(
    {
        "FANLOG_MASTER",
        "FANLOG_IMPORT_ROOTS",
        "FANLOG_S3_BUCKETS",
        "FANLOG_CA",
        "FANLOG_CERT",
        "FANLOG_KEY",
        "FANLOG_TOKEN",
        "FANLOG_TOKEN_FILE",
        "FANLOG_CREDENTIALS",
    }
)

PROJECT_DEFAULT = "fanlog"
EVENT_TOPICS = ("refuse", "create")
OUTCOMES = ("auto", "on", "off")
GRPC_COMPRESSIONS = ("off", "gzip")
AUTHS = ("none", "required")
DEAD_LETTER_DEFAULTS: tuple[DeadLetterDefault, ...] = get_args(DeadLetterDefault)
LOG_LEVELS = ("debug", "info", "warning", "error")


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything `serve` needs to know. Raises ConfigError when the settings contradict."""

    #: Address both ports listen on. Anything but loopback needs a certificate, or `insecure`.
    host: str = "127.0.0.1"
    #: gRPC and HTTP; 0 takes a free port.
    port: int = 8085
    #: A second port of the same, where REST, health, readiness and metrics were before; 0 takes a
    #: free port, off has none.
    http_port: int | None = 8086
    #: Certificate of this server, with its chain, as a PEM file: both ports speak TLS. Read again
    #: when it changes.
    tls_cert: Path | None = None
    #: The certificate's private key, as a PEM file.
    tls_key: Path | None = None
    #: Clients must show a certificate that one of these signed: a PEM file.
    tls_client_ca: Path | None = None
    #: Whether answers of gRPC are compressed for clients that take that, one of GRPC_COMPRESSIONS:
    #: those of 1 KiB and more. It costs the server's processor, and saves the network.
    grpc_compression: str = "off"
    #: Largest body of an HTTP request, in bytes; larger ones are answered with 413.
    http_max_bytes: int = limits.HTTP_BYTES_MAX
    #: Names the HTTP port may be called by (`Host`) besides loopback's; on loopback, and wherever
    #: some are given, others are refused.
    http_hosts: tuple[str, ...] = ()
    #: Origins whose web pages may call the HTTP port, such as https://app.example:3000; all others
    #: are refused.
    cors_origins: tuple[str, ...] = ()
    #: Folder of the log; not used when `memory` is set.
    data_dir: Path = Path("data")
    #: Keep everything in memory: nothing survives the process.
    memory: bool = False
    #: Serve on an address others can reach without authentication, or without TLS.
    insecure: bool = False
    #: Whether callers must show who they are, one of AUTHS; then policies are enforced.
    auth: str = "none"
    #: Folder of the files that the tokens of the first accounts are written to; None for `auth` in
    #: the data folder.
    auth_dir: Path | None = None
    #: Issuers of tokens that are believed besides this server itself: tables of the settings file.
    issuers: tuple[Issuer, ...] = ()
    #: Which name of a client's certificate says who it is, one of the NAMES of certificates.
    mtls_name: str = "none"
    #: Of principals whose certificate has no address: serviceAccount:NAME@DOMAIN.
    mtls_domain: str = "mtls.internal"
    #: How much a project and a principal may do a second, and how many streams they may have.
    rates: Rates = rates.NONE
    #: File of the audit log, JSON lines; None for `audit.log` beside the tokens of the first
    #: accounts. There is one wherever callers are authenticated.
    audit_log: Path | None = None
    #: Whether calls that read or carry messages are written there, too.
    audit_data_access: bool = False
    #: File of the key that secrets are sealed with in the data folder, as `fanlog auth seal-key
    #: create` makes it; of several keys, one a line, the first seals and all open. None for plain.
    seal_key_file: Path | None = None
    #: The same keys themselves, with blanks between them: for the environment alone.
    seal_key: str = field(default="", repr=False)
    #: Project of names given without one.
    project: str = PROJECT_DEFAULT
    #: TOML or YAML file of schemas, topics, subscriptions and schedules to make at start.
    resources: Path | None = None
    #: Publishing stops when the disk has less than this left.
    disk_reserve_bytes: int = limits.DISK_RESERVE_BYTES
    #: Largest message that may be published, in bytes: data, attributes and ordering key.
    message_bytes_max: int = limits.MESSAGE_BYTES_MAX
    #: How long topics without a retention of their own keep messages: 0 for as long as
    #: subscriptions need them, or 10 minutes to 31 days. Seconds, or a text such as 7d, 12h, 30m.
    topic_retention: float = limits.TOPIC_RETENTION_S
    #: What only `topic_retention` keeps has at most so many bytes, the oldest goes first; None for
    #: 10 GiB or a tenth of the disk, whichever is less, and 64 MiB in memory.
    topic_retention_bytes: int | None = None
    #: Networks that push may reach although they are private, local or reserved.
    push_allow: tuple[Network, ...] = ()
    #: Issuer of OIDC tokens, where receivers find the keys; empty for the HTTP port's own address.
    push_issuer: str = ""
    #: What becomes of the first event of a type, one of EVENT_TOPICS: its topic is made, or it is
    #: refused.
    event_topics: str = "refuse"
    #: Projects in which `event_topics = "create"` holds; all when there are none.
    event_projects: tuple[str, ...] = ()
    #: Where archived messages are: a folder, or s3://bucket/prefix; empty for no lake.
    lake: str = ""
    #: How long messages stay in the hot log once they are archived, in seconds.
    hot_retention_s: float = limits.HOT_RETENTION_S
    #: Largest size of the hot log: archived messages leave it sooner near that, and publishing
    #: stops at it until the archive has come further; 0 for no limit. Needs `lake`.
    hot_size_bytes: int = 0
    #: Whether the outcomes of deliveries are told on a topic every minute, one of OUTCOMES: auto is
    #: on with a lake, where the pipeline makes tables of them, and off without.
    outcomes: str = "auto"
    #: The most topics, subscriptions, labels … of a project and in all.
    quotas: Quotas = quotas.DEFAULTS
    #: Where this server stands, such as europe-west1: topics whose message_storage_policy names
    #: regions are only made when this is one of them. Empty for nowhere in particular.
    region: str = ""
    #: Dead letters of subscriptions made without a policy, one of DEAD_LETTER_DEFAULTS: none, or a
    #: topic of their own with a subscription on it, as the label `fanlog-dead-letter: auto` makes.
    dead_letter_default: DeadLetterDefault = "none"
    #: Of so many messages of a topic, one has its deliveries and acknowledgements remembered for
    #: `fanlog message trace`; 0 for none. Failures are remembered of all.
    trace_sample: int = limits.TRACE_SAMPLE_DEFAULT
    #: From which pressure on the disk, 0 to 1, publishes are refused by priority; 0 for never.
    shed_at: float = 0.0
    #: How long SIGTERM waits for open work, in seconds.
    drain_s: float = limits.DRAIN_S
    #: One of LOG_LEVELS.
    log_level: str = "info"

    def __post_init__(self) -> None:
        if not (self.insecure or self.is_on_loopback or self.is_protected):
            raise ConfigError(
                f"host {self.host!r} can be reached by others; use 127.0.0.1, give --tls-cert and"
                " --tls-key with --auth required (or with --tls-client-ca, so that only clients"
                " you know come in), or say --insecure to serve it anyway"
            )
        if self.auth == "none":
            for name in ("auth_dir", "issuers", "rates", "audit_log", "audit_data_access"):
                if getattr(self, name):
                    raise ConfigError(
                        f"{name} is given, and callers are not authenticated; say --auth required"
                    )
            if self.mtls_name != "none":
                raise ConfigError(
                    "mtls_name is given, and callers are not authenticated; say --auth required"
                )
        elif self.memory and self.auth_dir is None:
            raise ConfigError(
                "auth is required and everything is in memory; say where the administrator's token"
                " is to be written (--auth-dir)"
            )
        if self.memory and (self.seal_key or self.seal_key_file):
            raise ConfigError(
                "a seal key is given, and everything is in memory: no secret is stored that it"
                " could seal"
            )
        if self.mtls_name != "none" and self.tls_client_ca is None:
            raise ConfigError("mtls_name is given and tls_client_ca is not: no client shows one")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key go together: one is given, the other is not")
        if self.tls_client_ca is not None and self.tls_cert is None:
            raise ConfigError("tls_client_ca is given and tls_cert is not: there is no TLS")
        if self.hot_size_bytes and not self.lake:
            raise ConfigError(
                "hot_size_bytes is given and lake is not; without a lake there is nowhere for "
                "messages to go, and the whole log is hot"
            )
        if self.event_projects and self.event_topics == "refuse":
            raise ConfigError(
                "event_projects names where events may make topics, but event_topics is 'refuse';"
                " say --event-topics create, or leave the projects out"
            )

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches the ports."""
        return origins.is_loopback_listener(self.host)

    @property
    def auth_folder(self) -> Path:
        """Where the tokens of the first accounts are, and the audit log unless it is elsewhere."""
        return self.auth_dir or self.data_dir / "auth"

    @property
    def is_protected(self) -> bool:
        """Whether strangers that reach the ports can do nothing, and hear nothing on the way."""
        has_callers = self.auth == "required" or self.tls_client_ca is not None
        return self.tls_cert is not None and has_callers

    @property
    def tells_outcomes(self) -> bool:
        """Whether the broker writes outcomes."""
        return self.outcomes == "on" or (self.outcomes == "auto" and bool(self.lake))

    def makes_event_topics(self, project: str) -> bool:
        """Whether the first event of a type makes its topic in a project."""
        is_meant = not self.event_projects or project in self.event_projects
        return self.event_topics == "create" and is_meant


def resolve(flags: Mapping[str, object], environ: Mapping[str, str]) -> Config:
    """Resolve the settings from flags, the environment and the file they may name.

    Args:
        flags: Values by setting name, `config` for the file; None means not given.
        environ: The process environment.

    Raises:
        ConfigError: A setting is unknown, of the wrong type, out of range or contradictory.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    file_name = given.pop("config", None) or environ.get(ENV_FILE) or None
    sources = [_from_flags(given), _from_environ(environ)]
    if file_name is not None:
        sources.append(_from_file(Path(str(file_name))))

    resolved: dict[str, Any] = {}
    for values in sources:
        for choice in _CHOICES:
            if not resolved.keys().isdisjoint(choice):
                values = {name: value for name, value in values.items() if name not in choice}
        resolved = values | resolved
    return Config(**resolved)


def _from_flags(given: Mapping[str, object]) -> dict[str, object]:
    return _check_all(given, lambda name: f"--{name.replace('_', '-')}")


def _from_environ(environ: Mapping[str, str]) -> dict[str, object]:
    # An empty variable is an unset one, as compose files and service units write it.
    texts = {
        name.removeprefix(ENV_PREFIX): text
        for name, text in environ.items()
        if name.startswith(ENV_PREFIX) and name not in (ENV_FILE, *OTHER_VARIABLES) and text
    }
    known = {name.upper(): name for name in _CHECKS}
    values: dict[str, object] = {}
    for upper, text in texts.items():
        if upper not in known:
            raise ConfigError(_unknown(f"variable {ENV_PREFIX}{upper}", upper, known))
        values[known[upper]] = _read_text(known[upper], text)
    return _check_all(values, lambda name: f"{ENV_PREFIX}{name.upper()}")


def _from_file(path: Path) -> dict[str, object]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the file {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not a TOML file: {error}") from error
    if "seal_key" in table:
        raise ConfigError(
            f"'seal_key' in {path}: a seal key stands in no settings file; name the file that has"
            " it (seal_key_file)"
        )
    values = _check_all(table, lambda name: f"{name!r} in {path}")
    # Paths in the file are relative to it, so that the server may start from anywhere.
    lake = values.get("lake")
    if isinstance(lake, str) and "://" not in lake:
        values["lake"] = str(path.parent / lake)
    return {
        name: path.parent / value if isinstance(value, Path) else value
        for name, value in values.items()
    }


def _check_all(values: Mapping[str, object], say: Callable[[str], str]) -> dict[str, object]:
    checked: dict[str, object] = {}
    for name, value in values.items():
        if name not in _CHECKS:
            raise ConfigError(_unknown(f"setting {say(name)}", name, _CHECKS))
        try:
            checked[name] = _CHECKS[name](value)
        except ValueError as error:
            # A seal key is in no text, be it a wrong one.
            shown = "" if name == "seal_key" else f", not {value!r}"
            raise ConfigError(f"{say(name)} {error}{shown}") from error
    if checked.get("memory") and "data_dir" in checked:
        raise ConfigError(
            f"{say('memory')} and {say('data_dir')} exclude each other; choose one of them"
        )
    if "seal_key" in checked and "seal_key_file" in checked:
        raise ConfigError(
            f"{say('seal_key')} and {say('seal_key_file')} exclude each other; choose one of them"
        )
    return checked


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(sorted(known))}"
    return f"unknown {what}{hint}"


def _read_text(name: str, text: str) -> object:
    """Read a variable's text as a value of its setting; a text that is none stays text."""
    if _CHECKS[name] is _flag:
        return _FLAG_WORDS.get(text.lower(), text)
    if _CHECKS[name] in _NUMBERS:
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            return text
    return text


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("must be a text")
    return value


def _one_of(choices: Sequence[str]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(value)

    return check


def _project(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a project id")
    try:
        return names.parse_project(names.project_name(str(value)))
    except InvalidArgument as error:
        raise ValueError(
            "must be a project id: printable characters without slashes, "
            f"at most {limits.PROJECT_LENGTH_MAX}"
        ) from error


def _path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise ValueError("must be a path")
    return Path(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _port(value: object) -> int:
    if not _is_integer(value) or not 0 <= value <= 65_535:
        raise ValueError("must be a whole number from 0 to 65535")
    return value


def _optional_port(value: object) -> int | None:
    if value == "off":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not _is_integer(value) or not 0 <= value <= 65_535:
        raise ValueError("must be a whole number from 0 to 65535, or off")
    return value


def _size_bytes(value: object) -> int:
    if not _is_integer(value) or value < 0:
        raise ValueError("must be a whole number of bytes, 0 or more")
    return value


def _body_bytes(value: object) -> int:
    if not _is_integer(value) or value < limits.HTTP_BYTES_MIN:
        raise ValueError(f"must be a whole number of bytes, {limits.HTTP_BYTES_MIN} or more")
    return value


def _message_bytes(value: object) -> int:
    if not _is_integer(value) or not 1 <= value <= limits.MESSAGE_BYTES_MAX:
        raise ValueError(f"must be a whole number of bytes from 1 to {limits.MESSAGE_BYTES_MAX}")
    return value


def _seconds(value: object) -> float:
    # An integer may be below infinity and still too large for a float.
    if not (_is_integer(value) or isinstance(value, float)) or not 0 <= value <= sys.float_info.max:
        raise ValueError("must be a number of seconds, 0 or more")
    return float(value)


def _sample(value: object) -> int:
    if not _is_integer(value) or not 0 <= value <= limits.TRACE_SAMPLE_MAX:
        raise ValueError(f"must be a whole number from 0 to {limits.TRACE_SAMPLE_MAX}")
    return value


def _topic_retention(value: object) -> float:
    try:
        seconds = durations.seconds(value) if isinstance(value, str) else _seconds(value)
    except ValueError:
        seconds = -1.0
    if seconds and not limits.RETENTION_S_MIN <= seconds <= limits.RETENTION_S_MAX:
        raise ValueError("must be 0, or from 10m to 31d: seconds, or a text such as 7d, 12h or 30m")
    return seconds


def _networks(value: object) -> tuple[Network, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        raise ValueError("must be networks, such as 127.0.0.0/8")
    try:
        return tuple(ipaddress.ip_network(str(text)) for text in texts)
    except ValueError as error:
        raise ValueError("must be networks, such as 127.0.0.0/8") from error


def _hosts(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    wanted = "must be host names or addresses without a port, such as fanlog.internal"
    if not isinstance(texts, list | tuple):
        raise ValueError(wanted)
    found: list[str] = []
    for text in texts:
        # An address of IPv6 may stand without its brackets, as nothing follows it.
        written = f"[{text}]" if str(text).count(":") > 1 and "[" not in str(text) else str(text)
        try:
            name, port = origins.parse_host(written)
        except ValueError as error:
            raise ValueError(wanted) from error
        if port is not None:
            raise ValueError(wanted)
        found.append(name)
    return tuple(found)


def _origins(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    wanted = "must be origins, each by its name, such as https://app.example:3000"
    if not isinstance(texts, list | tuple):
        raise ValueError(wanted)
    try:
        return tuple(origins.parse_origin(str(text)) for text in texts)
    except ValueError as error:
        raise ValueError(wanted) from error


def _issuer(value: object) -> str:
    if not isinstance(value, str) or not value.startswith(("https://", "http://")):
        raise ValueError("must be an http or https address")
    try:
        origins.parse_host(value.split("/")[2])
    except ValueError as error:
        raise ValueError("must be an http or https address") from error
    return value.rstrip("/")


def _issuers(value: object) -> tuple[Issuer, ...]:
    return parse_issuers(value)


def _seal_key(value: object) -> str:
    try:
        parse_keys(value if isinstance(value, str) else "")
    except ValueError as error:
        raise ValueError(f"must be a seal key: {error}") from error
    return str(value)


def _rates(value: object) -> Rates:
    if not isinstance(value, str):
        raise ValueError("must be rates, such as 'project.messages=10000 principal.requests=500'")
    return parse_rates(value)


def _quotas(value: object) -> Quotas:
    if isinstance(value, dict):
        value = " ".join(f"{name}={number}" for name, number in value.items())
    if not isinstance(value, str):
        raise ValueError("must be quotas, such as 'topics=50000 all-topics=200000'")
    return parse_quotas(value)


def _region(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be the name of a region, such as europe-west1")
    try:
        names.check_region(value, field="region")
    except InvalidArgument as error:
        raise ValueError("must be the name of a region, such as europe-west1") from error
    return value


def _projects(value: object) -> tuple[str, ...]:
    texts = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(texts, list | tuple):
        raise ValueError("must be project ids")
    return tuple(map(_project, texts))


def _is_integer(value: object) -> TypeGuard[int]:
    # A bool is an int to Python and a mistake here.
    return isinstance(value, int) and not isinstance(value, bool)


_CHECKS: dict[str, Callable[[object], object]] = {
    "host": _text,
    "port": _port,
    "http_port": _optional_port,
    "http_max_bytes": _body_bytes,
    "http_hosts": _hosts,
    "cors_origins": _origins,
    "data_dir": _path,
    "memory": _flag,
    "insecure": _flag,
    "auth": _one_of(AUTHS),
    "auth_dir": _path,
    "issuers": _issuers,
    "mtls_name": _one_of(certificates.NAMES),
    "mtls_domain": _text,
    "rates": _rates,
    "audit_log": _path,
    "audit_data_access": _flag,
    "seal_key_file": _path,
    "seal_key": _seal_key,
    "tls_cert": _path,
    "tls_key": _path,
    "tls_client_ca": _path,
    "project": _project,
    "resources": _path,
    "disk_reserve_bytes": _size_bytes,
    "message_bytes_max": _message_bytes,
    "topic_retention": _topic_retention,
    "topic_retention_bytes": _size_bytes,
    "push_allow": _networks,
    "push_issuer": _issuer,
    "event_topics": _one_of(EVENT_TOPICS),
    "event_projects": _projects,
    "lake": _text,
    "hot_retention_s": _seconds,
    "hot_size_bytes": _size_bytes,
    "outcomes": _one_of(OUTCOMES),
    "grpc_compression": _one_of(GRPC_COMPRESSIONS),
    "quotas": _quotas,
    "region": _region,
    "dead_letter_default": _one_of(DEAD_LETTER_DEFAULTS),
    "trace_sample": _sample,
    "shed_at": read_pressure,
    "drain_s": _seconds,
    "log_level": _one_of(LOG_LEVELS),
}
_FLAG_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(
    ("false", "no", "off", "0"), False
)
_NUMBERS = (_port, _size_bytes, _body_bytes, _message_bytes, _sample, read_pressure, _seconds)
_CHOICES = (frozenset({"memory", "data_dir"}), frozenset({"seal_key", "seal_key_file"}))

assert _CHECKS.keys() == {field.name for field in fields(Config)}
