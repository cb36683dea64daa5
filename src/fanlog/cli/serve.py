"""`fanlog serve`: the server in the foreground."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from fanlog.cli.groups import is_given
from fanlog.config import resolve


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The settings of the server as options; each is None, or an empty list, when not given."""

    host: Annotated[
        str | None, typer.Option(help="Address to listen on; 127.0.0.1 when not given.")
    ] = None
    port: Annotated[
        int | None,
        typer.Option(help="Port of gRPC and HTTP; 8085 when not given, 0 for a free one."),
    ] = None
    http_port: Annotated[
        str | None,
        typer.Option(
            metavar="PORT|off",
            help="A second port of the same; 8086 when not given, 0 for a free one, off for none.",
        ),
    ] = None
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate, a PEM file: both ports speak TLS.")
    ] = None
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key, a PEM file.")] = None
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(help="Only clients with a certificate that this signed come in."),
    ] = None
    grpc_compression: Annotated[
        str | None,
        typer.Option(
            metavar="gzip|off",
            help="Compress answers of 1 KiB and more for gRPC clients that take it; off when not"
            " given.",
        ),
    ] = None
    http_max_bytes: Annotated[
        int | None, typer.Option(help="Largest body of an HTTP request; larger ones get a 413.")
    ] = None
    http_hosts: Annotated[
        list[str] | None,
        typer.Option(
            help="Name the HTTP port may be called by besides loopback's; may be repeated."
        ),
    ] = None
    cors_origins: Annotated[
        list[str] | None,
        typer.Option(help="Origin whose web pages may call the HTTP port; may be repeated."),
    ] = None
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the messages; ./data when not given.")
    ] = None
    memory: Annotated[
        bool | None,
        typer.Option("--memory", help="Keep everything in memory; nothing survives the process."),
    ] = None
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure",
            help="Allow an address that others can reach, unauthenticated or in plain text.",
        ),
    ] = None
    auth: Annotated[
        str | None,
        typer.Option(
            metavar="none|required",
            help="Whether callers must show who they are; none when not given.",
        ),
    ] = None
    auth_dir: Annotated[
        Path | None,
        typer.Option(help="Folder of the first tokens; `auth` in the data folder if not given."),
    ] = None
    mtls_name: Annotated[
        str | None,
        typer.Option(
            metavar="san-email|san-dns|san-uri|cn",
            help="The name of a client's certificate that says who it is; none when not given.",
        ),
    ] = None
    mtls_domain: Annotated[
        str | None, typer.Option(help="Behind names of certificates that are no address.")
    ] = None
    rates: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=NUMBER …",
            help="Most a second of a project and a principal, such as 'project.messages=10000'.",
        ),
    ] = None
    audit_log: Annotated[
        Path | None,
        typer.Option(help="File of the audit log; auth/audit.log in the data folder if not given."),
    ] = None
    audit_data_access: Annotated[
        bool | None,
        typer.Option("--audit-data-access", help="Write calls that carry messages there, too."),
    ] = None
    seal_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File of the key that secrets are sealed with in the data folder; plain when"
            " neither this nor FANLOG_SEAL_KEY is given."
        ),
    ] = None
    resources: Annotated[
        Path | None,
        typer.Option(
            help="TOML or YAML file of topics, subscriptions, schedules ... to make at start."
        ),
    ] = None
    project: Annotated[
        str | None, typer.Option(help="Project of short names; fanlog when not given.")
    ] = None
    push_allow: Annotated[
        list[str] | None,
        typer.Option(help="Network that push may reach although it is private; may be repeated."),
    ] = None
    push_issuer: Annotated[
        str | None, typer.Option(help="Issuer of OIDC tokens; the HTTP port's own when not given.")
    ] = None
    event_topics: Annotated[
        str | None,
        typer.Option(
            metavar="create|refuse",
            help="The first event of a type makes its topic, or is refused when not given.",
        ),
    ] = None
    event_projects: Annotated[
        list[str] | None,
        typer.Option(
            help="Project where --event-topics create holds; all when not given; may be repeated."
        ),
    ] = None
    lake: Annotated[
        str | None,
        typer.Option(
            help="Folder or s3://bucket/prefix of archived messages; none when not given."
        ),
    ] = None
    hot_retention_s: Annotated[
        float | None,
        typer.Option(
            "--hot-retention-s",
            "--hot-retention",
            help="Seconds that archived messages stay in the hot log; a day when not given.",
        ),
    ] = None
    hot_size_bytes: Annotated[
        int | None,
        typer.Option(
            "--hot-size-bytes",
            "--hot-size",
            help="Largest size of the hot log; 0, no limit, when not given.",
        ),
    ] = None
    outcomes: Annotated[
        str | None,
        typer.Option(
            help="Tell outcomes on a topic every minute: auto (without a lake, marks that backlogs"
            " crossed alone), on or off."
        ),
    ] = None
    quotas: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=NUMBER …",
            help="Most resources of a project and in all, such as 'topics=50000'.",
        ),
    ] = None
    region: Annotated[
        str | None,
        typer.Option(help="Where this server stands, for topics whose messages have a region."),
    ] = None
    dead_letter_default: Annotated[
        str | None,
        typer.Option(
            metavar="none|auto",
            help="Dead letters of subscriptions made without a policy: none when not given, or a "
            "topic of their own.",
        ),
    ] = None
    trace_sample: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Remember deliveries of one message in N for `message trace`; 0 for none.",
        ),
    ] = None
    shed_at: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            help="How full what waits for the disk may be, 0 to 1, before publishes are refused,"
            " those of low priority first; 0, the default, for no such refusals.",
        ),
    ] = None
    metrics_resources_max: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Topics, and subscriptions, with metrics of their own; 1000 when not given.",
        ),
    ] = None
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send metrics and spans by OTLP over HTTP, such as to http://collector:4318.",
        ),
    ] = None
    otlp_interval_s: Annotated[
        float | None,
        typer.Option(help="Seconds between two sendings of metrics; 60 when not given."),
    ] = None
    span_ratio: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            help="Trace this part of publishes, 0 to 1, and those that their publisher traces;"
            " nothing when not given.",
        ),
    ] = None
    drain_s: Annotated[
        float | None, typer.Option(help="Seconds that SIGTERM waits for open work.")
    ] = None
    disk_reserve_bytes: Annotated[
        int | None, typer.Option(help="Publishing stops when the disk has less left.")
    ] = None
    message_bytes_max: Annotated[
        int | None, typer.Option(help="Largest message, in bytes; 10 MB when not given.")
    ] = None
    topic_retention: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Topics without a retention of their own keep messages this long: 10m to 31d,"
            " or 0 for as long as subscriptions need them; 7d when not given.",
        ),
    ] = None
    topic_retention_bytes: Annotated[
        int | None,
        typer.Option(
            help="Most that only --topic-retention keeps, the oldest goes first; 10 GiB or a tenth"
            " of the disk when not given, 64 MiB in memory."
        ),
    ] = None
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT[,…]",
            help="Servers of Kafka: be a node of a cluster, whose log is there; --data-dir is its"
            " cache.",
        ),
    ] = None
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster.")] = None
    node: Annotated[
        str | None,
        typer.Option(help="Name of this node, its own in the cluster; the machine's if not given."),
    ] = None
    link_host: Annotated[
        str | None,
        typer.Option(help="Address to listen on for other nodes; 127.0.0.1 when not given."),
    ] = None
    link_port: Annotated[
        int | None,
        typer.Option(help="Port for other nodes; 8087 when not given, 0 for a free one."),
    ] = None
    link_address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="By which other nodes reach this one, if not that."),
    ] = None
    kafka_config: Annotated[
        Path | None, typer.Option(help="File of settings of Kafka's client: TLS, SASL.")
    ] = None
    kafka_replicas: Annotated[
        int | None, typer.Option(help="Replicas of the cluster's topic; 3 when not given.")
    ] = None
    kafka_flush: Annotated[
        bool | None,
        typer.Option("--kafka-flush", help="Each replica syncs a record before it counts."),
    ] = None
    session: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Silence of the owner after which another node takes over; 3 when not given.",
        ),
    ] = None
    cluster_secret_file: Annotated[
        Path | None,
        typer.Option(help="File of the secret by which nodes of the cluster know each other."),
    ] = None
    node_tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate of this node for other nodes, a PEM file.")
    ] = None
    node_tls_key: Annotated[Path | None, typer.Option(help="That certificate's key.")] = None
    node_tls_ca: Annotated[
        Path | None, typer.Option(help="Who may have signed the certificates of other nodes.")
    ] = None
    config: Annotated[
        Path | None,
        typer.Option("--config", help="TOML file of these settings; also FANLOG_CONFIG."),
    ] = None


def serve(settings: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Every setting can also be given as a FANLOG_ variable (FANLOG_HTTP_PORT) or in a TOML file
    (http_port = 8086); flags come first, then variables, then the file.
    """
    given = {field.name: getattr(settings, field.name) for field in fields(settings)}
    config = resolve({k: v for k, v in given.items() if is_given(v)}, os.environ)
    # No process that the server starts needs it.
    os.environ.pop("FANLOG_SEAL_KEY", None)
    # Imported here: no other command needs the server, and it is slow to import.
    from fanlog.server.app import serve as serve_until_stopped

    raise typer.Exit(serve_until_stopped(config))
