"""`fanlog doctor`, `backup`, `restore`, `compact` and `auth init`: commands on a data folder."""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanlog.cli import options
from fanlog.cli.kafka_partition import KafkaCluster
from fanlog.cli.output import Output
from fanlog.errors import ConfigError
from fanlog.model.identity import TOKEN_PREFIX

if TYPE_CHECKING:
    from fanlog.log.report import Finding, FolderReport


def doctor(
    where: KafkaCluster,
    data_dir: options.DataDir = options.DATA_DIR,
    into: Annotated[
        Path | None,
        typer.Option(
            "--salvage",
            metavar="DIR",
            help="Rebuild what can be read into this new folder; the old one stays as it is.",
        ),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Verify every checksum and invariant of a data folder; the broker may be running.

    With --kafka and --cluster, the folder is that of a node: Kafka is read from its start to its
    end, and the two are compared. Exits with 1 when something is damaged or differs.
    """
    from fanlog.broker.spool import BESIDE
    from fanlog.log import salvage

    if into is None:
        report = _examine(data_dir, where)
    elif where.is_given:
        raise ConfigError("give --salvage or --kafka, not both: a node's folder needs no salvage")
    else:
        report = salvage.salvage(data_dir, into, inspect_state=_inspect_state, beside=BESIDE)
    output = Output(is_json=json)
    if json:
        output.line(_plain(report))
    else:
        _show(output, report)
    if not report.is_healthy:
        raise typer.Exit(1)


def backup(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that does not exist yet, or is empty.")
    ],
    data_dir: options.DataDir = options.DATA_DIR,
    json: options.AsJson = False,
) -> None:
    """Copy a data folder at one moment and read the copy back; the broker may be running."""
    from fanlog.broker.spool import BESIDE
    from fanlog.log import backup

    report = backup.backup(data_dir, directory, beside=BESIDE)
    output = Output(is_json=json)
    if json:
        output.line(_plain(report))
    else:
        output.text(f"backed up {data_dir} to {directory}")
        _show(output, report)
    if not report.is_healthy:
        raise typer.Exit(1)


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a backup.")],
    data_dir: options.DataDir = options.DATA_DIR,
    json: options.AsJson = False,
) -> None:
    """Make a data folder from a backup; one that has messages already is refused."""
    from fanlog.broker.spool import BESIDE
    from fanlog.log import backup

    backup.restore(directory, data_dir, beside=BESIDE)
    Output(is_json=json).done(
        f"restored {directory} to {data_dir}",
        {"data_dir": str(data_dir), "backup_dir": str(directory)},
    )


def compact(data_dir: options.DataDir = options.DATA_DIR, json: options.AsJson = False) -> None:
    """Give free pages of a data folder back to the disk; the broker must not be running."""
    from fanlog.log import backup

    sizes = backup.compact(data_dir)
    Output(is_json=json).done(
        f"compacted {data_dir}: {sizes.before_bytes} bytes before, {sizes.after_bytes} now",
        {"data_dir": str(data_dir)} | sizes._asdict(),
    )


def init_auth(
    data_dir: options.DataDir = options.DATA_DIR,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write the token: a new file; auth/admin.token in the data folder when"
            " not given.",
        ),
    ] = None,
    json: options.AsJson = False,
) -> None:
    """Make the administrator of a server, or a token for one that was lost; with the broker down.

    The token is written to a file that its owner alone may read, and shown nowhere. In the folder
    of a node of a cluster, which may run, the token is known once that node owns the log.
    """
    from fanlog.broker.bootstrap import (
        ADMINISTRATOR,
        FOLDER_NAME,
        RECOVERY,
        recover_administrator,
        token_path,
    )
    from fanlog.log.embedded import EmbeddedLog
    from fanlog.log.folder import is_cache

    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    if is_cache(data_dir):
        path = _leave_token(token_file or token_path(data_dir / FOLDER_NAME, RECOVERY), token)
        Output(is_json=json).done(
            f"the token in {path} administers the cluster once this node owns its log: start the "
            f"node, or say fanlog cluster move",
            {"account": ADMINISTRATOR, "token_file": str(path)},
        )
        return
    path = token_file or token_path(data_dir / FOLDER_NAME, ADMINISTRATOR)
    store = EmbeddedLog(data_dir)
    try:
        account = recover_administrator(store, path, token, time.time_ns())
    finally:
        store.close()
    Output(is_json=json).done(
        f"{account} administers this server with the token in {path}",
        {"account": account, "token_file": str(path)},
    )


def _leave_token(path: Path, token: str) -> Path:
    """Raises ConfigError: The file cannot be written, or a node would not find it."""
    from fanlog.broker.bootstrap import RECOVERY, keep_token, token_path

    if path.name != token_path(path.parent, RECOVERY).name:
        raise ConfigError(
            f"token_file: {path} is not looked for; a node of a cluster takes {RECOVERY}.token in "
            "its auth folder (--auth-dir, or auth in its data folder)"
        )
    keep_token(path, token)
    return path


def _examine(data_dir: Path, where: KafkaCluster) -> FolderReport:
    from fanlog.log import doctor

    if not where.is_given:
        return doctor.examine(data_dir, inspect_state=_inspect_state)
    from fanlog.log.replicated.agreement import examine_cache, require_cluster

    require_cluster(data_dir, str(where.cluster))
    report = doctor.examine(data_dir, inspect_state=_inspect_state)
    with where.opened(may_make=False) as partition, where.working_in(data_dir) as work_dir:
        examine_cache(data_dir, partition, report, work_dir)
    return report


def _inspect_state(state: list[tuple[bytes, bytes]]) -> list[Finding]:
    from fanlog.broker.audit import audit

    return audit(state)


def _plain(report: FolderReport) -> dict[str, object]:
    return asdict(report) | {"data_dir": str(report.data_dir), "is_healthy": report.is_healthy}


def _show(output: Output, report: FolderReport) -> None:
    output.text(
        f"{report.data_dir}: {report.message_count} messages in {report.batch_count} batches of"
        f" {report.partition_count} partitions, {report.state_count} records of state,"
        f" {report.file_bytes} bytes on disk"
    )
    for finding in report.findings:
        output.text(f"{finding.severity}: {finding.text}")
    if report.more_findings_count:
        output.text(f"and {report.more_findings_count} more of these")
    if report.lost_message_count:
        output.text(f"{report.lost_message_count} messages are damaged or missing")
    output.text("no damage found" if report.is_healthy else "this folder is damaged")
