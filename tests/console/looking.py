"""What a person does with a page of the console, and what the page must never do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import ConsoleMessage, Locator, Page, expect

#: Longest that a page may take on a busy machine.
PATIENCE_MS = 20_000
SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()

expect.set_options(timeout=PATIENCE_MS)


class Look:
    """One tab."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        #: Errors of scripts, of the policy of what may be loaded, and of requests.
        self.complaints: list[str] = []
        #: Parts of complaints that a test brings about.
        self.expected: list[str] = []
        self._base = base
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not any(
            part in message.text for part in self.expected
        ):
            self.complaints.append(f"{message.text} {message.location.get('url', '')}")

    def open(self, route: str = "") -> Look:
        if self.page.url.startswith(self._base):
            self.page.evaluate("route => { location.hash = `#/${route}`; }", route)
        else:
            self.page.goto(f"{self._base}/#/{route}")
        self.page.wait_for_selector("main h1")
        return self

    def titled(self, title: str) -> Look:
        expect(self.page.locator("main h1").first).to_contain_text(title)
        return self

    def press(self, name: str, within: Locator | None = None) -> Look:
        (within or self.page).get_by_role("button", name=name, exact=True).first.click()
        return self

    @property
    def dialog(self) -> Locator:
        return self.page.locator("dialog[open]").last

    def write(self, **values: str) -> Look:
        """Fill fields of the open dialog, by their names."""
        for name, value in values.items():
            field = self.dialog.locator(f"[name={name}]")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        return self

    def agree(self, label: str) -> Look:
        """Press the dialog's button, and wait for its end."""
        dialog = self.dialog
        dialog.get_by_role("button", name=label, exact=True).click()
        expect(self.page.locator("dialog[open]")).to_have_count(0)
        return self

    def agree_and_read(self) -> str:
        """Make a token; it is shown this once."""
        self.press("Make the token", self.dialog)
        token = self.dialog.locator("code").inner_text()
        self.press("Close", self.dialog)
        return token

    def sees(self, text: str, within: str = "main") -> Look:
        expect(self.page.locator(within)).to_contain_text(text)
        return self

    def told(self, text: str) -> Look:
        return self.sees(text, "#told")

    def fits(self) -> Look:
        """Nothing is wider than the window, but for what scrolls by itself."""
        wide, window = self.page.evaluate(
            "[document.documentElement.scrollWidth, window.innerWidth]"
        )
        assert wide <= window, self.page.url
        return self

    def accessible(self) -> Look:
        self.page.evaluate(AXE)
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        problems = [
            (rule["id"], node["target"], node["failureSummary"])
            for rule in found["violations"]
            for node in rule["nodes"]
        ]
        assert problems == [], (self.page.url, problems)
        return self

    def keep(self, name: str) -> Look:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")
        return self
