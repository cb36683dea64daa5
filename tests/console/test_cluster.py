"""The page of a cluster: its nodes, the owner, Kafka, and having another node own the log."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import expect

from nodes.conftest import PATIENCE_S, Cluster

#: Long: a busy machine is not a silent owner.
SESSION_S = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two nodes on a loop in a thread of their own; the pages are of the standby."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = AsyncExitStack()

    def run(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(4 * PATIENCE_S)

    cluster = Cluster(tmp_path_factory.mktemp("nodes"), stack)
    try:
        run(cluster.start_all("anna", "bert", http_port=0, session=SESSION_S))
        yield SimpleNamespace(http=cluster.nodes["bert"].server.http_endpoint)
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
def test_the_nodes(look, width, scheme):
    tab = look(width, scheme).open("cluster").titled("Cluster").sees("reachable").fits()
    rows = tab.page.get_by_role("region", name="Nodes, a table").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="anna")).to_contain_text("owns the log")
    expect(rows.filter(has_text="bert")).to_contain_text("stands by")
    tab.accessible().keep(f"cluster-{width}-{scheme}")
    tab.open().titled("Overview").sees("2 nodes")
    tab.page.get_by_role("link", name="Nodes", exact=True).click()
    tab.titled("Cluster")


def test_another_node_owns_the_log(look):
    tab = look()
    # While nobody owns, calls are held; a stream of live numbers ends, and begins again.
    tab.expected.extend(["503", "ERR_", "502", "504"])
    tab.open("cluster").sees("owns the log")
    tab.press("Move here").sees("Calls wait for a moment", "dialog").accessible().agree("Move")
    tab.told("bert is to own the log, which anna had.")
    rows = tab.page.get_by_role("region", name="Nodes, a table").locator("tbody tr")
    expect(rows.filter(has_text="bert")).to_contain_text("owns the log")
    expect(rows.filter(has_text="anna")).to_contain_text("stands by")
