"""Where a lake is: a folder, or a prefix in S3-compatible storage; and which lake it is.

An address is a path or `s3://bucket/prefix`. Credentials, region and endpoint of the storage come
from the usual `AWS_*` variables. The tables of a lake are folders below its address.

A lake's *identity* is the id that Delta gave its table `messages` when that was made: making the
table makes the lake, in one conditional put, so that two processes that race make one lake between
them. It stands once more in `_fanlog/lake.json`, for people, and so that tables of two lakes that
were mixed up are noticed.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pyarrow import fs

from fanlog.errors import InvalidArgument

#: Of the layout of the lake as a whole; tables have versions of their own.
FORMAT = 1
IDENTITY_FILE = "_fanlog/lake.json"

_S3 = "s3://"
#: Variables handed on to the storage, each under its own name.
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
)


class LakeError(InvalidArgument):
    """The lake cannot be used as it is: no lake, another lake, or one of a newer version."""

    code = "LAKE"


class NoLake(LakeError):
    """There is nothing at the address."""

    code = "NO_LAKE"


@dataclass(frozen=True, slots=True)
class Location:
    """The address of a lake. A plain value: it travels to tasks and back."""

    #: An absolute path, or `s3://bucket/prefix`; no slash at the end.
    uri: str
    #: Of the storage, by the names of the `AWS_*` variables; empty for a folder.
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, address: str, environ: Mapping[str, str] | None = None) -> Location:
        """Read an address; relative paths are of the present folder.

        Raises:
            LakeError: Not a path and not `s3://bucket[/prefix]`.
        """
        if address.startswith(_S3):
            uri = address.rstrip("/")
            if uri == _S3.rstrip("/"):
                raise LakeError(f"{address!r} names no bucket; a lake is at s3://bucket/prefix")
            environ = os.environ if environ is None else environ
            return cls(uri, {name: environ[name] for name in _VARIABLES if environ.get(name)})
        if "://" in address:
            raise LakeError(f"{address!r}: a lake is a folder, or s3://bucket/prefix")
        if not address:
            raise LakeError("the address of a lake is empty")
        return cls(str(Path(address).absolute()))

    @property
    def is_s3(self) -> bool:
        return self.uri.startswith(_S3)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options of the storage for `deltalake`."""
        if not self.is_s3:
            return None
        options = dict(self.settings)
        # Puts that fail when the object is there already: two committers cannot both win.
        options["aws_conditional_put"] = "etag"
        # Callers that wait for the lake get an error soon, and ask again.
        options |= {"max_retries": "4", "retry_timeout": "20s", "timeout": "30s"}
        options.setdefault("AWS_REGION", self._region)
        if options.get("AWS_ENDPOINT_URL", "").startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
        return options

    @property
    def _region(self) -> str:
        given = self.settings
        return given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or "us-east-1"

    def table_uri(self, table: str) -> str:
        return f"{self.uri}/{table}"

    def filesystem(self) -> fs.FileSystem:
        """The files of the lake, paths being relative to its address."""
        if not self.is_s3:
            return fs.SubTreeFileSystem(self.uri, fs.LocalFileSystem())
        given = self.settings
        storage = fs.S3FileSystem(
            access_key=given.get("AWS_ACCESS_KEY_ID"),
            secret_key=given.get("AWS_SECRET_ACCESS_KEY"),
            session_token=given.get("AWS_SESSION_TOKEN"),
            region=self._region,
            endpoint_override=given.get("AWS_ENDPOINT_URL"),
        )
        return fs.SubTreeFileSystem(self.uri.removeprefix(_S3), storage)


def write_identity(location: Location, lake_id: str) -> None:
    """Write the lake's id beside its tables. All writers write the same."""
    text = json.dumps({"id": lake_id, "format": FORMAT}) + "\n"
    if location.is_s3:
        with location.filesystem().open_output_stream(IDENTITY_FILE) as stream:
            stream.write(text.encode())
        return
    path = Path(location.uri) / IDENTITY_FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    # In one step, as storage does it, so that no reader sees half of it.
    made = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    made.write_text(text)
    made.replace(path)


def read_identity(location: Location) -> str | None:
    """The lake's id as it stands beside the tables; None when there is none.

    Raises:
        LakeError: The file is not one of ours, or of a newer version.
    """
    try:
        with location.filesystem().open_input_file(IDENTITY_FILE) as stream:
            text = stream.read()
    except FileNotFoundError:
        return None
    try:
        written = json.loads(text)
        lake_id, version = str(written["id"]), int(written["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise LakeError(f"{IDENTITY_FILE} in {location.uri} cannot be read: {error}") from error
    if version > FORMAT:
        raise LakeError(
            f"the lake at {location.uri} has format {version}; this version of Fanlog knows "
            f"{FORMAT} at most: use the one that wrote it, or a newer one"
        )
    return lake_id
