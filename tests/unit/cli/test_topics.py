"""`fanlog topic` against a server of a few lines."""

from __future__ import annotations

import pytest

from fanlog.client.catalog import CatalogClient
from fanlog.v1 import catalog_pb2
from fanlog.wire import types


def test_create_expands_short_names(shell, server):
    assert "created topic projects/fanlog/topics/orders" in shell.run("topic", "create", "orders")
    assert "projects/fanlog/topics/orders" in server.topics


def test_create_with_everything(shell, server):
    [created] = shell.lines(
        "topic", "create", "orders", "--retention", "1d12h", "--label", "team=shop", "--label", "a="
    )
    sent = server.last(types.Topic)
    assert sent.message_retention_duration.seconds == 36 * 3600
    assert dict(sent.labels) == {"team": "shop", "a": ""}
    assert created == {
        "name": "projects/fanlog/topics/orders",
        "labels": {"team": "shop", "a": ""},
        "message_retention_duration": "129600s",
    }


def test_project_by_option_and_full_name(shell, server):
    shell.run("topic", "create", "orders", "--project", "shop")
    shell.run("topic", "create", "projects/other/topics/orders")
    assert set(server.topics) == {"projects/shop/topics/orders", "projects/other/topics/orders"}


def test_project_by_variable(shell, server):
    shell.environ["FANLOG_PROJECT"] = "shop"
    shell.run("topic", "create", "orders")
    assert set(server.topics) == {"projects/shop/topics/orders"}


def test_list_reads_every_page(shell, server):
    for name in ("aaa", "bbb", "ccc", "ddd", "eee"):
        shell.run("topic", "create", name)
    shell.run("topic", "create", "fff", "--project", "other")
    listed = [line["name"].rsplit("/", 1)[1] for line in shell.lines("topic", "list")]
    assert listed == ["aaa", "bbb", "ccc", "ddd", "eee"]
    readable = shell.run("topic", "list").splitlines()
    head = "name message retention duration labels created at"
    assert " ".join(readable[0].split()) == head
    assert readable[1].rstrip() == "projects/fanlog/topics/aaa"


def test_list_of_nothing(shell):
    assert shell.run("topic", "list") == ""
    assert shell.stderr == "none\n"
    assert shell.lines("topic", "list") == []


def test_long_names_are_not_cut(shell):
    name = "n" * 255
    shell.run("topic", "create", name)
    assert f"projects/fanlog/topics/{name}" in shell.run("topic", "list")


def test_describe_names_the_subscriptions(shell):
    shell.run("topic", "create", "orders")
    shell.run("sub", "create", "billing", "--topic", "orders")
    [described] = shell.lines("topic", "describe", "orders")
    assert described["subscriptions"] == ["projects/fanlog/subscriptions/billing"]
    assert "projects/fanlog/subscriptions/billing" in shell.run("topic", "describe", "orders")


@pytest.mark.parametrize(
    ("said", "shown", "kept"),
    [
        (("604800s", "server"), "7 days (the server's default)", {"duration": "604800s"}),
        (("129600s", "topic"), "36 hours (its own)", {"duration": "129600s"}),
        ((None, "lake"), "for good, in the lake", {}),
        (("0s", "nobody"), "none: messages are kept for as long as", {"duration": "0s"}),
    ],
)
def test_describe_says_how_long_messages_are_kept(shell, monkeypatch, said, shown, kept):
    shell.run("topic", "create", "orders")
    duration, by = said
    told = catalog_pb2.TopicDescription(retention_by=by)
    if duration is not None:
        told.effective_retention.FromJsonString(duration)
    monkeypatch.setattr(
        CatalogClient, "describe_topics", lambda _, names: dict.fromkeys(names, told)
    )
    assert shown in shell.run("topic", "describe", "orders")
    [described] = shell.lines("topic", "describe", "orders")
    assert described["effective_retention"] == kept | {"by": by}


def test_describe_of_a_server_that_does_not_say(shell):
    shell.run("topic", "create", "orders", "--retention", "1d")
    assert "86400s" in shell.run("topic", "describe", "orders")
    [described] = shell.lines("topic", "describe", "orders")
    assert "effective_retention" not in described


