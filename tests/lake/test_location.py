from __future__ import annotations

import json

import pytest

from fanlog.lake import tables
from fanlog.lake.location import IDENTITY_FILE, LakeError, Location


def test_a_folder_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    location = Location.parse("data/lake")
    assert location.uri == str(tmp_path / "data" / "lake")
    assert location.storage_options is None


def test_storage_takes_the_usual_variables():
    environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "HOME": "/"}
    location = Location.parse("s3://bucket/some/prefix/", environ)
    assert location.uri == "s3://bucket/some/prefix"
    assert location.storage_options == {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "aws_conditional_put": "etag",
        "max_retries": "4",
        "retry_timeout": "20s",
        "timeout": "30s",
    }


def test_secrets_are_not_shown():
    location = Location.parse("s3://bucket/x", {"AWS_SECRET_ACCESS_KEY": "hush"})
    assert "hush" not in repr(location)


@pytest.mark.parametrize("address", ["", "s3://", "gs://bucket/x", "https://host/x"])
def test_other_addresses_are_refused(address):
    with pytest.raises(LakeError):
        Location.parse(address)


def test_a_lake_has_one_id(location):
    made = tables.ensure_lake(location)
    assert tables.ensure_lake(location) == made
    assert tables.lake_id(location) == made


def test_where_there_is_no_lake_there_is_no_id(location):
    with pytest.raises(LakeError, match="no table 'messages'"):
        tables.lake_id(location)


def test_tables_of_two_lakes_are_noticed(folder, tmp_path):
    other = Location.parse(str(tmp_path / "other"))
    tables.ensure_lake(folder)
    tables.ensure_lake(other)
    identity = tmp_path / "lake" / IDENTITY_FILE
    identity.write_bytes((tmp_path / "other" / IDENTITY_FILE).read_bytes())
    with pytest.raises(LakeError, match="mixed up"):
        tables.lake_id(folder)


def test_a_lake_of_a_newer_format_is_refused(folder, tmp_path):
    tables.ensure_lake(folder)
    identity = tmp_path / "lake" / IDENTITY_FILE
    identity.write_text(json.dumps({**json.loads(identity.read_text()), "format": 2}))
    with pytest.raises(LakeError, match="format 2"):
        tables.lake_id(folder)


def test_an_unreadable_identity_is_named(folder, tmp_path):
    tables.ensure_lake(folder)
    (tmp_path / "lake" / IDENTITY_FILE).write_text("{")
    with pytest.raises(LakeError, match="cannot be read"):
        tables.lake_id(folder)
