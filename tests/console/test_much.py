"""Ten thousand topics, and ten megabytes in one message: a page stays quick."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from playwright.sync_api import expect

from acceptance.served import PATIENCE_S, Served
from console.looking import Look
from console.project import P, make, publish

TOPICS = 10_000
#: Longest that a page may be busy with one thing, on a machine that does much else.
FROZEN_MS = 2_500
BUSY = """() => {
  window.longest = 0;
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    window.longest = Math.max(window.longest, now - last - 20);
    last = now;
  }, 20);
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("much")
    server = Served(folder / "data", folder / "server.log")
    server.start()
    yield server
    server.close()


def quick(tab: Look) -> None:
    longest = tab.page.evaluate("window.longest")
    assert longest < FROZEN_MS


def test_ten_thousand_topics(look, server: Served):
    with requests.Session() as session, ThreadPoolExecutor(4) as threads:

        def put(number: int) -> int:
            url = f"http://{server.http}/v1/{P}/topics/topic-{number:05}"
            return session.put(url, json={}, timeout=PATIENCE_S).status_code

        assert set(threads.map(put, range(TOPICS))) == {200}
    tab = look().open(f"{P}/topics").titled("Topics")
    tab.page.evaluate(BUSY)
    tab.sees("1\u201350 of 10,000").press("Next").sees("51\u2013100 of 10,000").sees("topic-00099")
    tab.press("Previous").sees("1\u201350 of 10,000")
    tab.page.get_by_role("searchbox").fill("0777")
    tab.sees("1\u201311 of 11").press("Name")
    expect(tab.page.locator("main tbody tr")).to_have_count(11)
    tab.page.get_by_role("searchbox").fill("none like it")
    tab.sees("No name has “none like it” in it.")
    quick(tab)


def test_ten_megabytes_in_one_message(look, server: Served):
    make(server, "large")
    row = b'{"line": "0123456789012345678901234567890123456789012345678901234567"},\n'
    size = 9_900_000
    raw = b"[" + row * (size // len(row)) + b"0]"
    publish(server, "large", {"data": base64.b64encode(raw).decode()})
    tab = look().open(f"{P}/messages?topic=large").sees("1 message of 1 looked at")
    tab.page.evaluate(BUSY)
    tab.page.locator("main tbody tr").first.get_by_role("button").click()
    tab.sees("This is the beginning of the data.", "dialog").sees("Load all 9.4 MiB", "dialog")
    tab.dialog.get_by_role("button", name="Load all 9.4 MiB").click()
    expect(tab.dialog.get_by_text("This is the beginning of the data.")).to_be_hidden()
    tab.dialog.get_by_role("tab", name="Text").click()
    tab.sees("Show more of it", "dialog")
    tab.dialog.get_by_role("tab", name="Hex").click()
    tab.sees("00003ff0", "dialog")
    quick(tab)
