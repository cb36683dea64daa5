"""A server that asks who calls: signing in and out, and what each may see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from acceptance.served import Served
from console.project import P


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("asks")
    server = Served(folder / "data", folder / "server.log")
    server.start("--auth", "required")
    server.token_file = folder / "data" / "auth" / "admin.token"
    yield server
    server.close()


def sign_in(tab, token: str):
    tab.page.get_by_label("Token").fill(token)
    return tab.press("Sign in")


@pytest.fixture
def admin(look, server: Served):
    assert server.token_file is not None
    tab = look().open()
    tab.titled("Sign in").accessible().keep("sign-in")
    return sign_in(tab, server.token_file.read_text().strip()).titled("Overview")


def test_a_wrong_token(look):
    tab = look(360, "dark")
    tab.expected.append("401 (Unauthorized)")
    sign_in(tab.open(), "wrong").titled("Sign in").fits()
    expect(tab.page.get_by_role("alert")).not_to_be_empty()
    assert tab.page.locator("nav a").count() == 0


def test_an_administrator(admin):
    admin.sees("admin", "#who")
    admin.page.wait_for_selector("#live[data-state=on]")
    admin.open(f"{P}/topics").press("Create a topic").write(id="orders").agree("Create").titled(
        "orders"
    )
    admin.open(f"{P}/access").titled("Access").accessible().fits().keep("access")
    admin.press("Create an account").write(id="press").agree("Create").sees("press")
    press = admin.page.get_by_role("region", name="press", exact=True)
    admin.press("New token", press).agree_and_read()
    admin.press("Revoke", press).agree("Revoke").told("Revoked.")
    admin.press("Delete", press).write(confirmed="press").agree("Delete the account").told("gone")
    admin.page.reload()
    admin.titled("Access").press("Sign out").titled("Sign in")


def test_a_viewer_sees_less(admin, look):
    admin.open(f"{P}/access").press("Create an account").write(id="guest").agree("Create")
    guest = admin.page.get_by_role("region", name="guest", exact=True)
    token = admin.press("New token", guest).agree_and_read()
    project = admin.page.get_by_role("region", name="Roles in the project fanlog", exact=True)
    email = guest.locator(".note").inner_text()
    admin.press("Grant a role", project).write(
        member=f"serviceAccount:{email}", role="roles/viewer"
    )
    admin.agree("Grant").told("Granted.")
    tab = sign_in(look().open(), token).titled("Overview")
    tab.sees("You may not read the numbers of the server.").accessible()
    links = tab.page.locator("nav a").all_inner_texts()
    assert "Topics" in links
    assert not {"Access", "Dead letters", "Messages"} & set(links)
    tab.open(f"{P}/topics").titled("Topics")
    expect(tab.page.get_by_role("button", name="Create a topic")).to_have_count(0)
