"""The settings of one server as one value, checked for contradictions."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from fanlog import limits
from fanlog.address_settings import Network
from fanlog.auth.issuers import Issuer
from fanlog.config.cluster import LINK_PORT, SESSION_S, check_cluster
from fanlog.errors import ConfigError
from fanlog.model import origins, quotas, rates
from fanlog.model.quotas import Quotas
from fanlog.model.rates import Rates
from fanlog.model.resources import DeadLetterDefault

PROJECT_DEFAULT = "fanlog"
EVENT_TOPICS = ("refuse", "create")
OUTCOMES = ("auto", "on", "off")
GRPC_COMPRESSIONS = ("off", "gzip")
AUTHS = ("none", "required")
DEAD_LETTER_DEFAULTS: tuple[DeadLetterDefault, ...] = get_args(DeadLetterDefault)
LOG_LEVELS = ("debug", "info", "warning", "error")


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
    #: Which outcomes are told on a topic every minute, one of OUTCOMES: on is of deliveries and of
    #: marks that backlogs crossed, off none; auto is on with a lake, and the marks alone without.
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
    #: Topics, and subscriptions, that have metrics of their own: of more, the largest and most
    #: active. Each is some 50 series in the storage of metrics.
    metrics_resources_max: int = limits.METRICS_RESOURCES_DEFAULT
    #: Where metrics and spans are sent by OTLP over HTTP, such as http://collector:4318; empty for
    #: nowhere. OTEL_EXPORTER_OTLP_ENDPOINT says the same.
    otlp_endpoint: str = ""
    #: The whole address for metrics, where it is another than /v1/metrics below `otlp_endpoint`.
    otlp_metrics_url: str = ""
    #: The same for spans, and /v1/traces.
    otlp_traces_url: str = ""
    #: Headers of these requests, NAME=VALUE with commas between.
    otlp_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    #: Certificates that these endpoints are believed by, as a PEM file; None for the system's.
    otlp_ca: Path | None = None
    #: Attributes of this server as a resource, NAME=VALUE with commas between.
    otlp_attributes: tuple[tuple[str, str], ...] = ()
    #: How often metrics are sent, in seconds; 0 for never.
    otlp_interval_s: float = limits.OTLP_INTERVAL_S
    #: The part of publishes that begin a trace, 0 to 1, where their publisher has not begun one.
    #: With 0, only traces that publishers sample go on; off, the default, traces nothing.
    span_ratio: float | None = None
    #: How long SIGTERM waits for open work, in seconds.
    drain_s: float = limits.DRAIN_S
    #: One of LOG_LEVELS.
    log_level: str = "info"
    #: Servers of Kafka, HOST:PORT each: this server is a node of a cluster, and the log is there.
    #: `data_dir` is the folder of its cache.
    kafka: tuple[str, ...] = ()
    #: Name of the cluster; its log is the topic `<cluster>.shards`. Needs `kafka`.
    cluster: str = ""
    #: Name of this node, which no other node of the cluster has; empty for the machine's name.
    node: str = ""
    #: Address on which this node listens for the others; anything but loopback needs credentials of
    #: nodes, or `insecure`.
    link_host: str = "127.0.0.1"
    #: Port of the same; 0 takes a free one.
    link_port: int = LINK_PORT
    #: HOST:PORT by which other nodes reach this one; empty for `link_host` and `link_port`.
    link_address: str = ""
    #: File of settings of Kafka's client, KEY=VALUE a line: TLS, SASL.
    kafka_config: Path | None = None
    #: Replicas of the cluster's topic; fewer than 3 do not survive the loss of a machine.
    kafka_replicas: int = limits.KAFKA_REPLICAS
    #: Whether each replica syncs a record before it is acknowledged, so that what was published
    #: survives power loss of all of them.
    kafka_flush: bool = False
    #: After so many seconds of silence of the owner another node takes over.
    session: float = SESSION_S
    #: File of the secret by which nodes of the cluster know each other.
    cluster_secret_file: Path | None = None
    #: Certificate of this node, a PEM file: nodes know each other by certificates, not by a secret.
    node_tls_cert: Path | None = None
    #: The certificate's private key, as a PEM file.
    node_tls_key: Path | None = None
    #: Who may have signed the certificates of other nodes: a PEM file.
    node_tls_ca: Path | None = None

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
        if 0 < self.otlp_interval_s < limits.OTLP_INTERVAL_S_MIN:
            raise ConfigError(
                f"otlp_interval_s is {self.otlp_interval_s:g}; it must be 0, or at least"
                f" {limits.OTLP_INTERVAL_S_MIN:g} seconds"
            )
        if self.span_ratio is not None and not self.traces_url:
            raise ConfigError(
                "span_ratio is given, and nothing says where spans are sent; name a collector"
                " (--otlp-endpoint)"
            )
        if self.event_projects and self.event_topics == "refuse":
            raise ConfigError(
                "event_projects names where events may make topics, but event_topics is 'refuse';"
                " say --event-topics create, or leave the projects out"
            )
        check_cluster(self)

    @property
    def is_on_loopback(self) -> bool:
        """Whether only this machine reaches the ports."""
        return origins.is_loopback_listener(self.host)

    @property
    def metrics_url(self) -> str:
        """Where metrics are sent; empty for nowhere."""
        below = f"{self.otlp_endpoint}/v1/metrics" if self.otlp_endpoint else ""
        return (self.otlp_metrics_url or below) if self.otlp_interval_s else ""

    @property
    def traces_url(self) -> str:
        """Where spans are sent, if there are any; empty for nowhere."""
        below = f"{self.otlp_endpoint}/v1/traces" if self.otlp_endpoint else ""
        return self.otlp_traces_url or below

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
    def tells_deliveries(self) -> bool:
        """Whether outcomes of deliveries are told."""
        return self.outcomes == "on" or (self.outcomes == "auto" and bool(self.lake))

    def makes_event_topics(self, project: str) -> bool:
        """Whether the first event of a type makes its topic in a project."""
        is_meant = not self.event_projects or project in self.event_projects
        return self.event_topics == "create" and is_meant
