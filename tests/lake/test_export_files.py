"""Messages as files: what is in them, what they are called, and that they come to be whole."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from fanlog.lake.location import Location
from fanlog.model.resources import FileExport
from fanlog.pipeline.export import bucket_files
from fanlog.pipeline.export.bucket_files import FileBatch, bucket_location, write_files
from fanlog.pipeline.export.rules.topic_schema import TopicSchema
from lake.test_export_rows import NOW, SUBSCRIPTION, avro, field, messages

TIME = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def batch(**settings: Any) -> FileBatch:
    return FileBatch(
        export=FileExport(**{"bucket": "box"} | settings),
        subscription=SUBSCRIPTION,
        app_id="log/5",
        number=3,
        time=TIME,
    )


@pytest.fixture
def location(tmp_path):
    return bucket_location(Location(str(tmp_path / "lake")), "box")


def present(location: Location) -> dict[str, bytes]:
    folder = Path(location.uri)
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def records(location: Location, path: str) -> list[Any]:
    with (Path(location.uri) / path).open("rb") as stream:
        return list(fastavro.reader(stream))


def test_lines_of_text(location):
    some = messages(b'{"a": 1}', b'{\n "b": 2\n}', b"two\nlines", b"")
    written = write_files(batch(), some.to_batches(), location)
    [path] = written.files
    assert path.startswith("2026-03-04/05_06_07Z_")
    assert written.files == {path: 4}
    assert present(location) == {path: b'{"a": 1}\n{"b":2}\ntwo\nlines\n\n'}


def test_names_are_as_asked_for(location):
    export = batch(
        filename_prefix="a/b-", filename_suffix=".jsonl", filename_datetime_format="YYYYMMDDhhmmss"
    )
    [path] = write_files(export, messages(b"x").to_batches(), location).files
    assert path.startswith("a/b-20260304050607_")
    assert path.endswith(".jsonl")
    assert list(present(location)) == [path]


@pytest.mark.parametrize(
    ("settings", "sizes"),
    [
        ({"max_messages": 1_000}, [1_000, 1_000, 500]),
        ({"max_bytes": 1_200}, [600, 600, 600, 600, 100]),
        ({}, [2_500]),
    ],
)
def test_a_new_file_is_begun_when_one_is_full(location, settings, sizes):
    some = messages(*[b"x"] * 2_500)
    written = write_files(batch(**settings), some.to_batches(max_chunksize=700), location)
    lines = [present(location)[path].count(b"\n") for path in written.files]
    assert lines == sizes
    assert len(present(location)) == len(sizes)


@pytest.mark.parametrize("form", ["text", "avro"])
def test_written_again_they_are_the_same_files(location, form):
    export = batch(format=form, max_messages=1_000)
    some = messages(*[b"x%d" % n for n in range(2_500)])
    write_files(export, some.to_batches(max_chunksize=700), location)
    before = present(location)
    assert len(before) == 3
    write_files(export, some.to_batches(max_chunksize=901), location)
    assert present(location) == before
    write_files(replace(export, number=4), some.to_batches(), location)
    assert len(present(location)) == 6


def test_avro_of_data(location):
    [path] = write_files(batch(format="avro"), messages(b"\x00", b"x").to_batches(), location).files
    assert records(location, path) == [{"data": b"\x00"}, {"data": b"x"}]


def test_avro_with_metadata(location):
    export = batch(format="avro", write_metadata=True)
    [path] = write_files(export, messages(b"x", revision=None).to_batches(), location).files
    assert records(location, path) == [
        {
            "subscription_name": SUBSCRIPTION,
            "message_id": "700",
            "publish_time": NOW,
            "attributes": {"k": "v", "ordering_key": "key"},
            "data": b"x",
        }
    ]


OLDER = avro(field("id", "string"))
NEWER = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [field("id", "string"), field("count", "int") | {"default": 7}],
    }
)


@pytest.mark.parametrize("write_metadata", [False, True])
def test_avro_by_the_topics_schema(location, write_metadata):
    revisions = TopicSchema("AVRO", "r2", {"r1": OLDER, "r2": NEWER})
    export = batch(format="avro", use_topic_schema=True, write_metadata=write_metadata)
    some = [
        *messages(b'{"id": "a"}', b"bad", revision="r1").to_batches(),
        *messages(b'{"id": "b", "count": 1}', revision="r2").to_batches(),
    ]
    written = write_files(export, some, location, topic_schema=revisions)
    found = records(location, next(iter(written.files)))
    if write_metadata:
        found = [one["data"] for one in found]
    assert found == [{"id": "a", "count": 7}, {"id": "b", "count": 1}]
    assert list(written.files.values()) == [2]
    [rejected] = written.rejected.to_pylist()
    assert rejected["data"] == b"bad"
    assert "expected JSON" in rejected["reason"]


def test_nothing_is_left_of_a_file_that_was_not_finished(location):
    def failing() -> Any:
        yield from messages(*[b"x"] * 1_500).to_batches(max_chunksize=1_200)
        raise RuntimeError("the task died")

    with pytest.raises(RuntimeError):
        write_files(batch(max_messages=1_000), failing(), location)
    # The first is whole, and will be written again as it is.
    assert [one.count(b"\n") for one in present(location).values()] == [1_000]


def test_where_a_bucket_is():
    lake = Location("s3://lake/prefix", {"AWS_REGION": "x"})
    assert bucket_location(lake, "box") == Location("s3://lake/prefix/files/box", lake.settings)
    assert bucket_location(Location("/lake"), "s3://other/a").uri == "s3://other/a"
    assert bucket_files.FOLDER == "files"
