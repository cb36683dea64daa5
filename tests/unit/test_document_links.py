"""Every link of the documents that stays in the repository leads somewhere, anchors included."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(
    {*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")}
    - set(ROOT.glob("**/node_modules/**"))
)

_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def prose(path: Path) -> str:
    """The text of a document without its blocks of code."""
    return _FENCED.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    found: dict[str, int] = {}
    for heading in _HEADING.findall(prose(path)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        seen = found.get(anchor, 0)
        found[anchor] = seen + 1
        if seen:
            found[f"{anchor}-{seen}"] = 1
    return set(found)


def broken(path: Path) -> list[str]:
    wrong = []
    for link in _LINK.findall(re.sub(r"`[^`]*`", "", prose(path))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = unquote(link).partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists():
            wrong.append(f"{link}: there is no such file")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{link}: there is no such heading")
    return wrong


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links(path: Path) -> None:
    assert broken(path) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c\n[x](#a-b-c) [y](#d) [z](none.md) [o](http://o)\n```\n[q](no.md)\n```\n"
    )
    assert broken(page) == ["#d: there is no such heading", "none.md: there is no such file"]


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {
        (index.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(index))
    }
    pages = {
        path.resolve()
        for folder in ("guides", "reference", "internals")
        for path in (ROOT / "docs" / folder).glob("*.md")
    }
    assert pages - linked == set()
