"""`fanlog top` on a terminal and away from one."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator

import pytest

from acceptance.served import Served
from acceptance.terminal import Terminal
from commands import lines_of

Open = Callable[..., Terminal]


@pytest.fixture
def busy(shared: Served) -> Served:
    """Two topics; `many` has three messages that wait, `few` one, `idle` none."""
    environ = shared.environ
    lines_of(["topic", "create", "orders"], env=environ)
    lines_of(["topic", "create", "returns"], env=environ)
    for name, topic in (("many", "orders"), ("few", "returns"), ("idle", "returns")):
        lines_of(["sub", "create", name, "--topic", topic], env=environ)
    lines_of(["publish", "orders", "-"], input="a\nb\nc\n", env=environ)
    lines_of(["publish", "returns", "a"], env=environ)
    lines_of(["sub", "purge", "idle"], env=environ)
    return shared


@pytest.fixture
def open_top() -> Iterator[Open]:
    opened: list[Terminal] = []

    def run(server: Served, *args: str, **size: int) -> Terminal:
        opened.append(Terminal("top", *args, environ=server.environ, **size))
        return opened[-1]

    yield run
    for one in opened:
        one.close()


def names(text: str) -> list[str]:
    """The names of the rows that are shown, from the top."""
    known = ("many", "few", "idle", "new", "orders", "returns")
    return [word for line in text.split("\n") for word in line.split()[:1] if word in known]


def test_what_it_shows(busy, open_top):
    top = open_top(busy)
    text = top.await_screen(lambda text: "nothing is wrong" in text and "backlog 4" in text)
    assert names(text) == ["many", "few", "idle"]
    assert "▼BACKLOG" in text
    assert busy.endpoint in text
    assert "1-3 of 3 subscriptions" in text
    top.press("q")
    assert top.wait() == 0
    assert top.is_restored


def test_columns_and_kinds_by_keys(busy, open_top):
    top = open_top(busy, "--sort", "oldest")
    top.await_screen(lambda text: "▼OLDEST" in text)
    top.press("\x1b[D")
    top.await_screen(lambda text: "▼BACKLOG" in text)
    top.press("1")
    top.await_screen(lambda text: names(text) == ["few", "idle", "many"])
    top.press(">")
    top.await_screen(lambda text: "▼IN/S" in text)
    top.press("t")
    top.await_screen(lambda text: "TOPIC" in text and sorted(names(text)) == ["orders", "returns"])
    top.press("4")
    top.await_screen(lambda text: "▼EVER" in text and names(text) == ["orders", "returns"])
    top.press("t")
    top.await_screen(lambda text: names(text) == ["many", "few", "idle"])
    top.press("\x1b")
    assert top.wait() == 0
    assert top.is_restored


def test_find(busy, open_top):
    top = open_top(busy)
    top.await_screen(lambda text: len(names(text)) == 3)
    top.press("/eew\x7f\x7fq")
    top.await_screen(lambda text: "names with: eq_" in text)
    top.press("\x7f\r")
    top.await_screen(lambda text: names(text) == ["few", "idle"] and "with 'e'" in text)
    top.press("/xyz\x1b")
    top.await_screen(lambda text: "q quit" in text and names(text) == ["few", "idle"])
    top.press("/nothing\r")
    top.await_screen(lambda text: "no subscriptions with" in text)
    top.press("q")
    assert top.wait() == 0


def test_another_size(busy, open_top):
    top = open_top(busy, columns=160, lines=12)
    top.await_screen(lambda text: "PRESSURE" in text)
    assert len(top.screen()) == 12
    # Room for one row.
    top.resize(100, 7)
    text = top.await_screen(lambda _: len(top.screen()) == 7)
    assert max(map(len, top.screen())) <= 100
    assert names(text) == ["many"]
    top.press("\x1b[B")
    top.await_screen(lambda text: names(text) == ["few"] and "2-2 of 3" in text)
    top.press("\x1b[6~\x1b[6~")
    top.await_screen(lambda text: names(text) == ["idle"])
    top.resize(20, 3)
    top.await_screen(lambda _: len(top.screen()) == 3)
    top.resize(1, 1)
    top.await_screen(lambda _: len(top.screen()) == 1)
    top.press("q")
    assert top.wait() == 0
    assert top.is_restored


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_terminal_is_as_it_was_however_it_ends(busy, open_top, number, status):
    top = open_top(busy)
    top.await_screen(lambda text: "▼BACKLOG" in text)
    top.signal(number)
    assert top.wait() == status
    assert top.is_restored
    assert "Traceback" not in top.output


def test_suspended_and_continued(busy, open_top):
    top = open_top(busy)
    top.await_screen(lambda text: "▼BACKLOG" in text)
    top.signal(signal.SIGTSTP)
    top.await_output("\x1b[?1049l")
    before = len(top.output)
    top.signal(signal.SIGCONT)
    top.await_screen(lambda _: "\x1b[?1049h" in top.output[before:] and "\x1b[J" in top.output)
    top.press("q")
    assert top.wait() == 0
    assert top.is_restored


def test_a_server_that_goes_and_comes(served, open_top):
    lines_of(["topic", "create", "orders"], env=served.environ)
    lines_of(["sub", "create", "many", "--topic", "orders"], env=served.environ)
    top = open_top(served, "--every", "1s")
    top.await_screen(lambda text: names(text) == ["many"])
    served.stop(signal.SIGKILL)
    # The table stays, and says that it is old.
    top.await_screen(lambda text: "no server answers" in text and names(text) == ["many"])
    served.start("--port", served.endpoint.rpartition(":")[2])
    lines_of(["sub", "create", "new", "--topic", "orders"], env=served.environ)
    # Rows and numbers of the new one.
    top.await_screen(lambda text: "new" in names(text) and "nothing is wrong" in text)
    top.press("q")
    assert top.wait() == 0
    assert top.is_restored


def test_no_server(open_top, served):
    served.stop(signal.SIGKILL)
    top = open_top(served)
    assert top.wait() == 1
    assert "no server answers" in top.output
    # Not even for a moment.
    assert "\x1b[?1049h" not in top.output


class TestAwayFromATerminal:
    @staticmethod
    def table(server: Served) -> list[str]:
        return server.run("top").stdout.splitlines()

    def test_one_table(self, busy):
        lines = self.table(busy)
        # Backlogs are those of the server's last look, which may be from before the messages.
        while [line.split()[0] for line in lines[1:]] != ["many", "few", "idle"]:
            lines = self.table(busy)
        assert lines[0].split()[:2] == ["subscription", "in/s"]
        # Somebody has looked by now: rates are known.
        assert "-" not in lines[1].split()[1:5]
        assert busy.run("top", "--max", "1").stderr.startswith("1 of 3")

    def test_for_machines(self, busy):
        rows = busy.lines("top", "--sort", "backlog", "--contains", "M")
        assert [row["backlog"] for row in rows] == [3]
        assert rows[0]["acknowledged"] == 0
        rows = [
            json.loads(line)
            for line in busy.run("top", "--topics", "--json").stdout.split("\n")
            if line
        ]
        assert {row["name"].rpartition("/")[2]: row["messages"] for row in rows} == {
            "orders": 3,
            "returns": 1,
        }

    def test_once_on_a_terminal(self, busy, open_top):
        top = open_top(busy, "--once")
        assert top.wait() == 0
        assert "many" in top.output
        assert "\x1b[?1049h" not in top.output

    @pytest.mark.parametrize(
        ("args", "words"),
        [
            (["--sort", "colour"], "--sort: 'colour' is not one of name, in, out"),
            (["--topics", "--sort", "backlog"], "--sort: 'backlog' is not one of name, in, mess"),
            (["--every", "0.1s"], "1s is the least"),
        ],
    )
    def test_what_makes_no_sense(self, busy, args, words):
        assert words in busy.run("top", *args, exit_code=1).stderr
