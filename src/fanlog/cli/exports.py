"""Options of `fanlog sub` that say where a subscription's messages are exported to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from fanlog.cli import options
from fanlog.cli.groups import flag
from fanlog.errors import InvalidArgument

_OF_FILES = (
    *("format", "prefix", "suffix", "datetime_format"),
    *("max_duration", "max_bytes", "max_messages"),
)


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options about exports, as they were given."""

    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Export to a table of the lake: exports/NAME."),
    ] = None
    bucket: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|URL",
            help="Export to files: files/NAME of the lake, or s3://bucket/prefix.",
        ),
    ] = None
    topic_schema: Annotated[
        bool,
        typer.Option("--topic-schema", help="Columns, or Avro records, by the topic's schema."),
    ] = False
    metadata: Annotated[
        bool,
        typer.Option("--metadata", help="Export message id, publish time, attributes and so on."),
    ] = False
    drop_unknown: Annotated[
        bool,
        typer.Option("--drop-unknown", help="Leave out fields that the table has no column for."),
    ] = False
    format: Annotated[
        Literal["text", "avro"] | None, typer.Option(help="Of files: text by default.")
    ] = None
    prefix: Annotated[str | None, typer.Option(help="What the names of files begin with.")] = None
    suffix: Annotated[str | None, typer.Option(help="What the names of files end with.")] = None
    datetime_format: Annotated[
        str | None, typer.Option(help="Of the time in the names of files: YYYY-MM-DD/hh_mm_ssZ.")
    ] = None
    max_duration: Annotated[
        str | None, typer.Option(help="Write a file at the latest after: 1m to 10m, 5m by default.")
    ] = None
    max_bytes: Annotated[int | None, typer.Option(help="Begin a new file after so many bytes.")] = (
        None
    )
    max_messages: Annotated[
        int | None, typer.Option(help="Begin a new file after so many messages: 1000 or more.")
    ] = None

    @property
    def is_given(self) -> bool:
        return self.table is not None or self.bucket is not None

    def fill(self, subscription: Any) -> None:
        """Put it into a Subscription.

        Raises:
            InvalidArgument: Options that mean nothing together.
        """
        self._check()
        if self.table is not None:
            config = subscription.bigquery_config
            config.table = self.table
            config.use_topic_schema = self.topic_schema
            config.write_metadata = self.metadata
            config.drop_unknown_fields = self.drop_unknown
        elif self.bucket is not None:
            self._fill_files(subscription.cloud_storage_config)

    def _check(self) -> None:
        if self.table is not None and self.bucket is not None:
            raise InvalidArgument("give --table or --bucket, not both")
        for name in _OF_FILES:
            if getattr(self, name) is not None and self.bucket is None:
                raise InvalidArgument(f"{flag(name)} is for files; it needs --bucket")
        if self.drop_unknown and self.table is None:
            raise InvalidArgument("--drop-unknown is for tables; it needs --table")
        if (self.topic_schema or self.metadata) and not self.is_given:
            raise InvalidArgument("--topic-schema and --metadata need --table or --bucket")
        if (self.topic_schema or self.metadata) and self.bucket and self.format != "avro":
            raise InvalidArgument("--topic-schema and --metadata need --format avro: text is data")

    def _fill_files(self, config: Any) -> None:
        config.bucket = self.bucket
        config.filename_prefix = self.prefix or ""
        config.filename_suffix = self.suffix or ""
        config.filename_datetime_format = self.datetime_format or ""
        if self.format == "avro":
            config.avro_config.use_topic_schema = self.topic_schema
            config.avro_config.write_metadata = self.metadata
            config.avro_config.SetInParent()
        else:
            config.text_config.SetInParent()
        if self.max_duration is not None:
            seconds = options.duration_s(self.max_duration, "--max-duration")
            config.max_duration.FromNanoseconds(round(seconds * 1e9))
        config.max_bytes = self.max_bytes or 0
        config.max_messages = self.max_messages or 0
