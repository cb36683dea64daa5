"""Messages as files: lines of text, or Avro.

The messages of a file, its name and its bytes are functions of the batch alone, so that a batch
that is written again after a crash gives the same files. A file comes to be whole: under another
name first, in a folder, and synced; in storage an object is there when it is complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypedDict

import fastavro
import orjson
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.types import Schema
from fastavro.write import Writer

from fanlog.lake.durability import sync_files
from fanlog.lake.location import Location
from fanlog.model import exports
from fanlog.model.resources import FileExport
from fanlog.pipeline.export.rules.decoders import AvroDecoder
from fanlog.pipeline.export.rules.shapes import Misfit
from fanlog.pipeline.export.rules.table_rows import NO_SCHEMA, REJECTED, rejected_rows
from fanlog.pipeline.export.rules.topic_schema import TopicSchema

#: Where the files of buckets are, below the lake's address.
FOLDER = "files"

_METADATA: list[Schema] = [
    {"name": "subscription_name", "type": "string"},
    {"name": "message_id", "type": "string"},
    {"name": "publish_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "attributes", "type": {"type": "map", "values": "string"}},
]
_ORDERING_KEY = "ordering_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """The batch that is written, and its export."""

    export: FileExport
    subscription: str
    #: Names the export for ever; see `fanlog.pipeline.export.flow`.
    app_id: str
    number: int
    #: When the batch was made, UTC.
    time: datetime

    def path(self, index: int) -> str:
        """Where the file at `index` of the batch is, in the bucket."""
        text = exports.time_text(self.export.filename_datetime_format, self.time)
        export = self.export
        return f"{export.filename_prefix}{text}_{self.digest(index).hex()}{export.filename_suffix}"

    def digest(self, index: int) -> bytes:
        return blake2b(f"{self.app_id}/{self.number}/{index}".encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing a batch."""

    #: Paths in the bucket, each with how many messages are in it.
    files: dict[str, int]
    rejected: pa.Table


def bucket_location(lake: Location, bucket: str) -> Location:
    """Where a bucket is: a folder of the lake, or the place that its name is the address of."""
    if bucket.startswith(exports.S3):
        return Location.parse(bucket)
    return Location(f"{lake.uri}/{FOLDER}/{bucket}", lake.settings)


def write_files(
    batch: FileBatch,
    messages: Iterable[pa.RecordBatch],
    location: Location,
    *,
    topic_schema: TopicSchema | None = None,
) -> Written:
    """Write the messages of a batch, in their order; files are complete when this returns.

    Their bytes are on the disk; that their names are is the caller's to see to.

    Raises:
        OSError: The bucket cannot be written.
    """
    form = _Text() if batch.export.format == "text" else _Avro(batch, topic_schema)
    files = _Files(batch, location, form)
    rejected: list[pa.Table] = []
    try:
        for some in messages:
            table = pa.Table.from_batches([some])
            reasons: list[str | None] = []
            # Values of Python cost the most time: no more of them than are needed.
            for message in table.select(list(form.columns)).to_pylist():
                try:
                    record, size_bytes = form.record(message)
                except Misfit as error:
                    reasons.append(str(error))
                    continue
                files.add(record, size_bytes)
                reasons.append(None)
            if any(reasons):
                rejected.append(
                    rejected_rows(
                        table, reasons, subscription=batch.subscription, number=batch.number
                    )
                )
        files.close()
    except BaseException:
        files.discard()
        raise
    return Written(files.done, pa.concat_tables([REJECTED.empty_table(), *rejected]))


class _Message(TypedDict, total=False):
    """The columns of a message, as far as a format needs them."""

    data: bytes
    attributes: list[tuple[str, str]]
    message_id: str
    publish_time: datetime
    ordering_key: str


class _RecordWriter(Protocol):
    """Writes the records of one file."""

    def write(self, record: Any, /) -> object: ...

    def flush(self) -> object:
        """Put the records written so far into the stream; the stream is closed after that."""


class _Format(Protocol):
    """The form of a message in a file."""

    columns: Sequence[str]

    def record(self, message: _Message) -> tuple[object, int]:
        """The record of a message, and the bytes that it counts for.

        Raises:
            Misfit: The message has none.
        """

    def begin(self, stream: pa.NativeFile, digest: bytes) -> _RecordWriter:
        """Begin a file; the digest is a function of its place in the batch."""


