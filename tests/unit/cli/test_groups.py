"""Commands made of groups of options and of tables of settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from click.testing import CliRunner, Result

from fanlog.cli.groups import FLAG, Setting, add_command, clearing, fill
from fanlog.cli.options import Remote, duration, topic
from fanlog.errors import InvalidArgument
from fanlog.wire import types

TABLE = (
    Setting("filter_", "filter", create="To begin with.", update="From now on."),
    clearing("no_filter", "filter", "All of them.", "filter_"),
    Setting("retention", "message_retention_duration", "How long.", read=duration),
    Setting("retain_acked", "retain_acked_messages", "Those too.", kind=FLAG),
    Setting("topic", "topic", create="Where from.", full_name=topic),
    Setting("retry", "labels.fanlog-retry", "When."),
    clearing("no_policy", "", "Neither.", "retention", "retry"),
)
REMOTE = Remote(project="shop")


@dataclass(frozen=True, slots=True)
class Size:
    width: Annotated[int, typer.Option(help="Across.")] = 3
    height: Annotated[int | None, typer.Option(help="Up.")] = None


def run(name: str, *args: str, table: Any = ()) -> tuple[Result, list[Any]]:
    app = typer.Typer()
    calls: list[Any] = []

    def create(what: str, size: Size, remote: Remote, **given: Any) -> None:
        calls.append((what, size, remote, given))

    def update(what: str, size: Size, remote: Remote, **given: Any) -> None:
        calls.append((what, size, remote, given))

    for function in (create, update):
        add_command(app, table=table)(function)
    return CliRunner().invoke(typer.main.get_command(app), [name, *args]), calls


def test_a_dataclass_stands_for_its_options():
    result, calls = run("create", "box", "--height", "7", "--project", "shop", "--json")
    assert result.exit_code == 0
    assert calls == [("box", Size(height=7), Remote(project="shop", json=True), {})]


def test_a_table_gives_each_command_its_own_options():
    result, [(*_, given)] = run("create", "box", "--topic", "orders", table=TABLE)
    assert result.exit_code == 0
    assert given == {
        "filter_": None,
        "retention": None,
        "retain_acked": None,
        "topic": "orders",
        "retry": None,
    }
    result, [(*_, given)] = run("update", "box", "--no-retain-acked", table=TABLE)
    assert given["retain_acked"] is False
    assert "no_filter" in given
    assert "topic" not in given
    assert run("update", "box", "--topic", "orders", table=TABLE)[0].exit_code == 2


def settings(**given: object) -> dict[str, object]:
    return {row.name: None for row in TABLE} | given


def test_fill_sets_fields_and_names_their_paths():
    message = types.Subscription()
    given = settings(filter_="a=1", retention="90s", topic="orders", retry="at-once")
    paths = fill(message, "create", TABLE, given, REMOTE)
    assert message == types.Subscription(
        filter="a=1",
        message_retention_duration={"seconds": 90},
        topic="projects/shop/topics/orders",
        labels={"fanlog-retry": "at-once"},
    )
    assert paths == ["filter", "message_retention_duration", "topic", "labels.fanlog-retry"]


def test_a_field_is_taken_back_by_its_path_alone():
    message = types.Subscription()
    given = settings(no_filter=True, retain_acked=False)
    assert fill(message, "update", TABLE, given, REMOTE) == ["filter", "retain_acked_messages"]
    assert message == types.Subscription()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"filter_": "a", "no_filter": True}, "give --filter or --no-filter, not both"),
        ({"retry": "a", "no_policy": True}, "--no-policy leaves nothing for --retention, --retry"),
        ({"retention": "long"}, "--retention 'long' is not a duration"),
    ],
)
def test_settings_that_are_refused(given, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        fill(types.Subscription(), "update", TABLE, settings(**given), REMOTE)
