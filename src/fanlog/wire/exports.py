"""Export configs, of tables and of files: protobuf to model and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from fanlog import limits
from fanlog.core.records import ExportProgress
from fanlog.errors import InvalidArgument, Unimplemented
from fanlog.model import exports
from fanlog.model.resources import ExportState, FileExport, PartitionId, Subscription, TableExport
from fanlog.v1 import export_pb2
from fanlog.wire import types
from fanlog.wire.fields import duration, seconds_of, timestamp


def table_export(subscription: types.Subscription) -> TableExport | None:
    """Read the BigQueryConfig of a Subscription; None for none, or an empty one.

    Raises:
        InvalidArgument: It names no table and has other fields set.
        Unimplemented: It asks for a feature that only Google's cloud has.
    """
    config = subscription.bigquery_config
    if not _says_something(config):
        return None
    _refuse_account(config, exports.TABLE_FIELD)
    if config.use_table_schema:
        raise Unimplemented(
            f"{exports.TABLE_FIELD}.use_table_schema: tables are made here, by the topic's schema; "
            "set use_topic_schema, or neither for the data as one column"
        )
    if not config.table:
        raise InvalidArgument(f"{exports.TABLE_FIELD}.table: empty; name the table to write to")
    return TableExport(
        table=config.table,
        use_topic_schema=config.use_topic_schema,
        write_metadata=config.write_metadata,
        drop_unknown_fields=config.drop_unknown_fields,
    )


def file_export(subscription: types.Subscription) -> FileExport | None:
    """Read the CloudStorageConfig of a Subscription; raises as `table_export` does."""
    config = subscription.cloud_storage_config
    if not _says_something(config):
        return None
    _refuse_account(config, exports.FILES_FIELD)
    if not config.bucket:
        raise InvalidArgument(f"{exports.FILES_FIELD}.bucket: empty; name the bucket to write to")
    max_duration_s = limits.EXPORT_FILE_S_DEFAULT
    if config.HasField("max_duration"):
        max_duration_s = seconds_of(config.max_duration, f"{exports.FILES_FIELD}.max_duration")
    return FileExport(
        bucket=config.bucket,
        filename_prefix=config.filename_prefix,
        filename_suffix=config.filename_suffix,
        filename_datetime_format=config.filename_datetime_format,
        format="avro" if config.WhichOneof("output_format") == "avro_config" else "text",
        write_metadata=config.avro_config.write_metadata,
        use_topic_schema=config.avro_config.use_topic_schema,
        max_duration_s=max_duration_s,
        max_bytes=config.max_bytes,
        max_messages=config.max_messages,
    )


def fill(message: types.Subscription, subscription: Subscription, state: ExportState) -> None:
    """Put the configs of a subscription into the Subscription that answers show."""
    if subscription.table is not None:
        message.bigquery_config.CopyFrom(_table_config(subscription.table, state))
    if subscription.files is not None:
        message.cloud_storage_config.CopyFrom(_file_config(subscription.files, state))


def _table_config(table: TableExport, state: ExportState) -> types.BigQueryConfig:
    return types.BigQueryConfig(
        table=table.table,
        use_topic_schema=table.use_topic_schema,
        write_metadata=table.write_metadata,
        drop_unknown_fields=table.drop_unknown_fields,
        state=state,
    )


def _file_config(files: FileExport, state: ExportState) -> types.CloudStorageConfig:
    config = types.CloudStorageConfig(
        bucket=files.bucket,
        filename_prefix=files.filename_prefix,
        filename_suffix=files.filename_suffix,
        filename_datetime_format=files.filename_datetime_format,
        max_duration=duration(files.max_duration_s),
        max_bytes=files.max_bytes,
        max_messages=files.max_messages,
        state=state,
    )
    if files.format == "avro":
        config.avro_config.write_metadata = files.write_metadata
        config.avro_config.use_topic_schema = files.use_topic_schema
        config.avro_config.SetInParent()
    else:
        config.text_config.SetInParent()
    return config


def batch_pb(progress: ExportProgress, topics: Mapping[PartitionId, str]) -> export_pb2.ExportBatch:
    """Make the ExportBatch of the batch under way."""
    message = export_pb2.ExportBatch(number=progress.number, time=timestamp(progress.created_s))
    if progress.table is not None:
        message.table.CopyFrom(export_pb2.ExportTable(**asdict(progress.table)))
    if progress.files is not None:
        files = asdict(progress.files)
        is_avro = files.pop("format") == "avro"
        max_duration = duration(files.pop("max_duration_s"))
        message.files.CopyFrom(
            export_pb2.ExportFiles(**files, is_avro=is_avro, max_duration=max_duration)
        )
    for partition, bits in progress.offsets.items():
        one = message.offsets.add(topic=topics[partition])
        one.set.partition = partition
        one.set.bitmap = bits.serialize()
    return message


def export_of(batch: export_pb2.ExportBatch) -> TableExport | FileExport:
    """The export of a batch, as it was when the batch was made."""
    if batch.WhichOneof("target") == "table":
        table = batch.table
        return TableExport(
            table=table.table,
            use_topic_schema=table.use_topic_schema,
            write_metadata=table.write_metadata,
            drop_unknown_fields=table.drop_unknown_fields,
        )
    files = batch.files
    return FileExport(
        bucket=files.bucket,
        filename_prefix=files.filename_prefix,
        filename_suffix=files.filename_suffix,
        filename_datetime_format=files.filename_datetime_format,
        format="avro" if files.is_avro else "text",
        write_metadata=files.write_metadata,
        use_topic_schema=files.use_topic_schema,
        max_duration_s=seconds_of(files.max_duration, "max_duration"),
        max_bytes=files.max_bytes,
        max_messages=files.max_messages,
    )


def _says_something(config: types.BigQueryConfig | types.CloudStorageConfig) -> bool:
    """Whether a config has more than the state, which answers add to it."""
    return any(field.name != "state" for field, _ in config.ListFields())


def _refuse_account(config: types.BigQueryConfig | types.CloudStorageConfig, field: str) -> None:
    if config.service_account_email:
        raise Unimplemented(
            f"{field}.service_account_email: a setting of Google's cloud that has no meaning here; "
            "leave it unset"
        )
