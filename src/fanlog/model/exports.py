"""The settings of an export subscription, and the names of its files.

Only the text is checked: whether a table can be written, or a bucket reached, is seen by the
pipeline, which says so in the subscription's state.
"""

from __future__ import annotations

import re
from datetime import datetime

from fanlog import limits
from fanlog.errors import InvalidArgument
from fanlog.model import names
from fanlog.model.resources import FileExport, TableExport

TABLE_FIELD = "bigquery_config"
FILES_FIELD = "cloud_storage_config"

#: The suffix of the table of rejected rows, after the name of the table they were meant for.
REJECTED = "_rejected"
#: Used when none is asked for (Google's).
DATETIME_FORMAT = "YYYY-MM-DD/hh_mm_ssZ"
#: An address of storage, in place of the name of a bucket.
S3 = "s3://"

_TABLE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*){0,2}", re.ASCII)
_TABLE_LENGTH_MAX = 200
#: Google's rule, but for names of a few reserved words.
_BUCKET = re.compile(r"[a-z0-9](?:[a-z0-9._-]{1,220})[a-z0-9]", re.ASCII)
_ADDRESS = re.compile(r"s3://[A-Za-z0-9][A-Za-z0-9._-]+(?:/[\x21-\x7e]+)?/?", re.ASCII)
_MATCHERS = {
    "YYYY": "%Y",
    "YY": "%y",
    "MM": "%m",
    "DD": "%d",
    "hh": "%H",
    "mm": "%M",
    "ss": "%S",
    "Z": "Z",
}
_TOKEN = re.compile("YYYY|YY|MM|DD|hh|mm|ss|Z|[-_:/]|.", re.DOTALL)
_NEEDED = ("MM", "DD", "hh", "mm", "ss")


def check_table(export: TableExport) -> None:
    """Raises InvalidArgument: Names the field and its problem."""
    field, table = f"{TABLE_FIELD}.table", export.table
    if not _TABLE.fullmatch(table) or len(table) > _TABLE_LENGTH_MAX:
        raise InvalidArgument(
            f"{field}: {names.shown(table)} is not the name of a table: one to three names of "
            "letters, digits, '_' and '-', with dots between them, such as 'shop.orders' or "
            "'project.dataset.table'"
        )
    if table.endswith(REJECTED):
        raise InvalidArgument(
            f"{field}: {names.shown(table)} would be the table of what {table[: -len(REJECTED)]!r} "
            f"rejects; choose a name that does not end in {REJECTED!r}"
        )
    if export.drop_unknown_fields and not export.use_topic_schema:
        raise InvalidArgument(
            f"{TABLE_FIELD}.drop_unknown_fields: there are no fields without use_topic_schema; "
            "set that too, or leave this unset"
        )


def check_files(export: FileExport) -> None:
    """Raises InvalidArgument: Names the field and its problem."""
    _check_bucket(export.bucket)
    _check_part("filename_prefix", export.filename_prefix)
    _check_part("filename_suffix", export.filename_suffix)
    if export.filename_suffix.endswith("/"):
        raise InvalidArgument(f"{FILES_FIELD}.filename_suffix: must not end in '/'")
    if export.filename_datetime_format:
        _check_datetime_format(export.filename_datetime_format)
    if ".." in f"{export.filename_prefix}{export.filename_suffix}".split("/"):
        raise InvalidArgument(f"{FILES_FIELD}: a file name cannot have '..' for a folder")
    low_s, high_s = limits.EXPORT_FILE_S_MIN, limits.EXPORT_FILE_S_MAX
    if not low_s <= export.max_duration_s <= high_s:
        raise InvalidArgument(
            f"{FILES_FIELD}.max_duration: {export.max_duration_s:.15g} s is out of range; "
            f"{low_s:.0f} to {high_s:.0f} s are allowed"
        )
    low, high = limits.EXPORT_FILE_BYTES_MIN, limits.EXPORT_FILE_BYTES_MAX
    if export.max_bytes and not low <= export.max_bytes <= high:
        raise InvalidArgument(
            f"{FILES_FIELD}.max_bytes: {export.max_bytes} is out of range; {low} to {high} are "
            "allowed"
        )
    if export.max_messages and export.max_messages < limits.EXPORT_FILE_MESSAGES_MIN:
        raise InvalidArgument(
            f"{FILES_FIELD}.max_messages: {export.max_messages} is out of range; at least "
            f"{limits.EXPORT_FILE_MESSAGES_MIN} are allowed"
        )


def time_text(datetime_format: str, at: datetime) -> str:
    """A time, in UTC, as a valid format writes it; the default format when it is empty."""
    tokens = _TOKEN.findall(datetime_format or DATETIME_FORMAT)
    return at.strftime("".join(_MATCHERS.get(token, token) for token in tokens))


def _check_bucket(bucket: str) -> None:
    field = f"{FILES_FIELD}.bucket"
    if bucket.startswith(S3):
        if not _ADDRESS.fullmatch(bucket) or ".." in bucket.split("/"):
            raise InvalidArgument(
                f"{field}: {names.shown(bucket)} is not an address such as s3://bucket/prefix"
            )
        return
    if "://" in bucket:
        raise InvalidArgument(
            f"{field}: {names.shown(bucket)}: a bucket is a name, which is a folder of the lake, "
            "or an address that begins with s3://"
        )
    if not _BUCKET.fullmatch(bucket) or ".." in bucket:
        raise InvalidArgument(
            f"{field}: {names.shown(bucket)} is not the name of a bucket: 3 to 222 lower-case "
            "letters, digits, '-', '_' and '.', a letter or digit first and last"
        )


def _check_part(name: str, text: str) -> None:
    if len(text.encode()) > limits.EXPORT_NAME_BYTES_MAX:
        raise InvalidArgument(
            f"{FILES_FIELD}.{name}: longer than {limits.EXPORT_NAME_BYTES_MAX} bytes"
        )
    if text.startswith("/") or "//" in text or "\\" in text or not text.isprintable():
        raise InvalidArgument(
            f"{FILES_FIELD}.{name}: {names.shown(text)} cannot be part of a file name: no '/' in "
            "front, no two of them together, no backslash and no control characters"
        )


def _check_datetime_format(text: str) -> None:
    field = f"{FILES_FIELD}.filename_datetime_format"
    tokens = _TOKEN.findall(text)
    strange = next((one for one in tokens if one not in _MATCHERS and one not in "-_:/"), None)
    if strange is not None:
        raise InvalidArgument(
            f"{field}: {names.shown(strange)} is not known; {', '.join(_MATCHERS)} are, with "
            "'-', '_', ':' and '/' between them"
        )
    years = [one for one in tokens if one in ("YYYY", "YY")]
    if len(years) != 1 or any(tokens.count(one) != 1 for one in _NEEDED) or tokens.count("Z") > 1:
        raise InvalidArgument(
            f"{field}: {names.shown(text)} must have a year (YYYY or YY) and {', '.join(_NEEDED)}, "
            "each once"
        )
    if text.startswith("/") or text.endswith("/") or "//" in text:
        raise InvalidArgument(
            f"{field}: {names.shown(text)} cannot begin or end with '/', or have two together"
        )
