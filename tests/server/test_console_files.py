"""The files of the console: served from memory, with a policy that lets nothing else in."""

from __future__ import annotations

import re
from typing import Any

import pytest
import requests

from fanlog.server.console_pages import POLICY, console_files
from server.conftest import PATIENCE_S, RunningServer

#: What a first visit loads, at most: a page of a table on a slow line.
BYTES_MAX = 150 * 1024


@pytest.fixture(scope="module")
def engine() -> str:
    return "memory"


@pytest.fixture
def get(server: RunningServer) -> Any:
    def ask(path: str, method: str = "GET", **headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.request(method, server.http(path), headers=named, timeout=PATIENCE_S)

    return ask


def test_the_root_is_the_page(get):
    answer = get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "<title>Fanlog" in answer.text


def test_nothing_but_our_own_may_run_in_it(get):
    for path in ("/", *(f"/console/{name}" for name in console_files())):
        headers = get(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert POLICY.endswith("base-uri 'none'; form-action 'self'; frame-ancestors 'none'")


def test_the_page_keeps_to_its_policy():
    """No script and no style stands in the markup, and nothing comes from elsewhere."""
    for name, file in console_files().items():
        text = file.content.decode("utf-8", "replace")
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\bsrc=)", text), name
            assert not re.search(r"<style|\bstyle=|\son[a-z]+=", text), name
        if name.endswith((".html", ".css", ".js")):
            assert not re.search(r"https?://(?!www\.w3\.org/)", text), name
        if name.endswith(".js"):
            assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacentHTML", text), name


def test_every_file_that_the_page_names_is_served(get):
    named = re.findall(r'(?:src|href)="(/[^"]+)"', get("/").text)
    assert len(named) >= 2
    for path in named:
        assert get(path).status_code == 200, path


def test_types(get):
    expected = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}
    for name in console_files():
        kind = expected.get(name.rpartition(".")[2])
        if kind is not None:
            assert get(f"/console/{name}").headers["content-type"] == kind


def test_a_browser_asks_whether_it_has_the_file_as_it_is(get):
    first = get("/")
    assert first.headers["cache-control"] == "no-cache"
    again = get("/", if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == POLICY
    other = get("/", if_none_match='"other"')
    assert other.status_code == 200
    assert get("/", "HEAD").headers["content-length"] == str(len(first.content))


@pytest.mark.parametrize(
    "path",
    ["/console/", "/console/nothing.js", "/console/../http_api.py", "/console/%2e%2e/app.py",
     "/console//etc/passwd", "/console/__init__.py", "/index.html"],
)  # fmt: skip
def test_nothing_else_is_served(get, path):
    answer = get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["details"][0]["reason"] == "ROUTE_NOT_FOUND"


def test_only_reading(get):
    assert get("/", "POST").status_code == 405


def test_a_page_elsewhere_cannot_take_it_into_its_own(get):
    answer = get("/console/overview.js", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
    assert answer.status_code == 403
    # A link leads there all the same.
    assert get("/", sec_fetch_site="cross-site", sec_fetch_mode="navigate").status_code == 200


def test_all_of_it_is_small():
    assert sum(len(file.content) for file in console_files().values()) <= BYTES_MAX
