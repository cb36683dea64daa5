"""Options of `fanlog sub` that say where a subscription's messages are exported to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from fanlog.cli import options
from fanlog.errors import InvalidArgument

Table = Annotated[
    str | None, typer.Option(metavar="NAME", help="Export to a table of the lake: exports/NAME.")
]
Bucket = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|URL", help="Export to files: files/NAME of the lake, or s3://bucket/prefix."
    ),
]
TopicSchema = Annotated[
    bool, typer.Option("--topic-schema", help="Columns, or Avro records, by the topic's schema.")
]
Metadata = Annotated[
    bool, typer.Option("--metadata", help="Export message id, publish time, attributes and so on.")
]
DropUnknown = Annotated[
    bool, typer.Option("--drop-unknown", help="Leave out fields that the table has no column for.")
]
Format = Annotated[
    Literal["text", "avro"] | None, typer.Option("--format", help="Of files: text by default.")
]
Prefix = Annotated[str | None, typer.Option(help="What the names of files begin with.")]
Suffix = Annotated[str | None, typer.Option(help="What the names of files end with.")]
DatetimeFormat = Annotated[
    str | None, typer.Option(help="Of the time in the names of files: YYYY-MM-DD/hh_mm_ssZ.")
]
MaxDuration = Annotated[
    str | None, typer.Option(help="Write a file at the latest after: 1m to 10m, 5m by default.")
]
MaxBytes = Annotated[int | None, typer.Option(help="Begin a new file after so many bytes.")]
MaxMessages = Annotated[
    int | None, typer.Option(help="Begin a new file after so many messages: 1000 or more.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was given of these options."""

    table: str | None
    bucket: str | None
    topic_schema: bool
    metadata: bool
    drop_unknown: bool
    format: str | None
    prefix: str | None
    suffix: str | None
    datetime_format: str | None
    max_duration: str | None
    max_bytes: int | None
    max_messages: int | None

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
        of_files = {
            "--format": self.format,
            "--prefix": self.prefix,
            "--suffix": self.suffix,
            "--datetime-format": self.datetime_format,
            "--max-duration": self.max_duration,
            "--max-bytes": self.max_bytes,
            "--max-messages": self.max_messages,
        }
        for name, value in of_files.items():
            if value is not None and self.bucket is None:
                raise InvalidArgument(f"{name} is for files; it needs --bucket")
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