def test_delete(shell, server):
    shell.run("topic", "create", "orders")
    assert "deleted" in shell.run("topic", "delete", "orders")
    assert server.topics == {}


class TestRefusals:
    def test_not_found(self, shell):
        assert "topics/orders does not exist" in shell.refusal("topic", "describe", "orders")

    def test_exists_already(self, shell):
        shell.run("topic", "create", "orders")
        assert "exists already" in shell.refusal("topic", "create", "orders")

    def test_bad_name_never_reaches_the_server(self, shell, server):
        assert "'1x'" in shell.refusal("topic", "create", "1x")
        assert "projects/{project}/topics/{id}" in shell.refusal("topic", "create", "a/b")
        assert server.requests == []

    def test_bad_label(self, shell):
        assert "KEY=VALUE" in shell.refusal("topic", "create", "orders", "--label", "team")
        assert "twice" in shell.refusal(
            "topic", "create", "orders", "--label", "a=1", "--label", "a=2"
        )

    def test_bad_duration(self, shell):
        assert "--retention" in shell.refusal("topic", "create", "orders", "--retention", "long")

    def test_no_server(self, shell):
        message = shell.refusal("topic", "list", "--endpoint", "127.0.0.1:1")
        assert "no server answers at 127.0.0.1:1" in message
        assert "fanlog serve" in message


def test_update_changes_what_is_named(shell, server):
    output = shell.run("topic", "update", "orders", "--retention", "3650d")
    assert output.startswith("updated topic projects/fanlog/topics/orders")
    sent = server.last(types.UpdateTopicRequest)
    assert sent.topic.message_retention_duration.seconds == 3650 * 86_400
    assert list(sent.update_mask.paths) == ["message_retention_duration"]
    shell.run("topic", "update", "orders", "--no-retention", "--label", "team=shop")
    sent = server.last(types.UpdateTopicRequest)
    assert not sent.topic.HasField("message_retention_duration")
    assert dict(sent.topic.labels) == {"team": "shop"}
    assert list(sent.update_mask.paths) == ["message_retention_duration", "labels"]
    shell.run("topic", "update", "orders", "--no-labels")
    sent = server.last(types.UpdateTopicRequest)
    assert (dict(sent.topic.labels), list(sent.update_mask.paths)) == ({}, ["labels"])


def test_update_refuses_what_makes_no_sense(shell):
    assert "say what to change" in shell.refusal("topic", "update", "orders")
    both = ("--retention", "1d", "--no-retention")
    assert "not both" in shell.refusal("topic", "update", "orders", *both)
    both = ("--label", "a=b", "--no-labels")
    assert "not both" in shell.refusal("topic", "update", "orders", *both)


def test_rates(shell, server):
    shell.run("topic", "create", "orders", "--publish-rate", "10", "--publish-bytes-burst", "7")
    labels = {"fanlog-publish-rate": "10", "fanlog-publish-bytes-burst": "7"}
    assert dict(server.last(types.Topic).labels) == labels
    shell.run("topic", "update", "orders", "--publish-rate", "20", "--no-publish-burst")
    sent = server.last(types.UpdateTopicRequest)
    assert dict(sent.topic.labels) == {"fanlog-publish-rate": "20"}
    paths = ["labels.fanlog-publish-rate", "labels.fanlog-publish-burst"]
    assert list(sent.update_mask.paths) == paths
    both = ("--publish-rate", "20", "--no-publish-rate")
    assert "not both" in shell.refusal("topic", "update", "orders", *both)


def test_an_order_and_a_label_that_says_otherwise(shell, server):
    refusal = shell.refusal(
        *("topic", "create", "orders", "--ordering", "total", "--label", "fanlog-ordering=key")
    )
    assert "--label fanlog-ordering says otherwise; give one of them" in refusal
    assert not server.topics
    shell.run("topic", "create", "orders", "--ordering", "total", "--label", "team=shop")
    made = server.topics["projects/fanlog/topics/orders"]
    assert dict(made.labels) == {"fanlog-ordering": "total", "team": "shop"}
