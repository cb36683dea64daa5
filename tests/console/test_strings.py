"""What comes from outside is text, whatever it says."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from acceptance.served import Served
from console.project import P, call, make, publish

SCRIPT = "<img src=x onerror='document.title=1'><script>document.title=2</script>"


@pytest.fixture
def hostile(server: Served) -> str:
    """A message, a job and permissions that are scripts."""
    make(server, "hostile", "victim")
    [message_id] = publish(server, "hostile", {
        "data": "PHNjcmlwdD5kb2N1bWVudC50aXRsZT0zPC9zY3JpcHQ+",
        "attributes": {SCRIPT: SCRIPT},
        "orderingKey": SCRIPT,
    })  # fmt: skip
    policy = {"bindings": [{"role": "roles/viewer", "members": ["user:<b>@example.com"]}]}
    call(server, "POST", f"/v1/{P}/topics/hostile:setIamPolicy", {"policy": policy})
    return message_id


def test_a_message_that_is_a_script(look, hostile):
    tab = (
        look()
        .open(f"{P}/messages?topic=hostile")
        .sees(SCRIPT[:20])
        .sees("<script>document.title=3")
    )
    tab.page.locator("main tbody tr").first.get_by_role("button").click()
    tab.sees("<script>document.title=3</script>", "dialog").press("Close", tab.dialog)
    tab.open(f"{P}/messages/{hostile}").titled(hostile).sees(SCRIPT)
    tab.open(f"{P}/topics/hostile").titled("hostile").sees("user:<b>@example.com")
    tab.open(f"{P}/filters?topic=hostile&filter={quote(SCRIPT)}")
    expect(tab.page.locator(".pointed")).to_contain_text(SCRIPT[:10])
    assert tab.page.locator("main img, main script").count() == 0
    assert tab.page.title().endswith("Fanlog")


def test_a_route_that_is_a_script(look):
    tab = look()
    tab.expected.append("404 (Not Found)")
    tab.expected.append("400 (Bad Request)")
    tab.open(f"{P}/topics/{quote(SCRIPT, safe='')}").titled("Topic")
    expect(tab.page.locator("main [role=alert]")).not_to_be_empty()
    assert tab.page.locator("main img, main script").count() == 0
