"""Messages as files: lines of text, or Avro.

Which message is in which file, what the file is called and what stands in it are functions of the
batch alone, so that one that is written again after a crash is the same files. A file comes to be
whole: under another name first, in a folder, and synced; in storage an object is there when it is
complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
from fastavro.read import SchemaResolutionError
from fastavro.write import Writer

from fanlog.lake.durability import sync_files
from fanlog.lake.location import Location
from fanlog.model import exports
from fanlog.model.resources import FileExport
from fanlog.pipeline.export.decoders import AvroDecoder
from fanlog.pipeline.export.revisions import Revisions
from fanlog.pipeline.export.rows import NO_SCHEMA, REJECTED, rejected_rows
from fanlog.pipeline.export.shapes import Misfit

#: Where the files of buckets are, below the lake's address.
FOLDER = "files"

_METADATA: list[Any] = [
    {"name": "subscription_name", "type": "string"},
    {"name": "message_id", "type": "string"},
    {"name": "publish_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "attributes", "type": {"type": "map", "values": "string"}},
]
_ORDERING_KEY = "ordering_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBatch:
    """Which batch is written, and for whom."""

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
    """What became of a batch."""

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
    revisions: Revisions | None = None,
) -> Written:
    """Write the messages of a batch, in their order; files are complete when this returns.

    Their bytes are on the disk; that their names are is the caller's to see to.

    Raises:
        OSError: The bucket cannot be written.
    """
    form: _Text | _Avro
    form = _Text() if batch.export.format == "text" else _Avro(batch, revisions)
    files = _Files(batch, location, form)
    rejected: list[pa.Table] = []
    try:
        for some in messages:
            table = pa.Table.from_batches([some])
            reasons: list[str | None] = []
            # Values of Python are what costs: no more of them than are needed.
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


class _Files:
    """Writes records, and begins a new file whenever one is full."""

    def __init__(self, batch: FileBatch, location: Location, form: _Text | _Avro) -> None:
        self._batch = batch
        self._form = form
        self._location = location
        self._is_s3 = location.is_s3
        if not location.is_s3:
            Path(location.uri).mkdir(parents=True, exist_ok=True)
        self._files = location.filesystem()
        self._stream: Any = None
        self._writer: Any = None
        self._temporary = ""
        self._count = 0
        self._size_bytes = 0
        self.done: dict[str, int] = {}

    def add(self, record: Any, size_bytes: int) -> None:
        if self._stream is None:
            self._open()
        self._form.write(self._writer, record)
        self._count += 1
        self._size_bytes += size_bytes
        export = self._batch.export
        if 0 < export.max_messages <= self._count or 0 < export.max_bytes <= self._size_bytes:
            self.close()

    def close(self) -> None:
        """Complete the file that is being written, if there is one."""
        if self._stream is None:
            return
        self._form.finish(self._writer)
        self._stream.close()
        path = self._batch.path(len(self.done))
        if self._temporary != path:
            sync_files(self._location, [self._temporary])
            self._files.move(self._temporary, path)
        self.done[path] = self._count
        self._stream = self._writer = None

    def discard(self) -> None:
        """Give up what is not complete. An object of storage that was begun is nowhere."""
        if self._stream is not None and not self._is_s3:
            self._stream.close()
            self._files.delete_file(self._temporary)

    def _open(self) -> None:
        index = len(self.done)
        path = self._batch.path(index)
        folder, _, name = path.rpartition("/")
        # A dot in front: those who read the folder meanwhile leave it alone.
        hidden = f".{name}.{secrets.token_hex(4)}.tmp"
        self._temporary = path if self._is_s3 else f"{folder}/{hidden}" if folder else hidden
        if folder and not self._is_s3:
            self._files.create_dir(folder, recursive=True)
        self._stream = self._files.open_output_stream(self._temporary)
        self._writer = self._form.begin(self._stream, self._batch.digest(index))
        self._count = self._size_bytes = 0


class _Text:
    """One message a line: its data. JSON of several lines becomes one."""

    columns = ("data",)

    def record(self, message: dict[str, Any]) -> tuple[bytes, int]:
        line = message["data"]
        if b"\n" in line:
            # What is no JSON is written as it is, as Google writes it.
            with suppress(orjson.JSONDecodeError):
                line = orjson.dumps(orjson.loads(line))
        return line + b"\n", len(line) + 1

    def begin(self, stream: Any, _: bytes) -> Any:
        return stream

    def write(self, writer: Any, record: bytes) -> None:
        writer.write(record)

    def finish(self, _: Any) -> None:
        pass


class _Avro:
    """One message a record: its data, or what the topic's schema makes of it."""

    def __init__(self, batch: FileBatch, revisions: Revisions | None) -> None:
        export = batch.export
        self.columns = ["data"]
        if export.use_topic_schema or export.write_metadata:
            self.columns += ["attributes"]
        if export.write_metadata:
            self.columns += ["message_id", "publish_time", "ordering_key"]
        self._subscription = batch.subscription
        self._with_metadata = export.write_metadata
        self._revisions: Revisions | None = None
        self._is_lost = False
        self._schema: Any = None
        self._parsed: Any = None
        content: Any = "bytes"
        if export.use_topic_schema:
            if revisions is None:
                self._is_lost = True
                return
            self._revisions = revisions
            newest = revisions.newest_decoder()
            assert isinstance(newest, AvroDecoder)
            content = self._parsed = newest.parsed
        if self._revisions is None or export.write_metadata:
            metadata = _METADATA if export.write_metadata else []
            fields = [*metadata, {"name": "data", "type": content}]
            content = {"type": "record", "name": "fanlog.Message", "fields": fields}
        self._schema = fastavro.parse_schema(content)

    def record(self, message: dict[str, Any]) -> tuple[Any, int]:
        if self._is_lost:
            raise Misfit(NO_SCHEMA)
        attributes = dict(message.get("attributes", ()))
        content: Any = message["data"]
        size_bytes = len(content)
        if self._revisions is not None:
            content = self._resolved(content, attributes)
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
        return (content if self._revisions is not None else {"data": content}), size_bytes

    def begin(self, stream: Any, digest: bytes) -> Any:
        # The marker between blocks is otherwise random, and a file written again another one.
        return Writer(stream, self._schema, codec="deflate", sync_marker=digest)

    def write(self, writer: Any, record: Any) -> None:
        writer.write(record)

    def finish(self, writer: Any) -> None:
        writer.flush()

    def _resolved(self, data: bytes, attributes: dict[str, str]) -> Any:
        """A message of any revision, as one of the newest."""
        assert self._revisions is not None
        reader, encoding = self._revisions.of(attributes)
        assert isinstance(reader, AvroDecoder)
        try:
            return reader.record(data, encoding, reader=self._parsed)
        except SchemaResolutionError as error:
            raise Misfit(f"it cannot be read by the newest revision: {error}") from None
