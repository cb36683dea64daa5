"""Every action, as a person does it, and what it leaves on the server."""

from __future__ import annotations

import pytest
import requests
from playwright.sync_api import expect

from acceptance.served import Served
from console.project import ORDER, P, call, data, fail, make, publish


def test_the_life_of_a_topic(look, server: Served):
    tab = look().open(f"{P}/topics").press("Create a topic")
    tab.write(id="fruit", retention="12h", labels="team=sales").agree("Create").titled("fruit")
    assert call(server, "GET", f"/v1/{P}/topics/fruit")["messageRetentionDuration"] == "43200s"
    tab.press("Publish").write(data='{"pears": 3}', attributes="shop=north", times="2")
    tab.agree("Publish").told("2 messages published.")
    tab.press("Edit").write(retention="1d", labels="team=stock").agree("Save").told("changed")
    topic = call(server, "GET", f"/v1/{P}/topics/fruit")
    assert (topic["messageRetentionDuration"], topic["labels"]) == ("86400s", {"team": "stock"})
    tab.sees("team=stock").press("Delete").sees("2 messages", "dialog")
    tab.write(confirmed="apple").press("Delete the topic", tab.dialog).sees(
        "That is not fruit.", "dialog"
    )
    tab.write(confirmed="fruit").agree("Delete the topic").titled("Topics").told("gone")


def test_a_topic_that_is_refused_says_why(look):
    tab = look()
    tab.expected.append("400 (Bad Request)")
    tab.open(f"{P}/topics").press("Create a topic").write(id="1")
    tab.press("Create", tab.dialog)
    expect(tab.dialog.get_by_role("alert")).not_to_be_empty()
    tab.press("Cancel").open(f"{P}/topics").titled("Topics")


def test_the_life_of_a_subscription(look, server: Served):
    make(server, "bread")
    tab = look().open(f"{P}/subscriptions").press("Create a subscription")
    tab.write(id="bakery", topic="bread", filter="kind = rye", deadline="30").agree("Create")
    tab.titled("bakery").sees("kind = rye")
    publish(
        server,
        "bread",
        *[{"data": data(number), "attributes": {"kind": "rye"}} for number in range(5)],
    )
    name = f"{P}/subscriptions/bakery"
    tab.press("Edit").write(deadline="40", filter="").agree("Save").told("changed")
    found = call(server, "GET", f"/v1/{name}")
    assert (found["ackDeadlineSeconds"], "filter" in found) == (40, False)
    tab.press("Snapshot").sees("5 unacknowledged messages", "dialog").write(id="before").agree(
        "Make the snapshot"
    )
    tab.sees("before")
    tab.press("Purge").sees("5 messages", "dialog").agree("Purge").told("5 messages dropped.")
    tab.press("Seek").write(to="snapshot", snapshot="before").sees("5 messages would", "dialog")
    tab.agree("Seek").told("5 messages will be delivered again")
    assert call(server, "GET", f"/v1/{name}/backlog")["messages"] == "5"
    snapshots = tab.page.get_by_role("region", name="Snapshots", exact=True)
    tab.press("Delete", snapshots).agree("Delete").told("The snapshot is gone.")
    tab.press("Grant a role").write(member="user:ada@example.com", role="roles/pubsub.viewer")
    tab.agree("Grant").sees("user:ada@example.com")
    tab.press("Take away").agree("Take away").told("Taken away.")
    assert not call(server, "GET", f"/v1/{name}:getIamPolicy").get("bindings")
    tab.press("Detach").agree("Detach").told("detached")
    tab.press("Delete").write(confirmed="bakery").agree("Delete the subscription").titled(
        "Subscriptions"
    )


def test_browsing(look, server: Served):
    tab = (
        look()
        .open(f"{P}/messages?topic=orders")
        .titled("Messages")
        .sees("50 messages of 50 looked at")
    )
    tab.press("Look further").sees("60 messages of 60 looked at. That is all.")
    rows = tab.page.locator("main tbody tr")
    tab.page.get_by_label("Attribute").fill("region=eu-west")
    tab.press("Look").sees("30 messages of 60 looked at")
    tab.page.get_by_label("Filter", exact=True).fill("payload.amount < 50")
    tab.press("Look").sees("5 messages of 60 looked at")
    expect(rows).to_have_count(5)
    rows.first.get_by_role("button").click()
    tab.sees('"amount": 45', "dialog").accessible()
    tab.dialog.get_by_role("tab", name="JSON").press("ArrowRight")
    expect(tab.dialog.get_by_role("tab", name="Text")).to_be_focused()
    tab.press("Close", tab.dialog)
    tab.page.get_by_label("From").select_option("offset")
    tab.page.get_by_label("Offset").fill("58")
    tab.page.get_by_label("Filter", exact=True).fill("")
    tab.page.get_by_label("Attribute").fill("")
    tab.press("Look").sees("2 messages of 2 looked at")


