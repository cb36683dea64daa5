"""`fanlog cluster import`: a data folder becomes the log of a new cluster."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanlog.cli import options
from fanlog.cli.kafka_partition import KafkaCluster
from fanlog.cli.output import Output, note
from fanlog.cluster.cards import NodeCard
from fanlog.errors import ConfigError

if TYPE_CHECKING:
    from fanlog.log.replicated.importing import Imported

#: No node can have this name, and nothing listens there.
CARD = NodeCard(name="(import)", link_address="127.0.0.1:9", api_address="")
_SAY_EVERY_S = 5.0


def import_folder(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Data folder of a stopped broker, or a backup."),
    ],
    where: KafkaCluster,
    json: options.AsJson = False,
) -> None:
    """Bring a data folder into a new cluster: the same messages, ids, cursors and snapshots.

    The folder is not changed. Start the nodes when it is done. Killed in the middle, it goes on
    when it is started again; run twice, it does nothing but compare.
    """
    from fanlog.broker.spool import BESIDE
    from fanlog.log.replicated.importing import Import, ImportSource

    if not where.is_given:
        raise ConfigError("say which cluster it goes to: --kafka HOST:PORT --cluster NAME")
    source = ImportSource(directory)
    try:
        with where.opened(may_make=True) as partition, where.working_in(directory) as work_dir:
            run = Import(
                source, partition, CARD.to_bytes(), beside=BESIDE, progress=_Progress().tell
            )
            found = run.run(work_dir)
    finally:
        source.close()
    _say(Output(is_json=json), directory, str(where.cluster), found)


class _Progress:
    """Says now and then how far it is."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + _SAY_EVERY_S

    def tell(self, done_bytes: int, about_bytes: int) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _SAY_EVERY_S
            note(f"{done_bytes >> 20} MiB of about {about_bytes >> 20} are in Kafka")


def _say(output: Output, directory: Path, cluster: str, found: Imported) -> None:
    for name in found.missing_files:
        note(f"warning: {name} is named by the state, and was not there to be brought along")
    verb = "was imported before" if found.was_complete else "is imported"
    then = "nothing was to be done" if found.was_complete else "start its nodes"
    output.done(
        f"{directory} {verb} into the cluster {cluster}, and read back: "
        f"{found.message_count} messages in {found.batch_count} batches of "
        f"{found.partition_count} partitions, {found.state_count} records of state, up to commit "
        f"{found.sequence}; {then}",
        {"data_dir": str(directory), "cluster": cluster} | found._asdict(),
    )