class _Files:
    """Writes records, and begins a new file whenever one is full."""

    def __init__(self, batch: FileBatch, location: Location, form: _Format) -> None:
        self._batch = batch
        self._form = form
        self._location = location
        self._is_s3 = location.is_s3
        if not location.is_s3:
            Path(location.uri).mkdir(parents=True, exist_ok=True)
        self._files = location.filesystem()
        self._stream: pa.NativeFile | None = None
        self._writer: _RecordWriter | None = None
        self._temporary = ""
        self._count = 0
        self._size_bytes = 0
        self.done: dict[str, int] = {}

    def add(self, record: object, size_bytes: int) -> None:
        if self._writer is None:
            self._writer = self._open()
        self._writer.write(record)
        self._count += 1
        self._size_bytes += size_bytes
        export = self._batch.export
        if 0 < export.max_messages <= self._count or 0 < export.max_bytes <= self._size_bytes:
            self.close()

    def close(self) -> None:
        """Complete the file that is being written, if there is one."""
        if self._stream is None or self._writer is None:
            return
        self._writer.flush()
        self._stream.close()
        path = self._batch.path(len(self.done))
        if self._temporary != path:
            sync_files(self._location, [self._temporary])
            self._files.move(self._temporary, path)
        self.done[path] = self._count
        self._stream = self._writer = None

    def discard(self) -> None:
        """Give up the file that is not complete. An object of storage that was begun is nowhere."""
        if self._stream is not None and not self._is_s3:
            self._stream.close()
            self._files.delete_file(self._temporary)

    def _open(self) -> _RecordWriter:
        index = len(self.done)
        path = self._batch.path(index)
        folder, _, name = path.rpartition("/")
        # A dot in front: programs that read the folder meanwhile leave it alone.
        hidden = f".{name}.{secrets.token_hex(4)}.tmp"
        self._temporary = path if self._is_s3 else f"{folder}/{hidden}" if folder else hidden
        if folder and not self._is_s3:
            self._files.create_dir(folder, recursive=True)
        self._count = self._size_bytes = 0
        self._stream = self._files.open_output_stream(self._temporary)
        return self._form.begin(self._stream, self._batch.digest(index))


class _Text:
    """One message a line: its data. JSON of several lines becomes one."""

    columns: Sequence[str] = ("data",)

    def record(self, message: _Message) -> tuple[bytes, int]:
        line = message["data"]
        if b"\n" in line:
            # Data that is no JSON is written as it is, as Google writes it.
            with suppress(orjson.JSONDecodeError):
                line = orjson.dumps(orjson.loads(line))
        return line + b"\n", len(line) + 1

    def begin(self, stream: pa.NativeFile, digest: bytes) -> _RecordWriter:
        return _Lines(stream)


class _Lines:
    """Lines are in the stream at once."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream

    def write(self, line: bytes) -> None:
        self._stream.write(line)

    def flush(self) -> None:
        pass


class _Avro:
    """One message a record: its data, or the record of the topic's schema that it holds."""

    def __init__(self, batch: FileBatch, topic_schema: TopicSchema | None) -> None:
        export = batch.export
        columns = ["data"]
        if export.use_topic_schema or export.write_metadata:
            columns += ["attributes"]
        if export.write_metadata:
            columns += ["message_id", "publish_time", "ordering_key"]
        self.columns: Sequence[str] = columns
        self._subscription = batch.subscription
        self._with_metadata = export.write_metadata
        self._topic_schema = topic_schema if export.use_topic_schema else None
        #: No message fits: the topic has no schema any more.
        self._is_lost = export.use_topic_schema and topic_schema is None
        self._parsed: Schema | None = None
        content: Schema = "bytes"
        if self._topic_schema is not None:
            newest = self._topic_schema.newest_decoder()
            assert isinstance(newest, AvroDecoder)
            content = self._parsed = newest.parsed
        if self._topic_schema is None or export.write_metadata:
            metadata = _METADATA if export.write_metadata else []
            fields = [*metadata, {"name": "data", "type": content}]
            content = {"type": "record", "name": "fanlog.Message", "fields": fields}
        self._schema = fastavro.parse_schema(content)

    def record(self, message: _Message) -> tuple[object, int]:
        if self._is_lost:
            raise Misfit(NO_SCHEMA)
        attributes = dict(message.get("attributes", ()))
        content: object = message["data"]
        size_bytes = len(message["data"])
        if self._topic_schema is not None:
            content = self._resolve(message["data"], attributes, self._topic_schema)
        if self._with_metadata:
            if message["ordering_key"]:
                attributes[_ORDERING_KEY] = message["ordering_key"]
            size_bytes += sum(len(name) + len(value) for name, value in attributes.items())
            found = {
                "subscription_name": self._subscription,
                "message_id": message["message_id"],
                "publish_time": message["publish_time"],
                "attributes": attributes,
                "data": content,
            }
            return found, size_bytes
        return (content if self._topic_schema is not None else {"data": content}), size_bytes

    def begin(self, stream: pa.NativeFile, digest: bytes) -> _RecordWriter:
        # The marker between blocks is otherwise random, and a file written again another one.
        return Writer(stream, self._schema, codec="deflate", sync_marker=digest)

    def _resolve(
        self, data: bytes, attributes: dict[str, str], topic_schema: TopicSchema
    ) -> object:
        """A message of any revision, as one of the newest."""
        reader, encoding = topic_schema.decoder_of(attributes)
        assert isinstance(reader, AvroDecoder)
        try:
            return reader.record(data, encoding, reader=self._parsed)
        except SchemaResolutionError as error:
            raise Misfit(f"it cannot be read by the newest revision: {error}") from None