def test_dead_letters(look, server: Served):
    make(server, "wine-dead", "wine-letters")
    dead = {"deadLetterTopic": f"{P}/topics/wine-dead", "maxDeliveryAttempts": 5}
    make(server, "wine", "cellar", deadLetterPolicy=dead)
    publish(server, "wine", *[{"data": data({"bottle": number})} for number in range(9)])
    fail(server, "cellar", "corked", 4)
    fail(server, "cellar", "no label", 3)
    tab = (
        look()
        .open(f"{P}/letters?subscription=wine-letters")
        .sees("corked")
        .sees("no label")
        .accessible()
    )
    rows = tab.page.get_by_role("region", name="Dead letters by reason").locator("tbody tr")
    corked = rows.filter(has_text="corked")
    tab.press("Look inside", corked)
    inside = tab.page.get_by_role("region", name="Letters, a table")
    inside.locator("tbody tr").first.get_by_role("button").click()
    tab.sees('"bottle"', "dialog").press("Close", tab.dialog)
    inside.get_by_role("checkbox").first.check()
    tab.press("Redrive the chosen").agree("Redrive").told("1 of 1 redriven.")
    expect(rows.filter(has_text="corked").get_by_role("cell").nth(1)).to_have_text("3")
    tab.press("Redrive", rows.filter(has_text="no label")).agree("Redrive").told("3 of 3 redriven.")
    expect(rows).to_have_count(1)
    tab.press("Discard all").sees("cannot be undone", "dialog").agree("Discard").told(
        "3 of 3 discarded."
    )
    tab.sees("No dead letters.")
    counts = call(server, "GET", f"/v1/{P}/subscriptions/cellar/backlog")
    assert counts["messages"] == "6"


def test_filters(look):
    tab = look().open(f"{P}/filters").titled("Filters")
    field = tab.page.get_by_label("Filter", exact=True)
    text = "region = eu-* AND AND"
    field.fill(text)
    pointed = tab.page.locator(".pointed")
    expect(pointed).to_contain_text("▲")
    line, caret = pointed.inner_text().split("\n")
    assert line[caret.index("▲") :] == "AND"
    tab.accessible()
    # A character outside the first plane is one column, and two units of a string.
    field.fill('region = "𝄞" AND AND')
    expect(pointed).to_contain_text("𝄞")
    line, caret = pointed.inner_text().split("\n")
    assert line[caret.index("▲") :] == "AND"
    field.fill("region = eu-* AND payload.amount > 100")
    tab.sees("all 2 of these").sees('begins with "eu-"')
    tab.page.get_by_label("Topic", exact=True).fill("orders")
    tab.press("Try it").sees("20 of 60 messages match")
    tab.press("Try on all of history").agree("Start the job").titled("Jobs").sees("backtest")


def test_schemas(look, server: Served):
    tab = look().open(f"{P}/schemas").press("Create a schema")
    tab.write(id="parcel", definition=str(ORDER).replace("'", '"')).agree("Create").titled("parcel")
    more = ORDER | {"fields": [*ORDER["fields"], {"name": "weight", "type": "int", "default": 0}]}  # type: ignore[misc]
    tab.press("New revision").write(definition=str(more).replace("'", '"')).agree("Commit")
    tab.told("committed")
    expect(tab.page.locator("ins").filter(has_text="weight")).to_be_visible()
    tab.accessible().press("Go back to it").agree("Go back").told("Gone back.")
    revisions = call(server, "GET", f"/v1/{P}/schemas/parcel:listRevisions")["schemas"]
    assert len(revisions) == 3
    tab.press("Delete", tab.page.get_by_role("region", name="Revisions", exact=True)).agree(
        "Delete"
    )
    tab.told("The revision is gone.")
    tab.press("Delete", tab.page.locator(".heading")).write(confirmed="parcel").agree(
        "Delete the schema"
    )
    tab.titled("Schemas")


def test_jobs(look, server: Served):
    tab = look().open(f"{P}/jobs").press("Start a job").write(kind="verify", topics="orders")
    tab.agree("Start").told("waits for the pipeline")
    path = f"/v1/{P}/jobs/tonight"
    call(server, "POST", f"{path}:report", {"worker": "worker-1"})
    call(
        server,
        "POST",
        f"{path}:report",
        {
            "worker": "worker-1",
            "attempt": 1,
            "state": "RUNNING",
            "done": 3,
            "total": 10,
            "phase": "reading",
        },
    )
    tab.sees("3 of 10, reading").accessible()
    tonight = tab.page.locator("tbody tr").filter(has_text="tonight")
    expect(tonight.get_by_role("progressbar")).to_have_js_property("value", 3)
    tab.press("Cancel", tonight).agree("Cancel the job").told("being cancelled")
    call(
        server, "POST", f"{path}:report", {"worker": "worker-1", "attempt": 1, "state": "CANCELLED"}
    )
    tab.press("Forget", tonight).agree("Forget").told("Forgotten.")
    expect(tonight).to_have_count(0)
    answer = requests.get(f"http://{server.http}{path}", timeout=10)
    assert answer.status_code == 404


@pytest.mark.parametrize("width", [360])
def test_a_dialog_fits_a_telephone(look, width):
    tab = look(width, "dark").open(f"{P}/subscriptions").press("Create a subscription").fits()
    tab.accessible().keep("dialog-360-dark")
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("dialog")).to_have_count(0)
