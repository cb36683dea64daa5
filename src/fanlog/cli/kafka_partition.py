"""The partition of a cluster, for commands that read or write it themselves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fanlog import limits
from fanlog.errors import ConfigError, Unavailable

if TYPE_CHECKING:
    from fanlog.log.replicated.partition import Partition

#: How long a command waits for Kafka.
_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """The options that say where a cluster's log is: those of `fanlog serve`."""

    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka", envvar="FANLOG_KAFKA", metavar="HOST:PORT[,…]", help="Servers of Kafka."
        ),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", envvar="FANLOG_CLUSTER", help="Name of the cluster."),
    ] = None
    kafka_config: Annotated[
        Path | None,
        typer.Option(
            "--kafka-config",
            envvar="FANLOG_KAFKA_CONFIG",
            help="File of settings of Kafka's client: TLS, SASL.",
        ),
    ] = None
    kafka_replicas: Annotated[
        int,
        typer.Option(
            "--kafka-replicas",
            envvar="FANLOG_KAFKA_REPLICAS",
            help="Replicas of the cluster's topic; 3 when not given.",
        ),
    ] = limits.KAFKA_REPLICAS
    kafka_flush: Annotated[
        bool,
        typer.Option(
            "--kafka-flush",
            envvar="FANLOG_KAFKA_FLUSH",
            help="Each replica syncs a record before it counts.",
        ),
    ] = False
    work_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where a second copy of the log is made to compare with, and removed; beside the"
            " folder when not given.",
        ),
    ] = None

    @property
    def is_given(self) -> bool:
        """Whether a cluster is named; half of its name is refused.

        Raises:
            ConfigError: One of --kafka and --cluster is missing.
        """
        if bool(self.kafka) != bool(self.cluster):
            raise ConfigError("--kafka and --cluster go together: where the log is, and its name")
        return bool(self.kafka)

    @contextmanager
    def opened(self, *, may_make: bool) -> Iterator[Partition]:
        """The partition, of a topic that keeps what is written to it.

        Raises:
            ConfigError: The topic is missing and may not be made, or it would lose records.
            Unavailable: Kafka does not answer.
        """
        # Imported here: it needs the extra `kafka`, and says so.
        from fanlog.log.kafka.client import KafkaOptions
        from fanlog.log.kafka.partition import KafkaPartition
        from fanlog.log.kafka.settings import read_settings
        from fanlog.log.kafka.topic import prepare_topic
        from fanlog.log.replicated.partition import PartitionUnavailable

        assert self.kafka is not None
        assert self.cluster is not None
        options = KafkaOptions(
            servers=self.kafka,
            cluster=self.cluster,
            settings={} if self.kafka_config is None else read_settings(self.kafka_config),
            replicas=self.kafka_replicas,
            is_flushed=self.kafka_flush,
        )
        try:
            facts = prepare_topic(options, wait_s=_WAIT_S, may_make=may_make)
            partition = KafkaPartition(options, facts.topic_id)
        except PartitionUnavailable as error:
            raise Unavailable(f"Kafka does not answer at {self.kafka}: {error}") from error
        try:
            yield partition
        finally:
            partition.close()

    @contextmanager
    def working_in(self, data_dir: Path) -> Iterator[Path]:
        """A folder for a copy of what is in another; gone in the end."""
        place = self.work_dir or data_dir.resolve().parent
        try:
            found = tempfile.TemporaryDirectory(prefix=".fanlog-compare-", dir=place)
        except OSError as error:
            raise ConfigError(
                f"cannot make a folder in {place} ({error}): choose another with --work-dir"
            ) from error
        with found as name:
            yield Path(name)
