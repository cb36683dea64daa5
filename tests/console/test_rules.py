"""Alerts, schedules, the pipeline and the lake, as a person works with them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
import requests
from playwright.sync_api import expect

from acceptance.served import Served
from console.project import P, call, data, fail, make, pipeline, publish
from console.test_strings import SCRIPT

#: Longest that the server takes to look at alerts again, and more.
LOOK_MS = 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a lake."""
    folder = tmp_path_factory.mktemp("rules")
    server = Served(folder / "data", folder / "server.log")
    server.start("--lake", str(folder / "lake"))
    make(server, "tea", "pot")
    yield server
    server.close()


def test_the_life_of_an_alert(look, server: Served):
    publish(server, "tea", *[{"data": data(number)} for number in range(3)])
    tab = look().open(f"{P}/alerts").titled("Alerts").press("Create an alert")
    tab.write(id="cold", condition="BACKLOG_MESSAGES", subscription="pot", messages="2")
    tab.write(minimum="0s").accessible().agree("Create").told("The alert is there.")
    row = tab.page.locator("main tbody tr").filter(has_text="cold")
    expect(row).to_contain_text("holds", timeout=LOOK_MS)
    expect(row).to_contain_text("3 messages wait", timeout=LOOK_MS)
    tab.press("Edit", row)
    expect(tab.dialog.locator("[name=condition]")).to_be_disabled()
    tab.write(messages="90", minimum="0s").agree("Save").told("Saved.")
    assert call(server, "GET", f"/v1/{P}/alerts/cold")["limit"] == "90"
    expect(row).to_contain_text("quiet", timeout=LOOK_MS)
    tab.accessible().fits().keep("alerts")
    tab.press("Delete", row).sees("Nothing is published about that", "dialog")
    tab.write(confirmed="cold").agree("Delete the alert").told("The alert is gone.")
    tab.sees("No alerts.")


def test_a_problem_leads_to_its_alert(look, server: Served):
    publish(server, "tea", *[{"data": data(number)} for number in range(2)])
    call(server, "POST", f"/v1/{P}/alerts?alertId=thirst", {
        "condition": "BACKLOG_MESSAGES", "subscription": f"{P}/subscriptions/pot", "limit": "1",
        "minimumTime": "0s",
    })  # fmt: skip
    tab = look().open().titled("Overview")
    link = tab.page.get_by_role("link").filter(has_text="thirst")
    expect(link).to_be_visible(timeout=LOOK_MS)
    link.click()
    tab.titled("Alerts").sees("thirst")
    call(server, "DELETE", f"/v1/{P}/alerts/thirst")


def test_the_life_of_a_schedule(look, server: Served):
    tab = look().open(f"{P}/schedules").titled("Schedules").press("Create a schedule")
    tab.write(id="five", topic="tea", cron="0 17 * * *", timeZone="Europe/London", data="ready")
    tab.accessible().agree("Create").told("The schedule is there.").sees("0 17 * * *")
    row = tab.page.locator("main tbody tr").filter(has_text="five")
    tab.press("Publish now", row).sees("1 message goes to tea", "dialog").agree("Publish now")
    tab.told("Published as message")
    tab.press("Pause", row).sees("Nothing is published until", "dialog").agree("Pause")
    expect(row).to_contain_text("paused")
    tab.press("Edit", row).write(cron="0 16 * * *", missed="LATEST").agree("Save").told("Saved.")
    found = call(server, "GET", f"/v1/{P}/schedules/five")
    assert (found["cron"], found["missed"], found["paused"]) == ("0 16 * * *", "LATEST", True)
    assert found["data"] == "cmVhZHk="
    tab.press("Resume", row).agree("Resume").told("It ticks again.")
    tab.press("Delete", row).write(confirmed="five").agree("Delete the schedule")
    tab.sees("No schedules.")


@pytest.mark.parametrize("kind", ["alert", "schedule"])
def test_a_name_that_is_a_script_is_refused_as_text(look, kind):
    tab = look()
    tab.expected.append("400 (Bad Request)")
    tab.open(f"{P}/{kind}s").press(f"Create {'an' if kind == 'alert' else 'a'} {kind}")
    if kind == "alert":
        tab.write(condition="LAKE_ALARM")
    else:
        tab.write(topic="tea", cron="@daily", data="x")
    tab.write(id=SCRIPT).press("Create", tab.dialog)
    expect(tab.dialog.get_by_role("alert")).to_contain_text("<img src=x")
    assert tab.page.locator("dialog img, dialog script").count() == 0
    tab.press("Cancel")


def test_flows_and_their_failures(look, server: Served):
    tab = look().open(f"{P}/pipeline").titled("Pipeline")
    # It is missed soon; the page looks again and again.
    pipeline(server, name=SCRIPT[:80], error=SCRIPT)
    tab.sees("4.0.1").sees("local[2]")
    row = tab.page.locator("tbody tr").filter(has_text="export")
    expect(row).to_contain_text("rests")
    expect(row).to_contain_text("<script>")
    assert tab.page.locator("main img, main script").count() == 0
    tab.accessible().fits().open().titled("Overview")
    pipeline(server, name=SCRIPT[:80], error=SCRIPT)
    tab.sees("2 flows").sees("1 flow")
    tab.page.get_by_role("link", name="Pipeline", exact=True).first.click()
    tab.titled("Pipeline")
    call(server, "POST", "/v1/pipelines:report", {
        "pipeline": {"name": SCRIPT[:80]}, "leaving": True,
    })  # fmt: skip
    tab.sees("No pipeline works for this server.")


def test_the_tables_of_the_lake(look):
    tab = look().open(f"{P}/lake").titled("Lake").sees("healthy")
    tables = tab.page.get_by_role("region", name="Tables, a table")
    expect(tables.locator("tbody tr")).to_contain_text("messages")
    tables.get_by_role("button", name="messages").click()
    tab.sees("The table has no files yet.", "dialog").accessible().press("Close", tab.dialog)
    tab.accessible().fits().press("Verify or tidy up").write(kind="compact").agree("Start")
    tab.sees("compact")


def test_letters_by_a_filter(look, server: Served):
    make(server, "cake-dead", "crumbs")
    dead = {"deadLetterTopic": f"{P}/topics/cake-dead", "maxDeliveryAttempts": 5}
    make(server, "cake", "plate", deadLetterPolicy=dead)
    publish(server, "cake", *[{"data": data({"piece": number})} for number in range(8)])
    fail(server, "plate", "dropped", 8)
    tab = look()
    tab.expected.append("400 (Bad Request)")
    tab.open(f"{P}/letters?subscription=crumbs").sees("Redrive all")
    field = tab.page.get_by_label("Filter", exact=True)
    field.fill("payload.piece > AND")
    tab.press("Count")
    expect(tab.page.locator("main [role=alert]")).to_contain_text("filter:")
    field.fill("payload.piece > 4")
    tab.press("Count").sees("Redrive these 3").press("Redrive these 3")
    tab.sees("3 letters", "dialog").agree("Redrive").told("3 of 3 redriven.")
    tab.sees("No letter is like that.")
    tab.open(f"{P}/letters?subscription=crumbs&filter={quote('payload.piece < 2')}")
    tab.press("Discard these 2").agree("Discard").told("2 of 2 discarded.")
    counts = requests.get(
        f"http://{server.http}/v1/{P}/subscriptions/crumbs/backlog", timeout=60
    ).json()
    assert counts["messages"] == "3"
