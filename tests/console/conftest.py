"""A real browser at a real server: Debian's Chromium, driven from Python."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from acceptance.served import Served
from console.looking import Look
from console.project import fill

#: Nothing leaves this machine.
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage"),
]
#: One browser for all: the folder's tests run one after the other.
HERE = Path(__file__).parent


# Before xdist reads the groups, also where these tests alone are asked for.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("console"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Playwright's loop runs in this thread as long as it is there: no test of another
    folder, which may have a loop of its own, comes meanwhile."""
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed: scripts/test_tools.sh")
        pytest.skip("chromium is not installed: scripts/test_tools.sh")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with defaults, and a small project in it."""
    folder = tmp_path_factory.mktemp("console")
    server = Served(folder / "data", folder / "server.log")
    server.start()
    fill(server)
    yield server
    server.close()


@pytest.fixture
def look(browser: Browser, server: Served) -> Iterator[Callable[..., Look]]:
    """Opens pages of the console; at the end none of them may have complained."""
    contexts: list[BrowserContext] = []
    looks: list[Look] = []

    def open_(width: int = 1280, scheme: str = "light", at: Served = server) -> Look:
        context = browser.new_context(
            viewport={"width": width, "height": 860},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        looks.append(Look(context.new_page(), f"http://{at.http}"))
        return looks[-1]

    yield open_
    complaints = [complaint for look in looks for complaint in look.complaints]
    for context in contexts:
        context.close()
    assert complaints == []
