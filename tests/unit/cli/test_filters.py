"""`fanlog filter`: what it says of filters and of messages, without asking any server."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def unasked(server):
    yield
    assert server.requests == []


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("event=order.*", 'hasPrefix(attributes.event, "order.")'),
        ('{"payload.amount": {">=": 1000}}', "payload.amount >= 1000"),
        ("a=1 AND (b=2 OR -c:d)", None),
        ("", "no filter: every message matches"),
    ],
)
def test_its_canonical_form(shell, expression, text):
    shown = shell.run("filter", expression)
    if text is not None:
        assert shown == f"{text}\n"
    if expression:
        # What is shown is a filter that is shown the same.
        assert shell.run("filter", shown) == shown
        assert shell.lines("filter", expression) == [
            {"is_valid": True, "filter": shown.removesuffix("\n")}
        ]


@pytest.mark.parametrize(
    ("expression", "message", "matches"),
    [
        ("k=v", ["--attr", "k=v"], True),
        ("k=v", ["--attr", "k=w", "--attr", "j=v"], False),
        ("payload.n > 4", ["--data", '{"n": 5}'], True),
        ("payload.n > 4", ["--data", "five"], False),
        ("ordering_key = a", ["--key", "a"], True),
        ("topic = orders.*", ["--topic", "orders.eu"], True),
        ("topic = orders.*", ["--topic", "projects/p/topics/orders.eu"], True),
        ("message_id = 7", ["--message-id", "7"], True),
        ('publish_time < "2026-01-01T00:00:00Z"', ["--publish-time", "2025-12-31T23:59:59Z"], True),
        ('publish_time > "2026-01-01T00:00:00Z"', ["--attr", "a=b"], True),
        ('publish_time < "2026-01-01T00:00:00Z"', ["--publish-time", "1h"], False),
        ("NOT k:v", ["--data", ""], True),
    ],
)
def test_whether_a_message_matches(shell, expression, message, matches):
    [answer] = shell.lines("filter", expression, *message)
    assert answer["matches"] is matches
    last = shell.run("filter", expression, *message).splitlines()[-1]
    assert last == ("matches" if matches else "does not match")


@pytest.mark.parametrize(
    ("expression", "marked"),
    [
        ('event == "x"', 'event == "x"\n      ^\n'),
        ("a=1 AND\n\tb==2", "a=1 AND\\n b==2\n           ^\n"),
        ('k="日本" OR a=1 AND b=2', 'k="日本" OR a=1 AND b=2\n                ^\n'),
        ("k=", "k=\n  ^\n"),
        ("k=" + "a" * 70 + " x", "…" + "a" * 49 + " x\n" + " " * 51 + "^\n"),
        ("x x=" + "a" * 70, "x x=" + "a" * 23 + "…\n  ^\n"),
        # The column counts within the key.
        ('{"attributes.a b": 1}', ""),
        ('{"k": {"gte": 5}}', ""),
    ],
)
def test_a_refusal_points_at_its_column(shell, expression, marked):
    assert shell.run("filter", expression, exit_code=1) == ""
    assert shell.stderr.startswith(f"{marked}fanlog: filter: ")


def test_a_refusal_for_machines(shell):
    said = shell.run("filter", "a == 1", "--json", exit_code=1)
    assert '"is_valid": false' in said
    assert '"column": 3' in said
    assert "column" not in shell.run("filter", '{"k": null}', "--json", exit_code=1)


@pytest.mark.parametrize(
    "options", [["--attr", "k"], ["--topic", "a.*"], ["--publish-time", "later"]]
)
def test_messages_that_cannot_be(shell, options):
    assert shell.refusal("filter", "k=v", *options)
