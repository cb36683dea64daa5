"""The files and buckets outside the lake that a pipeline may touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from fanlog.errors import InvalidArgument, PermissionDenied
from fanlog.lake.pipeline_access import NOTHING, PipelineAccess


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "imports"
    folder.mkdir()
    (folder / "a.csv").write_text("n\n1\n")
    (folder / "b.csv").write_text("n\n2\n")
    (folder / ".hidden").write_text("")
    (folder / "_SUCCESS").write_text("")
    (tmp_path / "secret.csv").write_text("n\n3\n")
    return folder


def find(root: Path, path: object):
    return PipelineAccess(import_roots=(str(root),)).find_imports(str(path), field="arguments.path")


def test_a_file_by_path_and_by_address(root):
    expected = [f"file://{root}/a.csv"]
    assert find(root, root / "a.csv").paths == expected
    assert find(root, f"file://{root}/a.csv").paths == expected


def test_a_folder_is_its_files_without_the_hidden_ones(root):
    found = find(root, root)
    assert found.paths == [f"file://{root}/a.csv", f"file://{root}/b.csv"]
    assert found.folder == str(root)


def test_a_glob(root):
    found = find(root, root / "*.csv")
    assert found.paths == [f"file://{root}/a.csv", f"file://{root}/b.csv"]
    assert found.folder is None


def test_a_root_that_is_a_link_itself(root, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(root)
    assert find(link, link / "a.csv").paths == [f"file://{root}/a.csv"]


@pytest.mark.parametrize(
    "path",
    [
        "{outside}/secret.csv",
        "file://{outside}/secret.csv",
        "{outside}/imports/../secret.csv",
        "{outside}/*.csv",
        "{outside}/imports-of-others/x.csv",
        "/etc/passwd",
    ],
)
def test_outside_the_root(root, tmp_path, path):
    with pytest.raises(PermissionDenied, match="not below an import root"):
        find(root, path.format(outside=tmp_path))


def test_links_that_lead_out(root, tmp_path):
    (root / "c.csv").symlink_to(tmp_path / "secret.csv")
    for path in (root / "c.csv", root, root / "*.csv"):
        with pytest.raises(PermissionDenied, match="a link leads out"):
            find(root, path)


def test_linked_folders_are_not_followed(root, tmp_path):
    (root / "more").symlink_to(tmp_path)
    with pytest.raises(PermissionDenied, match="is a link to a folder"):
        find(root, root)


def test_the_refusal_does_not_tell_where_a_link_leads(root, tmp_path):
    (root / "c.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(PermissionDenied) as refused:
        find(root, root / "c.csv")
    assert "secret" not in refused.value.message


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("hdfs://name/path", "a path, a file:// address or an s3:// address"),
        ("http://127.0.0.1/x", "a path, a file:// address or an s3:// address"),
        ("file://elsewhere/x", "names another machine"),
        ("a.csv", "not an absolute path"),
        ("{root}/nothing.csv", "there is no file"),
        ("{root}/*.parquet", "there is no file"),
    ],
)
def test_bad_paths(root, path, says):
    with pytest.raises(InvalidArgument, match=says):
        find(root, path.format(root=root))


def test_names_that_spark_would_expand_again(root):
    (root / "[ab].csv").write_text("n\n")
    with pytest.raises(InvalidArgument, match="character of globs"):
        find(root, root)


def test_without_roots_nothing_is_read(root):
    with pytest.raises(PermissionDenied, match="--import-root"):
        NOTHING.find_imports(str(root / "a.csv"), field="arguments.path")


def test_buckets():
    reach = PipelineAccess(buckets=("mine",))
    assert reach.find_imports("s3://mine/rows", field="arguments.path").paths == ["s3://mine/rows"]
    for address in ("s3://other/rows", "s3a://other/rows", "s3://mine.other/rows", "s3:///rows"):
        with pytest.raises(PermissionDenied, match="allowed buckets are mine"):
            reach.find_imports(address, field="arguments.path")
    with pytest.raises(PermissionDenied, match="no buckets are allowed"):
        NOTHING.check_bucket("s3://mine", field="bucket")
