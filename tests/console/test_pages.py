"""Every page opens, in both colours, narrow and wide, and can be read aloud."""

from __future__ import annotations

import pytest

from acceptance.served import Served
from console.project import P, call

#: Pages, and what they are called.
PAGES = {
    "": "Overview",
    f"{P}/topics": "Topics",
    f"{P}/topics/orders": "orders",
    f"{P}/subscriptions": "Subscriptions",
    f"{P}/subscriptions/warehouse": "warehouse",
    f"{P}/messages?topic=orders": "Messages",
    f"{P}/letters": "Dead letters",
    f"{P}/filters?topic=orders&filter=region%20%3D%20eu-*": "Filters",
    f"{P}/schemas": "Schemas",
    f"{P}/schemas/order": "order",
    f"{P}/schedules": "Schedules",
    f"{P}/alerts": "Alerts",
    f"{P}/jobs": "Jobs",
    f"{P}/lake": "Lake",
    f"{P}/pipeline": "Pipeline",
    "nowhere": "Not here",
}


def shot(route: str, *how: object) -> str:
    name = route.split("?")[0].replace(f"{P}/", "").replace("/", "-") or "overview"
    return "-".join([name, *map(str, how)])


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
def test_every_page(look, width, scheme):
    tab = look(width, scheme)
    for route, title in PAGES.items():
        tab.open(route).titled(title).fits()
        tab.page.wait_for_timeout(150)
        tab.accessible().keep(shot(route, width, scheme))


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1600, "dark")])
def test_the_main_pages_in_the_other_colours(look, width, scheme):
    tab = look(width, scheme)
    for route in ("", f"{P}/subscriptions/billing", f"{P}/messages?topic=orders"):
        tab.open(route).titled(PAGES.get(route, "billing")).fits().accessible()
        tab.keep(shot(route, width, scheme))


def test_the_life_of_a_message(look, server: Served):
    browsed = call(server, "GET", f"/v1/{P}/topics/orders/messages?maxMessages=1")
    message_id = browsed["messages"][0]["message"]["messageId"]
    tab = look().open(f"{P}/messages/{message_id}").titled(message_id)
    tab.sees("billing").sees("dead letter").sees("filtered out").accessible().keep("message")
    tab.press("Look inside").dialog.get_by_role("tab", name="Hex").click()
    tab.sees("00000000", "dialog").accessible()


def test_a_switch_of_colours_is_remembered(look):
    tab = look(scheme="dark").open()
    theme = "getComputedStyle(document.documentElement).colorScheme"
    switch = tab.page.get_by_role("button", name="Light or dark colours")
    switch.click()
    assert tab.page.evaluate(theme) == "light"
    tab.page.reload()
    tab.page.wait_for_selector("main h1")
    assert tab.page.evaluate(theme) == "light"
    switch.click()
    assert tab.page.evaluate(theme) == "dark"


def test_a_keyboard_is_enough(look):
    tab = look(width=360).open()
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.id") == "skip"
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "main"
    menu = tab.page.get_by_role("button", name="Menu")
    menu.focus()
    tab.page.keyboard.press("Enter")
    assert menu.get_attribute("aria-expanded") == "true"
    tab.page.get_by_role("link", name="Topics", exact=True).focus()
    tab.page.keyboard.press("Enter")
    tab.titled("Topics")
    assert tab.page.evaluate("document.activeElement.tagName") == "H1"


def test_live_numbers_come_by_one_stream(look, server: Served):
    streams = []
    tab = look()
    tab.page.on(
        "request",
        lambda request: streams.append(request.url) if "/v1/live" in request.url else None,
    )
    tab.open()
    tab.page.wait_for_selector("#live[data-state=on]")
    tab.open(f"{P}/topics").titled("Topics").open(f"{P}/schemas").titled("Schemas").open().titled(
        "Overview"
    )
    tab.sees("Busiest topics")
    assert len(streams) == 1
