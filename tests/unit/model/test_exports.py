from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fanlog.errors import InvalidArgument
from fanlog.model import exports
from fanlog.model.resources import FileExport, PushConfig, RetryPolicy, TableExport
from fanlog.model.specs import SubscriptionSpec

TABLE = TableExport(table="shop.orders")
FILES = FileExport(bucket="box")


@pytest.mark.parametrize("table", ["orders", "shop.orders", "a-1.b_2.c", "_x"])
def test_tables_have_names(table):
    exports.check_table(TableExport(table=table))


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("", "is not the name of a table"),
        ("a.b.c.d", "is not the name of a table"),
        ("a..b", "is not the name of a table"),
        ("../x", "is not the name of a table"),
        ("a/b", "is not the name of a table"),
        (".a", "is not the name of a table"),
        ("x" * 201, "is not the name of a table"),
        ("orders_rejected", "would be the table of what 'orders' rejects"),
    ],
)
def test_other_names_are_refused(table, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        exports.check_table(TableExport(table=table))


@pytest.mark.parametrize(
    "fields",
    [
        {"bucket": "box-1.a_b"},
        {"bucket": "s3://bucket/some/prefix"},
        {"filename_prefix": "a/b-", "filename_suffix": ".json"},
        {"filename_datetime_format": "YY/MM/DD/hh:mm:ss"},
        {"filename_datetime_format": "YYYY-MM-DD_hh_mm_ssZ"},
        {"max_duration_s": 60.0, "max_bytes": 1_000, "max_messages": 1_000},
        {"max_duration_s": 600.0, "max_bytes": 10 * 2**30},
    ],
)
def test_files_may_ask_for(fields):
    exports.check_files(FileExport(**{"bucket": "box"} | fields))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"bucket": "B"}, "bucket: 'B' is not the name of a bucket"),
        ({"bucket": "a..b"}, "is not the name of a bucket"),
        ({"bucket": "../.."}, "is not the name of a bucket"),
        ({"bucket": "gs://box"}, "a bucket is a name, which is a folder of the lake"),
        ({"bucket": "file:///etc"}, "a bucket is a name"),
        ({"bucket": "s3://"}, "is not an address such as s3://bucket/prefix"),
        ({"bucket": "s3://b/../c"}, "is not an address such as s3://bucket/prefix"),
        ({"filename_prefix": "../x"}, "a file name cannot have '..' for a folder"),
        ({"filename_prefix": "a/../../x"}, "a file name cannot have '..' for a folder"),
        ({"filename_prefix": "/x"}, "filename_prefix: '/x' cannot be part of a file name"),
        ({"filename_prefix": "x\n"}, "filename_prefix: .* cannot be part of a file name"),
        ({"filename_prefix": "x" * 1_025}, "filename_prefix: longer than 1024 bytes"),
        ({"filename_suffix": "x/"}, "filename_suffix: must not end in '/'"),
        ({"filename_datetime_format": "YYYY"}, "must have a year"),
        ({"filename_datetime_format": "YYYY-MM-DD hh:mm:ss"}, "' ' is not known"),
        ({"filename_datetime_format": "YYYYMMDDhhmmss/"}, "cannot begin or end with '/'"),
        ({"max_duration_s": 59.0}, "max_duration: 59 s is out of range; 60 to 600 s"),
        ({"max_duration_s": 601.0}, "max_duration: 601 s is out of range"),
        ({"max_bytes": 999}, "max_bytes: 999 is out of range"),
        ({"max_bytes": 10 * 2**30 + 1}, "max_bytes: .* is out of range"),
        ({"max_bytes": -1}, "max_bytes: -1 is out of range"),
        ({"max_messages": 999}, "max_messages: 999 is out of range; at least 1000"),
    ],
)
def test_files_may_not_ask_for(fields, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        exports.check_files(FileExport(**{"bucket": "box"} | fields))


@pytest.mark.parametrize(
    ("datetime_format", "text"),
    [
        ("", "2026-03-04/05_06_07Z"),
        ("YYYYMMDDhhmmss", "20260304050607"),
        ("YY/MM/DD/hh:mm:ss", "26/03/04/05:06:07"),
    ],
)
def test_times_are_written_as_asked(datetime_format, text):
    at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    assert exports.time_text(datetime_format, at) == text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"table": TABLE, "files": FILES}, "only one of them can be set"),
        ({"table": TABLE, "push": PushConfig(endpoint="http://x/")}, "only one of them can be set"),
        ({"table": TABLE, "enable_exactly_once": True}, "enable_exactly_once_delivery: means"),
        ({"files": FILES, "retry": RetryPolicy()}, "retry_policy: means nothing"),
        (
            {"table": TABLE, "labels": {"fanlog-schema-revision": "12345678"}},
            "label fanlog-schema-revision: means nothing",
        ),
        (
            {"table": TableExport(table="t", use_topic_schema=True), "topic": "orders.*"},
            "use_topic_schema: .* is a pattern",
        ),
        (
            {"table": TableExport(table="t", drop_unknown_fields=True)},
            "drop_unknown_fields: there are no fields without use_topic_schema",
        ),
    ],
)
def test_what_means_nothing_with_an_export_is_refused(fields, sentence):
    topic = f"projects/p/topics/{fields.pop('topic', 'orders')}"
    with pytest.raises(InvalidArgument, match=sentence):
        SubscriptionSpec(name="projects/p/subscriptions/sub", topic=topic, **fields)
