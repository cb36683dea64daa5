"""Exports, set up through every surface: what each takes, shows and refuses is the same."""

from __future__ import annotations

import pytest

from server.rest.surfaces import Refused
from server.rest.test_surfaces import surface, topic
from server.unique import unique

__all__ = ["surface", "topic"]

TABLE = {"table": "shop.orders", "write_metadata": True}
FILES = {
    "bucket": "box",
    "filename_suffix": ".txt",
    "text_config": {},
    "max_duration": "120s",
    "max_messages": 1_000,
}


@pytest.fixture(scope="module")
def engine():
    return "memory"


def test_a_table(surface, topic):
    name = unique("rows")
    made = surface.create_subscription(name, topic, bigquery_config=TABLE)
    assert made["bigquery_config"] == TABLE | {"state": "ACTIVE"}
    assert surface.get_subscription(name) == made
    with pytest.raises(Refused, match="cannot be pulled from"):
        surface.pull(name)


def test_files(surface, topic):
    name = unique("lines")
    made = surface.create_subscription(name, topic, cloud_storage_config=FILES)
    shown = made["cloud_storage_config"]
    assert shown["bucket"] == "box"
    assert shown["text_config"] == {}
    assert int(shown["max_messages"]) == 1_000
    assert surface.get_subscription(name) == made


def test_changed_and_back_to_pull(surface, topic):
    name = unique("rows")
    surface.create_subscription(name, topic)
    shown = surface.update_subscription(name, bigquery_config=TABLE)
    assert shown["bigquery_config"]["table"] == "shop.orders"
    shown = surface.update_subscription(name, bigquery_config={})
    assert "bigquery_config" not in shown
    assert surface.pull(name) == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"bigquery_config": {"table": "a/b"}}, "is not the name of a table"),
        ({"cloud_storage_config": {"bucket": "gs://x"}}, "a bucket is a name"),
        ({"bigquery_config": TABLE, "cloud_storage_config": FILES}, "only one of them"),
    ],
)
def test_refused(surface, topic, fields, sentence):
    with pytest.raises(Refused, match=sentence):
        surface.create_subscription(unique("x"), topic, **fields)
